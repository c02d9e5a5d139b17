"""Straight-line programs of butterflies on blocks: what encoding and decoding are compiled to.

A program is data: a flat stream of operations on numbered *slots*, each of which holds one block
(one row of an array, or a tile of it).  Slots ``0 … n_inputs - 1`` are the inputs and are only
read; the next ``n_results`` are the results and are only written; the rest is scratch.  There
are two kinds of operation:

* a butterfly of radix r, ``out = H (coef * in)`` with H the 2**r x 2**r Hadamard matrix: 2**r
  slots in, 2**r slots out.  r = 0 copies with a factor.  A missing input (-1) is zero, a
  missing output (-1) is not wanted.
* a dense product ``out = M @ in`` with a small matrix M.

Butterflies that do not depend on each other and have the same radix stand together in a *run*.
Coefficients are signs and powers of two, so a program without dense products is exact whenever
the numbers have bits to spare.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sooner._types import Indices

__all__ = ["ZERO", "Program", "ProgramBuilder", "Run", "Value", "with_unknowns"]

Value: TypeAlias = tuple[int, float]
"""A block while a program is built: ``coef * slot``.  Signs and halvings wait in the coef."""

ZERO: Value = (-1, 0.0)
"""The block of zeros, which costs nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """Operations of one kind that do not depend on each other."""

    ins: NDArray[np.int32]
    """Slots read, shape (count, 2**r); for a dense product (1, columns).  -1 is zero."""
    outs: NDArray[np.int32]
    """Slots written, shape (count, 2**r); for a dense product (1, rows).  -1 is not wanted."""
    coefs: NDArray[np.float64]
    """Factors of what is read, of the shape of `ins`; for a dense product its matrix."""
    dense: bool = False
    """Whether this is a dense product."""


