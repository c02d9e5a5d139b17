"""Reading a coded block behind a URL: a range request per slab, the next one under way already.

Blocks that fit are kept by the process, so that an iterative solver reads each of its blocks
once.  Objects are never changed in place, so what is kept stays right.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from sooner.errors import BlockLostError
from sooner.store.objects import fetch
from sooner.store.slabs import checksum, damaged, lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sooner._types import Array

__all__ = ["fetch_slab", "iter_remote_slabs"]

T = TypeVar("T")

_CACHE_BYTES = 1 << 28
"""What a process keeps, unless ``SOONER_CACHE_BYTES`` in its environment says otherwise."""

_CHECKS = 3
"""How often a slab is fetched whose checksum differs: what came may be damaged, not what is."""


class _Cache:
    """Whole blocks, the least recently used one leaving first."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[str, tuple[int, ...]], Array] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Bytes to keep at most."""
        limit = os.environ.get("SOONER_CACHE_BYTES", str(_CACHE_BYTES))
        if not limit.isdecimal():
            raise ValueError(f"SOONER_CACHE_BYTES must be a number of bytes, got {limit!r}.")
        return int(limit)

    def get(self, source: dict[str, Any]) -> Array | None:
        """Give a block, if it is kept."""
        with self._lock:
            key = source["path"], source["crc32c"]
            if key in self._blocks:
                self._blocks.move_to_end(key)
            return self._blocks.get(key)

    def put(self, source: dict[str, Any], block: Array) -> None:
        """Keep a block, and as many of the others as fit beside it."""
        with self._lock:
            self._blocks[source["path"], source["crc32c"]] = block
            while sum(kept.nbytes for kept in self._blocks.values()) > self.limit:
                self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._blocks.clear()


cache = _Cache()


def iter_remote_slabs(source: dict[str, Any]) -> Iterator[tuple[int, Array]]:
    """Rows of one coded block behind a URL, slab by slab, each checked.

    Parameters
    ----------
    source
        Of kind ``"object"``.

    Yields
    ------
    first_row : int
        Where the slab begins in its block.
    rows : ndarray
        The slab, read-only.
    """
    step, n_slabs = source["slab_rows"], len(source["crc32c"])
    kept = cache.get(source)
    if kept is not None:
        for slab in range(n_slabs):
            yield slab * step, kept[slab * step : (slab + 1) * step]
        return
    rows, columns = source["shape"]
    fits = rows * columns * np.dtype(source["dtype"]).itemsize <= cache.limit
    block = np.empty(source["shape"], source["dtype"]) if fits else None
    for slab, part in enumerate(_ahead(lambda slab: _checked(source, slab), n_slabs)):
        first = slab * step
        if block is not None:
            block[first : first + len(part)] = part
        yield first, part
    if block is not None:
        block.flags.writeable = False
        cache.put(source, block)


def fetch_slab(source: dict[str, Any], slab: int) -> Array:
    """One slab, not checked.

    Parameters
    ----------
    source
        Of kind ``"object"``.
    slab
        Which one.

    Returns
    -------
    ndarray, shape (at most slab_rows, columns)
        Its rows, read-only.
    """
    rows, columns = source["shape"]
    row_bytes = columns * np.dtype(source["dtype"]).itemsize
    first = slab * source["slab_rows"]
    shape = (min(source["slab_rows"], rows - first), columns)
    if 0 in shape:
        return np.empty(shape, source["dtype"])
    size = source["offset"] + rows * row_bytes
    data = fetch(source, source["offset"] + first * row_bytes, shape[0] * row_bytes, size)
    return np.frombuffer(data, source["dtype"]).reshape(shape)


def _checked(source: dict[str, Any], slab: int) -> Array:
    for _ in range(_CHECKS):
        rows = fetch_slab(source, slab)
        if checksum(rows) == source["crc32c"][slab]:
            return rows
    raise BlockLostError(lost(source, damaged(slab * source["slab_rows"], len(rows))))


def _ahead(call: Callable[[int], T], count: int) -> Iterator[T]:
    """Give ``call(0)``, ``call(1)`` …, the next one being under way while one is used."""
    following = _Call(call, 0) if count else None
    for number in range(1, count + 1):
        current = following
        following = _Call(call, number) if number < count else None
        if current is not None:
            yield current.result()


class _Call(Generic[T]):
    """A call in a thread of its own, which holds up nobody's end."""

    def __init__(self, call: Callable[[int], T], argument: int) -> None:
        self._outcome: list[T] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(call, argument), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[int], T], argument: int) -> None:
        try:
            self._outcome.append(call(argument))
        except BaseException as error:
            self._error.append(error)

    def result(self) -> T:
        """Give what it returned, or raise what it raised."""
        self._thread.join()
        if self._error:
            raise self._error[0]
        return self._outcome[0]
