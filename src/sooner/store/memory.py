"""A store in memory."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from sooner.errors import StoreExistsError, StoreNotFoundError
from sooner.store.location import MANIFEST, absent, no_object, taken

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MemoryStore"]


class MemoryStore:
    """A store in this process's memory: nothing is written, and blocks travel with their tasks.

    Its methods are those of `sooner.store.location.Location`.

    Examples
    --------
    >>> import numpy as np
    >>> import sooner
    >>> store = MemoryStore()
    >>> coded = sooner.encode(np.eye(4), sooner.Uncoded(2), store)
    >>> sooner.open_coded(store) == coded
    True
    """

    def __init__(self) -> None:
        self._name = f"memory://{secrets.token_hex(6)}"
        self._growing: dict[str, bytearray] = {}
        self._objects: dict[str, bytes] = {}
        self._inside: dict[str, MemoryStore] = {}

    def __str__(self) -> str:
        return self._name

    @property
    def folder(self) -> None:
        """Memory does not outlive an interruption."""
        return

    def inside(self, name: str) -> MemoryStore:
        """Give a store in this one, the same each time."""
        if name not in self._inside:
            self._inside[name] = MemoryStore()
            self._inside[name]._name = f"{self}/{name}"
        return self._inside[name]

    def prepare(self, nbytes: int) -> None:
        """Do nothing: memory needs no preparation."""

    def append(self, name: str, data: bytes | memoryview) -> None:
        """Add bytes to an object that is not visible yet."""
        self._growing.setdefault(name, bytearray()).extend(data)

    def finish(self, names: Iterable[str]) -> None:
        """Make objects visible, and from now on constant."""
        for name in names:
            self._objects[name] = bytes(self._growing.pop(name))

    def discard(self, names: Iterable[str]) -> None:
        """Remove objects; who has one already keeps it."""
        for name in names:
            self._growing.pop(name, None)
            self._objects.pop(name, None)

    def commit(self, manifest: bytes, *, overwrite: bool) -> bytes | None:
        """Keep the manifest, in one step."""
        old = self._objects.get(MANIFEST)
        if overwrite:
            self._objects[MANIFEST] = manifest
        elif self._objects.setdefault(MANIFEST, manifest) is not manifest:
            raise StoreExistsError(taken(self))
        return old

    def write(self, name: str, data: bytes) -> None:
        """Keep an object."""
        self._objects[name] = data

    def read(self, name: str) -> bytes:
        """Give the contents of an object."""
        try:
            return self._objects[name]
        except KeyError:
            raise StoreNotFoundError(no_object(self, name)) from None

    def read_manifest(self) -> bytes:
        """Give the contents of the manifest."""
        try:
            return self._objects[MANIFEST]
        except KeyError:
            raise StoreNotFoundError(absent(self)) from None

    def source(self, name: str) -> dict[str, Any]:
        """Give the bytes themselves; None once another encoding has replaced them."""
        return {"kind": "bytes", "path": f"{self}/{name}", "bytes": self._objects.get(name)}
