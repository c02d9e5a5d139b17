"""Kernels of other sizes than 2 x 2: outputs until exact, and the accuracy of the answer there.

Rate 3/4.  Thresholds (mean and 99th percentile of outputs / k) by the recursion of run times over
random orders, at the best design erasure probability of a grid and at the default; errors at
the first decodable set, of the sequential decoder's walk alone and of the plan that `decode` takes.
"worst" is `Kernel.condition` of the worst kernel.

    python benchmarks/larger_kernels.py [--trials 2000] [--patterns 20] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import sooner
from sooner import HADAMARD, Kernel
from sooner.codes import polarized_run_times

DESIGNS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4)  # over 1 - k / n
DRAWS = 4  # of each code: signs and map
COLUMNS = 16
DCT = Kernel.dct
CODES = (
    (64, HADAMARD),
    (64, DCT(4)),
    (64, DCT(8)),
    (64, DCT(64)),
    (256, HADAMARD),
    (256, DCT(4)),
    (256, DCT(16)),
    (512, DCT(8)),
    (1024, HADAMARD),
    (1024, DCT(4)),
    (1024, DCT(32)),
    (1000, DCT(10)),
    (4096, DCT(16)),
    (20, [DCT(4), DCT(5)]),
    (20, DCT(20)),
    (60, [DCT(3), DCT(4), DCT(5)]),
    (60, DCT(4)),  # punctured
)


def outputs_needed(code, trials, rng):
    """Outputs until the sequential decoder can finish, for random orders."""
    arrivals = rng.permuted(np.tile(np.arange(1.0, code.n + 1), (trials, 1)), axis=1)
    rows = np.full((trials, code.transform_size), np.inf)
    rows[:, code.layout.positions] = arrivals
    channels = polarized_run_times(rows, sizes=code.layout.sizes)
    return channels[:, code.layout.data_channels].max(axis=1)


def threshold(n, k, kernel, design, trials):
    """Mean and 99th percentile of outputs / k over several draws of a code."""
    options = {} if design is None else {"erasure_prob": design * (1 - k / n)}
    rng = np.random.default_rng(1)
    counts = []
    for seed in range(DRAWS):
        code = sooner.PolarCode(n, k, kernel=kernel, decoder="sequential", rng=seed, **options)
        counts.append(outputs_needed(code, trials // DRAWS, rng))
    values = np.concatenate(counts)
    return values.mean() / k, np.quantile(values, 0.99, method="higher") / k


def first_decodable(code, rng):
    decoder = code.decoder()
    for index in rng.permutation(code.n).tolist():
        if decoder.add(index):
            return decoder
    raise AssertionError("all outputs decode")


def errors_at_the_threshold(n, k, kernel, patterns):
    """Relative errors: a row per pattern; walk and decode, each in float64 and float32."""
    rng = np.random.default_rng(2)
    codes = [
        sooner.PolarCode(n, k, kernel=kernel, decoder="sequential", rng=seed)
        for seed in range(DRAWS)
    ]
    rows = []
    for number in range(patterns):
        code = codes[number % DRAWS]
        decoder = first_decodable(code, rng)
        data = rng.standard_normal((k, COLUMNS))
        row = []
        for plan in (decoder.walk_plan(), decoder.plan()):
            for dtype in (np.float64, np.float32):
                given = data.astype(dtype)
                decoded = plan.run(code.encode(given), out=np.empty_like(given))
                row.append(np.linalg.norm(decoded - given) / np.linalg.norm(given))
        rows.append(row)
    return np.array(rows)


def name_of(n, kernel):
    """Sizes of the kernels, as 4x4x4."""
    sizes = sooner.PolarCode(n, 1, kernel=kernel).layout.sizes
    return f"2^{len(sizes)}" if set(sizes) == {2} else "x".join(map(str, sizes))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--patterns", type=int, default=20)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = [
        f"larger kernels, DCT, sequential decoder, rate 3/4: outputs / k until exact over "
        f"{args.trials} orders, errors there over {args.patterns} sets (median and maximum); "
        f"sooner {sooner.__version__}, numpy {np.__version__}",
        f"{'':>28}{'best design':>14} {'default design':>16}  {'walk alone':^36} {'decode':^36}",
        f"{'n':>5} {'k':>4} {'kernels':>9} {'worst':>7}  {'f':>5} {'mean':>6}   "
        f"{'mean':>8} {'p99':>6}" + 2 * f"  {'float64':>8} {'max':>8} {'float32':>8} {'max':>8}",
    ]
    for n, kernel in CODES:
        k = 3 * n // 4
        found = [(threshold(n, k, kernel, design, args.trials), design) for design in DESIGNS]
        (best, _), design = min(found)
        mean, p99 = threshold(n, k, kernel, None, args.trials)
        errors = errors_at_the_threshold(n, k, kernel, args.patterns)
        together = [kernel] if isinstance(kernel, Kernel) else kernel
        worst = max(one.condition for one in together)
        line = f"{n:>5} {k:>4} {name_of(n, kernel):>9} {worst:>7.0e}  {design:>5} {best:>6.3f}   "
        line += f"{mean:>8.3f} {p99:>6.3f}"
        for plan in (0, 2):
            line += " "
            for column in errors.T[plan : plan + 2]:
                line += f" {np.median(column):>8.0e} {column.max():>8.0e}"
        lines.append(line)
        print(line, file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
