"""Dense matrices, encoded piece by piece in memory that is taken once."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sooner._machine import usable_cores
from sooner.errors import NonFiniteError
from sooner.store.fingerprint import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sooner._types import Array
    from sooner.codes.base import Code
    from sooner.store.panels import Panels

__all__ = ["DenseEncoder", "Piece"]

T = TypeVar("T")

_EXACT = 1 << 53
"""Up to here float64 holds every integer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of every block that lies in one slab and is contiguous in row-major order."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int

    @property
    def shape(self) -> tuple[int, int]:
        """Its rows and columns."""
        return self.last_row - self.first_row, self.last_column - self.first_column


class DenseEncoder:
    """Turns a matrix into blocks piece by piece.

    Parameters
    ----------
    panels
        The matrix.
    code
        Which sums.
    dtype
        Of the blocks.
    slab_rows
        Rows of a slab; a piece lies in one slab.
    coded
        Whether to make the n coded blocks, or only the k data blocks.
    check
        Whether to refuse what is not finite.
    max_memory
        Bytes to take at most.
    gram
        Whether to sum up the inner products of the data blocks.
    warn
        Whether to warn of integers that are rounded.

    Raises
    ------
    ValueError
        If `max_memory` cannot hold an entry of every block.
    """

    def __init__(
        self,
        panels: Panels,
        code: Code,
        dtype: np.dtype[Any],
        *,
        slab_rows: int,
        coded: bool,
        check: bool,
        max_memory: int,
        gram: bool = False,
        warn: bool = True,
    ) -> None:
        rows, columns = panels.shape
        self.block_rows = -(-rows // code.k)
        self.slab_rows = slab_rows
        self._panels, self._code, self._dtype, self._check = panels, code, dtype, check
        self.fingerprint = Fingerprint(panels.shape, panels.dtype, code.k)
        self.gram = np.zeros((code.k, code.k)) if gram else None
        # Only 64-bit integers reach beyond what float64 holds; warned of once.
        self._may_round = warn and panels.dtype.kind in "iu" and panels.dtype.itemsize == 8

        n_coded = code.n if coded else 0
        self._threads = min(usable_cores(), code.k) if panels.threadsafe else 1
        entries = max_memory // self._entry_bytes(n_coded)
        if entries < columns:  # rather all columns than several threads
            self._threads = 1
            entries = max_memory // self._entry_bytes(n_coded)
        entries = min(entries, slab_rows * columns)
        if entries < min(1, columns):
            raise ValueError(
                f"max_memory must hold an entry of {code.k} data blocks and {n_coded} coded "
                f"blocks, which take {self._entry_bytes(n_coded)} bytes, got "
                f"max_memory={max_memory}."
            )
        self._width = max(1, min(columns, entries))
        self.height = max(1, entries // self._width)
        self.nbytes = self._entry_bytes(n_coded) * self.height * self._width
        self._data = np.empty((code.k, self.height * self._width), dtype)
        self._coded = np.empty((n_coded, self.height * self._width), dtype)

    def _entry_bytes(self, n_coded: int) -> int:
        """Memory per entry of a piece: data, blocks, and per thread a panel, its copy, a mask."""
        panel = 2 * self._panels.dtype.itemsize + 1
        return (self._code.k + n_coded) * self._dtype.itemsize + self._threads * panel

    def restart(self) -> None:
        """Begin again: nothing was read."""
        self.fingerprint = Fingerprint(self._panels.shape, self._panels.dtype, self._code.k)
        if self.gram is not None:
            self.gram[:] = 0

    def pieces(self, slab: int) -> Iterator[Piece]:
        """Cut a slab of every block into pieces; one narrower than its block has one row.

        Parameters
        ----------
        slab
            Which slab.

        Yields
        ------
        Piece
            In row-major order.
        """
        columns = self._panels.shape[1]
        first = slab * self.slab_rows
        end = min(first + self.slab_rows, self.block_rows)
        for row in range(first, end, self.height):
            last_row = min(row + self.height, end)
            for column in range(0, columns, self._width):
                yield Piece(row, last_row, column, min(column + self._width, columns))

    @property
    def overlaps(self) -> bool:
        """Whether a piece can be filled while the blocks of the one before are still in use."""
        return len(self._coded) > 0

    def fill(self, piece: Piece) -> None:
        """Read a piece of every data block.

        Parameters
        ----------
        piece
            Which piece; they must be read in order.
        """
        data = _part(self._data, piece)
        beyond = [place for place in self._each_block(self._fill, data, piece) if place]
        if self.gram is not None:
            flat = data.reshape(len(data), -1)
            with np.errstate(all="ignore"):
                self.gram += (flat @ flat.conj().T).real
        if beyond and self._may_round:
            self._may_round = False
            self._warn_of_rounding(*beyond[0])

    def encoded(self, piece: Piece) -> Array:
        """Give the piece that was filled last, of every block, to be used until the next one.

        Parameters
        ----------
        piece
            Which piece.

        Returns
        -------
        ndarray, shape (blocks, rows, columns)
            The numbers.
        """
        data, coded = _part(self._data, piece), _part(self._coded, piece)
        blocks = data
        if len(coded):
            with np.errstate(all="ignore"):  # sums may overflow, and what is allowed in may be NaN
                self._code.encode(data, out=coded, threads=usable_cores())
            blocks = coded
        # What is not finite in the data is not finite in the sums.
        if self._check and not all(self._each_block(_is_finite, blocks, piece)):
            if all(self._each_block(_is_finite, data, piece)):
                raise self._overflow(coded, piece)
            raise self._nonfinite()
        return blocks

    def skip(self, piece: Piece) -> None:
        """Read a piece only to know whether the matrix is still the same.

        Parameters
        ----------
        piece
            Which piece.
        """
        if self.gram is not None:  # the sums begin with what was written before
            self.fill(piece)
        else:
            self._each_block(self._take_note, _part(self._data, piece), piece)

    def _each_block(
        self, call: Callable[[Array, int, Piece], T], blocks: Array, piece: Piece
    ) -> list[T]:
        """Call for every block, by several threads when the matrix allows it."""
        tasks = [(block, j, piece) for j, block in enumerate(blocks)]
        if self._threads == 1:
            return [call(*task) for task in tasks]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(lambda task: call(*task), tasks))

    def _read(self, j: int, piece: Piece) -> tuple[Array, int] | None:
        """Give a piece of data block j as it is in the matrix, and its first row there."""
        rows = self._panels.shape[0]
        first = min(j * self.block_rows + piece.first_row, rows)
        last = min(j * self.block_rows + piece.last_row, rows)
        if first == last:
            return None
        panel = self._panels.read(first, last, piece.first_column, piece.last_column)
        panel = np.ascontiguousarray(panel)
        self.fingerprint.update(j, panel)
        return panel, first

    def _take_note(self, _: Array, j: int, piece: Piece) -> None:
        self._read(j, piece)

    def _fill(self, block: Array, j: int, piece: Piece) -> tuple[int, int, int] | None:
        """Put data block j into `block`, promoted, padded with zeros.

        Returns
        -------
        tuple of int, or None
            Value, row and column of the first integer that is rounded.
        """
        read = self._read(j, piece)
        if read is None:
            block[:] = 0
            return None
        panel, first = read
        block[len(panel) :] = 0
        with np.errstate(all="ignore"):  # a narrower type may not hold every value
            block[: len(panel)] = panel
        return self._rounded(panel, first, piece.first_column) if self._may_round else None

    @staticmethod
    def _rounded(panel: Array, first_row: int, first_column: int) -> tuple[int, int, int] | None:
        if panel.size == 0 or (int(panel.max()) <= _EXACT and int(panel.min()) >= -_EXACT):
            return None
        beyond = panel > _EXACT
        if panel.dtype.kind == "i":
            beyond |= panel < -_EXACT
        row, column = _first(beyond)
        return int(panel[row, column]), first_row + row, first_column + column

    @staticmethod
    def _warn_of_rounding(value: int, row: int, column: int) -> None:
        warnings.warn(
            f"A holds integers beyond 2**53, which float64 rounds: {value} at row {row}, column "
            f"{column}.",
            UserWarning,
            stacklevel=7,
        )

    def _nonfinite(self) -> NonFiniteError:
        """Find the first entry of A that is not finite in the blocks' element type."""
        rows, columns = self._panels.shape
        for first in range(0, rows, self.height):
            panel = self._panels.read(first, min(first + self.height, rows), 0, columns)
            with np.errstate(all="ignore"):
                wrong = ~np.isfinite(panel.astype(self._dtype))
            if wrong.any():
                break
        row, column = _first(wrong)
        value = panel[row, column]
        row += first
        if np.isfinite(value):
            message = (
                f"A must fit into {self._dtype}, got {value} at row {row}, column {column}. "
                f"Scale A, or pass dtype=numpy.float64."
            )
        else:
            message = (
                f"A must be finite, got {value} at row {row}, column {column}. Encoding adds rows "
                f"to each other, so it would spoil up to {self._code.k} rows of every product. "
                f"Replace it, or pass nonfinite='allow'."
            )
        return NonFiniteError(message, row=row, column=column)

    def _overflow(self, coded: Array, piece: Piece) -> NonFiniteError:
        """Find the first entry of a coded block that is too large, though A is finite."""
        row, column, block = min(
            (*_first(~np.isfinite(values)), index)
            for index, values in enumerate(coded)
            if not np.isfinite(values).all()
        )
        row, column = row + piece.first_row, column + piece.first_column
        return NonFiniteError(
            f"sums of rows of A must fit into {self._dtype}, and coded block {block} overflows at "
            f"its row {row}, column {column}: the sum of rows {row}, {row + self.block_rows} … of "
            f"A. Divide A by a power of two, at least {self._code.k}, or pass a wider dtype.",
            row=row,
            column=column,
        )


def _is_finite(block: Array, _: int, __: Piece) -> bool:
    return bool(np.isfinite(block).all())


def _part(buffer: Array, piece: Piece) -> Array:
    """Give the beginning of a buffer as a contiguous array for a piece of every block."""
    count, (rows, columns) = len(buffer), piece.shape
    return buffer.reshape(-1)[: count * rows * columns].reshape(count, rows, columns)


def _first(mask: Array) -> tuple[int, int]:
    """Row and column of the first True, in row-major order."""
    row, column = np.unravel_index(int(mask.argmax()), mask.shape)
    return int(row), int(column)
