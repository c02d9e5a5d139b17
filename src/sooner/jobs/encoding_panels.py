"""Writing a dense matrix: read a panel at a time, all of its blocks written slab by slab."""

from __future__ import annotations

import dataclasses
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sooner._version import __version__
from sooner.jobs.encoding_dense import DenseEncoder
from sooner.jobs.encoding_request import Written
from sooner.jobs.encoding_scales import with_exponents
from sooner.store.block_layout import block_layout
from sooner.store.gram import packed
from sooner.store.panels import Panels
from sooner.store.promotion import coded_dtype, little_endian
from sooner.store.row_major import row_major
from sooner.store.writer import BlockWriter

if TYPE_CHECKING:
    from concurrent.futures import Future
    from contextlib import ExitStack

    import numpy as np

    from sooner._types import Array
    from sooner.jobs.encoding_dense import Piece
    from sooner.jobs.encoding_request import Progress, Request

__all__ = ["encode_panels"]

logger = logging.getLogger(__name__)


def encode_panels(A: Any, request: Request, open_writers: ExitStack) -> Written:
    """Write a dense matrix.

    Parameters
    ----------
    A
        The matrix, or its panels.
    request
        What to do.
    open_writers
        Takes what removes the blocks again if they are not kept.

    Returns
    -------
    Written
        What was written, and by which code: maybe one with exponents.
    """
    panels = A if isinstance(A, Panels) else Panels(A)
    dtype = coded_dtype(panels.dtype, request.code, request.dtype)
    height = _dense_encoder(panels, dtype, request).height
    # every chunk would be read more than twice
    if panels.chunks[0] > 2 * height and 0 not in panels.shape:
        panels = row_major(panels, request.location.folder, request.max_memory)
    if request.exponents:
        request = dataclasses.replace(
            request, code=with_exponents(request.code, panels, request.max_memory)
        )
    encoder = _dense_encoder(panels, dtype, request)
    writer = _writer(panels, encoder, dtype, request)
    logger.info(
        "encoding %d x %d %s: writes %.1f MB to %s and takes up to %.1f MB of memory",
        *(*panels.shape, panels.dtype, writer.nbytes / 1e6),
        *(request.location, encoder.nbytes / 1e6),
    )
    open_writers.enter_context(writer)
    _write(writer, encoder, request.progress)
    manifest = request.manifest(
        shape=panels.shape,
        dtype=dtype.str,
        source_dtype=little_endian(panels.dtype).str,
        layout="dense",
        block_rows=encoder.block_rows,
        slab_rows=encoder.slab_rows,
        header_bytes=writer.header_bytes,
        fingerprint=encoder.fingerprint.hexdigest(),
        gram="" if encoder.gram is None else packed(encoder.gram),
        generation=writer.generation,
        blocks=writer.finish(),
    )
    return Written(manifest, request.code, writer)


def _writer(
    panels: Panels, encoder: DenseEncoder, dtype: np.dtype[Any], request: Request
) -> BlockWriter:
    """Make what writes the blocks; an interrupted encoding of the same facts is taken up."""
    return BlockWriter(
        request.location,
        n=request.n_stored,
        shape=(encoder.block_rows, panels.shape[1]),
        dtype=dtype,
        slab_rows=encoder.slab_rows,
        facts={
            "matrix": panels.shape,
            "source_dtype": little_endian(panels.dtype).str,
            "code": request.code.spec(),
            "holds": request.holds,
            "check": request.check,
            "gram": request.gram,
            "sooner_version": __version__,
        },
        home=request.home,
    )


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
        warn=not request.of_transpose,
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
