"""The grid of a product code, decoded line by line: [B19] Alg. 3, with inactivation when it stalls.

Cell (a, b) of the grid is the product of coded block a of one operand and coded block b of the
other.  A row of the grid is a codeword of the code of the columns, and a column one of the code of
the rows.  A line some of whose cells are known, enough for its code, is decoded and encoded again,
which fills it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes.inactivation import InactivatedSums
from sooner.codes.planned import in_double
from sooner.codes.program import ZERO, ProgramBuilder
from sooner.codes.row_space import row_space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sooner._types import Array, Indices, Mask, Stop
    from sooner.codes.base import Code, Decoder
    from sooner.codes.plan import DecodePlan
    from sooner.codes.program import Value

__all__ = ["GridPlan", "GridState", "LineCode", "write_down"]

_ROW, _COLUMN = 0, 1

_ALIKE = 3
"""Exponents of columns below this are left alone: the columns of a random code differ a little."""


class GridState:
    """Which cells of the grid are known, and which lines their codes' decoders can fill.

    Parameters
    ----------
    rows, columns
        The codes of the two operands, with the decoders that lines are to be filled by.
    """

    def __init__(self, rows: Code | LineCode, columns: Code | LineCode) -> None:
        self.known: Mask = np.zeros((rows.n, columns.n), dtype=np.bool_)
        self._decoders: tuple[list[Decoder | LineDecoder], list[Decoder | LineDecoder]] = (
            [columns.decoder() for _ in range(rows.n)],
            [rows.decoder() for _ in range(columns.n)],
        )
        self._open = (list(range(rows.n)), list(range(columns.n)))

    def add(self, row: int, column: int) -> None:
        """Take note of a known cell.

        Parameters
        ----------
        row, column
            Which cell.
        """
        self.known[row, column] = True
        self._decoders[_ROW][row].add(column)
        self._decoders[_COLUMN][column].add(row)

    def line(self, axis: int, index: int) -> Mask:
        """Known cells of a line.

        Parameters
        ----------
        axis
            0 for a row of the grid, 1 for a column.
        index
            Which one.

        Returns
        -------
        ndarray of bool
            A view.
        """
        return self.known[index] if axis == _ROW else self.known[:, index]

    def sweep(self) -> Iterator[tuple[int, int, Mask]]:
        """Fill every row that can be decoded, then every column, until nothing moves.

        Yields
        ------
        axis, index, known
            The line, and which of its cells were known before.
        """
        moved = True
        while moved:
            moved = False
            for axis in (_ROW, _COLUMN):
                for index in list(self._open[axis]):
                    if self._decoders[axis][index].decodable:
                        before = self.line(axis, index).copy()
                        for other in np.flatnonzero(~before).tolist():
                            self.add(*((index, other) if axis == _ROW else (other, index)))
                        self._open[axis].remove(index)
                        moved = True
                        yield axis, index, before

    @property
    def full(self) -> bool:
        """Whether every line has been decoded."""
        return not self._open[_ROW] and not self._open[_COLUMN]

    def filled(self, axis: int) -> list[int]:
        """Lines that have been decoded.

        Parameters
        ----------
        axis
            0 for rows of the grid, 1 for columns.

        Returns
        -------
        list of int
            Which ones.
        """
        still = set(self._open[axis])
        return [index for index in range(self.known.shape[axis]) if index not in still]

    def cell_to_inactivate(self) -> tuple[int, int]:
        """Choose the unknown cell that brings the grid furthest.

        Returns
        -------
        row, column
            A cell on the line that lacks least, and there on the crossing line that lacks least.
        """
        missing = [[decoder.n_missing for decoder in decoders] for decoders in self._decoders]
        _, axis, index = min(
            (missing[axis][index], axis, index)
            for axis in (_ROW, _COLUMN)
            for index in self._open[axis]
        )
        others = np.flatnonzero(~self.line(axis, index)).tolist()
        other = min(others, key=lambda other: missing[1 - axis][other])
        return (index, other) if axis == _ROW else (other, index)


class LineDecoder:
    """Decodes a line as soon as the rank of its known cells suffices.

    Parameters
    ----------
    generator
        Shape (n, k).
    """

    def __init__(self, generator: NDArray[np.float64]) -> None:
        self._generator = generator
        self._space = row_space(generator)

    def add(self, index: int) -> None:
        """Take note of a known cell.

        Parameters
        ----------
        index
            Which cell of the line.
        """
        if not self.decodable:
            self._space.add(self._generator[index])

    @property
    def n_missing(self) -> int:
        """How many more cells are needed at least."""
        return int(self._generator.shape[1]) - self._space.rank

    @property
    def decodable(self) -> bool:
        """Whether the known cells suffice."""
        return self.n_missing == 0


class LineCode:
    """A code as what its decoded lines need: small dense matrices.

    Parameters
    ----------
    code
        The code.
    """

    def __init__(self, code: Code) -> None:
        generator = code.encode(np.eye(code.k))
        sizes = np.linalg.norm(generator, axis=0)
        # Columns of blocks with exponents are of very different size and would hide each other's
        # digits; a power of two apart they are alike.
        exponents = np.rint(np.log2(sizes / np.median(sizes)))
        alike = np.abs(exponents).max() < _ALIKE
        self.scales: NDArray[np.float64] = np.exp2(0 * exponents if alike else exponents)
        self.generator: NDArray[np.float64] = generator / self.scales
        self.n: int = code.n
        self._filling = functools.lru_cache(maxsize=1024)(self._make_filling)

    def decoder(self) -> LineDecoder:
        """Give a decoder that knows of no cell yet.

        Returns
        -------
        LineDecoder
            The decoder.
        """
        return LineDecoder(self.generator)

    def filling(self, known: Mask) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Matrices that fill a line.

        Parameters
        ----------
        known
            Which outputs are known, shape (n,); they determine the line.

        Returns
        -------
        missing, redundant
            What the missing outputs are of the known ones; and combinations of the known ones that
            are zero on every codeword, orthonormal.
        """
        return self._filling(known.tobytes())

    def _make_filling(self, key: bytes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        known = np.frombuffer(key, dtype=np.bool_)
        k = self.generator.shape[1]
        q, r = np.linalg.qr(self.generator[known], mode="complete")
        missing = np.linalg.solve(r[:k].T, self.generator[~known].T).T @ q[:, :k].T
        return missing, q[:, k:].T

    @functools.cached_property
    def inverse(self) -> NDArray[np.float64]:
        """Data blocks from all outputs, by least squares, shape (k, n)."""
        return np.linalg.pinv(self.generator) / self.scales[:, None]


@dataclass(frozen=True, slots=True)
class GridPlan:
    """How to decode a grid: a plan for double precision, which single precision borrows."""

    exact: DecodePlan
    """Lines, unknown cells, data blocks."""

    @property
    def reads(self) -> Indices:
        """Outputs that decoding reads, ascending."""
        return self.exact.reads

    @property
    def n_operations(self) -> int:
        """Operations on blocks."""
        return self.exact.n_operations

    @property
    def n_unknowns(self) -> int:
        """Cells that a dense system gives."""
        return self.exact.n_unknowns

    @property
    def condition(self) -> float:
        """Condition number of that system."""
        return self.exact.condition

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
            Asked between tiles; True raises `InterruptedError`.

        Returns
        -------
        ndarray
            `out`.
        """
        if outputs.dtype.char in "dD":
            return self.exact.run(outputs, out=out, threads=threads, stop=stop)

        def decode(some: NDArray[np.float64]) -> NDArray[np.float64]:
            grid = np.zeros((len(outputs), some.shape[1]))
            grid[self.reads] = some
            blocks = np.empty((len(out), some.shape[1]))
            return self.exact.run(grid, out=blocks, threads=threads, stop=stop)

        # Lines are decoded from decoded lines, and rounding grows on the way.
        return in_double(decode, outputs, self.reads, out, stop)


def write_down(rows: LineCode, columns: LineCode, available: Mask) -> InactivatedSums:
    """Decode the grid line by line on paper, with unknown cells where it stalls.

    Parameters
    ----------
    rows, columns
        The codes of the two operands.
    available
        The cells that are available, shape (n_rows, n_columns).

    Returns
    -------
    InactivatedSums
        The data blocks, row by row, and the equations.
    """
    state = GridState(rows, columns)
    for row, column in np.argwhere(available).tolist():
        state.add(row, column)
    steps = list(state.sweep())
    inactive = []
    while not state.full:
        inactive.append(state.cell_to_inactivate())
        state.add(*inactive[-1])
        steps += state.sweep()
    grid = _GridOfValues(available, inactive)
    for axis, index, known in steps:
        grid.fill(axis, index, known, columns if axis == _ROW else rows)
    return InactivatedSums(
        grid.builder, available.size, len(inactive), grid.data(rows, columns), grid.equations
    )


class _GridOfValues:
    """The cells as values of a program."""

    def __init__(self, available: Mask, inactive: list[tuple[int, int]]) -> None:
        self.builder = ProgramBuilder(available.size + len(inactive))
        self.equations: list[Value] = []
        self._values: list[list[Value]] = [[ZERO] * available.shape[1] for _ in available]
        self._unsure: Mask = np.zeros(available.shape, dtype=np.bool_)  # depends on an unknown
        for row, column in np.argwhere(available).tolist():
            self._values[row][column] = (row * available.shape[1] + column, 1.0)
        for number, (row, column) in enumerate(inactive, available.size):
            self._values[row][column] = (number, 1.0)
            self._unsure[row, column] = True

    def fill(self, axis: int, index: int, known: Mask, code: LineCode) -> None:
        """Compute the missing cells of a line; what is redundant there are equations."""
        unsure = self._unsure[index] if axis == _ROW else self._unsure[:, index]
        line = self._values[index] if axis == _ROW else [row[index] for row in self._values]
        given = [line[place] for place in np.flatnonzero(known).tolist()]
        missing, redundant = code.filling(known)
        if unsure[known].any():
            self.equations += self.builder.dense(redundant, given)
            unsure[~known] = True
        places = np.flatnonzero(~known).tolist()
        for place, value in zip(places, self.builder.dense(missing, given), strict=True):
            row, column = (index, place) if axis == _ROW else (place, index)
            self._values[row][column] = value

    def data(self, rows: LineCode, columns: LineCode) -> list[Value]:
        """The data blocks from the full grid."""
        self.builder.barrier()
        half = [self.builder.dense(columns.inverse, row) for row in self._values]
        of_columns = [
            self.builder.dense(rows.inverse, list(line)) for line in zip(*half, strict=True)
        ]
        return [value for row in zip(*of_columns, strict=True) for value in row]
