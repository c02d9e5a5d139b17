"""Seconds per iteration of lsqr on the coded operator, beside the same operator uncoded.

Both on one LocalExecutor with a worker per task, in turns.  Each task multiplies its block and
then waits as long as its share of the rows takes on a machine of its own, since all workers share
this one's cores; a straggler takes five times as long.  An iteration is a product with A and one
with its transpose.  "given by the rate" is what n / k times the work costs by itself.

    python benchmarks/solvers.py [--rounds 5] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from measuring import describe_machine, interleaved, ratios, report
from scipy.sparse.linalg import lsqr

import sooner

N = 16
SHAPE = (6_400, 1_600)
SHARE = 0.2  # seconds of a task with 1/16 of the rows
SLOW = 5.0
ITERATIONS = 5
CODES = {
    "uncoded": sooner.Uncoded(N),
    "polar 16, 14": sooner.PolarCode(N, 14, rng=0),
    "polar 16, 12": sooner.PolarCode(N, 12, rng=0),
}


def solve(coded, executor, b, stragglers):
    """A few iterations, their number fixed."""
    delays = np.full(N, SHARE * N / coded.code.k)
    delays[:stragglers] *= SLOW
    operator = sooner.CodedLinearOperator(coded, executor, delays=delays.tolist())
    return lsqr(operator, b, atol=0, btol=0, conlim=0, iter_lim=ITERATIONS)[0]


def bare(say, coded, executor, b, rounds):
    """Without the waiting: what the tasks' arithmetic and everything around it cost here."""
    contenders = {}
    for name, matrix in coded.items():
        operator = sooner.CodedLinearOperator(matrix, executor)
        contenders[name] = (
            lambda operator=operator: lsqr(
                operator, b, atol=0, btol=0, conlim=0, iter_lim=ITERATIONS
            ),
            1 / ITERATIONS,
        )
    ratios(say, "no waiting, per iteration:", interleaved(contenders, rounds), "uncoded")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path, help="folder for the report")
    args = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal(SHAPE), rng.standard_normal(SHAPE[0])
    with (
        report(args.out, "solvers") as say,
        tempfile.TemporaryDirectory() as folder,
        sooner.LocalExecutor(N) as executor,
    ):
        describe_machine(say)
        say(f"A {SHAPE[0]} x {SHAPE[1]} float64, {N} tasks, {SHARE} s for 1/{N} of the rows")
        coded = {
            name: sooner.encode(A, code, Path(folder, name), adjoint=True)
            for name, code in CODES.items()
        }
        reference = solve(coded["uncoded"], executor, b, 0)
        for matrix in coded.values():  # the workers start, and the answers agree
            np.testing.assert_allclose(solve(matrix, executor, b, 0), reference, atol=1e-9)
        for stragglers in (0, 1, 2):
            contenders = {
                name: (
                    lambda matrix=matrix, stragglers=stragglers: solve(
                        matrix, executor, b, stragglers
                    ),
                    1 / ITERATIONS,
                )
                for name, matrix in coded.items()
            }
            seconds = interleaved(contenders, args.rounds)
            ratios(say, f"{stragglers} stragglers, per iteration:", seconds, "uncoded")
        rates = ", ".join(f"{name} {N / code.k:.2f}" for name, code in CODES.items())
        say(f"given by the rate: {rates}")
        bare(say, coded, executor, b, args.rounds)


if __name__ == "__main__":
    main()
