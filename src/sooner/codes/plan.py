"""How to decode: a value made from the set of available outputs alone.

The sequential decoder ([B19] Alg. 1-2, [B23] Alg. 2-3) walks the tree of the transform, the
worse half of each node before the better one.  Here it does not compute but writes down what is
to be computed.  A data channel that is erased at its turn becomes an *unknown* and the walk goes
on; a frozen or parity channel that is recovered, though its value is known, is an *equation* on
the unknowns.  A small dense system then gives the unknowns, and the same program, told them,
gives the data blocks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes import butterflies, transform
from sooner.codes.kernel import ARIKAN, HADAMARD
from sooner.codes.layout import DATA, FROZEN
from sooner.codes.mixed_radix import inputs_from_outputs
from sooner.codes.program import ZERO, Program, ProgramBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sooner._types import Array, Indices, Stop
    from sooner.codes.kernel import Kernel
    from sooner.codes.layout import ChannelLayout
    from sooner.codes.program import Value

__all__ = ["DecodePlan", "Walk"]

_NEEDS_DOUBLE = 1e-3
"""Condition times eps beyond which refinement in the precision of the blocks wins nothing."""

_CHUNK = 1 << 24
"""Bytes of outputs that are converted to double precision at a time."""


@dataclass(slots=True)
class Walk:
    """The sequential decoder's walk through the tree, written down as operations.

    Inputs of the programs are the n outputs and after them the unknowns.

    Parameters
    ----------
    layout
        The code.
    values
        For each row of the transform its output, or None where it is erased.
    unknown_outputs
        Whether missing outputs are unknowns already (the syndrome form), so that everything
        may depend on them.
    """

    layout: ChannelLayout
    values: Sequence[Value | None]
    n_unknowns: int
    """Unknowns that there will be; known from the boolean pass before the walk."""
    unknown_outputs: bool = False
    data: list[Value] = field(default_factory=list)
    equations: list[Value] = field(default_factory=list)
    builder: ProgramBuilder = field(init=False)
    _found: int = 0
    _parities: list[Value] = field(default_factory=list)
    _carriers: list[int] = field(default_factory=list)
    _kernels: dict[int, tuple[Kernel, ...]] = field(default_factory=dict)
    _equations_program: Program | None = None

    def __post_init__(self) -> None:
        self.builder = ProgramBuilder(self.layout.n + self.n_unknowns)
        # _carriers[i]: channels before i that are not frozen, to skip frozen subtrees at once.
        carries = np.frombuffer(self.layout.kinds, np.uint8) != FROZEN
        self._carriers = [0, *np.cumsum(carries).tolist()]
        # _kernels[size]: kernels of the transform below a node of that size.
        size = len(self.values)
        for depth, kernel in enumerate(self.layout.kernels):
            self._kernels[size] = self.layout.kernels[depth:]
            size //= kernel.size
        self._descend(list(self.values), 0, up=False)

    @property
    def equations_program(self) -> Program:
        """What the unknowns should make zero; built once, for the rank and for the plan."""
        if self._equations_program is None:
            self._equations_program = self.builder.build(self.equations)
        return self._equations_program

    @property
    def blocks(self) -> list[Value]:
        """The data blocks: the data channels without their signs and exponents."""
        return [
            (slot, coef / scale)
            for (slot, coef), scale in zip(self.data, self.layout.scales.tolist(), strict=True)
        ]

    @property
    def _ask(self) -> bool:
        """Whether recovered frozen channels say anything: only once there is an unknown."""
        return self.unknown_outputs or self._found > 0

    def _descend(self, values: list[Value | None], first: int, *, up: bool) -> list[Value]:
        """Decode the channels below a node; return its outputs, complete if `up`."""
        size = len(values)
        if self._carriers[first] == self._carriers[first + size]:
            # All channels are frozen, so all outputs here are zero.
            if self._ask:
                self.equations.extend(v for v in values if v is not None and v[0] >= 0)
            return [ZERO] * size
        if size == 1:
            return [self._leaf(values[0], first)]
        if self.n_unknowns == 0 and len(self.data) == self.layout.k:
            return [ZERO] * size  # all data are there: nobody will read what is computed here
        known = [v for v in values if v is not None]
        if len(known) == size:
            self._leaves(known, first)
            return known
        kernel = self._kernels[size][0]
        if kernel is HADAMARD or kernel is ARIKAN:
            return self._binary_stage(values, first, up=up, hadamard=kernel is HADAMARD)
        return self._mixed_stage(values, first, kernel, up=up)

    def _leaves(self, values: list[Value], first: int) -> None:
        """Decode below a node all of whose outputs are known: one inverse transform."""
        kernels = self._kernels[len(values)]
        channels = butterflies.inverse_transform(self.builder, values, kernels)
        for offset, value in enumerate(channels):
            if self.layout.kinds[first + offset] == FROZEN:
                if self._ask and value[0] >= 0:
                    self.equations.append(value)
            else:
                self._leaf(value, first + offset)

    def _binary_stage(
        self, values: list[Value | None], first: int, *, up: bool, hadamard: bool
    ) -> list[Value]:
        """One stage: both known, the worse half, one known, the better half, upwards."""
        builder = self.builder
        half = len(values) // 2
        uppers, lowers = values[:half], values[half:]
        worse: list[Value | None] = [None] * half
        better: list[Value | None] = [None] * half
        open_pairs = []
        builder.barrier()
        for j, (upper, lower) in enumerate(zip(uppers, lowers, strict=True)):
            if upper is not None and lower is not None:
                worse[j], better[j] = butterflies.split(builder, upper, lower, hadamard=hadamard)
            elif upper is not None or lower is not None or up:
                open_pairs.append(j)
        worse_up = self._descend(worse, first, up=bool(open_pairs))
        builder.barrier()
        for j in open_pairs:
            upper, lower = uppers[j], lowers[j]
            if upper is not None or lower is not None:
                better[j] = butterflies.better_input(
                    builder, upper, lower, worse_up[j], hadamard=hadamard
                )
        better_up = self._descend(better, first + half, up=up)
        if not up:
            return [ZERO] * (2 * half)
        builder.barrier()
        for j in open_pairs:
            # What has come is kept as it came: only what is erased is computed.
            upper, lower = butterflies.combine(
                builder, worse_up[j], better_up[j], hadamard=hadamard
            )
            if uppers[j] is None:
                uppers[j] = upper
            if lowers[j] is None:
                lowers[j] = lower
        return [value if value is not None else ZERO for value in uppers + lowers]

    def _mixed_stage(
        self, values: list[Value | None], first: int, kernel: Kernel, *, up: bool
    ) -> list[Value]:
        """One stage of a larger kernel: input after input, then upwards."""
        size, width = kernel.size, len(values) // kernel.size
        groups = [values[j::width] for j in range(width)]
        counts = [size - group.count(None) for group in groups]
        solved: list[list[Value | None]] = [[None] * width for _ in range(size)]
        inputs: list[list[Value]] = []
        for i in range(size):
            start = first + i * width
            # A group with m known outputs gives its last m inputs at once, at the first of them
            # below which something is carried: frozen ones before it are known anyway.
            if self._carriers[start] < self._carriers[start + width]:
                for j in range(width):
                    if solved[i][j] is None and counts[j] >= size - i:
                        last = self._last_inputs(kernel, groups[j], [row[j] for row in inputs])
                        for h, value in enumerate(last, start=i):
                            solved[h][j] = value
            lacking = any(m < size - i and (up or m > 0) for m in counts)
            below = self._descend(solved[i], start, up=lacking)
            pairs = zip(solved[i], below, strict=True)
            inputs.append([value if value is not None else other for value, other in pairs])
        if not up:
            return [ZERO] * len(values)
        outputs = list(values)
        for j, group in enumerate(groups):
            erased = [a for a, value in enumerate(group) if value is None]
            made = self.builder.dense(kernel.matrix[erased], [row[j] for row in inputs])
            for a, value in zip(erased, made, strict=True):
                outputs[a * width + j] = value
        return [value if value is not None else ZERO for value in outputs]

    def _last_inputs(
        self, kernel: Kernel, group: list[Value | None], earlier: list[Value]
    ) -> list[Value]:
        """The inputs of a group from its known outputs and its earlier inputs."""
        rows = np.flatnonzero([value is not None for value in group])
        known = [value for value in group if value is not None]
        matrix = inputs_from_outputs(kernel, rows, len(earlier))
        return self.builder.dense(matrix, known + earlier)

    def _leaf(self, value: Value | None, channel: int) -> Value:
        """One channel that carries something, at its turn."""
        if self.layout.kinds[channel] == DATA:
            if value is None:
                value = (self.layout.n + self._found, 1.0)
                self._found += 1
            self.data.append(value)
            return value
        if not self._parities:  # the parity channels come last: all data are known by now
            self._parities = self.builder.dense(self.layout.parity, self.data)
            self._parities.reverse()
        parity = self._parities.pop()
        if value is None:
            return parity
        self.builder.barrier()
        self.equations.append(butterflies.subtract(self.builder, value, parity))
        return value


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """Programs and a small dense system; made from the set of available outputs alone.

    ``unknowns = solve @ equations(outputs, 0)``, refined, then ``data(outputs, unknowns)``.
    """

    data: Program
    """Data channels from the outputs and the unknowns."""
    equations: Program | None = None
    """What the unknowns should make zero; None when there are no unknowns."""
    solve: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    """Unknowns from the equations' values, shape (unknowns, equations)."""
    condition: float = 1.0
    """Condition number of the small dense system."""

    @property
    def n_unknowns(self) -> int:
        """Blocks that the dense system gives."""
        return len(self.solve)

    @property
    def reads(self) -> Indices:
        """Outputs that decoding reads, ascending."""
        reads = self.data.reads
        if self.equations is not None:
            reads = np.union1d(reads, self.equations.reads)
        return reads[reads < self.data.n_inputs - self.n_unknowns]

    @property
    def n_operations(self) -> int:
        """Butterflies and dense products on blocks."""
        equations = self.equations.n_operations + 1 if self.equations is not None else 0
        return self.data.n_operations + equations

    @property
    def cost(self) -> float:
        """Additions of blocks, without refinement."""
        equations = self.equations.n_additions if self.equations is not None else 0
        return self.data.n_additions + equations + self.solve.size

    def n_refinements(self, dtype: np.dtype[Any]) -> int:
        """Steps of iterative refinement that the condition asks for.

        Parameters
        ----------
        dtype
            Of the blocks.

        Returns
        -------
        int
            0, 1 or 2.
        """
        # Each step wins a factor condition * eps, so one suffices while that is small.
        loss = self.condition * float(np.finfo(dtype).eps)
        if self.condition < 30:  # the system loses no more than the butterflies do
            return 0
        return 1 if loss < 1e-3 else 2

    def run(self, outputs: Array, *, out: Array, threads: int = 1, stop: Stop = None) -> Array:
        """Decode.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``.
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
        if self.equations is None:
            return transform.run(self.data, outputs, out=out, threads=threads, stop=stop)
        if self.condition * float(np.finfo(outputs.dtype).eps) > _NEEDS_DOUBLE:
            return self._run_in_double(outputs, out, threads, stop)
        return transform.run_with_unknowns(
            self.equations,
            self.data,
            self.solve,
            outputs,
            n_refinements=self.n_refinements(outputs.dtype),
            out=out,
            threads=threads,
            stop=stop,
        )

    def _run_in_double(self, outputs: Array, out: Array, threads: int, stop: Stop) -> Array:
        """Decode single precision with double precision between, some columns at a time."""
        rows, results = transform.as_rows(outputs), transform.as_rows(out)
        double = np.result_type(outputs.dtype, np.float64)
        reads, exact = self.reads, dataclasses.replace(self, condition=min(self.condition, 1e9))
        width = max(1, _CHUNK // (len(rows) * double.itemsize))
        for first in range(0, rows.shape[1], width):
            columns = slice(first, first + width)
            some = np.zeros((len(rows), results[:, columns].shape[1]), dtype=double)
            some[reads] = rows[reads, columns]
            decoded = np.empty((len(results), some.shape[1]), dtype=double)
            results[:, columns] = exact.run(some, out=decoded, threads=threads, stop=stop)
        if not np.shares_memory(results, out):
            out[...] = results.reshape(out.shape)
        return out
