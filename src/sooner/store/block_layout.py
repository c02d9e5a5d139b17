"""How a matrix is cut into blocks, and blocks into slabs."""

from __future__ import annotations

__all__ = ["SLAB_BYTES", "block_layout"]

SLAB_BYTES = 1 << 22
"""Aim for one slab of one block: what a worker reads at a time and what a checksum covers."""


def block_layout(
    shape: tuple[int, ...], k: int, itemsize: int, slab_bytes: int = SLAB_BYTES
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
