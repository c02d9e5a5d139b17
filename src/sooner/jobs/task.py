"""What a worker does: read a coded block slab by slab, multiply, say when.

Imports NumPy, the standard library and the reader of slabs only, because a worker on the other
side of the world may have nothing else.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sooner.store.slabs import iter_slabs

if TYPE_CHECKING:
    from sooner._types import Array
    from sooner.executors.base import Reference

__all__ = ["TaskOutput", "multiply_block"]


class TaskOutput(NamedTuple):
    """What a task sends back."""

    value: Array
    """The product of its block."""
    started: float
    """When it began, seconds since the epoch by the worker's clock."""
    finished: float
    """When the product was there."""
    worker: str
    """``host:pid``."""


def multiply_block(
    source: dict[str, Any], x: Reference[Array], dtype: str, delay: float = 0.0
) -> TaskOutput:
    """Multiply one coded block by x.

    Parameters
    ----------
    source
        Where the block is, from ``CodedMatrix.block_source``.
    x
        Reference to a vector, shape (columns,), or a matrix, shape (columns, width).
    dtype
        Of the product.
    delay
        Seconds to wait afterwards: a simulated straggler.

    Returns
    -------
    TaskOutput
        The product, shape (rows,) or (rows, width), with its times.
    """
    started = time.time()
    factor = x.load()
    rows: int = source["shape"][0]
    product = np.empty((rows, *factor.shape[1:]), dtype=dtype)
    for first, slab in iter_slabs(source):
        # Sums that overflow are infinities in the answer, as they are in NumPy's.
        with np.errstate(over="ignore", invalid="ignore"):
            part = product[first : first + slab.shape[0]]
            if isinstance(slab, np.ndarray):
                np.matmul(slab, factor, out=part, casting="same_kind")
            else:  # sparse, which has no out=
                part[...] = slab @ factor
    if delay:
        time.sleep(delay)
    return TaskOutput(product, started, time.time(), f"{socket.gethostname()}:{os.getpid()}")
