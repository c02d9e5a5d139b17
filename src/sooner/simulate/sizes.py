"""How large blocks, store and tasks become, before anything is encoded or run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.store.block_layout import block_layout

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from sooner.simulate.schemes import Scheme

__all__ = ["Sizes", "sizes_of"]

_WORKER_BYTES = 64 << 20
"""What a worker with NumPy takes before it reads anything."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a coded matrix of numbers in memory and at rest, in bytes unless said otherwise.

    Examples
    --------
    The largest matrix of the first paper, by 512 tasks: a block exceeds a worker of 1.5 GB, what
    a task holds at a time does not.

    >>> from sooner.simulate import Scheme
    >>> sizes = sizes_of((38_400, 3_000_000), Scheme.at_once(512, 384))
    >>> sizes.block / 1e9, sizes.panels, round(sizes.task / 1e9, 2), sizes.store / 1e12
    (2.4, 100, 0.12, 1.2288)
    """

    block_rows: int
    """Rows of a block."""
    block: int
    """A block."""
    store: int
    """All coded blocks; over the matrix itself about n / k."""
    panel_rows: int
    """Rows that a task holds at a time."""
    panels: int
    """Parts in which a task reads its block."""
    task: int
    """Peak of a task: a panel, the vector, its product, and a worker's own needs."""


def sizes_of(shape: tuple[int, int], scheme: Scheme, dtype: DTypeLike = "float64") -> Sizes:
    """Sizes for one product with a vector.

    Parameters
    ----------
    shape
        Rows and columns of the matrix.
    scheme
        How it is cut.
    dtype
        Of its numbers.

    Returns
    -------
    Sizes
        The sizes.

    Raises
    ------
    ValueError
        If the matrix is empty.
    """
    rows, columns = (_checks.integer(size, "shape", at_least=1) for size in shape)
    itemsize = np.dtype(dtype).itemsize
    row = columns * itemsize
    block_rows, panel_rows = block_layout((rows, columns), scheme.blocks, itemsize)
    return Sizes(
        block_rows=block_rows,
        block=block_rows * row,
        store=scheme.stored * block_rows * row,
        panel_rows=panel_rows,
        panels=math.ceil(block_rows / panel_rows),
        task=_WORKER_BYTES + (panel_rows + 1) * row + block_rows * itemsize,
    )
