"""Values shipped once for many tasks: in memory shared by all processes, or inside the reference.

On Linux a large value lives in a memory file of the driver (``memfd_create``), which workers find
under ``/proc`` and map: no file on disk, nothing to clean up when the driver is killed.  Elsewhere
it is a temporary file.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.executors._wire import pack, unpack

if TYPE_CHECKING:
    from sooner.executors.base import Reference

__all__ = ["InlineReference", "ObjectReference", "SharedReference", "SharedValues", "inline"]

_SMALL = 1 << 16  # bytes; below, a reference carries its value
_TOKEN_BYTES = 16
_HEAD_BYTES = 64  # the token, and the alignment that the packed value relies on
_KEPT = 2  # values that a process keeps mapped: this round's x, and that of a straggler

_loaded: OrderedDict[bytes, Any] = OrderedDict()


@dataclass(frozen=True, slots=True, eq=False)
class ObjectReference:
    """A reference within one process: it holds the value itself.

    Examples
    --------
    >>> ObjectReference(np.arange(3)).load().flags.writeable
    False
    """

    value: Any
    """What `load` gives."""

    def load(self) -> Any:
        """Give the value.

        Returns
        -------
        object
            The value; an array as a read-only view.
        """
        return _read_only(self.value)


@dataclass(frozen=True, slots=True)
class InlineReference:
    """A reference that carries its value, so it works on any machine."""

    packed: bytes
    """The value as `sooner.executors._wire.pack` wrote it."""

    def load(self) -> Any:
        """Give the value.

        Returns
        -------
        object
            The value; arrays are read-only.
        """
        return _read_only(unpack(self.packed))


@dataclass(frozen=True, slots=True)
class SharedReference:
    """A reference to a file that all processes of this machine can map."""

    path: str
    """Where the value lies."""
    token: bytes
    """What the file begins with; a path may be used again for another value."""

    def load(self) -> Any:
        """Give the value, mapped once per process and kept until two newer ones are.

        Returns
        -------
        object
            The value; arrays are read-only.

        Raises
        ------
        LookupError
            If it was released.
        """
        if self.token in _loaded:
            return _loaded[self.token]
        try:
            with Path(self.path).open("rb") as file:
                content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # ValueError: empty, so another file by now
            content = memoryview(b"")
        if content[:_TOKEN_BYTES] != self.token:
            raise LookupError(
                "the value of this reference must not be released before it is loaded, and it was."
            )
        value = _read_only(unpack(content[_HEAD_BYTES:]))
        _loaded[self.token] = value
        while len(_loaded) > _KEPT:
            _loaded.popitem(last=False)
        return value


def _read_only(value: Any) -> Any:
    """Give a view that cannot be written to; a few kinds of array unpickle as copies that can."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def _as_sent(value: Any) -> Any:
    """Make arrays contiguous, since only those are mapped where they lie."""
    if type(value) is np.ndarray and not (value.flags.c_contiguous or value.flags.f_contiguous):
        return np.ascontiguousarray(value)
    return value


def inline(value: Any) -> InlineReference:
    """Make a reference that carries its value.

    Parameters
    ----------
    value
        Anything that can be pickled.

    Returns
    -------
    InlineReference
        With a copy of it.

    Examples
    --------
    >>> inline(np.arange(3)).load()
    array([0, 1, 2])
    """
    return InlineReference(b"".join(pack(_as_sent(value))))


class SharedValues:
    """The values that one executor has shipped and not released yet.

    Examples
    --------
    >>> values = SharedValues()
    >>> reference = values.put(np.ones(100_000))
    >>> float(reference.load().sum())
    100000.0
    >>> values.close()
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._held: dict[bytes, int | str] = {}

    def put(self, value: Any) -> InlineReference | SharedReference:
        """Ship a value: inside the reference when it is small.

        Parameters
        ----------
        value
            Anything that can be pickled.

        Returns
        -------
        InlineReference or SharedReference
            To pass to tasks.

        Raises
        ------
        TypeError
            If it cannot be pickled.
        """
        try:
            chunks = pack(_as_sent(value))
        except Exception as error:
            raise TypeError(
                f"a value to broadcast must be picklable, got {type(value).__name__}: {error}"
            ) from error
        if sum(memoryview(chunk).nbytes for chunk in chunks) < _SMALL:
            return InlineReference(b"".join(chunks))
        token = secrets.token_bytes(_TOKEN_BYTES)
        fd, path, holder = self._create(token)
        self._held[token] = holder
        try:
            for chunk in (token + bytes(_HEAD_BYTES - _TOKEN_BYTES), *chunks):
                _write_all(fd, chunk)
        except BaseException:
            self._free(token)
            raise
        finally:
            if holder != fd:
                os.close(fd)
        return SharedReference(path, token)

    def release(self, reference: Reference[Any]) -> None:
        """Free what `put` holds; a reference of another kind or executor is passed over.

        Parameters
        ----------
        reference
            What `put` returned.
        """
        if isinstance(reference, SharedReference):
            self._free(reference.token)

    def close(self) -> None:
        """Free everything."""
        for token in list(self._held):
            self._free(token)

    def _create(self, token: bytes) -> tuple[int, str, int | str]:
        """Make an empty file: its descriptor, its path for others, and what to free later."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create(f"sooner-{token.hex()}")
            path = f"/proc/{os.getpid()}/fd/{fd}"
            if Path(path).exists():
                return fd, path, fd
            os.close(fd)  # no /proc here
        fd, path = tempfile.mkstemp(prefix="sooner-", suffix=".shared")
        return fd, path, path

    def _free(self, token: bytes) -> None:
        holder = self._held.pop(token, None)
        _loaded.pop(token, None)
        with contextlib.suppress(OSError):
            if isinstance(holder, int):
                os.close(holder)
            elif holder is not None and os.getpid() == self._pid:  # not in a forked child
                Path(holder).unlink()


def _write_all(fd: int, chunk: bytes | memoryview) -> None:
    rest = memoryview(chunk).cast("B")
    while rest:
        rest = rest[os.write(fd, rest) :]