@dataclass(frozen=True)
class Program:
    """A flat stream of operations on slots."""

    n_inputs: int
    """Number of input slots."""
    n_results: int
    """Number of result slots, which follow the inputs."""
    n_slots: int
    """Number of all slots, scratch included."""
    runs: tuple[Run, ...]
    """The operations, in order."""

    @functools.cached_property
    def reads(self) -> Indices:
        """Inputs that are read, ascending."""
        read = [run.ins[(run.ins >= 0) & (run.ins < self.n_inputs)] for run in self.runs]
        return np.unique(np.concatenate(read or [np.empty(0, np.int32)])).astype(np.intp)

    @functools.cached_property
    def flat(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """The runs as the compiled core takes them: heads, slots, coefs (`_core.pyi`)."""
        heads = [(run.dense, run.ins.shape[1], run.outs.shape[1], len(run.ins)) for run in self.runs]
        slots = [slots.ravel() for run in self.runs for slots in (run.ins, run.outs)]
        coefs = [run.coefs.ravel() for run in self.runs]
        return (
            np.array(heads, dtype=np.int32).reshape(-1, 4),
            np.concatenate([np.empty(0, np.int32), *slots], dtype=np.int32),
            np.concatenate([np.empty(0), *coefs], dtype=np.float64),
        )

    @property
    def n_operations(self) -> int:
        """Butterflies and dense products, copies included."""
        return sum(len(run.ins) for run in self.runs)

    @property
    def n_additions(self) -> int:
        """Additions of blocks; what decoding costs beside reading and writing."""
        return sum(
            run.coefs.size if run.dense else run.outs.size * (run.outs.shape[1].bit_length() - 1)
            for run in self.runs
        )


@dataclass(slots=True)
class _Operation:
    """An operation while a program is built; `outs` are values' numbers, not slots."""

    ins: tuple[int, ...]
    coefs: tuple[float, ...]
    outs: tuple[int, ...]
    phase: int
    matrix: NDArray[np.float64] | None = None


@dataclass(slots=True)
class ProgramBuilder:
    """Collects operations on values, then drops what nobody needs and gives out slots.

    Values are numbered in order of creation, the inputs first.  Operations between two calls of
    `barrier` must not depend on each other.

    Examples
    --------
    >>> builder = ProgramBuilder(n_inputs=2)
    >>> total, difference = builder.butterfly([(0, 1.0), (1, 1.0)])
    >>> builder.build([total]).n_operations
    2
    """

    n_inputs: int
    operations: list[_Operation] = field(default_factory=list)
    _n_values: int = -1
    _phase: int = 0

    def __post_init__(self) -> None:
        self._n_values = self.n_inputs

    def barrier(self) -> None:
        """End the run: what follows may depend on what came before."""
        self._phase += 1

    def butterfly(self, values: Sequence[Value]) -> list[Value]:
        """Hadamard transform of 1, 2, 4 or 8 values; free when at most one is not zero.

        Parameters
        ----------
        values
            What to transform.

        Returns
        -------
        list of Value
            The transform, of the same length.
        """
        size = len(values)
        nonzero = [j for j, value in enumerate(values) if value[0] >= 0]
        if not nonzero:
            return [ZERO] * size
        if len(nonzero) == 1:
            # A column of the Hadamard matrix: signs by the parity of the common bits.
            (j,) = nonzero
            slot, coef = values[j]
            return [(slot, -coef if (i & j).bit_count() & 1 else coef) for i in range(size)]
        first = self._n_values
        self._n_values += size
        outs = tuple(range(first, first + size))
        ins, coefs = zip(*values, strict=True)
        self.operations.append(_Operation(ins, coefs, outs, self._phase))
        return [(out, 1.0) for out in outs]

    def dense(self, matrix: NDArray[np.float64], values: Sequence[Value]) -> list[Value]:
        """Product of a small matrix with a column of values.

        Parameters
        ----------
        matrix
            Shape ``(rows, columns)``.
        values
            As many as the matrix has columns.

        Returns
        -------
        list of Value
            As many as the matrix has rows.
        """
        self.barrier()
        keep = [j for j, value in enumerate(values) if value[0] >= 0]
        if not keep or not len(matrix):
            return [ZERO] * len(matrix)
        coefs = np.array([values[j][1] for j in keep])
        first = self._n_values
        self._n_values += len(matrix)
        outs = tuple(range(first, self._n_values))
        ins = tuple(values[j][0] for j in keep)
        self.operations.append(
            _Operation(ins, (), outs, self._phase, np.ascontiguousarray(matrix[:, keep] * coefs))
        )
        self.barrier()
        return [(out, 1.0) for out in outs]

    def build(self, results: Sequence[Value]) -> Program:
        """Make the program that computes `results` and nothing else.

        Parameters
        ----------
        results
            The values wanted, in order.

        Returns
        -------
        Program
            The program; the builder can go on and build others.
        """
        needed = self._needed(results)
        allocation = _SlotAllocation(self.n_inputs, len(results), needed, results)
        for phase in _phases(needed):
            allocation.add(phase)
        allocation.finish()
        return Program(self.n_inputs, len(results), allocation.n_slots, tuple(allocation.runs))

    def _needed(self, results: Sequence[Value]) -> list[_Operation]:
        """Operations whose outputs somebody needs, with the other outputs struck out."""
        wanted = bytearray(self._n_values)
        for slot, _ in results:
            if slot >= 0:
                wanted[slot] = 1
        kept = []
        for operation in reversed(self.operations):
            if operation.matrix is not None:
                if any(wanted[out] for out in operation.outs):
                    kept.append(operation)
                else:
                    continue
            else:
                outs = tuple([out if wanted[out] else -1 for out in operation.outs])
                if max(outs) < 0:
                    continue
                kept.append(_Operation(operation.ins, operation.coefs, outs, operation.phase))
            for slot in operation.ins:
                if slot >= 0:
                    wanted[slot] = 1
        kept.reverse()
        return kept


def _phases(operations: list[_Operation]) -> list[list[_Operation]]:
    """Group operations into runs: one phase, one radix."""
    groups: list[list[_Operation]] = []
    last: tuple[int, int] | None = None
    for operation in operations:
        key = (operation.phase, -1 if operation.matrix is not None else len(operation.ins))
        if key != last:
            groups.append([])
            last = key
        groups[-1].append(operation)
    return groups


class _SlotAllocation:
    """Gives scratch slots to values, and takes them back after the last run that reads them.

    A result is copied, with its factor, to its own slot in the run after the one that makes it:
    while it is still in the cache, and so that its scratch slot is free again.
    """

    def __init__(
        self,
        n_inputs: int,
        n_results: int,
        operations: list[_Operation],
        results: Sequence[Value],
    ) -> None:
        self.n_inputs = n_inputs
        self.runs: list[Run] = []
        self.n_slots = n_inputs + n_results
        self._free: list[int] = []
        self._slots: dict[int, int] = {}
        self._uses: dict[int, int] = {}
        for operation in operations:
            for slot in operation.ins:
                self._uses[slot] = self._uses.get(slot, 0) + 1
        self._copies: dict[int, list[tuple[int, float]]] = {}
        for result, (slot, coef) in enumerate(results):
            self._copies.setdefault(slot, []).append((n_inputs + result, coef))

    def add(self, operations: list[_Operation]) -> None:
        """Append a run, and the copies of the results that it makes."""
        slots, free = self._slots, self._free
        made: list[int] = []
        ins = [
            [slot if slot < self.n_inputs else slots[slot] for slot in operation.ins]
            for operation in operations
        ]
        outs = []
        for operation in operations:
            row = []
            for value in operation.outs:
                if value < 0:
                    row.append(-1)
                    continue
                if free:
                    slot = free.pop()
                else:
                    slot = self.n_slots
                    self.n_slots += 1
                slots[value] = slot
                row.append(slot)
                made.append(value)
            outs.append(row)
        matrix = operations[0].matrix
        self.runs.append(
            Run(
                np.array(ins, dtype=np.int32),
                np.array(outs, dtype=np.int32),
                np.array([operation.coefs for operation in operations])
                if matrix is None
                else matrix,
                dense=matrix is not None,
            )
        )
        self._copy([value for value in made if value in self._copies])
        self._release(operations, made)

    def _release(self, operations: list[_Operation], made: list[int]) -> None:
        uses = self._uses
        for operation in operations:
            for value in operation.ins:
                if value >= self.n_inputs:
                    uses[value] -= 1
                    if not uses[value]:
                        self._free.append(self._slots[value])
        self._free.extend(self._slots[value] for value in made if value not in uses)

    def _copy(self, values: list[int]) -> None:
        pairs = [
            (self._slots.get(value, value), slot, coef)
            for value in values
            for slot, coef in self._copies.pop(value)
        ]
        if pairs:
            ins, outs, coefs = zip(*pairs, strict=True)
            self.runs.append(
                Run(
                    np.array(ins, dtype=np.int32)[:, None],
                    np.array(outs, dtype=np.int32)[:, None],
                    np.array(coefs, dtype=np.float64)[:, None],
                )
            )

    def finish(self) -> None:
        """Copy the results that are inputs or zero."""
        self._copy(list(self._copies))


def with_unknowns(
    equations: Program, data: Program, solve: NDArray[np.float64], n_refinements: int
) -> Program:
    """One program that finds the unknowns that make the equations zero, and then the data.

    Parameters
    ----------
    equations, data
        Programs whose inputs are the outputs and after them the unknowns.
    solve
        Correction of the unknowns from the equations' values, shape (unknowns, equations).
    n_refinements
        How often the equations are evaluated again and the unknowns corrected.

    Returns
    -------
    Program
        Its inputs are the outputs alone.
    """
    n_unknowns, n_equations = solve.shape
    n_outputs, base = data.n_inputs - n_unknowns, data.n_inputs - n_unknowns + data.n_results
    old, new = base + np.arange(2 * n_unknowns).reshape(2, n_unknowns)
    residuals = base + 2 * n_unknowns + np.arange(n_equations)
    scratch = base + 2 * n_unknowns + n_equations
    results = np.arange(n_outputs, base)
    absent = np.full(n_unknowns, -1)
    runs = _moved(equations, n_outputs, absent, residuals, scratch)
    runs.append(_dense_run(solve, residuals, old))
    refine = np.hstack([solve, np.eye(n_unknowns)])  # small terms first
    for _ in range(n_refinements):
        runs += _moved(equations, n_outputs, old, residuals, scratch)
        runs.append(_dense_run(refine, np.concatenate([residuals, old]), new))
        old, new = new, old
    runs += _moved(data, n_outputs, old, results, scratch)
    n_scratch = max(p.n_slots - p.n_inputs - p.n_results for p in (equations, data))
    return Program(n_outputs, data.n_results, scratch + n_scratch, tuple(runs))


def _dense_run(matrix: NDArray[np.float64], ins: Indices, outs: Indices) -> Run:
    return Run(ins[None].astype(np.int32), outs[None].astype(np.int32), matrix, dense=True)


def _moved(
    program: Program, n_kept: int, inputs: Indices, results: Indices, scratch: int
) -> list[Run]:
    """The runs with other slots for the inputs from `n_kept`, the results, and the scratch."""
    n_scratch = program.n_slots - program.n_inputs - program.n_results
    parts = [np.arange(n_kept), inputs, results, scratch + np.arange(n_scratch), [-1]]
    slots = np.concatenate(parts).astype(np.int32)  # slot -1 is the last one and stays -1
    return [Run(slots[run.ins], slots[run.outs], run.coefs, run.dense) for run in program.runs]
