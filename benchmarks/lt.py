"""How many outputs an LT code needs: peeling, and inactivation, which decodes by rank.

Mean and 99th percentile of outputs / k over uniformly random orders of arrival; as many tasks as
four times k, so that peeling never runs out of them.

    python benchmarks/lt.py [--trials 400] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from thresholds import needed

import sooner

SIZES = (192, 384, 768)
DRAWS = 8


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = [
        f"outputs / k until exact, LT codes, robust soliton c=.03, delta=.5: {args.trials} random "
        f"orders for peeling, {args.trials // 4} for inactivation, {DRAWS} draws of each code; "
        f"sooner {sooner.__version__}, numpy {np.__version__}",
        f"{'k':>5}  {'decoder':<13} {'mean':>7} {'median':>7} {'p99':>7}  terms per sum",
    ]
    for k in args.sizes:
        for decoder, trials in (("peeling", args.trials), ("inactivation", args.trials // 4)):
            rng = np.random.default_rng(1)
            counts = []
            for seed in range(DRAWS):
                code = sooner.codes.LTCode(4 * k, k, decoder=decoder, rng=seed)
                counts.append(needed(code, -(-trials // DRAWS), rng))
            values = np.concatenate(counts)
            terms = np.count_nonzero(code.matrix) / code.n
            lines.append(
                f"{k:>5}  {decoder:<13} {values.mean() / k:>7.3f} {np.median(values) / k:>7.3f} "
                f"{np.quantile(values, 0.99, method='higher') / k:>7.3f}  {terms:.1f}"
            )
            print(lines[-1], file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
