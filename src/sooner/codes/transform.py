"""Running programs on arrays, tile by tile; the only place that does arithmetic on blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sooner._types import Array, Stop
    from sooner.codes.program import Program, Run

__all__ = ["as_rows", "for_each_tile", "run"]

_SCRATCH_BYTES = 1 << 21
"""Aim for the slots of a tile: they stay in the second-level cache, and NumPy's cost per call is
spread over enough columns (measured: 1 to 4 MiB is best)."""


def as_rows(blocks: Array) -> Array:
    """Blocks of any shape as rows, ``(n, columns)``; a view wherever there can be one.

    Parameters
    ----------
    blocks
        Shape ``(n, ...)``.

    Returns
    -------
    ndarray, shape (n, columns)
        The same numbers.

    Examples
    --------
    >>> as_rows(np.zeros((4, 2, 3))).shape
    (4, 6)
    """
    columns = int(np.prod(blocks.shape[1:]))  # reshape cannot guess it when n is 0
    return blocks.reshape(blocks.shape[0], columns)


def for_each_tile(
    n_slots: int,
    n_columns: int,
    dtype: np.dtype[Any],
    work: Callable[[slice, Array], None],
    stop: Stop = None,
) -> None:
    """Call ``work(columns, slots)`` for tiles of columns that fit the cache.

    Parameters
    ----------
    n_slots
        Slots that a program wants.
    n_columns
        Columns of the blocks.
    dtype
        Of the blocks.
    work
        Gets the tile and scratch of shape ``(n_slots, width)``, whose contents are arbitrary.
    stop
        Asked before each tile.

    Raises
    ------
    InterruptedError
        If `stop` says so.
    """
    width = max(64, _SCRATCH_BYTES // (max(n_slots, 1) * dtype.itemsize))
    width = min(width, n_columns)
    slots = np.empty((n_slots, width), dtype=dtype)
    for first in range(0, n_columns, max(width, 1)):
        if stop is not None and stop():
            raise InterruptedError("stopped between two tiles; the output is not complete.")
        last = min(first + width, n_columns)
        work(slice(first, last), slots[:, : last - first])


def run(
    program: Program,
    inputs: Array,
    *,
    out: Array,
    threads: int = 1,
    stop: Stop = None,
) -> Array:
    """Run a program on arrays.

    Parameters
    ----------
    program
        What to run.
    inputs
        Shape ``(n_inputs, ...)``; rows that the program does not read are not touched.
    out
        Where to write, shape ``(n_results, ...)``.
    threads
        Threads to use.
    stop
        Asked between tiles; True raises `InterruptedError`.

    Returns
    -------
    ndarray
        `out`.
    """
    rows, results = as_rows(inputs), as_rows(out)
    reads = program.reads
    base = program.n_inputs + program.n_results

    def work(tile: slice, slots: Array) -> None:
        slots[reads] = rows[reads, tile]
        run_tile(program, slots)
        results[:, tile] = slots[program.n_inputs : base]

    for_each_tile(program.n_slots, rows.shape[1], out.dtype, work, stop)
    if not np.shares_memory(results, out):  # `out` had no view as rows
        out[...] = results.reshape(out.shape)
    return out


def run_tile(program: Program, slots: Array) -> None:
    """Run a program on slots that hold its inputs; afterwards they hold its results too.

    Parameters
    ----------
    program
        What to run.
    slots
        Shape ``(n_slots, width)``.
    """
    for step in program.runs:
        if step.dense:
            slots[step.outs[0]] = _dense(step, slots)
        else:
            values = _gather(step, slots)
            _hadamard(values)
            wanted = step.outs >= 0
            if wanted.all():
                slots[step.outs] = values
            else:
                slots[step.outs[wanted]] = values[wanted]


def _dense(step: Run, slots: Array) -> Array:
    """``M @ in``, summed in one fixed order."""
    # BLAS sums in an order that depends on the shapes; encoding must give the same bits for
    # every width of a slab.
    columns = step.coefs.T.astype(slots.dtype, copy=False)[..., None]
    ins = step.ins[0].tolist()
    total: Array = columns[0] * slots[ins[0]]
    for column, slot in zip(columns[1:], ins[1:], strict=True):
        total += column * slots[slot]
    return total


def _gather(step: Run, slots: Array) -> Array:
    """``coef * in`` of a run, shape (count, 2**r, width)."""
    values: Array = slots[step.ins]
    absent = step.ins < 0
    if absent.any():  # slot -1 is not zero but the last slot, which may hold anything
        values[absent] = 0
    if (step.coefs != 1).any():
        values *= step.coefs[..., None].astype(slots.dtype, copy=False)
    return values


def _hadamard(values: Array) -> None:
    """Hadamard transform along axis 1, in place."""
    count, size, width = values.shape
    half = size // 2
    while half:
        pairs = values.reshape(count, size // (2 * half), 2, half, width)
        difference = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] += pairs[:, :, 1]
        pairs[:, :, 1] = difference
        half //= 2


def run_with_unknowns(
    equations: Program,
    data: Program,
    solve: NDArray[np.float64],
    outputs: Array,
    *,
    n_refinements: int,
    out: Array,
    stop: Stop = None,
) -> Array:
    """Find the unknowns that make the equations zero, then the data; tile by tile.

    Parameters
    ----------
    equations, data
        Programs whose inputs are the outputs and after them the unknowns.
    solve
        Correction of the unknowns from the equations' values, shape (unknowns, equations).
    outputs
        Shape ``(n, ...)``.
    n_refinements
        How often the equations are evaluated again and the unknowns corrected.
    out
        Where to write, shape ``(k, ...)``.
    stop
        Asked between tiles.

    Returns
    -------
    ndarray
        `out`.
    """
    rows, results = as_rows(outputs), as_rows(out)
    n_outputs = data.n_inputs - solve.shape[0]
    reads = np.union1d(equations.reads, data.reads)
    reads = reads[reads < n_outputs]
    matrix = solve.astype(out.dtype)
    unknown_rows = slice(n_outputs, equations.n_inputs)
    residual_rows = slice(equations.n_inputs, equations.n_inputs + equations.n_results)
    data_rows = slice(data.n_inputs, data.n_inputs + data.n_results)

    def work(tile: slice, slots: Array) -> None:
        slots[reads] = rows[reads, tile]
        unknowns = slots[unknown_rows]
        unknowns[...] = 0
        for _ in range(1 + n_refinements):
            run_tile(equations, slots[: equations.n_slots])
            unknowns += matrix @ slots[residual_rows]
        run_tile(data, slots[: data.n_slots])
        results[:, tile] = slots[data_rows]

    n_slots = max(equations.n_slots, data.n_slots)
    for_each_tile(n_slots, rows.shape[1], out.dtype, work, stop)
    if not np.shares_memory(results, out):
        out[...] = results.reshape(out.shape)
    return out
