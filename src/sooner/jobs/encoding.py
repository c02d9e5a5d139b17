"""`encode`: from a matrix to a coded matrix at rest, within a stated memory."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes.base import Code
from sooner.codes.side_by_side import SideBySide
from sooner.errors import NonFiniteError
from sooner.jobs.encoding_panels import encode_panels
from sooner.jobs.encoding_request import Request
from sooner.jobs.encoding_sparse import encode_sparse, is_sparse
from sooner.store.block_layout import SLAB_BYTES as _SLAB_BYTES
from sooner.store.coded_matrix import CodedMatrix
from sooner.store.location import as_location
from sooner.store.panels import Panels
from sooner.store.writer import commit, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import DTypeLike

    from sooner.jobs.encoding_request import Progress, Written
    from sooner.store.location import StoreLike

__all__ = ["encode"]

logger = logging.getLogger(__name__)

_LARGEST_PART = 16
"""Blocks that a part may have whose tasks encode: [B19] finds that they fit a worker's memory."""


def encode(
    A: Any,
    code: Code,
    store: StoreLike = None,
    *,
    axis: int = 0,
    adjoint: bool | Code = False,
    dtype: DTypeLike | None = None,
    max_memory: int = 1 << 28,
    nonfinite: str = "raise",
    where: str = "driver",
    exponents: bool = True,
    gram: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
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
        such as an HDF5 or Zarr dataset, a dask array or a pandas frame of numbers, which is
        never read whole.  What is stored by columns is copied to a temporary file first, by rows.
        A SciPy sparse matrix becomes sparse blocks; kinds other than CSR are converted.
    code
        Which sums; `PolarCode`, for example.
    store
        A folder, made if it is not there; a URL, such as ``"s3://bucket/A"`` (needs the extra
        ``sooner[s3]``); or a `MemoryStore`; None is a new one of those.
    axis
        0 cuts the matrix into blocks of rows.  1 cuts it into blocks of columns, for `matmul`,
        whose second operand it is to be: what is coded then, and what the coded matrix is, is
        ``A.T``.
    adjoint
        Encode the transpose, too, which is what products of ``A.T`` and of the adjoint of A need
        (`CodedMatrix.T`, `CodedLinearOperator`).  Reads A once more, by columns, and writes about
        as much again, into a place inside the store; one manifest names the blocks of both.  The
        transpose has the same code, or the one that is given here.
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
    where
        ``"driver"`` writes the n coded blocks.  ``"workers"`` writes only the k data blocks, and
        each task adds up those of its part when it runs, which suits a matrix that changes often:
        less is written, and more is read (`CodedMatrix.read_amplification`).  It takes a code
        of small parts, such as `SideBySide`, and a lost data block loses all tasks that read it.
    exponents
        See first whether the data blocks differ widely in size, more than a thousandfold, and if
        so divide them by powers of two before they are added: a large one would hide the digits of
        the others.  Reads A once more; False does not.  Integers need none.
    gram
        Keep the inner products of the data blocks, for ``estimator="gram"``: the best estimate
        of rows that resemble each other, such as those of images.  Costs k multiplications per
        number of A and about 2.7 k (k + 1) bytes; for dense matrices.
    overwrite
        Replace what is in the store; whoever reads the old blocks then finds them missing, and
        never new ones in their place.
    progress
        Called with the number of finished slabs and of all slabs, after each; with `adjoint`
        first for the matrix, then for its transpose.
    storage_options
        Options of a store behind a URL: what obstore's ``from_url`` takes, such as ``endpoint``,
        ``region`` or ``client_options``.  Credentials come from the environment when they are
        not given; they go to the workers with their tasks and are never written.

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
        cannot hold an entry of every block, or `code` has parts too large for the workers.
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
    >>> import numpy as np
    >>> from sooner import PolarCode, encode
    >>> A = np.arange(20).reshape(5, 4)
    >>> coded = encode(A, PolarCode(4, 2, rng=0))
    >>> coded.block_rows, coded.dtype, coded.block(3).shape
    (3, dtype('float64'), (3, 4))
    """
    code = _checked_code(code)
    code_of_transpose = _checked_code(code if isinstance(adjoint, bool) else adjoint)
    _checks.one_of(nonfinite, "nonfinite", ("raise", "allow"))
    _checks.one_of(where, "where", ("driver", "workers"))
    _checks.one_of(axis, "axis", (0, 1))
    if where == "workers":
        _refuse_large_parts(code)
        _refuse_large_parts(code_of_transpose)
    if gram and is_sparse(A):
        raise ValueError("gram=True is for dense matrices, got a sparse one. Leave it out.")
    location = as_location(store, storage_options)
    request = Request(
        code=code,
        location=location,
        home=location,
        dtype=dtype,
        max_memory=_checks.integer(max_memory, "max_memory", at_least=1),
        check=nonfinite == "raise",
        holds="coded" if where == "driver" else "data",
        overwrite=overwrite,
        progress=progress,
        slab_bytes=_SLAB_BYTES,
        exponents=exponents,
        gram=gram,
    )
    if not overwrite:
        refuse_existing(location)
    with contextlib.ExitStack() as open_writers:
        if axis:
            written = _transpose_written(A, request, open_writers, "axis=1")
            A = _transposed(A)
        else:
            written = _written(A, request, open_writers)
        manifest, writers = replace(written.manifest, axis=axis), [written.writer]
        if adjoint is not False:
            transpose = _transpose_written(
                A, request.for_transpose(code_of_transpose), open_writers, "adjoint"
            )
            manifest = replace(manifest, adjoint=transpose.manifest)
            writers.append(transpose.writer)
        commit(location, manifest, writers, overwrite=overwrite)
    coded = CodedMatrix(location, manifest, written.code)
    logger.info("encoded %s, %.1f MB, in %s", _sizes(coded), coded.nbytes / 1e6, location)
    return coded


def _written(A: Any, request: Request, open_writers: contextlib.ExitStack) -> Written:
    """Write all blocks of a matrix; they count once a manifest names them."""
    if is_sparse(A):
        return encode_sparse(A, request, open_writers)
    return encode_panels(A, request, open_writers)


def _transpose_written(
    A: Any, request: Request, open_writers: contextlib.ExitStack, asked_for_by: str
) -> Written:
    """Write all blocks of the transpose."""
    try:
        return _written(_transposed(A), request, open_writers)
    except NonFiniteError as error:
        raise NonFiniteError(
            f"of the transpose, which {asked_for_by} encodes: {error}",
            row=error.column,
            column=error.row,
        ) from error


def _transposed(A: Any) -> Any:
    if is_sparse(A):
        return A.T
    return (A if isinstance(A, Panels) else Panels(A)).transposed()


def _checked_code(code: Any) -> Code:
    if not isinstance(code, Code):
        raise TypeError(f"code must be a code such as PolarCode(64, 48), got {code!r}.")
    if code.operands != 1:
        raise ValueError(
            f"code must be for one matrix, got {code!r}, whose tasks multiply {code.operands}."
        )
    return code


def _refuse_large_parts(code: Code) -> None:
    parts = code.codes if isinstance(code, SideBySide) else (code,)
    if max(part.n for part in parts) > _LARGEST_PART:
        raise ValueError(
            f"where='workers' makes a task read the data blocks of its part, so the code must be "
            f"SideBySide of parts of at most {_LARGEST_PART} blocks, got {code!r}."
        )


def _sizes(coded: CodedMatrix) -> str:
    (rows, columns), source = coded.shape, np.dtype(coded.manifest.source_dtype)
    beside = "" if coded.manifest.adjoint is None else ", and the transpose"
    sparse = "sparse " if coded.manifest.layout == "csr" else ""
    return (
        f"{rows} x {columns} {source} as {coded.n_stored} {sparse}blocks of {coded.block_rows} x "
        f"{columns} {coded.dtype}{beside}"
    )
