"""Making lost sparse blocks again, and keeping them sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes.base import not_decodable
from sooner.store import slabs
from sooner.store.coded_matrix import stored_sources
from sooner.store.sparse_writer import SparseWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sooner._types import Array
    from sooner.store.coded_matrix import CodedMatrix
    from sooner.store.location import Location
    from sooner.store.manifest import Block

__all__ = ["mend_sparse"]

_ROUNDING = 64
"""Units of rounding error, of the sum of magnitudes, below which an entry is none."""


def mend_sparse(
    coded: CodedMatrix,
    lost: Collection[int],
    location: Location,
    exchange: Callable[[list[Block]], None],
    progress: Callable[[int, int], None] | None,
) -> list[Block]:
    """Write lost sparse blocks anew, each as a sum of others.

    Where the matrix has no entry the sum is zero but for rounding; what does not exceed that is
    left out, or the block would no longer be sparse.

    Parameters
    ----------
    coded
        The matrix.
    lost
        Which blocks.
    location
        Where to write.
    exchange
        Makes the new blocks count, once they are complete.
    progress
        Called with the number of blocks that are mended and of all, after each.

    Returns
    -------
    list of Block
        All objects, the new ones among them.
    """
    lost = sorted(lost)
    sources = list(stored_sources(coded))
    made = []
    for done, weights in enumerate(_weights(coded, lost), start=1):
        made.append(_sum(coded, weights, sources))
        if progress is not None:
            progress(done, len(lost))
    manifest = coded.manifest
    writer = SparseWriter(
        location,
        counts=[block.nnz for block in made],
        block_rows=coded.block_rows,
        dtypes=[dtype for _, dtype in manifest.sparse_parts()],
        slab_entries=manifest.slab_rows,
        indices=lost,
    )
    blocks = list(manifest.blocks)
    with writer:
        for place, block in enumerate(made):
            writer.append(place, block)
        for place, written in enumerate(writer.finish()):
            blocks[3 * lost[place // 3] + place % 3] = written
        exchange(blocks)
        writer.kept = True
    return blocks


def _weights(coded: CodedMatrix, lost: list[int]) -> Array:
    """What the lost blocks are of the others, shape (lost, n)."""
    code = coded.code
    available = np.ones(code.n, dtype=np.bool_)
    available[lost] = False
    decoder = code.decoder()
    for index in np.flatnonzero(available).tolist():
        decoder.add(index)
    if not decoder.decodable:
        raise not_decodable(decoder)
    weights: Array = code.encode(code.decode(np.eye(code.n), available))[lost]
    return weights


def _sum(coded: CodedMatrix, weights: Array, sources: list[dict[str, Any]]) -> Any:
    from scipy import sparse

    total: Any = sparse.csr_array((coded.block_rows, coded.shape[1]))
    magnitude: Any = total
    for index in np.flatnonzero(weights).tolist():
        block: Any = slabs.read_block(sources[index])
        total += float(weights[index]) * block
        magnitude += abs(float(weights[index])) * abs(block)
    total.eliminate_zeros()
    total.sort_indices()
    # the magnitudes where the sum has entries, in the same order
    beside = sparse.csr_array(magnitude.multiply(total != 0))
    beside.sort_indices()
    limit = _ROUNDING * float(np.finfo(coded.dtype.name).eps) * beside.data
    total.data[abs(total.data) <= limit] = 0
    total.eliminate_zeros()
    return total.astype(coded.dtype)
