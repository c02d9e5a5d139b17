"""What a worker does: read a coded block slab by slab, multiply, say when.

Imports NumPy, the standard library and the reader of slabs only, because a worker on the other
side of the world may have nothing else.
"""

from __future__ import annotations

import math
import os
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from sooner.store.slabs import iter_slabs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sooner._types import Array
    from sooner.executors.base import Reference

T = TypeVar("T")

__all__ = ["TaskOutput", "multiply_block", "multiply_blocks"]


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
    size: float = 0.0
    """Norm of a row of the block times that of x, of the largest that was looked at."""


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
    clock = _Clock()
    factor = clock.timed(x.load)
    product = np.empty((source["shape"][0], *factor.shape[1:]), dtype=dtype)
    size = 0.0
    for first, slab in clock.slabs(source):
        _multiply(slab, factor, product[first : first + slab.shape[0]])
        size = max(size, _row_norm(slab))
    return clock.output(product, delay, size * _column_norm(factor))


def multiply_blocks(
    source_a: dict[str, Any], source_b: dict[str, Any], dtype: str, delay: float = 0.0
) -> TaskOutput:
    """Multiply a coded block of A by a coded block of B, which is stored by columns.

    Parameters
    ----------
    source_a, source_b
        Where the blocks are; B's holds columns of B as its rows.
    dtype
        Of the product.
    delay
        Seconds to wait afterwards: a simulated straggler.

    Returns
    -------
    TaskOutput
        The product, shape (rows of A's block, rows of B's block), with its times.
    """
    clock = _Clock()
    product = np.empty((source_a["shape"][0], source_b["shape"][0]), dtype=dtype)
    size = 0.0
    for row, a in clock.slabs(source_a):
        for column, b in clock.slabs(source_b):
            part = product[row : row + a.shape[0], column : column + b.shape[0]]
            _multiply(a, b.T, part)
            size = max(size, _row_norm(a) * _row_norm(b))
    return clock.output(product, delay, size)


def _multiply(slab: Any, factor: Any, out: Array) -> None:
    # Sums that overflow are infinities in the answer, as they are in NumPy's.
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(slab, np.ndarray) and isinstance(factor, np.ndarray):
            np.matmul(slab, factor, out=out, casting="same_kind")
            return
        part = slab @ factor  # sparse, which has no out=
        out[...] = part if isinstance(part, np.ndarray) else part.toarray()


def _row_norm(slab: Any) -> float:
    """Norm of the first row of a dense slab, and of an average one of a sparse block."""
    if isinstance(slab, np.ndarray):
        return _column_norm(slab[0])
    rows: int = slab.shape[0]
    return _column_norm(slab.data) / math.sqrt(max(1, rows))


def _column_norm(factor: Array) -> float:
    """Norm of the longest column; squares of what is very large or small would be 0 or infinite."""
    largest = float(np.abs(factor).max(initial=0))
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(factor / largest, axis=0).max())


class _Clock:
    """When a task began, and how much of its time went into reading."""

    def __init__(self) -> None:
        self.started = time.time()
        self.read, self.requests = 0.0, 0

    def timed(self, read: Callable[[], T]) -> T:
        """Read something, and take down how long it takes."""
        mark = time.perf_counter()
        content = read()
        self.read += time.perf_counter() - mark
        return content

    def slabs(self, source: dict[str, Any]) -> Iterator[tuple[int, Any]]:
        self.requests += _requests(source)
        slabs = iter_slabs(source)
        while (slab := self.timed(lambda: next(slabs, None))) is not None:
            yield slab

    def output(self, product: Array, delay: float, size: float) -> TaskOutput:
        if delay:
            time.sleep(delay)
        worker = f"{socket.gethostname()}:{os.getpid()}"
        return TaskOutput(
            product, self.started, time.time(), worker, self.read, self.requests, size
        )


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
