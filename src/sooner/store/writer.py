"""Writing one encoding of a matrix: all of its blocks, then the manifest, or nothing."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner._machine import usable_cores
from sooner.errors import StoreError, StoreExistsError, StoreFormatError, StoreNotFoundError
from sooner.store.journal import Journal, interrupted
from sooner.store.location import ADJOINT, taken
from sooner.store.manifest import Block, Manifest, read_manifest
from sooner.store.slabs import checksum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from sooner._types import Array
    from sooner.store.location import Location
    from sooner.store.sparse_writer import SparseWriter

__all__ = ["BlockWriter", "commit", "npy_header", "refuse_existing"]

logger = logging.getLogger(__name__)


class BlockWriter:
    """Appends to the n blocks of one encoding; whatever is not committed is removed.

    The names of the blocks hold a random *generation*, so that an encoding never writes where
    another one writes or is read.  In a local folder a journal says which slabs are finished;
    what a killed writer of the same encoding left there is taken up.

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
    facts
        What else must be the same for an interrupted encoding to be taken up, as JSON values.
    home
        Where the manifest is that will name the blocks; None is `location`.
    """

    def __init__(
        self,
        location: Location,
        *,
        n: int,
        shape: tuple[int, int],
        dtype: np.dtype[np.generic],
        slab_rows: int,
        facts: Mapping[str, Any],
        home: Location | None = None,
    ) -> None:
        self._header = npy_header(shape, dtype)
        self.header_bytes = len(self._header)
        self._location = location
        self._home = home or location
        self._n = n
        self._row_bytes = shape[1] * dtype.itemsize
        self._size = self.header_bytes + shape[0] * self._row_bytes
        self._slab_rows = slab_rows
        self._n_slabs = -(-shape[0] // slab_rows)
        own = {"n": n, "shape": shape, "dtype": dtype.str, "slab_rows": slab_rows}
        self._facts = json.loads(json.dumps({**facts, **own}))  # as a journal gives them back
        self._journal: Journal | None = None
        self.kept = False
        """Whether a manifest names the blocks, so that they are not removed."""
        self._begin()

    def _begin(self) -> None:
        """Take a generation of its own."""
        self.generation = secrets.token_hex(6)
        self._names = _names(self._n, self.generation)
        # A slab without columns is never written to; the checksum of no bytes is 0.
        self._crc32c = np.zeros((self._n, self._n_slabs), dtype=np.uint32)

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, their headers included."""
        return self._size * self._n

    @property
    def finished(self) -> list[str]:
        """The fingerprint up to each slab that is written already."""
        return [] if self._journal is None else [mark for _, mark in self._journal.slabs]

    def __enter__(self) -> BlockWriter:
        try:
            there = self._take_up()
            self._location.prepare(self.nbytes - there)
            if not there:
                self._write_headers()
        except BaseException:
            self._remove()
            raise
        return self

    def _write_headers(self) -> None:
        for name in self._names:
            self._location.append(name, self._header)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.kept:
            if self._journal is not None:
                self._journal.remove()
        else:
            self._remove()

    def _remove(self) -> None:
        if self._journal is not None:
            self._journal.remove()
        self._location.discard(self._names)

    def _take_up(self) -> int:
        """Go on where a killed writer of the same encoding stopped; gives the bytes it wrote."""
        folder = self._location.folder
        if folder is None:
            return 0
        with contextlib.suppress(StoreError):
            committed = read_manifest(self._home)
            for part in (committed, committed.adjoint):
                if part is not None:
                    # It was killed after its last step: all that is left to do is to say so.
                    (folder / f"encoding-{part.generation}.journal").unlink(missing_ok=True)
        for journal in interrupted(folder):
            generation = str(journal.facts.pop("generation", ""))
            names = _names(int(journal.facts.get("n", 0)), generation)
            if self._journal is None and journal.facts == self._facts:
                n_slabs = self._recover(journal, folder, names)
                if n_slabs:
                    self._journal, self.generation, self._names = journal, generation, names
                    logger.info(
                        "taking up an encoding that was interrupted: %d of %d slabs are there, "
                        "in %s",
                        *(n_slabs, self._n_slabs, self._location),
                    )
                    continue
            journal.remove()
            self._location.discard(names)
        if self._journal is None:
            return 0
        return self._n * (folder / f"{self._names[0]}.tmp").stat().st_size

    def _recover(self, journal: Journal, folder: Path, names: list[str]) -> int:
        """Bring blocks back to their last common intact slab; gives the number of slabs."""
        for name in names:
            if (folder / name).exists():  # it was killed while giving them their names
                (folder / name).replace(folder / f"{name}.tmp")
        paths = [folder / f"{name}.tmp" for name in names]
        slab_bytes = self._slab_rows * self._row_bytes
        n_slabs = journal.intact_slabs(paths, self._header, slab_bytes)
        if n_slabs:
            for path in paths:
                with path.open("rb+") as file:
                    file.truncate(min(self._size, self.header_bytes + n_slabs * slab_bytes))
            journal.cut(n_slabs)
            for slab, (crc32c, _) in enumerate(journal.slabs):
                self._crc32c[:, slab] = crc32c
        return n_slabs

    def restart(self) -> None:
        """Throw away what was taken up, and begin anew."""
        self._remove()
        self._journal = None
        self._begin()
        self._location.prepare(self.nbytes)
        self._write_headers()

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

        def write(index: int) -> None:
            block = blocks[index]
            self._location.append(self._names[index], block.reshape(-1).view(np.uint8).data)
            self._crc32c[index, slab] = checksum(block, int(self._crc32c[index, slab]))

        with ThreadPoolExecutor(usable_cores()) as pool:
            list(pool.map(write, range(self._n)))

    def finish_slab(self, slab: int, fingerprint: str) -> None:
        """Note that a slab is complete in every block.

        Parameters
        ----------
        slab
            Which one.
        fingerprint
            Of the matrix up to there.
        """
        folder = self._location.folder
        if folder is None:
            return
        if self._journal is None and slab == 0:
            self._journal = Journal.create(folder, {**self._facts, "generation": self.generation})
        if self._journal is not None:
            self._journal.append(self._crc32c[:, slab].tolist(), fingerprint)

    def finish(self) -> tuple[Block, ...]:
        """Make every block durable.

        Returns
        -------
        tuple of Block
            The blocks, for the manifest.
        """
        self._location.finish(self._names)
        return tuple(
            Block(name, self._size, tuple(crc32c.tolist()))
            for name, crc32c in zip(self._names, self._crc32c, strict=True)
        )


