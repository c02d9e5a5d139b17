"""Making lost blocks again from those that are left."""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes.base import not_decodable
from sooner.errors import BlockLostError, StoreError
from sooner.store import slabs
from sooner.store.coded_matrix import CodedMatrix, open_coded, stored_sources
from sooner.store.manifest import Block, read_manifest
from sooner.store.repairing_sparse import mend_sparse
from sooner.store.verification import Verification, verify
from sooner.store.writer import npy_header

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sooner._types import Array, Mask
    from sooner.store.location import StoreLike
    from sooner.store.manifest import Manifest

__all__ = ["Repair", "repair"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Repair:
    """What `repair` did."""

    found: Verification
    """What was lost before."""
    identical: tuple[int, ...]
    """Blocks that are again what they were, bit for bit."""
    rounded: tuple[int, ...]
    """Blocks that are what they were but for rounding; their checksums are new."""
    adjoint: Repair | None = None
    """What became of the transpose, if it was encoded."""


def repair(
    store: StoreLike | CodedMatrix,
    *,
    max_memory: int = 1 << 28,
    progress: Callable[[int, int], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Repair:
    """Make the lost blocks of a store again from the others.

    Works slab by slab with whatever blocks have that slab, so that even losses in more blocks
    than the code can spare are often mended; sparse blocks, which have no slabs, are made again
    whole, in memory.  Repaired blocks are new objects; a new manifest
    that names them takes the place of the old one in one step.

    Parameters
    ----------
    store
        A coded matrix, or where one is.
    max_memory
        Bytes to take at a time, besides a slab.
    progress
        Called with the number of slabs (of sparse matrices: blocks) that are mended and of all,
        after each; first for the transpose, if it was encoded and has lost some.
    storage_options
        As in `open_coded`.

    Returns
    -------
    Repair
        What was lost, and what became of it.  Open the matrix again to have it.

    Raises
    ------
    NotDecodableError
        If the other blocks do not determine a lost slab; the matrix, or its transpose, is left as
        it is then.
    StoreError
        If they are data blocks, which nothing else determines, or somebody else wrote to the
        store meanwhile.

    Examples
    --------
    >>> import numpy as np, sooner
    >>> repair(sooner.encode(np.eye(6), sooner.PolarCode(8, 6, rng=0))).identical
    ()
    """
    max_memory = _checks.integer(max_memory, "max_memory", at_least=1)
    coded = (
        store
        if isinstance(store, CodedMatrix)
        else open_coded(store, storage_options=storage_options)
    )
    found = verify(coded)
    home = _Home(coded)
    adjoint = None
    if found.adjoint is not None:
        adjoint = _repaired(coded.T, found.adjoint, home, max_memory, progress)
    return replace(_repaired(coded, found, home, max_memory, progress), adjoint=adjoint)


def _repaired(
    coded: CodedMatrix,
    found: Verification,
    home: _Home,
    max_memory: int,
    progress: Callable[[int, int], None] | None,
) -> Repair:
    """Mend the blocks of a matrix, without its transpose."""
    if not found.lost:
        return Repair(found, (), ())
    if coded.manifest.holds != "coded":
        raise StoreError(
            f"{coded.location} holds data blocks, which cannot be made again from the others, and "
            f"{sorted(found.lost)} are lost. Encode the matrix again with overwrite=True."
        )

    def exchange(blocks: list[Block]) -> None:
        home.exchange(coded, blocks)

    if coded.manifest.layout == "csr":
        blocks = mend_sparse(coded, found.lost, coded._location, exchange, progress)
    else:
        mending = _Mending(coded, found, max_memory)
        try:
            blocks = mending.run(progress)
            exchange(blocks)
        except BaseException:
            mending.discard()
            raise
    identical = _unchanged(coded.manifest, blocks, found.lost)
    rounded = tuple(sorted(found.lost.keys() - set(identical)))
    logger.info(
        "repaired %d blocks of %s: %d bit for bit, %d but for rounding",
        *(len(found.lost), coded.location, len(identical), len(rounded)),
    )
    return Repair(found, identical, rounded)


def _unchanged(manifest: Manifest, blocks: list[Block], lost: Collection[int]) -> tuple[int, ...]:
    """Blocks whose new objects are what the lost ones were, by their checksums."""
    per_block = 1 if manifest.layout == "dense" else 3

    def content(objects: Sequence[Block], index: int) -> list[Any]:
        part = objects[per_block * index : per_block * (index + 1)]
        return [(block.size, block.crc32c) for block in part]

    return tuple(i for i in sorted(lost) if content(blocks, i) == content(manifest.blocks, i))


class _Home:
    """The manifest of a store, in which new blocks take the place of lost ones."""

    def __init__(self, coded: CodedMatrix) -> None:
        self._location, self._manifest = coded._location, coded.manifest

    def exchange(self, part: CodedMatrix, blocks: list[Block]) -> None:
        """Let new blocks of the matrix or its transpose count, unless the store has changed."""
        if read_manifest(self._location) != self._manifest:
            raise StoreError(
                f"{self._location} was written by somebody else during the repair. Repair again."
            )
        if part._location is self._location:
            manifest = replace(self._manifest, blocks=tuple(blocks))
        else:
            adjoint = replace(part.manifest, blocks=tuple(blocks))
            manifest = replace(self._manifest, adjoint=adjoint)
        self._location.commit(manifest.to_json(), overwrite=True)
        self._manifest = manifest
        kept = {block.name for block in blocks}
        old = (block.name for block in part.manifest.blocks)
        part._location.discard(name for name in old if name not in kept)


class _Mending:
    """One repair: reads what is intact, writes the lost blocks anew."""

    def __init__(self, coded: CodedMatrix, found: Verification, max_memory: int) -> None:
        self._coded, self._code, self._lost = coded, coded.code, found.lost
        self._sources = list(stored_sources(coded))
        self._location = coded._location
        mark = secrets.token_hex(6)
        self._names = {index: f"block-{index:05d}-{mark}.npy" for index in found.lost}
        per_entry = (2 * self._code.n + self._code.k) * coded.dtype.itemsize
        self._entries = max(1, max_memory // per_entry)

    def run(self, progress: Callable[[int, int], None] | None) -> list[Block]:
        """Write all lost blocks; gives all blocks, the new ones among them."""
        manifest = self._coded.manifest
        size = manifest.blocks[0].size
        self._location.prepare(size * len(self._lost))
        header = npy_header((manifest.block_rows, manifest.shape[1]), self._coded.dtype)
        for name in self._names.values():
            self._location.append(name, header)
        crc32c: dict[int, list[int]] = defaultdict(list)
        for slab in range(manifest.n_slabs):
            for index, checksum in self._slab(slab).items():
                crc32c[index].append(checksum)
            if progress is not None:
                progress(slab + 1, manifest.n_slabs)
        self._location.finish(self._names.values())
        blocks = list(manifest.blocks)
        for index, name in self._names.items():
            blocks[index] = Block(name, size, tuple(crc32c[index]))
        return blocks

    def discard(self) -> None:
        """Remove what was written in vain."""
        self._location.discard(self._names.values())

    def _slab(self, slab: int) -> dict[int, int]:
        """Append a slab to every lost block; gives their checksums."""
        lost = [index for index, loss in self._lost.items() if slab in loss.slabs]
        crc32c = {}
        for index in self._lost:
            if index not in lost:  # this much of the block is intact
                rows = self._read(index, slab)
                self._location.append(self._names[index], _bytes(rows))
                crc32c[index] = slabs.checksum(rows)
        if lost:
            crc32c |= self._decoded(slab, lost)
        return crc32c

    def _decoded(self, slab: int, lost: list[int]) -> dict[int, int]:
        """Make a slab of some blocks again, in pieces that fit into the memory."""
        available = np.ones(self._code.n, dtype=np.bool_)
        available[lost] = False
        reads = self._reads(available)
        rows = min(self._coded.slab_rows, self._coded.block_rows - slab * self._coded.slab_rows)
        n_entries = rows * self._coded.shape[1]
        crc32c = dict.fromkeys(lost, 0)
        for first in range(0, n_entries, self._entries):
            last = min(first + self._entries, n_entries)
            outputs = np.empty((self._code.n, last - first), self._coded.dtype)
            for index in reads:
                outputs[index] = self._read(index, slab).reshape(-1)[first:last]
            with np.errstate(all="ignore"):  # what was allowed in may be NaN
                made = self._code.encode(self._code.decode(outputs, available))
            for index in lost:
                self._location.append(self._names[index], _bytes(made[index]))
                crc32c[index] = slabs.checksum(made[index], crc32c[index])
        return crc32c

    def _reads(self, available: Mask) -> list[int]:
        """Outputs that decoding reads."""
        decoder = self._code.decoder()
        for index in np.flatnonzero(available).tolist():
            decoder.add(index)
        if not decoder.decodable:
            raise not_decodable(decoder)
        return [int(index) for index in decoder.plan().reads]

    def _read(self, index: int, slab: int) -> Array:
        """Read a slab that was intact a moment ago, and see that it still is."""
        source = self._sources[index]
        rows = slabs.slab_reader(source)(slab)
        if slabs.checksum(rows) != source["crc32c"][slab]:
            why = slabs.damaged(slab * source["slab_rows"], len(rows))
            raise BlockLostError(slabs.lost(source, why))
        return rows


def _bytes(values: Array) -> memoryview:
    data: memoryview = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    return data
