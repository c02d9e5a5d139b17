"""Running programs on arrays, tile by tile; the only place that does arithmetic on blocks.

There are two ways with the same results, to the last bit: the compiled core (`_core.c`), and
NumPy, which is the readable definition, runs where the core was not built, and takes the dtypes
that the core does not know.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes.program import Program, with_unknowns

try:
    from sooner.codes import _core
except ImportError:  # built without a C compiler
    _core = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sooner._types import Array, Stop
    from sooner.codes.program import Run

__all__ = ["as_rows", "core_variants", "for_each_tile", "run", "use_core"]

_logger = logging.getLogger(__name__)

_SCRATCH_BYTES = 1 << 23
"""Aim for the slots of a tile in NumPy: they stay in the third-level cache, and NumPy's cost per
call is spread over enough columns (measured: 8 to 16 MiB is best)."""

_POLL_TILES = 2
"""The core asks whether to stop after so many times _SCRATCH_BYTES of input and output."""

_PIECE_BYTES = 1 << 21
"""Aim for copies of pieces of blocks whose layout or dtype the core does not take."""

_LOOP_COLUMNS = 4096
"""With so many columns in each, blocks of blocks are taken one by one rather than copied."""

_STOPPED = "stopped between two tiles; the output is not complete."


class _Choice:
    """Which of the two ways is taken: the same for the whole process."""

    variant: int | None = len(_core.VARIANTS) - 1 if _core is not None else None
    """Index of the core's instruction set; None for NumPy."""
    noted = _core is not None
    """Whether the log knows that there is no core."""


def core_variants() -> tuple[str, ...]:
    """Name the instruction sets of the compiled core that this processor has.

    Returns
    -------
    tuple of str
        The last one is used; empty when the core was not built.
    """
    return _core.VARIANTS if _core is not None else ()


