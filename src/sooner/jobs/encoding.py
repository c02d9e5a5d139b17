"""`encode`: from a matrix to a coded matrix at rest, within a stated memory."""

from __future__ import annotations

import dataclasses
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner._version import __version__
from sooner.codes.base import Code
from sooner.codes.side_by_side import SideBySide
from sooner.jobs.encoding_dense import DenseEncoder
from sooner.jobs.encoding_request import Request
from sooner.jobs.encoding_scales import with_exponents
from sooner.jobs.encoding_sparse import encode_sparse, is_sparse
from sooner.store.coded_matrix import CodedMatrix
from sooner.store.gram import packed
from sooner.store.location import as_location
from sooner.store.panels import Panels
from sooner.store.promotion import coded_dtype, little_endian
from sooner.store.row_major import row_major
from sooner.store.writer import BlockWriter, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from numpy.typing import DTypeLike

    from sooner._types import Array
    from sooner.jobs.encoding_dense import Piece
    from sooner.jobs.encoding_request import Progress
    from sooner.store.location import StoreLike
    from sooner.store.manifest import Manifest

__all__ = ["encode"]

logger = logging.getLogger(__name__)

_SLAB_BYTES = 1 << 22
"""Aim for one slab of one block: what a worker reads at a time and what a checksum covers."""

_LARGEST_PART = 16
"""Blocks that a part may have whose tasks encode: [B19] finds that they fit a worker's memory."""


