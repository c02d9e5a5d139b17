"""Writing a sparse matrix: three arrays per block, whose lengths are known before."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.store.manifest import Block
from sooner.store.slabs import checksum
from sooner.store.writer import npy_header

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from sooner._types import Array
    from sooner.store.location import Location

__all__ = ["SparseWriter"]

_PARTS = ("data", "indices", "indptr")


class SparseWriter:
    """Appends rows to sparse blocks; whatever is not committed is removed.

    Parameters
    ----------
    location
        Where to write.
    counts
        Entries of each block.
    block_rows
        Rows of each block.
    dtypes
        Element types of data, indices and indptr.
    slab_entries
        Numbers that one checksum covers.
    indices
        Which blocks they are; all, from 0 on, if it is not said.
    """

    def __init__(
        self,
        location: Location,
        *,
        counts: Sequence[int],
        block_rows: int,
        dtypes: Sequence[str],
        slab_entries: int,
        indices: Sequence[int] | None = None,
    ) -> None:
        self.generation = secrets.token_hex(6)
        self._location = location
        self._dtypes = [np.dtype(dtype) for dtype in dtypes]
        self._slab_entries = slab_entries
        self._names = [
            f"block-{index:05d}-{self.generation}-{part}.npy"
            for index in (range(len(counts)) if indices is None else indices)
            for part in _PARTS
        ]
        lengths = [length for count in counts for length in (count, count, block_rows + 1)]
        self._headers = [
            npy_header((length,), self._dtypes[place % 3]) for place, length in enumerate(lengths)
        ]
        self.header_bytes = len(self._headers[0])
        self._sizes = [
            self.header_bytes + length * self._dtypes[place % 3].itemsize
            for place, length in enumerate(lengths)
        ]
        self._written = [0] * len(self._names)
        self._crc32c: list[list[int]] = [[] for _ in self._names]
        self.kept = False
        """Whether a manifest names the blocks, so that they are not removed."""

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, their headers included."""
        return sum(self._sizes)

    def __enter__(self) -> SparseWriter:
        try:
            self._location.prepare(self.nbytes)
            for place, (name, header) in enumerate(zip(self._names, self._headers, strict=True)):
                self._location.append(name, header)
                if place % 3 == 2:
                    self._extend(place, np.zeros(1, self._dtypes[2]))
        except BaseException:
            self._location.discard(self._names)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.kept:
            self._location.discard(self._names)

    def append(self, block: int, rows: Any) -> None:
        """Append rows to a block.

        Parameters
        ----------
        block
            Which one.
        rows
            A CSR matrix with sorted indices.
        """
        before = self._written[3 * block]
        self._extend(3 * block, rows.data)
        self._extend(3 * block + 1, rows.indices)
        self._extend(3 * block + 2, rows.indptr[1:].astype(np.int64) + before)

    def _extend(self, place: int, values: Array) -> None:
        """Append to an object; each checksum goes on until its slab is full."""
        values = np.ascontiguousarray(values, self._dtypes[place % 3])
        self._location.append(self._names[place], values.view(np.uint8).data)
        crc32c = self._crc32c[place]
        while len(values):
            done = self._written[place] % self._slab_entries
            if not done:
                crc32c.append(0)
            part, values = np.split(values, [min(self._slab_entries - done, len(values))])
            crc32c[-1] = checksum(part, crc32c[-1])
            self._written[place] += len(part)

    def finish(self) -> tuple[Block, ...]:
        """Make every block durable.

        Returns
        -------
        tuple of Block
            The objects, for the manifest.
        """
        self._location.finish(self._names)
        return tuple(
            Block(name, size, tuple(crc32c))
            for name, size, crc32c in zip(self._names, self._sizes, self._crc32c, strict=True)
        )
