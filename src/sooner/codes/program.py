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

    from sooner._types import Indices, Mask

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
    compositions: dict[int, tuple[Program, NDArray[np.float64], Program]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What `transform.run_with_unknowns` made of this program, by the number of refinements."""

    @functools.cached_property
    def reads(self) -> Indices:
        """Inputs that are read, ascending."""
        read = [run.ins[(run.ins >= 0) & (run.ins < self.n_inputs)] for run in self.runs]
        return np.unique(np.concatenate(read or [np.empty(0, np.int32)])).astype(np.intp)

    @functools.cached_property
    def flat(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """The runs as the compiled core takes them: heads, slots, coefs (`_core.pyi`)."""
        heads = [
            (run.dense, run.ins.shape[1], run.outs.shape[1], len(run.ins)) for run in self.runs
        ]
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


@dataclass(frozen=True, slots=True)
class _Group:
    """Operations that become one run: of one size, between two barriers.

    Their inputs stand in a row in the builder's list, and so do the numbers of their outputs: the
    two go in step, but for a dense product.
    """

    size: int
    start: int
    """Where the inputs begin."""
    value: int
    """Number of the first output."""
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
    _ins: list[int] = field(default_factory=list)
    _coefs: list[float] = field(default_factory=list)
    _groups: list[_Group] = field(default_factory=list)
    _n_values: int = -1
    _size: int = 0
    """Size of the operations of the last group; 0 after a barrier."""

    def __post_init__(self) -> None:
        self._n_values = self.n_inputs

    def barrier(self) -> None:
        """End the run: what follows may depend on what came before."""
        self._size = 0

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
        if size != self._size:
            self._groups.append(_Group(size, len(self._ins), first))
            self._size = size
        self._ins += [value[0] for value in values]
        self._coefs += [value[1] for value in values]
        self._n_values = last = first + size
        return [(out, 1.0) for out in range(first, last)]

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
        keep = [j for j, value in enumerate(values) if value[0] >= 0]
        if not keep or not len(matrix):
            return [ZERO] * len(matrix)
        coefs = [values[j][1] for j in keep]
        first = self._n_values
        factors = np.ascontiguousarray(matrix[:, keep] * np.array(coefs))
        self._groups.append(_Group(len(keep), len(self._ins), first, factors))
        self._ins += [values[j][0] for j in keep]
        self._coefs += coefs
        self._n_values = last = first + len(matrix)
        self.barrier()
        return [(out, 1.0) for out in range(first, last)]

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
        ins = np.array(self._ins, dtype=np.int32)
        starts = [*(group.start for group in self._groups), ins.size]
        wanted = np.zeros(self._n_values + 1, dtype=np.bool_)  # the last one is for slot -1
        wanted[[slot for slot, _ in results]] = True
        kept = []
        for group, end in zip(reversed(self._groups), starts[:0:-1], strict=True):
            positions = _needed(group, end, wanted)
            if positions is not None:
                wanted[ins[positions]] = True
                kept.append((group, positions))
        kept.reverse()
        allocation = _SlotAllocation(self.n_inputs, wanted, ins, kept, results)
        coefs = np.array(self._coefs)
        for group, positions in kept:
            allocation.add(group, positions, coefs[positions])
        allocation.copy_rest()
        return Program(self.n_inputs, len(results), allocation.n_slots, tuple(allocation.runs))


def _needed(group: _Group, end: int, wanted: Mask) -> slice | Indices | None:
    """Where the inputs are of those operations that make something wanted; None for none."""
    if group.matrix is not None:
        some = wanted[group.value : group.value + len(group.matrix)].any()
        return slice(group.start, end) if some else None
    operations = wanted[group.value : group.value + end - group.start].reshape(-1, group.size)
    needed = operations.any(axis=1)
    if needed.all():
        return slice(group.start, end)
    if not needed.any():
        return None
    return group.start + np.flatnonzero(np.repeat(needed, group.size))


class _SlotAllocation:
    """Gives scratch slots to values, and takes them back after the last read.

    An output of a butterfly takes the slot of the input across from it, if that is read for the
    last time: what is in the cache is written again.  A result is copied, with its factor, to
    its own slot in the run after the one that makes it, so that its scratch slot is free again.
    """

    def __init__(
        self,
        n_inputs: int,
        wanted: Mask,
        ins: NDArray[np.int32],
        kept: list[tuple[_Group, slice | Indices]],
        results: Sequence[Value],
    ) -> None:
        self.runs: list[Run] = []
        self.n_slots = n_inputs + len(results)
        self._n_inputs = n_inputs
        self._wanted = wanted
        self._ins = ins
        self._free: list[int] = []
        self._slots = np.full(wanted.size, -1, dtype=np.int32)
        self._slots[:n_inputs] = np.arange(n_inputs)
        everywhere = np.arange(ins.size)
        last_read = np.full(wanted.size, -1)
        reads = np.concatenate([everywhere[:0], *(everywhere[positions] for _, positions in kept)])
        last_read[ins[reads]] = reads  # of several the last one stays
        self._never_read = last_read < 0
        last_read[:n_inputs] = last_read[-1] = -1  # inputs stay, and so does nothing
        self._dies = last_read[ins] == everywhere
        self._copies: dict[int, list[tuple[int, float]]] = {}
        for result, (slot, coef) in enumerate(results):
            self._copies.setdefault(slot, []).append((n_inputs + result, coef))
        self._copied = np.zeros(wanted.size, dtype=np.bool_)
        self._copied[list(self._copies)] = True

    def add(self, group: _Group, positions: slice | Indices, coefs: NDArray[np.float64]) -> None:
        """Append a run, and the copies of the results that it makes."""
        ins = self._slots[self._ins[positions]]
        dies = self._dies[positions]
        if group.matrix is None:
            step = group.value - group.start
            values = np.arange(self._ins.size)[positions] + step
            wanted = self._wanted[values]
            in_place = wanted & dies
            outs = self._fresh(wanted & ~dies)
            outs[in_place] = ins[in_place]
            self._free += ins[dies & ~wanted].tolist()
            shape = (-1, group.size)
            run = Run(ins.reshape(shape), outs.reshape(shape), coefs.reshape(shape))
        else:
            rows = np.flatnonzero(self._wanted[group.value : group.value + len(group.matrix)])
            values = group.value + rows
            outs = self._fresh(np.ones(rows.size, dtype=np.bool_))
            self._free += ins[dies].tolist()
            run = Run(ins[None], outs[None], group.matrix[rows], dense=True)
        self._slots[values] = outs
        self.runs.append(run)
        self._copy(values[self._copied[values]].tolist())
        self._free += outs[(outs >= 0) & self._never_read[values]].tolist()

    def _fresh(self, wanted: Mask) -> NDArray[np.int32]:
        """Slots where they are wanted, -1 elsewhere."""
        outs = np.full(wanted.size, -1, dtype=np.int32)
        count = int(np.count_nonzero(wanted))
        if count:
            at = max(len(self._free) - count, 0)
            slots = self._free[at:]
            del self._free[at:]
            new = count - len(slots)
            outs[wanted] = slots + list(range(self.n_slots, self.n_slots + new))
            self.n_slots += new
        return outs

    def _copy(self, values: list[int]) -> None:
        pairs = [
            (int(self._slots[value]), slot, coef)
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

    def copy_rest(self) -> None:
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
    nothing = np.array([-1])
    parts = [np.arange(n_kept), inputs, results, scratch + np.arange(n_scratch), nothing]
    slots = np.concatenate(parts).astype(np.int32)  # slot -1 is the last one and stays -1
    return [Run(slots[run.ins], slots[run.outs], run.coefs, run.dense) for run in program.runs]
