"""The boolean side of decoding: time of one arrival, of a plan, and of the arithmetic beside it.

python benchmarks/decoding.py [--out FILE]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import sooner

SIZES = (64, 256, 512, 1024, 2048)
COLUMNS = 4096


def arrivals(code, rng):
    """Seconds of `add` without the rank test, of the rank tests, of the plan, of decoding."""
    decoder = code.decoder()
    order = rng.permutation(code.n).tolist()
    start = time.perf_counter()
    for index in order[: code.k - 1]:
        decoder.add(index)
    adding = (time.perf_counter() - start) / max(code.k - 1, 1)
    start = time.perf_counter()
    for index in order[code.k - 1 :]:
        if decoder.add(index):
            break
    ranking = time.perf_counter() - start
    start = time.perf_counter()
    plan = decoder.plan()
    planning = time.perf_counter() - start
    outputs = np.ones((code.n, COLUMNS))
    out = np.empty((code.k, COLUMNS))
    plan.run(outputs, out=out)
    start = time.perf_counter()
    plan.run(outputs, out=out)
    return adding, ranking, planning, time.perf_counter() - start, plan.n_unknowns


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    lines = [
        f"rate 3/4, medians of {args.repeats}; decoding of {COLUMNS} float64 columns; "
        f"sooner {sooner.__version__}, numpy {np.__version__}",
        f"{'n':>6} {'code':<11} {'add, us':>8} {'rank, ms':>9} {'plan, ms':>9} {'decode, ms':>11}"
        f" {'unknowns':>9}",
    ]
    for n in SIZES:
        for name in ("inactivation", "sequential"):
            code = sooner.PolarCode(n, round(n * 3 / 4), decoder=name, rng=1)
            rows = np.median([arrivals(code, rng) for _ in range(args.repeats)], axis=0)
            lines.append(
                f"{n:>6} {name[:11]:<11} {rows[0] * 1e6:>8.2f} {rows[1] * 1e3:>9.1f} "
                f"{rows[2] * 1e3:>9.1f} {rows[3] * 1e3:>11.1f} {rows[4]:>9.0f}"
            )
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
