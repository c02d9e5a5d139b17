"""Sparse matrices, encoded to blocks that stay sparse."""

from __future__ import annotations

import hashlib
import logging
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.errors import NonFiniteError
from sooner.jobs.encoding_request import Written
from sooner.store.panels import checked_dtype
from sooner.store.promotion import coded_dtype, little_endian
from sooner.store.sparse_writer import SparseWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from sooner._types import Array
    from sooner.codes.base import Code
    from sooner.jobs.encoding_request import Request
    from sooner.store.location import Location

__all__ = ["SparseEncoder", "encode_sparse", "is_sparse"]

logger = logging.getLogger(__name__)

_EXACT = 1 << 53
"""Up to here float64 holds every integer."""

_INDEX_BYTES = 8


def is_sparse(A: Any) -> bool:
    """Whether `A` is a matrix of SciPy's sparse kinds.

    Parameters
    ----------
    A
        Anything.

    Returns
    -------
    bool
        Whether it is.
    """
    return hasattr(A, "tocsr") and hasattr(A, "nnz")


def encode_sparse(A: Any, request: Request, open_writers: ExitStack) -> Written:
    """Write a sparse matrix; how much its blocks fill in is known before.

    Parameters
    ----------
    A
        The matrix.
    request
        What to do.
    open_writers
        Takes what removes the blocks again if they are not kept.

    Returns
    -------
    Written
        What was written.
    """
    code, location = request.code, request.location
    source_dtype = checked_dtype(np.dtype(A.dtype))
    dtype = coded_dtype(source_dtype, code, request.dtype)
    if not request.of_transpose:
        _warn_of_rounding(A)
    encoder = SparseEncoder(
        A,
        code,
        dtype,
        coded=request.holds == "coded",
        check=request.check,
        max_memory=request.max_memory,
    )
    indices = np.dtype("<i4" if encoder.shape[1] <= np.iinfo(np.int32).max else "<i8")
    writer = SparseWriter(
        location,
        counts=encoder.counts,
        block_rows=encoder.block_rows,
        dtypes=(dtype.str, indices.str, "<i8"),
        slab_entries=max(1, request.slab_bytes // _INDEX_BYTES),
    )
    _report_fill_in(encoder, dtype, writer.nbytes, location)
    open_writers.enter_context(writer)
    for done, blocks in enumerate(encoder.parts(), start=1):
        for index, rows in enumerate(blocks):
            writer.append(index, rows)
        if request.progress is not None:
            request.progress(done, encoder.n_parts)
    manifest = request.manifest(
        gram="",
        shape=encoder.shape,
        dtype=dtype.str,
        source_dtype=little_endian(source_dtype).str,
        layout="csr",
        block_rows=encoder.block_rows,
        slab_rows=max(1, request.slab_bytes // _INDEX_BYTES),
        header_bytes=writer.header_bytes,
        fingerprint=encoder.fingerprint(),
        generation=writer.generation,
        blocks=writer.finish(),
    )
    return Written(manifest, code, writer)


def _report_fill_in(
    encoder: SparseEncoder, dtype: np.dtype[Any], nbytes: int, location: Location
) -> None:
    filled = sum(encoder.counts)
    logger.info(
        "encoding %d x %d sparse with %d entries: fills in to %d entries, %.3g times as many; "
        "writes %.1f MB to %s",
        *(*encoder.shape, encoder.nnz, filled, filled / max(1, encoder.nnz)),
        *(nbytes / 1e6, location),
    )
    dense = encoder.n_blocks * encoder.block_rows * encoder.shape[1] * dtype.itemsize
    if 2 * nbytes > dense and filled:
        logger.warning(
            "the coded blocks are hardly sparse any more: %.1f MB, and %.1f MB if A were dense. "
            "Use SideBySide of small parts or kernel=ARIKAN, or encode A.toarray().",
            *(nbytes / 1e6, dense / 1e6),
        )


def _warn_of_rounding(A: Any) -> None:
    if A.dtype.kind not in "iu" or A.dtype.itemsize < 8:
        return
    entries = A.tocoo()
    beyond = np.flatnonzero((entries.data > _EXACT) | (entries.data < -_EXACT))
    if len(beyond):
        entry = beyond[0]
        warnings.warn(
            f"A holds integers beyond 2**53, which float64 rounds: {entries.data[entry]} at row "
            f"{entries.row[entry]}, column {entries.col[entry]}.",
            UserWarning,
            stacklevel=5,
        )


class SparseEncoder:
    """Turns a sparse matrix into sparse blocks, a few rows of every block at a time.

    A coded block has an entry wherever one of its data blocks has one, so the blocks of a code
    that adds many of them up are no longer sparse: SideBySide of small parts and the ARIKAN
    kernel add up few.

    Parameters
    ----------
    A
        The matrix; CSR is looked at in place, other kinds are converted, which copies them.
    code
        Which sums.
    dtype
        Of the blocks.
    coded
        Whether to make the n coded blocks, or only the k data blocks.
    check
        Whether to refuse what is not finite.
    max_memory
        Bytes to take at most, the conversion aside; one row of every block must fit.
    """

    def __init__(
        self,
        A: Any,
        code: Code,
        dtype: np.dtype[Any],
        *,
        coded: bool,
        check: bool,
        max_memory: int,
    ) -> None:
        from scipy import sparse

        self._A = A.tocsr()
        self._check = check
        self.shape: tuple[int, int] = self._A.shape
        self.block_rows = -(-self.shape[0] // code.k)
        self._dtype, self._k = dtype, code.k
        coefs = code.encode(np.eye(code.k)) if coded else np.eye(code.k)
        self._coefs = sparse.csr_array(coefs.astype(dtype))
        self.n_blocks: int = coefs.shape[0]
        if check:
            self._refuse_nonfinite()
        self._cuts = self._cut(np.count_nonzero(coefs, axis=0), max_memory)
        self.counts = self._count()

    @property
    def nnz(self) -> int:
        """Entries of the matrix, explicit zeros included."""
        return int(self._A.nnz)

    @property
    def n_parts(self) -> int:
        """How many times `parts` yields."""
        return len(self._cuts) - 1

    def _cut(self, uses: Array, max_memory: int) -> list[int]:
        """Choose after which rows of the blocks to cut, so that each part fits."""
        per_row = np.zeros((self._k, self.block_rows), dtype=np.int64)
        per_row.reshape(-1)[: self.shape[0]] = np.diff(self._A.indptr)
        # a product, its sorted copy, and the rows that are stacked for it
        row_bytes = (2 * uses + 1) @ per_row * (self._dtype.itemsize + _INDEX_BYTES)
        ends = np.cumsum(row_bytes)
        cuts = [0]
        while cuts[-1] < self.block_rows:
            before = ends[cuts[-1] - 1] if cuts[-1] else 0
            last = int(np.searchsorted(ends, before + max_memory, side="right"))
            cuts.append(max(last, cuts[-1] + 1))
        return cuts

    def _count(self) -> list[int]:
        """Entries of every block, by encoding once for nothing: sums may cancel."""
        counts = np.zeros(self.n_blocks, dtype=np.int64)
        for blocks in self.parts():
            counts += [rows.nnz for rows in blocks]
        return [int(count) for count in counts]

    def parts(self) -> Iterator[list[Any]]:
        """Encode a few rows at a time.

        Yields
        ------
        list of csr_array
            The next rows of every block, with sorted indices.
        """
        from scipy import sparse

        for first, last in zip(self._cuts, self._cuts[1:], strict=False):
            data = sparse.vstack(
                [self._rows(j, first, last) for j in range(self._k)], format="csr"
            ).astype(self._dtype)
            sums = sparse.kron(self._coefs, sparse.eye(last - first), format="csr")
            with np.errstate(all="ignore"):
                coded = sparse.csr_array(sums.astype(self._dtype) @ data)
            coded.sort_indices()
            if self._check:
                self._refuse_overflow(coded, first, last)
            step = last - first
            yield [coded[i * step : (i + 1) * step] for i in range(self.n_blocks)]

    def _rows(self, j: int, first: int, last: int) -> Any:
        """Some rows of data block j, padded with empty ones."""
        from scipy import sparse

        start = min(j * self.block_rows + first, self.shape[0])
        stop = min(j * self.block_rows + last, self.shape[0])
        rows = sparse.csr_array(self._A[start:stop])
        if stop - start < last - first:
            padding = sparse.csr_array((last - first - (stop - start), self.shape[1]))
            rows = sparse.vstack([rows, padding.astype(rows.dtype)], format="csr")
        return rows

    def fingerprint(self) -> str:
        """SHA-256 of the matrix, as `docs/store-format.md` describes it.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        A, dtype = self._A, self._A.dtype.newbyteorder("<")
        whole = hashlib.sha256()
        whole.update(f"{self.shape[0]} {self.shape[1]} {dtype.str} {self._k} csr\n".encode())
        for j in range(self._k):
            start = min(j * self.block_rows, self.shape[0])
            stop = min((j + 1) * self.block_rows, self.shape[0])
            entries = slice(A.indptr[start], A.indptr[stop])
            for values, kind in (
                (np.diff(A.indptr[start : stop + 1]), "<i8"),
                (A.indices[entries], "<i8"),
                (A.data[entries], dtype),
            ):
                whole.update(
                    hashlib.sha256(np.ascontiguousarray(values, kind).view(np.uint8).data).digest()
                )
        return whole.hexdigest()

    def _refuse_nonfinite(self) -> None:
        with np.errstate(all="ignore"):
            wrong = np.flatnonzero(~np.isfinite(self._A.data.astype(self._dtype)))
        if not len(wrong):
            return
        rows = np.searchsorted(self._A.indptr, wrong, side="right") - 1
        entry = min(range(len(wrong)), key=lambda i: (rows[i], self._A.indices[wrong[i]]))
        row, column = int(rows[entry]), int(self._A.indices[wrong[entry]])
        value = self._A.data[wrong[entry]]
        raise NonFiniteError(
            f"A must be finite in {self._dtype}, got {value} at row {row}, column {column}. "
            f"Encoding adds rows to each other, so it would spoil other rows of every product. "
            f"Replace it, scale A, or pass nonfinite='allow'.",
            row=row,
            column=column,
        )

    def _refuse_overflow(self, coded: Any, first: int, last: int) -> None:
        wrong = np.flatnonzero(~np.isfinite(coded.data))
        if not len(wrong):
            return
        row = int(np.searchsorted(coded.indptr, wrong[0], side="right")) - 1
        column = int(coded.indices[wrong[0]])
        block, row = divmod(row, last - first)
        row += first
        raise NonFiniteError(
            f"sums of rows of A must fit into {self._dtype}, and coded block {block} overflows at "
            f"its row {row}, column {column}. Divide A by a power of two, or pass a wider dtype.",
            row=row,
            column=column,
        )