def encode(
    A: Any,
    code: Code,
    store: StoreLike = None,
    *,
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
        Called with the number of finished slabs and of all slabs, after each.
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
    _checks.one_of(nonfinite, "nonfinite", ("raise", "allow"))
    _checks.one_of(where, "where", ("driver", "workers"))
    if where == "workers":
        _refuse_large_parts(code)
    request = Request(
        code=code,
        location=as_location(store, storage_options),
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
    if gram and is_sparse(A):
        raise ValueError("gram=True is for dense matrices, got a sparse one. Leave it out.")
    if is_sparse(A):
        manifest = encode_sparse(A, request)
    else:
        manifest, code = _encode_dense(A, request)
    coded = CodedMatrix(request.location, manifest, code)
    logger.info("encoded %s, %.1f MB, in %s", _sizes(coded), coded.nbytes / 1e6, request.location)
    return coded


def _encode_dense(A: Any, request: Request) -> tuple[Manifest, Code]:
    """Write a dense matrix; gives the code that wrote it, maybe with exponents."""
    panels = Panels(A)
    if request.exponents:
        request = dataclasses.replace(
            request, code=with_exponents(request.code, panels, request.max_memory)
        )
    code, location = request.code, request.location
    dtype = coded_dtype(panels.dtype, code, request.dtype)
    if not request.overwrite:
        refuse_existing(location)
    encoder = _dense_encoder(panels, dtype, request)
    if panels.chunks[0] > 2 * encoder.height:  # every chunk would be read more than twice
        panels = row_major(panels, location.folder, request.max_memory)
        encoder = _dense_encoder(panels, dtype, request)
    source_dtype = little_endian(panels.dtype).str
    writer = BlockWriter(
        location,
        n=request.n_stored,
        shape=(encoder.block_rows, panels.shape[1]),
        dtype=dtype,
        slab_rows=encoder.slab_rows,
        facts={
            "matrix": panels.shape,
            "source_dtype": source_dtype,
            "code": code.spec(),
            "holds": request.holds,
            "check": request.check,
            "gram": request.gram,
            "sooner_version": __version__,
        },
    )
    logger.info(
        "encoding %d x %d %s: writes %.1f MB to %s and takes up to %.1f MB of memory",
        *(*panels.shape, panels.dtype, writer.nbytes / 1e6, location, encoder.nbytes / 1e6),
    )
    with writer:
        _write(writer, encoder, request.progress)
        manifest = request.manifest(
            shape=panels.shape,
            dtype=dtype.str,
            source_dtype=source_dtype,
            layout="dense",
            block_rows=encoder.block_rows,
            slab_rows=encoder.slab_rows,
            header_bytes=writer.header_bytes,
            fingerprint=encoder.fingerprint.hexdigest(),
            gram="" if encoder.gram is None else packed(encoder.gram),
            generation=writer.generation,
            blocks=writer.finish(),
        )
        writer.commit(manifest, overwrite=request.overwrite)
    return manifest, code


def block_layout(
    shape: tuple[int, ...], k: int, itemsize: int, slab_bytes: int = _SLAB_BYTES
) -> tuple[int, int]:
    """Give how a matrix is cut into blocks, and blocks into slabs.

    Parameters
    ----------
    shape
        Of the matrix.
    k
        Data blocks.
    itemsize
        Bytes of a number of the blocks.
    slab_bytes
        What a slab should measure.

    Returns
    -------
    block_rows : int
        Rows of each block.
    slab_rows : int
        Rows of each slab, the last one aside; at least one.

    Examples
    --------
    >>> block_layout((38_400, 3_000_000), 384, 8)  # a slab never has less than a row
    (100, 1)
    """
    block_rows = -(-shape[0] // k)
    return block_rows, max(1, min(block_rows, slab_bytes // max(1, shape[1] * itemsize)))


def _dense_encoder(panels: Panels, dtype: np.dtype[Any], request: Request) -> DenseEncoder:
    _, slab_rows = block_layout(panels.shape, request.code.k, dtype.itemsize, request.slab_bytes)
    return DenseEncoder(
        panels,
        request.code,
        dtype,
        slab_rows=slab_rows,
        coded=request.holds == "coded",
        check=request.check,
        max_memory=request.max_memory,
        gram=request.gram,
    )


def _write(writer: BlockWriter, encoder: DenseEncoder, progress: Progress | None) -> None:
    """Write all slabs of all blocks, but those that a killed writer has left.

    A piece is read while the one before it is written.
    """
    n_slabs = -(-encoder.block_rows // encoder.slab_rows)
    report = progress or (lambda done, total: None)
    taken_up = _taken_up(writer, encoder)
    for slab in range(taken_up):
        report(slab + 1, n_slabs)
    with ThreadPoolExecutor(1) as background:
        under_way: list[Future[int]] = []

        def settle() -> None:
            while under_way:
                if finished := under_way.pop().result():
                    report(finished, n_slabs)

        for slab in range(taken_up, n_slabs):
            pieces = list(encoder.pieces(slab))
            for piece in pieces:
                if not encoder.overlaps:
                    settle()
                encoder.fill(piece)
                last = piece is pieces[-1]
                fingerprint = encoder.fingerprint.hexdigest() if last else None
                settle()
                blocks = encoder.encoded(piece)
                under_way.append(
                    background.submit(_store, writer, slab, piece, blocks, fingerprint)
                )
        settle()


def _store(
    writer: BlockWriter, slab: int, piece: Piece, blocks: Array, fingerprint: str | None
) -> int:
    """Write a piece; gives the number of slabs if it is the last one of its slab, else 0."""
    writer.append(piece.first_row, blocks)
    if fingerprint is None:
        return 0
    writer.finish_slab(slab, fingerprint)
    return slab + 1


def _taken_up(writer: BlockWriter, encoder: DenseEncoder) -> int:
    """Read what is written already, to see that it is of this matrix; gives the number of slabs."""
    for slab, fingerprint in enumerate(writer.finished):
        for piece in encoder.pieces(slab):
            encoder.skip(piece)
        if encoder.fingerprint.hexdigest() != fingerprint:
            logger.info("the matrix has changed since the interruption: encoding it anew")
            writer.restart()
            encoder.restart()
            return 0
    return len(writer.finished)


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
    sparse = "sparse " if coded.manifest.layout == "csr" else ""
    return (
        f"{rows} x {columns} {source} as {coded.n_stored} {sparse}blocks of {coded.block_rows} x "
        f"{columns} {coded.dtype}"
    )
