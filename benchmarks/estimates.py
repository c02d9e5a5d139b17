"""Errors of the anytime estimates, and of their error bars, beside each other in one run.

For four kinds of blocks, random and strided sets of outputs, three codes. Relative error, and in
brackets the median of error bar over true error.

    python benchmarks/estimates.py [--sets 8] [--out FILE]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

import sooner

SHARES = (0.10, 0.25, 0.40, 0.50, 0.60, 0.70, 0.74)  # m / n
METHODS = ("unbiased", "scaled", "least_squares", "common_mean", "gram")


def kinds(k, rng):
    """Blocks to estimate, shape (k, columns)."""
    from sklearn.datasets import load_digits, load_sample_image

    photo = load_sample_image("china.jpg").astype(np.float64)
    rows = len(photo) // k
    digits = load_digits().data
    digits = digits[rng.permutation(len(digits))]
    one = np.zeros((k, 40))
    one[k // 3] = rng.standard_normal(40)
    per_block = len(digits) // k
    return {
        "independent": rng.standard_normal((k, 400)),
        "photograph": photo[: k * rows].reshape(k, -1)[:, ::7],
        "digits": digits[: k * per_block].reshape(k, -1)[:, ::5],
        "one block": one,
    }


def codes():
    """N = 256, k = 192 in two ways, and a punctured code, N = 512."""
    papers = {"erasure_prob": 1 / 4, "late_parities": 0, "decoder": "sequential"}
    return {
        "papers": [sooner.PolarCode(256, 192, **papers, rng=seed) for seed in range(4)],
        "default": [sooner.PolarCode(256, 192, rng=seed) for seed in range(4)],
        "punctured": [sooner.PolarCode(300, 192, rng=seed) for seed in range(4)],
    }


def choose(n, m, how, rng):
    available = np.zeros(n, dtype=bool)
    if how == "random":
        available[rng.permutation(n)[:m]] = True
    else:  # every other worker first, then the rest
        available[np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)])[:m]] = True
    return available


def measure(draws, data, m, how, sets, rng):
    """Errors and error bars over them, by method."""
    inner = data @ data.T
    errors = {name: [] for name in METHODS}
    bars = {name: [] for name in METHODS}
    for number in range(sets):
        code = draws[number % len(draws)]
        available = choose(code.n, m, how, rng)
        outputs = code.encode(data)
        for name in METHODS:
            estimate = code.estimate(outputs, available, method=name, gram=inner)
            true = np.linalg.norm(estimate.value - data) / np.linalg.norm(data)
            errors[name].append(true)
            bars[name].append(estimate.relative_error / max(true, 1e-300))
    return errors, bars


def zero_filled(data, m, n, rng):
    """Uncoded over n tasks at the same share, for comparison."""
    came = rng.random(len(data)) < m / n
    return np.linalg.norm(data[~came]) / np.linalg.norm(data)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=8)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    lines = [
        f"relative error of estimates (error bar / true error, median); k = 192, {args.sets} sets; "
        f"sooner {sooner.__version__}, numpy {np.__version__}",
        f"{'code':<10}{'blocks':<13}{'set':<9}{'m/n':>5}{'m/k':>6} "
        + "".join(f"{name:>22}" for name in METHODS)
        + f"{'uncoded':>9}",
    ]
    print(*lines, sep="\n", file=sys.stderr)
    for code_name, draws in codes().items():
        for kind, data in kinds(192, rng).items():
            for how, share in itertools.product(("random", "strided"), SHARES):
                m = round(share * draws[0].n)
                line = f"{code_name:<10}{kind:<13}{how:<9}{share:>5.2f}{m / 192:>6.2f} "
                errors, bars = measure(draws, data, m, how, args.sets, rng)
                for name in METHODS:
                    cell = f"{np.median(errors[name]):.3f} ({np.median(bars[name]):.2f})"
                    line += f"{cell:>22}"
                line += f"{zero_filled(data, m, draws[0].n, rng):>9.3f}"
                lines.append(line)
                print(line, file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
