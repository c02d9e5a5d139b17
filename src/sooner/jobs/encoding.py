"""`encode`: from a matrix to a coded matrix at rest, within a stated memory."""

from __future__ import annotations

import datetime as dt
import logging
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner._version import __version__
from sooner.codes.base import Code
from sooner.errors import NonFiniteError
from sooner.store.coded_matrix import CodedMatrix
from sooner.store.fingerprint import Fingerprint
from sooner.store.location import as_location
from sooner.store.manifest import Manifest
from sooner.store.panels import Panels
from sooner.store.promotion import coded_dtype, little_endian
from sooner.store.writer import BlockWriter, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import DTypeLike

    from sooner._types import Array
    from sooner.store.location import StoreLike

__all__ = ["encode"]

logger = logging.getLogger(__name__)

_SLAB_BYTES = 1 << 22
"""Aim for one slab of one block: what a worker reads at a time and what a checksum covers."""

_EXACT = 1 << 53
"""Up to here float64 holds every integer."""


def encode(
    A: Any,
    code: Code,
    store: StoreLike = None,
    *,
    dtype: DTypeLike | None = None,
    max_memory: int = 1 << 28,
    nonfinite: str = "raise",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> CodedMatrix:
    """Write a matrix as n coded blocks, any (about) k of which determine its products.

    Data block j of k is rows ``j * b`` to ``(j + 1) * b`` of the matrix, ``b = ceil(rows / k)``,
    padded with zeros; a coded block is a signed sum of data blocks.  The matrix is read a panel
    at a time, in place, whatever its strides and byte order; the blocks come out the same, bit
    for bit, for every layout of the matrix and every `max_memory`.

    Parameters
    ----------
    A
        The matrix: an array, a nested list, or an object with ``shape``, ``dtype`` and slices,
        such as an HDF5 or Zarr dataset or a dask array, which is never read whole.
    code
        Which sums; `PolarCode`, for example.
    store
        A folder, made if it is not there; or a `MemoryStore`; None is a new one of those.
    dtype
        Of the blocks: float32, float64, complex64 or complex128.  None is the rule of
        `coded_dtype`.
    max_memory
        Bytes that encoding may take at a time, besides a `MemoryStore` and a few megabytes of
        the code's own.
    nonfinite
        ``"raise"`` refuses NaN and infinity, and finite values whose sums overflow.  ``"allow"``
        lets them in: one such entry, in row ``j * b + i``, spoils the entries in rows ``i``,
        ``b + i``, ``2 * b + i`` … of the decoded product, in all k data blocks, where a product
        without a code would lose one.
    overwrite
        Replace what is in the store; whoever reads the old blocks then finds them missing, and
        never new ones in their place.
    storage_options
        Options of a remote store; the stores of this version take none.

    Returns
    -------
    CodedMatrix
        The coded matrix.  Until its last byte is written the store has no manifest, and what was
        written before an interruption is never taken for it.

    Raises
    ------
    TypeError
        If `A` does not hold numbers of at most 64 bits a component, or `code` is no code.
    ValueError
        If `A` is not a matrix without masked entries, or `dtype` cannot hold it, or `max_memory`
        cannot hold an entry of every block.
    NonFiniteError
        If `A` holds NaN or infinity, or sums of its rows overflow.
    StoreExistsError
        If something is stored there already.
    StoreError
        If the store has no room, or cannot be written.

    Warns
    -----
    UserWarning
        If `A` holds integers beyond 2**53, which float64 rounds.

    Examples
    --------
    >>> from sooner import PolarCode, encode
    >>> A = np.arange(20).reshape(5, 4)
    >>> coded = encode(A, PolarCode(4, 2, rng=0))
    >>> coded.block_rows, coded.dtype, coded.block(3).shape
    (3, dtype('float64'), (3, 4))
    """
    if not isinstance(code, Code):
        raise TypeError(f"code must be a code such as PolarCode(64, 48), got {code!r}.")
    if code.operands != 1:
        raise ValueError(
            f"code must be for one matrix, got {code!r}, whose tasks multiply {code.operands}."
        )
    _checks.one_of(nonfinite, "nonfinite", ("raise", "allow"))
    panels = Panels(A)
    chosen = coded_dtype(panels.dtype, code, dtype)
    location = as_location(store, storage_options)
    if not overwrite:
        refuse_existing(location)
    encoding = _Encoding(
        panels,
        code,
        chosen,
        check=nonfinite == "raise",
        max_memory=_checks.integer(max_memory, "max_memory", at_least=1),
    )

    rows, columns = panels.shape
    shape = (encoding.block_rows, columns)
    writer = BlockWriter(
        location, n=code.n, shape=shape, dtype=chosen, slab_rows=encoding.slab_rows
    )
    with writer:
        for piece in encoding.pieces():
            writer.append(piece.first_row, encoding.encoded(piece))
        manifest = Manifest(
            shape=panels.shape,
            dtype=chosen.str,
            source_dtype=little_endian(panels.dtype).str,
            block_rows=encoding.block_rows,
            slab_rows=encoding.slab_rows,
            header_bytes=writer.header_bytes,
            code=code.spec(),
            fingerprint=encoding.fingerprint.hexdigest(),
            generation=writer.generation,
            blocks=writer.finish(),
            created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            sooner_version=__version__,
        )
        writer.commit(manifest, overwrite=overwrite)
    coded = CodedMatrix(location, manifest, code)
    logger.info(
        "encoded %d x %d %s as %d blocks of %d x %d %s, %.1f MB, in %s",
        *(rows, columns, panels.dtype, code.n, *shape, chosen, coded.nbytes / 1e6, location),
    )
    return coded


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of every block that lies in one slab and is contiguous in row-major order."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.last_row - self.first_row, self.last_column - self.first_column


class _Encoding:
    """Turns a matrix into coded blocks piece by piece, in memory that is taken once."""

    def __init__(
        self, panels: Panels, code: Code, dtype: np.dtype[Any], *, check: bool, max_memory: int
    ) -> None:
        rows, columns = panels.shape
        self.block_rows = -(-rows // code.k)
        self.slab_rows = max(
            1, min(self.block_rows, _SLAB_BYTES // max(1, columns * dtype.itemsize))
        )
        self.fingerprint = Fingerprint(panels.shape, panels.dtype, code.k)
        self._panels, self._code, self._dtype, self._check = panels, code, dtype, check
        # Only 64-bit integers reach beyond what float64 holds; warned of once.
        self._may_round = panels.dtype.kind in "iu" and panels.dtype.itemsize == 8

        # Per entry of a piece: the data, the blocks, a panel with its copy, a mask.
        entry = (code.k + code.n) * dtype.itemsize + 2 * panels.dtype.itemsize + 1
        entries = min(max_memory // entry, self.slab_rows * columns)
        if entries < min(1, columns):
            raise ValueError(
                f"max_memory must hold an entry of {code.k} data blocks and {code.n} coded "
                f"blocks, which take {entry} bytes, got max_memory={max_memory}."
            )
        self._width = max(1, min(columns, entries))
        self._height = max(1, entries // self._width)
        self._data = np.empty((code.k, self._height * self._width), dtype)
        self._coded = np.empty((code.n, self._height * self._width), dtype)

    def pieces(self) -> Iterator[_Piece]:
        """Cut every block into pieces; a piece narrower than its block has one row."""
        columns = self._panels.shape[1]
        for slab in range(0, self.block_rows, self.slab_rows):
            end = min(slab + self.slab_rows, self.block_rows)
            for row in range(slab, end, self._height):
                last_row = min(row + self._height, end)
                for column in range(0, columns, self._width):
                    yield _Piece(row, last_row, column, min(column + self._width, columns))

    def encoded(self, piece: _Piece) -> Array:
        """Give a piece of every coded block, shape (n, rows, columns); reused by the next."""
        data, coded = _part(self._data, piece), _part(self._coded, piece)
        for j, block in enumerate(data):
            self._fill(block, j, piece)
        with np.errstate(all="ignore"):  # sums may overflow, and what is allowed in may be NaN
            self._code.encode(data, out=coded)
        if self._check and not all(np.isfinite(block).all() for block in coded):
            raise self._overflow(coded, piece)
        return coded

    def _fill(self, block: Array, j: int, piece: _Piece) -> None:
        """Put data block j into `block`, promoted and checked, padded with zeros."""
        rows = self._panels.shape[0]
        first = min(j * self.block_rows + piece.first_row, rows)
        last = min(j * self.block_rows + piece.last_row, rows)
        block[last - first :] = 0
        if first == last:
            return
        panel = self._panels.read(first, last, piece.first_column, piece.last_column)
        panel = np.ascontiguousarray(panel)
        self.fingerprint.update(j, panel)
        if self._may_round:
            self._warn_of_rounding(panel, first, piece.first_column)
        with np.errstate(all="ignore"):  # a narrower type may not hold every value
            block[: last - first] = panel
        if self._check and not np.isfinite(block).all():
            raise self._nonfinite()

    def _warn_of_rounding(self, panel: Array, first_row: int, first_column: int) -> None:
        if panel.size == 0 or (int(panel.max()) <= _EXACT and int(panel.min()) >= -_EXACT):
            return
        beyond = panel > _EXACT
        if panel.dtype.kind == "i":
            beyond |= panel < -_EXACT
        row, column = _first(beyond)
        self._may_round = False
        warnings.warn(
            f"A holds integers beyond 2**53, which float64 rounds: {panel[row, column]} at row "
            f"{first_row + row}, column {first_column + column}.",
            UserWarning,
            stacklevel=5,
        )

    def _nonfinite(self) -> NonFiniteError:
        """Find the first entry of A that is not finite in the blocks' element type."""
        rows, columns = self._panels.shape
        for first in range(0, rows, self._height):
            panel = self._panels.read(first, min(first + self._height, rows), 0, columns)
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

    def _overflow(self, coded: Array, piece: _Piece) -> NonFiniteError:
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


def _part(buffer: Array, piece: _Piece) -> Array:
    """Give the beginning of a buffer as a contiguous array for a piece of every block."""
    count, (rows, columns) = len(buffer), piece.shape
    return buffer.reshape(-1)[: count * rows * columns].reshape(count, rows, columns)


def _first(mask: Array) -> tuple[int, int]:
    """Row and column of the first True, in row-major order."""
    row, column = np.unravel_index(int(mask.argmax()), mask.shape)
    return int(row), int(column)
