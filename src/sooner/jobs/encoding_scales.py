"""Data blocks of very different size get exponents: a large one hides no digits of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sooner._types import Array, Indices
    from sooner.store.panels import Panels

__all__ = ["block_exponents"]

_ALIKE = 1024.0
"""Ratio of the largest to the smallest block up to which nothing is done: three digits at most."""

_PANEL_BYTES = 1 << 22


def block_exponents(panels: Panels, k: int) -> Indices | None:
    """Powers of two by which data blocks are divided before they are added.

    Parameters
    ----------
    panels
        The matrix.
    k
        Data blocks.

    Returns
    -------
    ndarray of int, shape (k,), or None
        Such that all blocks have largest entries of about the same size; None if they have
        already, or if integers make the sums exact anyway.
    """
    if panels.dtype.kind not in "fc" or 0 in panels.shape:
        return None
    sizes = _largest_entries(panels, k)
    present = sizes[(sizes > 0) & np.isfinite(sizes)]
    if not present.size or present.max() <= _ALIKE * present.min():
        return None
    typical = np.median(present)
    exponents = np.zeros(k, dtype=np.intp)
    there = (sizes > 0) & np.isfinite(sizes)
    exponents[there] = np.clip(np.round(np.log2(sizes[there] / typical)), -400, 400)
    return exponents


def _largest_entries(panels: Panels, k: int) -> Array:
    """Largest absolute value of each data block, shape (k,); one pass over the matrix."""
    rows, columns = panels.shape
    block_rows = -(-rows // k)
    height = max(1, _PANEL_BYTES // (columns * panels.dtype.itemsize))
    sizes = np.zeros(k)
    for block in range(k):
        end = min((block + 1) * block_rows, rows)
        for first in range(block * block_rows, end, height):
            panel = panels.read(first, min(first + height, end), 0, columns)
            parts = [panel.real, panel.imag] if panel.dtype.kind == "c" else [panel]
            for part in parts:  # no absolute values: they would be a copy
                sizes[block] = max(sizes[block], float(part.max()), -float(part.min()))
    return sizes