def use_core(variant: str | bool) -> None:
    """Choose between the compiled core and NumPy; for tests and benchmarks.

    Parameters
    ----------
    variant
        One of `core_variants`; True for the last of them; False for NumPy.

    Raises
    ------
    ValueError
        If there is no such variant.
    """
    names = core_variants()
    if variant is False:
        _Choice.variant = None
    elif variant is True and names:
        _Choice.variant = len(names) - 1
    elif variant in names:
        _Choice.variant = names.index(variant)
    else:
        raise ValueError(f"variant must be False or one of {names}, got {variant!r}.")


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
            raise InterruptedError(_STOPPED)
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
        Shape ``(n_inputs, ...)``, of any dtype that fits that of `out`, and with any strides;
        rows that the program does not read are not touched, and need not be there at the end.
    out
        Where to write, shape ``(n_results, ...)``.
    threads
        Threads to use; NumPy's way uses one.
    stop
        Asked between tiles; True raises `InterruptedError`.

    Returns
    -------
    ndarray
        `out`.
    """
    if out.dtype.char in "fdFD" and out.dtype.isnative and inputs.shape[1:] == out.shape[1:]:
        if _Choice.variant is not None:
            if out.size:
                way = _CoreRun(program, out.dtype, _Choice.variant, max(threads, 1), stop)
                way.run(inputs, out)
            return out
        if not _Choice.noted and _core is None:
            _Choice.noted = True
            _logger.warning(
                "the compiled core of sooner is not there; the same results take several times "
                "longer. Install sooner again where there is a C compiler."
            )
    _run_numpy(program, inputs, out, stop)
    return out


class _CoreRun:
    """The compiled core on arrays of any layout: directly where it can be, else by pieces."""

    def __init__(
        self, program: Program, dtype: np.dtype[Any], variant: int, threads: int, stop: Stop
    ) -> None:
        self._program = program
        self._dtype = dtype
        self._real = np.dtype(dtype.char.lower())
        self._variant = variant
        self._threads = threads
        self._stop = stop

    def run(self, inputs: Array, out: Array) -> None:
        overlap = np.may_share_memory(inputs, out)
        if not overlap and self._is_plain(inputs) and self._is_plain(out):
            self._call(inputs, out)
        elif (
            not overlap
            and inputs.dtype == self._dtype
            and out.ndim > 2
            and out[0, 0].size >= _LOOP_COLUMNS
        ):
            for i in range(out.shape[1]):
                self.run(inputs[:, i], out[:, i])
        elif out.ndim == 1:
            self._run_pieces(inputs[:, None], out[:, None])
        else:
            self._run_pieces(inputs, out)

    def _is_plain(self, blocks: Array) -> bool:
        """Whether blocks are what the core takes: each of them contiguous."""
        return (
            blocks.dtype == self._dtype and blocks.flags.aligned and blocks[:1].flags.c_contiguous
        )

    def _call(self, inputs: Array, out: Array) -> None:
        program = self._program
        finished = _core.run(
            *program.flat,
            program.n_inputs,
            program.n_slots,
            as_rows(inputs).view(self._real),
            as_rows(out).view(self._real),
            self._threads,
            self._stop,
            _tile_bytes(program),
            _POLL_TILES * _SCRATCH_BYTES,
            self._variant,
        )
        if not finished:
            raise InterruptedError(_STOPPED)

    def _run_pieces(self, inputs: Array, out: Array) -> None:
        """Copy pieces that fit the cache to where the core can work, and back."""
        one = max(len(inputs), len(out)) * out[0, 0].size * out.itemsize
        step = min(max(_PIECE_BYTES // one, 1), out.shape[1])
        reads = self._program.reads.tolist()
        source = np.empty((len(inputs), step, *out.shape[2:]), self._dtype)
        target = np.empty((len(out), step, *out.shape[2:]), self._dtype)
        for first in range(0, out.shape[1], step):
            piece = slice(first, min(first + step, out.shape[1]))
            size = piece.stop - first
            if len(reads) == self._program.n_inputs:
                np.copyto(source[:, :size], inputs[:, piece], casting="same_kind")
            else:
                for row in reads:
                    np.copyto(source[row, :size], inputs[row, piece], casting="same_kind")
            if self._is_plain(out[:, piece]):
                self._call(source[:, :size], out[:, piece])
            else:
                self._call(source[:, :size], target[:, :size])
                out[:, piece] = target[:, :size]


def _tile_bytes(program: Program) -> int:
    """Bytes of each row that the core works on at once."""
    # Measured: long rows are read and written faster, until the scratch slots leave L2.
    n_scratch = program.n_slots - program.n_inputs - program.n_results
    return 2048 if n_scratch <= 320 else 1024 if n_scratch <= 2560 else 512


def _run_numpy(program: Program, inputs: Array, out: Array, stop: Stop) -> None:
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


def run_tile(program: Program, slots: Array) -> None:
    """Run a program on slots that hold its inputs; afterwards they hold its results too.

    Parameters
    ----------
    program
        What to run.
    slots
        Shape ``(n_slots, width)``.
    """
    if slots.dtype.kind == "c":  # factors are real: a complex number is a pair of columns
        slots = slots.view(np.dtype(slots.dtype.char.lower()))
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
    total: Array = columns[0] * _slot(slots, ins[0])
    for column, slot in zip(columns[1:], ins[1:], strict=True):
        total += column * _slot(slots, slot)
    return total


def _slot(slots: Array, slot: int) -> Array:
    """One slot; slot -1 is zero, not the last one."""
    return slots[slot] if slot >= 0 else np.zeros_like(slots[0])


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
    threads: int = 1,
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
    threads
        Threads to use.
    stop
        Asked between tiles.

    Returns
    -------
    ndarray
        `out`.
    """
    made = data.compositions.get(n_refinements)
    if made is None or made[0] is not equations or made[1] is not solve:
        composed = with_unknowns(equations, data, solve, n_refinements)
        made = data.compositions[n_refinements] = (equations, solve, composed)
    return run(made[2], outputs, out=out, threads=threads, stop=stop)
