"""How often spare outputs detect and locate a wrong one, and whether they ever accuse a right one.

python benchmarks/parity.py [--draws 300] [--clean 10000] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import sooner
from sooner.codes.parity import judge


def received(code, extra, rng):
    """The first decodable set of a random order, and `extra` more."""
    decoder = code.decoder()
    order = rng.permutation(code.n).tolist()
    count = next(m for m, i in enumerate(order, 1) if decoder.add(i))
    return np.array(order[: count + extra])


def rates(code, extra, size, draws, rng):
    detected = located = accused = 0
    for _ in range(draws):
        rows = received(code, extra, rng)
        outputs = code.encode(rng.standard_normal((code.k, 8)))[rows]
        wrong = int(rng.integers(rows.size))
        outputs[wrong] *= 1 + size
        verdict = judge(code.generator[rows], outputs)
        detected += not verdict.clean
        located += verdict.suspect == wrong
        accused += verdict.suspect not in {None, wrong}
    return detected / draws, located / draws, accused / draws


def clean_runs(code, dtype, count, rng):
    """Right outputs, rounding and all: how many are accused, and the worst residual."""
    blocks = code.encode(rng.standard_normal((code.k, 4, 200)).astype(dtype))
    accused, worst = 0, 0.0
    for _ in range(count):
        outputs = blocks @ rng.standard_normal(200).astype(dtype)
        rows = rng.permutation(code.n)[: code.k + int(rng.integers(1, 9))]
        verdict = judge(code.generator[rows], outputs[rows])
        accused += not verdict.clean
        worst = max(worst, verdict.residual)
    return accused, worst


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--clean", type=int, default=10_000)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    lines = [
        f"one wrong output among those of n = 256, k = 192; float64; {args.draws} draws each; "
        f"sooner {sooner.__version__}, numpy {np.__version__}",
        f"{'code':<24} {'spare':>5} {'size':>6} {'detected':>9} {'located':>8} {'wrongly':>8}",
    ]
    codes = {
        "default": sooner.PolarCode(256, 192),
        "f=.2, 8 late parities": sooner.PolarCode(256, 192, erasure_prob=0.05, late_parities=8),
    }
    for name, code in codes.items():
        for extra in (1, 2, 4):
            for size in (1e-3, 1e-6):
                found = rates(code, extra, size, args.draws, rng)
                lines.append(
                    f"{name:<24} {extra:>5} {size:>6.0e} {found[0]:>9.3f} {found[1]:>8.3f} "
                    f"{found[2]:>8.3f}"
                )
    small = sooner.PolarCode(64, 48)
    for dtype in ("float64", "float32"):
        accused, worst = clean_runs(small, dtype, args.clean, rng)
        lines.append(
            f"clean, n = 64, {dtype}: {accused} of {args.clean} accused; "
            f"worst residual {worst:.3f} of what is allowed"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
