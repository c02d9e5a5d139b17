"""How many outputs until the answer is exact: default, papers' code, rank of the papers' set, MDS.

Mean and 99th percentile of outputs / k over uniformly random orders of arrival, in one run.

    python benchmarks/thresholds.py [--trials 400] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import sooner

SIZES = (64, 100, 256, 1000, 1024)
RATES = (1 / 2, 3 / 4, 9 / 10)


def needed(code, trials, rng):
    """Outputs until decodable, for random orders."""
    counts = []
    for _ in range(trials):
        decoder = code.decoder()
        order = rng.permutation(code.n).tolist()
        counts.append(next(m for m, i in enumerate(order, 1) if decoder.add(i)))
    return np.array(counts)


def schemes(n, k, seed):
    """The codes that are compared; each trial of a block of trials has its own draw of them."""
    papers = {"erasure_prob": 1 - k / n, "late_parities": 0}
    yield "default", sooner.PolarCode(n, k, rng=seed)
    yield "papers", sooner.PolarCode(n, k, **papers, decoder="sequential", rng=seed)
    yield "papers' set, rank", sooner.PolarCode(n, k, **papers, rng=seed)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = [
        f"outputs / k until exact: mean, p99 and (p99 - k) outputs; {args.trials} random orders, "
        f"8 draws of each code; sooner {sooner.__version__}, numpy {np.__version__}",
        f"{'n':>5} {'rate':>5} {'k':>5}  {'scheme':<18} {'mean':>8} {'p99':>8} {'over k':>7}",
    ]
    for n in args.sizes:
        for rate in RATES:
            k = round(n * rate)
            rng = np.random.default_rng(1)
            counts: dict[str, list[np.ndarray]] = {}
            # Rank of the papers' set costs a walk and an elimination per arrival beyond k.
            trials = max(args.trials // (1 if n < 300 else 4), 40)
            for seed in range(8):
                for name, code in schemes(n, k, seed):
                    part = -(-trials // 8)
                    if name == "papers' set, rank":
                        part = -(-part // (2 if n < 300 else 6))
                    counts.setdefault(name, []).append(needed(code, part, rng))
            counts["Gaussian MDS"] = [np.full(1, k)]
            for name, parts in counts.items():
                values = np.concatenate(parts)
                p99 = np.quantile(values, 0.99, method="higher")
                lines.append(
                    f"{n:>5} {rate:>5.2f} {k:>5}  {name:<18} {values.mean() / k:>8.4f} "
                    f"{p99 / k:>8.4f} {p99 - k:>7.0f}"
                )
            print("\n".join(lines[-4:]), file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