def commit(
    location: Location,
    manifest: Manifest,
    writers: Sequence[BlockWriter | SparseWriter],
    *,
    overwrite: bool,
) -> None:
    """Write the manifest; from here on the blocks count, and those they replace go.

    Parameters
    ----------
    location
        The store.
    manifest
        The manifest.
    writers
        Of the blocks that it names.
    overwrite
        Replace an encoding that is there already.

    Raises
    ------
    OSError
        If it cannot be written, or is there already; then nothing is committed.
    """
    # Interrupted from here on, nobody can tell whether the manifest is there: then stray
    # blocks are better than a manifest without any.
    for writer in writers:
        writer.kept = True
    try:
        old = location.commit(manifest.to_json(), overwrite=overwrite)
    except OSError:
        for writer in writers:
            writer.kept = False
        raise
    _discard_replaced(location, old)


def _discard_replaced(location: Location, old: bytes | None) -> None:
    """Remove the blocks that the manifest before named, if there was one."""
    if old is None:
        return
    with contextlib.suppress(StoreFormatError):  # nothing that says which files are its own
        replaced = Manifest.from_json(old, str(location))
        location.discard(block.name for block in replaced.blocks)
        if replaced.adjoint is not None:
            inside = location.inside(ADJOINT)
            inside.discard(block.name for block in replaced.adjoint.blocks)


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


def _names(n: int, generation: str) -> list[str]:
    return [f"block-{index:05d}-{generation}.npy" for index in range(n)]


def npy_header(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bytes:
    """Give what a ``.npy`` file of a row-major array begins with.

    Parameters
    ----------
    shape
        Of the array.
    dtype
        Of the array.

    Returns
    -------
    bytes
        The header, NumPy format 1.0.
    """
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": dtype.str, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()
