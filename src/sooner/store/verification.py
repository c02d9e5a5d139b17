"""Looking through a store: what is lost, and whether the rest is enough."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sooner.errors import BlockLostError
from sooner.store import slabs
from sooner.store.coded_matrix import CodedMatrix, open_coded, stored_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sooner.store.location import StoreLike

__all__ = ["Loss", "Verification", "verify"]

_READERS = 8
"""Blocks that are read at the same time, each a slab at a time."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What is wrong with one stored block."""

    why: str
    """Which object, and whether it is missing, forbidden, truncated or damaged."""
    slabs: frozenset[int]
    """Its slabs that cannot be used; of a sparse block, 0."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found."""

    n_stored: int
    """Blocks in the store."""
    lost: Mapping[int, Loss] = field(repr=False)
    """Those that are not intact, by index."""
    lost_tasks: tuple[int, ...]
    """Tasks that cannot have their block: the same, unless tasks encode data blocks."""
    decodable: bool
    """Whether the other tasks determine every product, those of the transpose included."""
    n_missing: int
    """If not, how many more are needed at the least."""
    adjoint: Verification | None = field(default=None, repr=False)
    """What was found of the transpose, if it was encoded."""

    @property
    def intact(self) -> bool:
        """Whether nothing is lost, of the transpose neither."""
        return not self.lost and (self.adjoint is None or self.adjoint.intact)


def verify(
    store: StoreLike | CodedMatrix,
    *,
    progress: Callable[[int, int], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Verification:
    """Read every slab of a store and compare every checksum.

    Parameters
    ----------
    store
        A coded matrix, or where one is.
    progress
        Called with the number of blocks that were read and of all, after each; first for the
        matrix, then for its transpose, if it was encoded.
    storage_options
        As in `open_coded`.

    Returns
    -------
    Verification
        What is lost, and whether the rest still decodes.

    Examples
    --------
    >>> import numpy as np, sooner
    >>> coded = sooner.encode(np.eye(6), sooner.PolarCode(8, 6, rng=0))
    >>> verify(coded)
    Verification(n_stored=8, lost_tasks=(), decodable=True, n_missing=0)
    """
    coded = (
        store
        if isinstance(store, CodedMatrix)
        else open_coded(store, storage_options=storage_options)
    )
    found = _verified(coded, progress)
    if coded.manifest.adjoint is None:
        return found
    adjoint = _verified(coded.T, progress)
    return replace(
        found,
        decodable=found.decodable and adjoint.decodable,
        n_missing=found.n_missing + adjoint.n_missing,
        adjoint=adjoint,
    )


def _verified(coded: CodedMatrix, progress: Callable[[int, int], None] | None) -> Verification:
    """Look through the blocks of a matrix, without its transpose."""
    lost: dict[int, Loss] = {}
    with ThreadPoolExecutor(_READERS) as pool:
        for index, loss in enumerate(pool.map(_look, stored_sources(coded))):
            if loss is not None:
                lost[index] = loss
            if progress is not None:
                progress(index + 1, coded.n_stored)
    lost_tasks = tuple(
        task for task in range(coded.code.n) if not lost.keys().isdisjoint(coded.stored_for(task))
    )
    decoder = coded.code.decoder()
    for task in sorted(set(range(coded.code.n)).difference(lost_tasks)):
        decoder.add(task)
    return Verification(coded.n_stored, lost, lost_tasks, decoder.decodable, decoder.n_missing)


def _look(source: dict[str, Any]) -> Loss | None:
    """Say what is wrong with a stored block, if anything is."""
    if source["kind"] == "csr":
        try:
            for part in ("data", "indices", "indptr"):
                _check(source[part])
            slabs.read_block(source)  # and that the three fit each other
        except BlockLostError as error:
            return Loss(str(error), frozenset({0}))
        return None
    n_slabs = len(source["crc32c"])
    try:
        read = slabs.slab_reader(source)
    except BlockLostError as error:
        return Loss(str(error), frozenset(range(n_slabs)))
    whys: dict[int, str] = {}
    for slab in range(n_slabs):
        try:
            _check_slab(source, slab, read)
        except BlockLostError as error:
            whys[slab] = str(error)
    return Loss(next(iter(whys.values())), frozenset(whys)) if whys else None


def _check(source: dict[str, Any]) -> None:
    read = slabs.slab_reader(source)
    for slab in range(len(source["crc32c"])):
        _check_slab(source, slab, read)


def _check_slab(source: dict[str, Any], slab: int, read: Callable[[int], Any]) -> None:
    rows = read(slab)
    if slabs.checksum(rows) != source["crc32c"][slab]:
        why = slabs.damaged(slab * source["slab_rows"], len(rows))
        raise BlockLostError(slabs.lost(source, why))
