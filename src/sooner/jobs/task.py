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
    read: float
    """Seconds, of those between, that reading the block and x took."""
    requests: int
    """How many requests to an object store reading the block took."""


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
    started, mark = time.time(), time.perf_counter()
    factor = x.load()
    rows: int = source["shape"][0]
    product = np.empty((rows, *factor.shape[1:]), dtype=dtype)
    requests, read = _requests(source), 0.0
    for first, slab in iter_slabs(source):
        read += time.perf_counter() - mark
        # Sums that overflow are infinities in the answer, as they are in NumPy's.
        with np.errstate(over="ignore", invalid="ignore"):
            part = product[first : first + slab.shape[0]]
            if isinstance(slab, np.ndarray):
                np.matmul(slab, factor, out=part, casting="same_kind")
            else:  # sparse, which has no out=
                part[...] = slab @ factor
        mark = time.perf_counter()
    if delay:
        time.sleep(delay)
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return TaskOutput(product, started, time.time(), worker, read, requests)


def _requests(source: dict[str, Any]) -> int:
    """One per slab of each block behind a URL that this process has not kept."""
    if source["kind"] == "sum":
        return sum(map(_requests, source["sources"]))
    if source["kind"] == "csr":
        return sum(_requests(source[name]) for name in ("data", "indices", "indptr"))
    if source["kind"] != "object":
        return 0
    from sooner.store.remote_slabs import cache

    return 0 if cache.get(source) is not None else len(source["crc32c"])
