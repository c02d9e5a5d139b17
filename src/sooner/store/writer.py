"""Writing one encoding of a matrix: all of its blocks, then the manifest, or nothing."""

from __future__ import annotations

import io
import secrets
from typing import TYPE_CHECKING

import numpy as np

from sooner.errors import StoreExistsError, StoreFormatError, StoreNotFoundError
from sooner.store.location import taken
from sooner.store.manifest import Block, read_manifest
from sooner.store.slabs import checksum

if TYPE_CHECKING:
    from types import TracebackType

    from sooner._types import Array
    from sooner.store.location import Location
    from sooner.store.manifest import Manifest

__all__ = ["BlockWriter", "refuse_existing"]


class BlockWriter:
    """Appends to the n blocks of one encoding; whatever is not committed is removed.

    The names of the blocks hold a random *generation*, so that an encoding never writes where
    another one writes or is read.

    Parameters
    ----------
    location
        Where to write.
    n
        Number of blocks.
    shape
        Rows and columns of each.
    dtype
        Of each, little-endian.
    slab_rows
        Rows of a slab.
    """

    def __init__(
        self,
        location: Location,
        *,
        n: int,
        shape: tuple[int, int],
        dtype: np.dtype[np.generic],
        slab_rows: int,
    ) -> None:
        self.generation = secrets.token_hex(6)
        self.header_bytes = len(header := _header(shape, dtype))
        self._location = location
        self._names = [f"block-{index:05d}-{self.generation}.npy" for index in range(n)]
        self._size = self.header_bytes + shape[0] * shape[1] * dtype.itemsize
        self._header = header
        self._slab_rows = slab_rows
        # A slab without columns is never written to; the checksum of no bytes is 0.
        self._crc32c = np.zeros((n, -(-shape[0] // slab_rows)), dtype=np.uint32)
        self._committed = False

    def __enter__(self) -> BlockWriter:
        try:
            self._location.prepare(self._size * len(self._names))
            for name in self._names:
                self._location.append(name, self._header)
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
        if not self._committed:
            self._location.discard(self._names)

    def append(self, first_row: int, blocks: Array) -> None:
        """Append to every block.

        Parameters
        ----------
        first_row
            Row of each block that the first of these is, or is part of; they lie in one slab.
        blocks
            What follows in row-major order, C-contiguous, shape (n, ...).
        """
        slab = first_row // self._slab_rows
        for name, block, crc32c in zip(self._names, blocks, self._crc32c, strict=True):
            self._location.append(name, block.reshape(-1).view(np.uint8).data)
            crc32c[slab] = checksum(block, int(crc32c[slab]))

    def finish(self) -> tuple[Block, ...]:
        """Make every block durable.

        Returns
        -------
        tuple of Block
            The blocks, for the manifest.
        """
        for name in self._names:
            self._location.finish(name)
        return tuple(
            Block(name, self._size, tuple(crc32c.tolist()))
            for name, crc32c in zip(self._names, self._crc32c, strict=True)
        )

    def commit(self, manifest: Manifest, *, overwrite: bool) -> None:
        """Write the manifest; from here on the blocks count, and those they replace go.

        Parameters
        ----------
        manifest
            The manifest.
        overwrite
            Replace an encoding that is there already.

        Raises
        ------
        OSError
            If it cannot be written, or is there already; then nothing is committed.
        """
        old = _old_blocks(self._location) if overwrite else ()
        # Interrupted from here on, nobody can tell whether the manifest is there: then stray
        # blocks are better than a manifest without any.
        self._committed = True
        try:
            self._location.commit(manifest.to_json(), overwrite=overwrite)
        except OSError:
            self._committed = False
            raise
        self._location.discard(block.name for block in old)


def refuse_existing(location: Location) -> None:
    """Say so when a store is taken, before any work is done.

    Parameters
    ----------
    location
        The store.

    Raises
    ------
    StoreExistsError
        If it has a manifest, of whatever kind.
    """
    try:
        manifest = read_manifest(location)
    except StoreNotFoundError:
        return
    except StoreFormatError as error:
        raise StoreExistsError(taken(location, "a manifest that cannot be read")) from error
    rows, columns = manifest.shape
    holds = (
        f"a coded matrix ({rows} x {columns} {np.dtype(manifest.source_dtype)}, encoded "
        f"{manifest.created})"
    )
    raise StoreExistsError(taken(location, holds))


def _old_blocks(location: Location) -> tuple[Block, ...]:
    try:
        return read_manifest(location).blocks
    except (StoreNotFoundError, StoreFormatError):
        return ()  # nothing there, or nothing that says which files are its own


def _header(shape: tuple[int, int], dtype: np.dtype[np.generic]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": dtype.str, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()
