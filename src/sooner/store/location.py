"""Where a coded matrix lives: the small interface between its layout and what keeps the bytes.

Objects grow under names that nobody else uses, become visible whole, and count only once the
manifest is there, which is created in one step.  A store of another kind is one more class with
these methods, one more line in `as_location`, and one more ``kind`` in `sooner.store.slabs`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sooner.store.memory import MemoryStore

    StoreLike: TypeAlias = str | os.PathLike[str] | MemoryStore | None

__all__ = ["ADJOINT", "MANIFEST", "Location", "as_location"]

MANIFEST = "manifest.json"
"""Name of the object that makes the others count."""

ADJOINT = "adjoint"
"""Name of the place inside a store that holds the blocks of the transpose."""

_STORES = (
    "a path to a local folder, a URL such as s3://bucket/A, or None or "
    "sooner.store.MemoryStore() for memory"
)


class Location(Protocol):
    """What keeps the objects of one coded matrix; ``str()`` of it is its name."""

    @property
    def folder(self) -> Path | None:
        """Local folder in which an interrupted encoding can be taken up again, if there is."""

    def inside(self, name: str) -> Location:
        """Give the place inside this one for objects that are named by the same manifest.

        Parameters
        ----------
        name
            Of the place.

        Returns
        -------
        Location
            The place.
        """

    def prepare(self, nbytes: int) -> None:
        """Make ready for new objects, or say why not.

        Parameters
        ----------
        nbytes
            Bytes that will be written.

        Raises
        ------
        StoreError
            If there is no room or no permission.
        """

    def append(self, name: str, data: bytes | memoryview) -> None:
        """Add bytes to an object that is not visible yet.

        Parameters
        ----------
        name
            Of the object, unique to this encoding.
        data
            What to add.
        """

    def finish(self, names: Iterable[str]) -> None:
        """Make objects durable, then visible.

        Parameters
        ----------
        names
            Of the objects.
        """

    def discard(self, names: Iterable[str]) -> None:
        """Remove objects, finished or not, as far as that is possible; never raises.

        Parameters
        ----------
        names
            Of the objects.
        """

    def commit(self, manifest: bytes, *, overwrite: bool) -> bytes | None:
        """Write the manifest in one step, after which the finished objects count.

        Parameters
        ----------
        manifest
            Its contents.
        overwrite
            Replace one that is there already.

        Returns
        -------
        bytes or None
            The manifest that was replaced.

        Raises
        ------
        StoreExistsError
            If there is one already and `overwrite` is false.
        """

    def write(self, name: str, data: bytes) -> None:
        """Write a small object in one step: it is visible whole or not at all.

        Parameters
        ----------
        name
            Of the object; one of that name is replaced.
        data
            Its contents.

        Raises
        ------
        StoreError
            If it cannot be written.
        """

    def read(self, name: str) -> bytes:
        """Give the contents of an object.

        Parameters
        ----------
        name
            Of the object.

        Returns
        -------
        bytes
            The contents.

        Raises
        ------
        StoreNotFoundError
            If there is none.
        StoreError
            If it cannot be read.
        """

    def read_manifest(self) -> bytes:
        """Give the contents of the manifest.

        Returns
        -------
        bytes
            The contents.

        Raises
        ------
        StoreNotFoundError
            If there is none.
        """

    def source(self, name: str) -> dict[str, Any]:
        """Say how a worker finds an object: its ``kind``, ``path``, and what that kind needs.

        Parameters
        ----------
        name
            Of the object.

        Returns
        -------
        dict
            Builtins only.
        """


def as_location(store: Any, storage_options: Mapping[str, Any] | None = None) -> Location:
    """Give the location that a user's ``store`` argument means.

    Parameters
    ----------
    store
        A path to a local folder, a URL, or None or a `MemoryStore` for memory.
    storage_options
        Options of a store behind a URL, for obstore's ``from_url``.

    Returns
    -------
    Location
        The location.

    Raises
    ------
    TypeError
        If `store` is of another type.
    ValueError
        If `store` is empty, or a URL that obstore does not know, or options are given that
        nobody reads.

    Examples
    --------
    >>> print(as_location("/tmp/A.coded"))
    /tmp/A.coded
    """
    from sooner.store.local import LocalFolder
    from sooner.store.memory import MemoryStore

    path = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    if isinstance(path, str) and "://" in path:
        # obstore is loaded by those only who use it
        from sooner.store.objects import SCHEMES, ObjectStore

        if path.partition("://")[0] not in SCHEMES:
            raise ValueError(f"store must be {_STORES}, got {path!r}.")
        return ObjectStore(path, storage_options)
    if storage_options:
        raise ValueError(
            f"storage_options are for stores behind a URL, got {sorted(storage_options)} for "
            f"store={store!r}. Leave them out."
        )
    if store is None:
        return MemoryStore()
    if isinstance(store, MemoryStore):
        return store
    if not isinstance(path, str):
        raise TypeError(f"store must be {_STORES}, got {store!r} of type {type(store).__name__}.")
    if not path:
        raise ValueError(f"store must be {_STORES}, got {path!r}.")
    return LocalFolder(path)


def taken(location: Location, holds: str = "a coded matrix") -> str:
    """Say that a store is not free."""
    return (
        f"{location} holds {holds} already. Pass overwrite=True to replace it, or choose another "
        f"store."
    )


def no_object(location: Location, name: str) -> str:
    """Say that a store has no object of a name."""
    return f"{location} holds no object {name}."


def absent(location: Location) -> str:
    """Say that a store has no manifest."""
    return (
        f"{location} holds no coded matrix: it has no {MANIFEST}. Nothing was encoded there, or "
        f"the encoding was interrupted; encode the matrix again."
    )
