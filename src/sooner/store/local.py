"""A store in a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sooner.errors import StoreError, StoreExistsError, StoreNotFoundError
from sooner.store.location import MANIFEST, absent, no_object, taken

if TYPE_CHECKING:
    import io
    from collections.abc import Generator, Iterable

__all__ = ["LocalFolder"]

_PROMPT_BYTES = 1 << 18
"""Written at once, from here on: the disk is busy while the next blocks are computed."""

_FLUSHES = 4
"""Files that are flushed to the disk at the same time."""

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class LocalFolder:
    """A store in a folder of a local or network file system.

    Its methods are those of `sooner.store.location.Location`.

    Parameters
    ----------
    path
        The folder; it need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()  # workers may run in another folder
        self._made = False  # by us, and goes when it is empty

    def __str__(self) -> str:
        return str(self._path)

    @property
    def folder(self) -> Path:
        """The folder: an encoding that was interrupted here can be taken up again."""
        return self._path

    def inside(self, name: str) -> LocalFolder:
        """Give a folder in this one."""
        folder = LocalFolder(self._path / name)
        folder._made = True
        return folder

    def prepare(self, nbytes: int) -> None:
        """Make the folder, and see that the disk has room."""
        with _explained(f"{self} cannot be a store, which must be a folder one may write to"):
            self._made = self._made or not self._path.exists()
            self._path.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self._path).free
        if free < nbytes:
            raise StoreError(
                f"{self} needs {nbytes / 1e6:.1f} MB ({nbytes} bytes), and its disk has "
                f"{free / 1e6:.1f} MB ({free} bytes) free. Choose another store, or a code of a "
                f"higher rate k/n."
            )

    def append(self, name: str, data: bytes | memoryview) -> None:
        """Add bytes to ``<name>.tmp``.

        Opened and closed each time: a code may have more blocks than a process may have files.
        """
        path = self.growing(name)
        with _explained(f"{path} cannot be written"), path.open("ab", buffering=0) as file:
            _write_all(file, memoryview(data))
            if len(data) >= _PROMPT_BYTES and hasattr(os, "posix_fadvise"):
                # Starts to write it to the disk now, rather than all at the end; only a hint.
                with contextlib.suppress(OSError):
                    first = file.tell() - len(data)
                    os.posix_fadvise(file.fileno(), first, len(data), os.POSIX_FADV_DONTNEED)

    def finish(self, names: Iterable[str]) -> None:
        """Flush files to the disk, then give each its name."""
        with ThreadPoolExecutor(_FLUSHES) as pool:
            list(pool.map(self._finish, names))

    def _finish(self, name: str) -> None:
        path = self.growing(name)
        with _explained(f"{path} cannot be written"):
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            path.replace(self._path / name)

    def discard(self, names: Iterable[str]) -> None:
        """Remove files, and the folder if it was made for them and is empty again."""
        for name in names:
            for path in (self.growing(name), self._path / name):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        if self._made:
            with contextlib.suppress(OSError):
                self._path.rmdir()

    def commit(self, manifest: bytes, *, overwrite: bool) -> bytes | None:
        """Write the manifest under another name, then link or rename it."""
        old = None
        if overwrite:
            with contextlib.suppress(StoreError):  # none, or one that cannot be read
                old = self.read_manifest()
        draft = self._path / f"{MANIFEST}.{secrets.token_hex(6)}.tmp"
        try:
            with _explained(f"{draft} cannot be written"):
                _write_new(draft, manifest)
            self._flush()  # the blocks' names before the manifest's
            self._publish(draft, overwrite=overwrite)
            self._flush()
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        return old

    def _publish(self, draft: Path, *, overwrite: bool) -> None:
        target = self._path / MANIFEST
        publish = os.replace if overwrite else _create_only
        try:
            with _explained(f"{target} cannot be written", but=(FileExistsError,)):
                publish(draft, target)
        except FileExistsError:
            raise StoreExistsError(taken(self)) from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file under another name, then rename it; it need not outlive a power failure."""
        draft = self._path / f"{name}.{secrets.token_hex(6)}.tmp"
        with _explained(f"{self._path / name} cannot be written"):
            if not self._path.exists():
                self._made = True
                self._path.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_bytes(data)
                draft.replace(self._path / name)
            finally:
                draft.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        """Give the contents of a file."""
        path = self._path / name
        missing = (FileNotFoundError, NotADirectoryError)
        try:
            with _explained(f"{path} cannot be read", but=missing):
                return path.read_bytes()
        except missing:
            raise StoreNotFoundError(no_object(self, name)) from None

    def read_manifest(self) -> bytes:
        """Give the contents of the manifest."""
        try:
            return self.read(MANIFEST)
        except StoreNotFoundError:
            raise StoreNotFoundError(absent(self)) from None

    def source(self, name: str) -> dict[str, Any]:
        """Give the path of a file."""
        return {"kind": "file", "path": str(self._path / name)}

    def growing(self, name: str) -> Path:
        """Where a file grows before it has its name."""
        return self._path / f"{name}.tmp"

    def _flush(self) -> None:
        """Make the names in the folder durable, where a folder can be flushed."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def _explained(message: str, but: tuple[type[OSError], ...] = ()) -> Generator[None]:
    """Turn errors of the operating system, `but` some, into a `StoreError` that says what for."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        raise StoreError(f"{message}: {error.strerror or error}.") from error


def _write_all(file: io.FileIO, data: memoryview) -> None:
    """Write all of it: one call may write less, at most 2 GiB."""
    while len(data):
        data = data[file.write(data) :]


def _write_new(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _create_only(draft: Path, target: Path) -> None:
    """Give `draft` the name `target` unless that is taken: of two writers, one wins."""
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _write_new(target, draft.read_bytes())
