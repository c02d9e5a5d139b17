"""Figure 7 of the first paper: when is A @ B decodable, both coded, rate 9/16, up to 256 tasks.

The 2-D code by Alg. 3 alone (peeling) and completed by inactivation, over several codes of the two
operands, beside the minimum: an MDS code and polynomial codes, which any 9 n / 16 tasks decode.
Run times are drawn from a real table of cloud functions (``--data FOLDER``, which holds
``lithops-flops/aws_lambda_1000_flops.csv``), else from a shifted exponential distribution.  Every
code sees the same run times.

    python benchmarks/product.py [--data FOLDER] [--trials 400] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import measuring
import numpy as np

from sooner.codes import MDSCode, PolarCode, PolynomialCode, ProductCode

TABLE = "lithops-flops/aws_lambda_1000_flops.csv"
SIDES = (4, 8, 16)
DRAWS = 8


def run_times(folder, count, rng):
    """Seconds of `count` tasks."""
    if folder is None:
        return 1 + rng.exponential(0.5, count)
    table = np.genfromtxt(folder / TABLE, delimiter=",", names=True)
    return rng.choice(table["func_end_s"], count)


def schemes(side, seed):
    """Names, and codes on a grid of that side."""
    k = 3 * side // 4

    def polar(**options):
        return [PolarCode(side, k, rng=2 * seed + j, **options) for j in range(2)]

    papers = {"erasure_prob": 1 - k / side, "late_parities": 0}
    sequential = polar(**papers, decoder="sequential")
    mds = [MDSCode(side, k, rng=2 * seed + j) for j in range(2)]
    yield "papers' polar, peeling", ProductCode(*sequential, decoder="peeling")
    yield "papers' polar, completed", ProductCode(*sequential)
    yield "polar, peeling", ProductCode(*polar(), decoder="peeling")
    yield "polar, completed", ProductCode(*polar())
    yield "systematic polar, completed", ProductCode(*polar(systematic=True))
    yield "MDS x MDS, peeling", ProductCode(*mds, decoder="peeling")
    yield "MDS x MDS, completed", ProductCode(*mds)
    yield "MDS", MDSCode(side**2, k**2, rng=seed)
    yield "polynomial, Gaussian", PolynomialCode(side**2, k, k, rng=seed)
    yield "polynomial, Chebyshev", PolynomialCode(side**2, k, k, basis="chebyshev")


def until_decodable(code, times):
    """How many outputs it took, and the decoder."""
    decoder = code.decoder()
    order = np.argsort(times, kind="stable").tolist()
    return next(m for m, i in enumerate(order, 1) if decoder.add(i)), decoder


def error_of(code, decoder, rng):
    """Relative error of what is decoded from that set."""
    data = rng.standard_normal((code.k, 8))
    decoded = decoder.plan().run(code.encode(data), out=np.empty_like(data))
    return np.linalg.norm(decoded - data) / np.linalg.norm(data)


def measure(side, folder, trials, rng):
    """For each scheme outputs over k, time over that of the k-th task, error."""
    results = {}
    part = math.ceil(trials / DRAWS)
    for seed in range(DRAWS):
        times = [run_times(folder, side**2, rng) for _ in range(part)]
        for name, code in schemes(side, seed):
            rows = results.setdefault(name, [])
            for trial, drawn in enumerate(times):
                count, decoder = until_decodable(code, drawn)
                first, last = np.sort(drawn)[[code.k - 1, count - 1]]
                error = error_of(code, decoder, rng) if trial < 3 else math.nan
                rows.append((count / code.k, last / first, error))
    return {name: np.array(rows) for name, rows in results.items()}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--sides", type=int, nargs="*", default=SIDES, help="of the grid")
    parser.add_argument("--data", type=Path, help=f"folder with {TABLE}")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    rng = np.random.default_rng(1)
    with measuring.report(args.out, "product") as say:
        measuring.describe_machine(say)
        source = TABLE if args.data else "1 + exponential of mean 0.5"
        say(f"run times: {source}; {args.trials} trials, {DRAWS} draws of each code; rate 9/16")
        say("outputs over k and decodability time over that of the k-th task: mean (p99);")
        say("error: relative, of the decoded product of Gaussian blocks, median (largest)")
        for side in args.sides:
            n, k = side**2, (3 * side // 4) ** 2
            say(f"\nn = {n}, k = {k}, {side} x {side} tasks")
            for name, rows in measure(side, args.data, args.trials, rng).items():
                outputs, times, errors = rows.T
                errors = errors[~np.isnan(errors)]
                say(
                    f"{name:<28} outputs {outputs.mean():.4f} ({np.quantile(outputs, 0.99):.3f})  "
                    f"time {times.mean():.4f} ({np.quantile(times, 0.99):.3f})  "
                    f"error {np.median(errors):.0e} ({errors.max():.0e})"
                )


if __name__ == "__main__":
    main()
