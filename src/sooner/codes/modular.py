"""Rank without rounding: programs and elimination modulo a prime.

Coefficients of programs are signs and powers of two, and so are those of parities; modulo an odd
prime each has an exact value.  Full rank modulo the prime proves full rank over the reals.  (The
reverse could fail, for a matrix whose minors the prime divides: with probability about rank /
2**31, and then the job waits for one more output.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array, Mask
    from sooner.codes.program import Program

__all__ = ["PRIME", "determined", "rank", "residues", "run"]

PRIME = 2**31 - 1
"""The products of two residues fit 63 bits."""


def residues(values: Array) -> NDArray[np.int64]:
    """Residues of dyadic fractions, m * 2**-s with s up to 1000.

    Parameters
    ----------
    values
        Floats.

    Returns
    -------
    ndarray of int64
        Residues in ``0 … PRIME - 1``.

    Examples
    --------
    >>> residues(np.array([0.5])) * 2 % PRIME
    array([1])
    """
    mantissas, exponents = np.frexp(values)
    integers = np.round(np.ldexp(mantissas, 53)).astype(np.int64) % PRIME
    # 2 has order 31 modulo 2**31 - 1, so its powers, negative ones too, are shifts.
    powers = np.int64(1) << ((exponents.astype(np.int64) - 53) % 31)
    return integers * (powers % PRIME) % PRIME


def run(program: Program, inputs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Run a program modulo the prime.

    Parameters
    ----------
    program
        What to run.
    inputs
        Residues, shape ``(n_inputs, columns)``.

    Returns
    -------
    ndarray of int64, shape (n_results, columns)
        Residues of the results.
    """
    slots = np.zeros((program.n_slots + 1, inputs.shape[1]), dtype=np.int64)
    slots[: program.n_inputs] = inputs
    for step in program.runs:
        coefs = residues(step.coefs)
        if step.dense:
            slots[step.outs[0]] = _matmul(coefs, slots[step.ins[0]])
            continue
        values = slots[step.ins] * coefs[..., None] % PRIME  # ins of -1: coef is zero
        half = values.shape[1] // 2
        while half:
            pairs = values.reshape(len(values), -1, 2, half, values.shape[2])
            upper, lower = pairs[:, :, 0].copy(), pairs[:, :, 1].copy()
            pairs[:, :, 0] = (upper + lower) % PRIME
            pairs[:, :, 1] = (upper - lower) % PRIME
            half //= 2
        slots[step.outs] = values  # outs of -1 land in the spare last slot
        slots[-1] = 0
    first = program.n_inputs
    return slots[first : first + program.n_results]


def _matmul(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Product modulo the prime; 16-bit halves of a keep the sums within 63 bits."""
    high, low = a >> 16, a & 0xFFFF
    return (((high @ b) % PRIME << 16) + low @ b) % PRIME


def _eliminate(matrix: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int]]:
    """Reduced row echelon form and its pivot columns."""
    rows = matrix.copy()
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        row = len(pivots)
        candidates = np.flatnonzero(rows[row:, column])
        if not candidates.size:
            continue
        chosen = row + int(candidates[0])
        rows[[row, chosen]] = rows[[chosen, row]]
        inverse = pow(int(rows[row, column]), -1, PRIME)
        rows[row] = rows[row] * inverse % PRIME
        factors = rows[:, column].copy()
        factors[row] = 0
        busy = np.flatnonzero(factors)
        rows[busy] = (rows[busy] - factors[busy, None] * rows[row] % PRIME) % PRIME
        pivots.append(column)
        if len(pivots) == len(rows):
            break
    return rows, pivots


def rank(matrix: NDArray[np.int64]) -> int:
    """Rank modulo the prime; never above the rank over the reals.

    Parameters
    ----------
    matrix
        Residues, shape ``(equations, unknowns)``.

    Returns
    -------
    int
        The rank.

    Examples
    --------
    >>> rank(np.array([[1, 2], [2, 4], [0, 3]]))
    2
    """
    return len(_eliminate(matrix)[1])


def determined(equations: NDArray[np.int64], combinations: NDArray[np.int64]) -> Mask:
    """Which combinations of the unknowns the equations fix.

    Parameters
    ----------
    equations
        Residues, shape ``(equations, unknowns)``.
    combinations
        Residues, shape ``(combinations, unknowns)``.

    Returns
    -------
    ndarray of bool, shape (combinations,)
        True where the combination lies in the row space of the equations.

    Examples
    --------
    >>> determined(np.array([[1, 1]]), np.array([[2, 2], [1, 0], [0, 0]]))
    array([ True, False,  True])
    """
    rows, pivots = _eliminate(equations)
    left = combinations
    if pivots:
        left = (left - _matmul(left[:, pivots], rows[: len(pivots)])) % PRIME
    fixed: Mask = ~np.any(left, axis=1)
    return fixed
