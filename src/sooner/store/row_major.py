"""A detour for matrices that are stored by columns: once through a temporary file, by rows."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
from pathlib import Path

import numpy as np

from sooner.errors import StoreError
from sooner.store.panels import Panels

__all__ = ["row_major"]

logger = logging.getLogger(__name__)


def row_major(panels: Panels, folder: Path | None, max_memory: int) -> Panels:
    """Copy a matrix to a temporary file, tile by tile, so that its rows can be read in panels.

    Reading a panel of few rows costs a whole row of chunks where a matrix is stored in high
    chunks, and a page per entry where it is stored by columns; encoding reads many panels.  This
    reads every chunk once.

    Parameters
    ----------
    panels
        The matrix.
    folder
        Where to put the file, which is gone when nobody uses it any more; None is the folder
        for temporary files.
    max_memory
        Bytes of a tile, unless one chunk has more.

    Returns
    -------
    Panels
        The same matrix.

    Raises
    ------
    StoreError
        If the disk has no room for the file.

    Examples
    --------
    >>> A = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    >>> row_major(Panels(A), None, 1 << 20).read(1, 3, 0, 2)
    array([[2., 3.],
           [4., 5.]])
    """
    (rows, columns), itemsize = panels.shape, panels.dtype.itemsize
    nbytes = rows * columns * itemsize
    place = Path(tempfile.gettempdir()) if folder is None else _existing(folder)
    free = shutil.disk_usage(place).free
    if free < nbytes:
        raise StoreError(
            f"A is stored by columns, so it is copied to a temporary file first, which needs "
            f"{nbytes / 1e6:.1f} MB, and {place} has {free / 1e6:.1f} MB free. Store it by rows, "
            f"or raise max_memory."
        )
    logger.info(
        "A is stored by columns: copying it (%.1f MB) to a temporary file in %s first",
        *(nbytes / 1e6, place),
    )
    height, width = _tile(panels, max_memory)
    with tempfile.TemporaryFile(dir=place) as file:
        copy = np.memmap(file, panels.dtype, "w+", shape=panels.shape)
    for row in range(0, rows, height):
        last_row = min(row + height, rows)
        for column in range(0, columns, width):
            last = min(column + width, columns)
            copy[row:last_row, column:last] = panels.read(row, last_row, column, last)
    return Panels(copy)


def _existing(folder: Path) -> Path:
    """Give a folder, or the nearest one above that exists already: it is on the same disk."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def _tile(panels: Panels, max_memory: int) -> tuple[int, int]:
    """Rows and columns of a tile: whole chunks, as square as possible."""
    height, width = panels.chunks
    entries = max(1, max_memory // panels.dtype.itemsize)
    side = math.isqrt(entries)
    height *= max(1, min(side, panels.shape[0]) // height)
    width *= max(1, entries // height // width)
    return height, width
