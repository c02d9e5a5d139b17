"""Relative error of the exact answer at its threshold, beside sequential decoding and MDS codes.

For random orders of arrival, with the first set that decodes; in float64 and float32, one run.

    python benchmarks/accuracy.py [--patterns 30] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import sooner

SIZES = (64, 256, 1024, 4096)
COLUMNS = 64
DRAWS = 6  # of each code: signs, map and parities


def first_decodable(code, rng):
    decoder = code.decoder()
    for index in rng.permutation(code.n).tolist():
        if decoder.add(index):
            return decoder.available.copy()
    raise AssertionError("all outputs decode")


def relative_error(value, data):
    return float(np.linalg.norm(value - data) / np.linalg.norm(data))


def polar_errors(codes, patterns, rng):
    """Errors by dtype, with the unknowns and conditions met, over several draws of a code."""
    errors = {"float64": [], "float32": []}
    met = []
    for number in range(patterns):
        code = codes[number % len(codes)]
        available = first_decodable(code, rng)
        data = rng.standard_normal((code.k, COLUMNS))
        for name, values in errors.items():
            given = data.astype(name)
            values.append(relative_error(code.decode(code.encode(given), available), given))
        plan = code.plan(available)
        met.append((plan.n_unknowns, plan.condition))
    return errors, met


def mds_errors(generator, patterns, rng):
    """Errors of a dense code: k random rows, LAPACK solve."""
    n, k = generator.shape
    errors = {"float64": [], "float32": []}
    for _ in range(patterns):
        rows = rng.permutation(n)[:k]
        data = rng.standard_normal((k, COLUMNS))
        for name, values in errors.items():
            given, matrix = data.astype(name), generator.astype(name)
            values.append(
                relative_error(np.linalg.solve(matrix[rows], matrix[rows] @ given), given)
            )
    return errors


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", type=int, default=30)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--rate", type=float, default=3 / 4)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = [
        f"relative error at the threshold, rate {args.rate}, {args.patterns} patterns; median and "
        f"maximum; sooner {sooner.__version__}, numpy {np.__version__}",
        f"{'n':>5}  {'code':<24} {'float64':>8} {'max':>8}  {'float32':>8} {'max':>8}"
        f"  {'unknowns':>8} {'condition':>9}",
    ]
    for n in args.sizes:
        k = round(n * args.rate)
        rng = np.random.default_rng(2)
        variants = {
            "default": {},
            "sequential (papers)": {"decoder": "sequential"},
            "systematic": {"systematic": True},
        }
        rows = {}
        for name, options in variants.items():
            codes = [sooner.PolarCode(n, k, **options, rng=seed) for seed in range(DRAWS)]
            rows[name] = polar_errors(codes, args.patterns, rng)
        if n <= 1024:
            gaussian = rng.standard_normal((n, k)) / np.sqrt(n)
            orthogonal = np.linalg.qr(rng.standard_normal((n, n)))[0][:, :k]
            rows["Gaussian MDS"] = mds_errors(gaussian, args.patterns, rng), []
            rows["random orthogonal MDS"] = mds_errors(orthogonal, args.patterns, rng), []
        for name, (errors, met) in rows.items():
            line = f"{n:>5}  {name:<24}"
            for values in errors.values():
                line += f" {np.median(values):>8.1e} {max(values):>8.1e} "
            if met:
                line += f" {np.median([r for r, _ in met]):>8.0f} {max(c for _, c in met):>9.1e}"
            lines.append(line)
            print(line, file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
