"""Reading a coded block slab by slab: what a worker imports.

Needs NumPy and the standard library, and google-crc32c once a block is read.  A *source* is a
dictionary of builtins, made by `CodedMatrix.block_source`, with all it takes to read one block
without the manifest:

==============  ==================================================================
``kind``        ``"file"`` (memory-mapped), ``"bytes"`` (carried along) or ``"object"``
                (behind a URL, `sooner.store.remote_slabs`)
``path``        of a file, absolute; of others, a name for messages
``bytes``       the object, if it is carried along; None if there is none any more
``index``       which coded block this is
``offset``      where the numbers begin, in bytes
``shape``       (rows, columns) of the block
``dtype``       NumPy's name of the element type, ``"<f8"``
``slab_rows``   rows of a slab; the last one may have fewer
``crc32c``      checksum of each slab
==============  ==================================================================

Two more kinds are made of sources: ``"sum"`` adds data blocks up (``sources``, ``coefs``), and
``"csr"`` is a sparse block of three arrays (``data``, ``indices``, ``indptr``).
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.errors import BlockLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sooner._types import Array

__all__ = ["checksum", "iter_slabs", "read_block", "slab_reader"]

# Slabs that this process has found intact, by file: path, inode, time and size, so that a file
# that was replaced or changed is checked again.
_intact: dict[tuple[str, int, int, int], set[int]] = {}
_INTACT_FILES = 10_000  # a bound on the memory of a worker that lives long

_RESIDENT_BYTES = 1 << 28
"""A block that is mapped and larger than this gives the pages of each slab back after use."""

# From Python 3.13 on, a map need not keep its file open: a process may hold more maps than files.
_NO_FILE: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}

_REASONS = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}


def checksum(rows: Array, crc: int = 0) -> int:
    """CRC-32C of the bytes of an array.

    Parameters
    ----------
    rows
        A C-contiguous array.
    crc
        Checksum of the bytes before these.

    Returns
    -------
    int
        The checksum, 32 bits.

    Examples
    --------
    >>> hex(checksum(np.frombuffer(b"123456789", np.uint8)))  # the check value of CRC-32C
    '0xe3069283'
    """
    import google_crc32c

    return int(google_crc32c.extend(crc, rows.reshape(-1).view(np.uint8)))


def iter_slabs(source: dict[str, Any]) -> Iterator[tuple[int, Array]]:
    """Rows of one coded block, slab by slab, each checked when this process first reads it.

    Parameters
    ----------
    source
        What `CodedMatrix.block_source` gave.

    Yields
    ------
    first_row : int
        Where the slab begins in its block.
    rows : ndarray, shape (at most slab_rows, columns)
        The slab, read-only; a memory map where the block is a local file.  Of a sparse matrix the
        whole block, a SciPy ``csr_array``.

    Raises
    ------
    BlockLostError
        If the block is missing, forbidden, truncated or damaged; never zeros instead.

    Examples
    --------
    >>> import sooner
    >>> A = np.arange(12.0).reshape(6, 2)
    >>> coded = sooner.encode(A, sooner.Uncoded(2))
    >>> for first_row, rows in iter_slabs(coded.block_source(1)):
    ...     print(first_row, rows @ [1.0, 1.0])
    0 [13. 17. 21.]
    """
    if source["kind"] == "sum":
        yield from _sums(source)
    elif source["kind"] == "csr":
        yield 0, _csr(source)
    elif source["kind"] == "object":
        from sooner.store.remote_slabs import iter_remote_slabs

        yield from iter_remote_slabs(source)
    else:
        yield from _iter_local(source)


def _iter_local(source: dict[str, Any]) -> Iterator[tuple[int, Array]]:
    block, intact = _open(source)
    step = source["slab_rows"]
    for slab, expected in enumerate(source["crc32c"]):
        first = slab * step
        rows = block[first : first + step]
        if slab not in intact:
            if checksum(rows) != expected:
                raise BlockLostError(lost(source, damaged(first, len(rows))))
            intact.add(slab)
        yield first, rows
        if block.nbytes > _RESIDENT_BYTES:
            _give_back(block, source["offset"] + first * block.strides[0], rows.nbytes)


def _give_back(block: Array, first: int, length: int) -> None:
    """Let go of the memory behind a part of a map; who looks there again reads it again."""
    if isinstance(block.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = first - first % mmap.PAGESIZE
        block.base.madvise(mmap.MADV_DONTNEED, start, first + length - start)


def _sums(source: dict[str, Any]) -> Iterator[tuple[int, Array]]:
    """Encode on the fly: add data blocks up, slab by slab."""
    for slabs in zip(*map(iter_slabs, source["sources"]), strict=True):
        total = slabs[0][1] * source["coefs"][0]
        for (_, rows), coef in zip(slabs[1:], source["coefs"][1:], strict=True):
            if coef == 1:
                total += rows
            else:
                total += coef * rows
        yield slabs[0][0], total


def _csr(source: dict[str, Any]) -> Any:
    """Give a sparse block, its arrays mapped or carried along."""
    from scipy import sparse

    parts = [read_block(source[name]).reshape(-1) for name in ("data", "indices", "indptr")]
    try:
        return sparse.csr_array(tuple(parts), shape=source["shape"])
    except ValueError as error:  # three arrays that are intact and do not fit each other
        raise BlockLostError(lost(source, f"damaged: {error}")) from error


def read_block(source: dict[str, Any]) -> Array:
    """One whole coded block, every slab of it checked.

    Parameters
    ----------
    source
        What `CodedMatrix.block_source` gave.

    Returns
    -------
    ndarray, shape (block_rows, columns)
        The block, read-only; a memory map where it is a local file.  Of a sparse matrix a SciPy
        ``csr_array``.

    Raises
    ------
    BlockLostError
        If the block is missing, forbidden, truncated or damaged.

    Examples
    --------
    >>> import sooner
    >>> coded = sooner.encode(np.eye(2), sooner.Uncoded(2))
    >>> read_block(coded.block_source(1))
    array([[0., 1.]])
    """
    if source["kind"] in {"file", "bytes"}:
        for _ in iter_slabs(source):
            pass
        return _open(source)[0]
    block: Array
    sources = source.get("sources", (source,))
    if sources[0]["kind"] == "csr":  # a sparse block has no slabs
        _, block = next(iter_slabs(source))
        return block
    block = np.empty(source["shape"], source["dtype"])
    for first, rows in iter_slabs(source):
        block[first : first + len(rows)] = rows
    block.flags.writeable = False
    return block


def slab_reader(source: dict[str, Any]) -> Callable[[int], Array]:
    """Give what reads any slab of a stored block without checking it.

    Parameters
    ----------
    source
        Of a file, bytes or an object.

    Returns
    -------
    callable
        From the number of a slab to its rows.

    Examples
    --------
    >>> import sooner
    >>> coded = sooner.encode(np.eye(2), sooner.Uncoded(2))
    >>> slab_reader(coded.block_source(0))(0)
    array([[1., 0.]])
    """
    if source["kind"] == "object":
        from sooner.store.remote_slabs import fetch_slab

        return functools.partial(fetch_slab, source)
    block: Array = _open(source)[0]
    step: int = source["slab_rows"]

    def read(slab: int) -> Array:
        rows: Array = block[slab * step : (slab + 1) * step]
        return rows

    return read


def _open(source: dict[str, Any]) -> tuple[Array, set[int]]:
    """Give the block of `source`, unchecked, and which of its slabs are known to be intact."""
    if source["kind"] == "bytes":
        if source["bytes"] is None:
            raise BlockLostError(lost(source, "missing"))
        # It never left this program's memory, or came through a pipe: nothing to check.
        buffer, intact = source["bytes"], set(range(len(source["crc32c"])))
    else:
        buffer, intact = _map(source)
    block: Array = np.ndarray(
        source["shape"], source["dtype"], buffer=buffer, offset=source["offset"]
    )
    return block, intact


def _map(source: dict[str, Any]) -> tuple[mmap.mmap, set[int]]:
    """Map the file of `source`, which must have the right size."""
    rows, columns = source["shape"]
    size = source["offset"] + rows * columns * np.dtype(source["dtype"]).itemsize
    path = source["path"]
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size == size:
                buffer = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, **_NO_FILE)
    except OSError as error:
        why = _REASONS.get(error.errno or 0, f"not readable: {error.strerror or error}")
        raise BlockLostError(lost(source, why)) from error
    if status.st_size != size:
        kind = "truncated" if status.st_size < size else "damaged"
        why = f"{kind}: {status.st_size} bytes instead of {size}"
        raise BlockLostError(lost(source, why))
    if len(_intact) >= _INTACT_FILES:
        _intact.clear()
    key = (path, status.st_ino, status.st_mtime_ns, status.st_size)
    return buffer, _intact.setdefault(key, set())


def damaged(first: int, rows: int) -> str:
    """Say which slab's checksum differs."""
    return f"damaged: the checksum of rows {first} to {first + rows - 1} differs"


def lost(source: dict[str, Any], why: str) -> str:
    """Say which block is lost, where it is, and why."""
    return f"coded block {source['index']} is lost: {source['path']} is {why}."
