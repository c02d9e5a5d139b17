"""Data blocks of very different size get exponents: a large one hides no digits of the others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sooner._types import Array, Indices
    from sooner.codes.base import Code
    from sooner.store.panels import Panels

__all__ = ["block_exponents", "with_exponents"]

_log = logging.getLogger(__name__)

_ALIKE = 1024.0
"""Ratio of the largest to the smallest block up to which nothing is done: three digits at most."""

_PANEL_BYTES = 1 << 22


def with_exponents(code: Code, panels: Panels, max_memory: int) -> Code:
    """Give the code with exponents for the blocks of a matrix, if they differ widely.

    Parameters
    ----------
    code
        The code.
    panels
        The matrix.
    max_memory
        Bytes to read at a time, at most.

    Returns
    -------
    Code
        The code, or one with exponents.
    """
    exponents = block_exponents(panels, code.k, max_memory)
    if exponents is None:
        return code
    try:
        scaled = code.with_scales(exponents)
    except ValueError as error:  # a systematic code
        _log.warning("data blocks of very different size lose digits: %s", error)
        return code
    if scaled is not code:
        _log.info("data blocks differ in size by 2**%d: they get exponents", np.ptp(exponents))
    return scaled


def block_exponents(panels: Panels, k: int, max_memory: int = _PANEL_BYTES) -> Indices | None:
    """Powers of two by which data blocks are divided before they are added.

    Parameters
    ----------
    panels
        The matrix.
    k
        Data blocks.
    max_memory
        Bytes to read at a time, at most.

    Returns
    -------
    ndarray of int, shape (k,), or None
        Such that all blocks have largest entries of about the same size; None if they have
        already, or if integers make the sums exact anyway.
    """
    if panels.dtype.kind not in "fc" or 0 in panels.shape:
        return None
    sizes = _largest_entries(panels, k, min(max_memory, _PANEL_BYTES))
    present = sizes[(sizes > 0) & np.isfinite(sizes)]
    if not present.size or present.max() / _ALIKE <= present.min():
        return None
    typical = np.median(present)
    exponents = np.zeros(k, dtype=np.intp)
    there = (sizes > 0) & np.isfinite(sizes)
    exponents[there] = np.clip(np.round(np.log2(sizes[there] / typical)), -400, 400)
    return exponents


def _largest_entries(panels: Panels, k: int, max_bytes: int) -> Array:
    """Largest absolute value of each data block, shape (k,); one pass over the matrix."""
    rows, columns = panels.shape
    block_rows = -(-rows // k)
    width = max(1, min(columns, max_bytes // panels.dtype.itemsize))
    height = max(1, max_bytes // (width * panels.dtype.itemsize))
    sizes = np.zeros(k)
    for block in range(k):
        end = min((block + 1) * block_rows, rows)
        for row in range(block * block_rows, end, height):
            for column in range(0, columns, width):
                panel = panels.read(
                    row, min(row + height, end), column, min(column + width, columns)
                )
                sizes[block] = max(sizes[block], _largest_entry(panel))
    return sizes


def _largest_entry(panel: Array) -> float:
    """Largest absolute value, without an array of absolute values."""
    parts = [panel.real, panel.imag] if panel.dtype.kind == "c" else [panel]
    return max(max(float(part.max()), -float(part.min())) for part in parts)
