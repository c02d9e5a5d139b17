"""A store behind a URL (S3, Google Cloud Storage, Azure, …), through obstore.

The only module that knows obstore.  Credentials come from the environment, or from
``storage_options``, which go to obstore as they are and to the workers with their tasks, and
are never written anywhere.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from sooner.errors import (
    BlockLostError,
    MissingExtraError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from sooner.store.local import LocalFolder
from sooner.store.location import MANIFEST, absent, no_object, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from types import ModuleType

    from obstore.store import ObjectStore as Client

__all__ = ["SCHEMES", "ObjectStore", "fetch"]

T = TypeVar("T")

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https")
"""What a URL may begin with."""

_UPLOADS = 8
"""Objects that are written at the same time."""

_ATTEMPTS = 5
"""Of one request, when its answer breaks off; what is refused for now obstore repeats itself."""

_FIRST_PAUSE = 0.05  # seconds before the second attempt; doubled, and drawn from 0 up, each time

_PATIENCE = {
    "max_retries": 8,
    "retry_timeout": dt.timedelta(seconds=60),
    "backoff": {
        "init_backoff": dt.timedelta(milliseconds=100),
        "max_backoff": dt.timedelta(seconds=5),
        "base": 2,
    },
}
"""How long obstore repeats a request that is refused for now (5xx) or reset; with jitter."""

_clients: dict[tuple[int, str, str], Client] = {}


class ObjectStore:
    """A store behind a URL.

    Objects cannot grow, so blocks grow in a temporary folder of this machine and are put when
    they are complete.  Nothing is ever listed.  Its methods are those of
    `sooner.store.location.Location`.

    Parameters
    ----------
    url
        Such as ``"s3://bucket/A"``.
    options
        For obstore's ``from_url``: ``endpoint``, ``region``, ``client_options``, ``retry_config``
        and so on.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self._url = url.rstrip("/")
        self._options = dict(options or {})
        _client(self._url, self._options)  # what is wrong with them is said at once
        self._staging: tempfile.TemporaryDirectory[str] | None = None
        self._staged: LocalFolder | None = None
        self._unsent: set[str] = set()
        self._in_doubt = False
        self._outer: ObjectStore | None = None

    def __str__(self) -> str:
        return self._url

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what is only of this process."""
        return {
            "_url": self._url,
            "_options": self._options,
            "_staging": None,
            "_staged": None,
            "_unsent": set(),
            "_in_doubt": False,
            "_outer": None,
        }

    @property
    def folder(self) -> None:
        """An encoding that was interrupted begins again: what grew here may be elsewhere."""
        return

    def inside(self, name: str) -> ObjectStore:
        """Give the same store with a longer prefix."""
        store = ObjectStore(f"{self._url}/{name}", self._options)
        store._outer = self
        return store

    def prepare(self, nbytes: int) -> None:
        """Make a temporary folder, in which the blocks grow, and see that its disk has room."""
        self._staging = tempfile.TemporaryDirectory(prefix="sooner-")
        self._staged = LocalFolder(self._staging.name)
        try:
            self._staged.prepare(nbytes)
        except StoreError as error:
            self._unstage()
            raise StoreError(
                f"blocks for {self} grow in the folder for temporary files (TMPDIR) first: {error}"
            ) from error

    def append(self, name: str, data: bytes | memoryview) -> None:
        """Add bytes to an object that is not sent yet."""
        self._unsent.add(name)
        self._folder.append(name, data)

    def finish(self, names: Iterable[str]) -> None:
        """Send objects, several at a time."""
        folder = self._folder
        with ThreadPoolExecutor(_UPLOADS) as pool:
            list(pool.map(lambda name: self._send(folder, name), names))
        self._unstage()

    def _send(self, folder: LocalFolder, name: str) -> None:
        path = folder.growing(name)
        with _explained(f"{self}/{name} cannot be written"):
            self._unsent.discard(name)
            _patiently(lambda: _obstore().put(self._client, name, path))
        path.unlink()

    def discard(self, names: Iterable[str]) -> None:
        """Remove objects, sent or not."""
        in_doubt = self._in_doubt or (self._outer is not None and self._outer._in_doubt)
        sent = [] if in_doubt else [name for name in names if name not in self._unsent]
        self._unsent.clear()
        self._unstage()
        if sent:
            with contextlib.suppress(Exception):  # such as no permission to delete
                _obstore().delete(self._client, sent)

    def commit(self, manifest: bytes, *, overwrite: bool) -> bytes | None:
        """Put the manifest on condition that nobody else has put one since it was looked at."""
        old: bytes | None = None
        mode: Any = "create"
        if overwrite:
            with contextlib.suppress(StoreNotFoundError):
                old, mode = self._read_manifest()
        exceptions = _obstore().exceptions
        taken_errors = exceptions.AlreadyExistsError, exceptions.PreconditionError
        try:
            with _explained(f"{self}/{MANIFEST} cannot be written", but=taken_errors):
                _patiently(lambda: _obstore().put(self._client, MANIFEST, manifest, mode=mode))
        except taken_errors:
            # An answer that was lost on its way is asked for again, and then it is our own
            # manifest that is in the way.
            if self.read_manifest() == manifest:
                return old
            if overwrite:
                raise StoreExistsError(
                    f"{self} was written by somebody else at the same time, and holds what they "
                    f"wrote. Encode again with overwrite=True to replace that."
                ) from None
            raise StoreExistsError(taken(self)) from None
        except StoreError:
            self._in_doubt = True  # it may have arrived, and then needs its blocks
            raise
        return old

    def write(self, name: str, data: bytes) -> None:
        """Put an object."""
        with _explained(f"{self}/{name} cannot be written"):
            _patiently(lambda: _obstore().put(self._client, name, data))

    def read(self, name: str) -> bytes:
        """Give the contents of an object."""
        return self._read(name)[0]

    def read_manifest(self) -> bytes:
        """Give the contents of the manifest."""
        return self._read_manifest()[0]

    def _read_manifest(self) -> tuple[bytes, dict[str, str]]:
        try:
            return self._read(MANIFEST)
        except StoreNotFoundError:
            raise StoreNotFoundError(absent(self)) from None

    def _read(self, name: str) -> tuple[bytes, dict[str, str]]:
        """Give the contents of an object, and what tells a later one of that name from it."""

        def read() -> tuple[bytes, dict[str, str]]:
            result = _obstore().get(self._client, name)
            marks = {mark: result.meta[mark] for mark in ("e_tag", "version")}
            return bytes(result.bytes()), {name: mark for name, mark in marks.items() if mark}

        try:
            with _explained(f"{self}/{name} cannot be read", but=(FileNotFoundError,)):
                return _patiently(read)
        except FileNotFoundError:
            raise StoreNotFoundError(no_object(self, name)) from None

    def source(self, name: str) -> dict[str, Any]:
        """Give the URL of the store, the name, and what obstore needs beside."""
        return {
            "kind": "object",
            "path": f"{self}/{name}",
            "url": self._url,
            "name": name,
            "options": self._options,
        }

    @property
    def _client(self) -> Client:
        return _client(self._url, self._options)

    @property
    def _folder(self) -> LocalFolder:
        if self._staged is None:
            raise StoreError(f"{self} was not prepared for new objects.")
        return self._staged

    def _unstage(self) -> None:
        if self._staging is not None:
            self._staging.cleanup()
        self._staging = self._staged = None


def fetch(source: dict[str, Any], first: int, length: int, size: int) -> memoryview:
    """Bytes of an object, by one range request; more of them only where one breaks off.

    Parameters
    ----------
    source
        What `ObjectStore.source` gave, and the ``index`` of the block.
    first
        Where they begin.
    length
        How many; at least one.
    size
        What the object must measure.

    Returns
    -------
    memoryview
        The bytes, not checked.

    Raises
    ------
    BlockLostError
        If the object is missing, forbidden, of another size, or cannot be read.
    """
    client = _client(source["url"], source["options"])
    obstore = _obstore()

    def read() -> tuple[int, memoryview]:
        result = obstore.get(client, source["name"], options={"range": (first, first + length)})
        actual, data = result.meta["size"], memoryview(result.bytes())
        if actual == size and len(data) != length:
            raise OSError(f"{len(data)} bytes came instead of {length}")
        return actual, data

    try:
        actual, data = _patiently(read)
        why = _wrong_size(actual, size)
    except FileNotFoundError:
        why = "missing"
    except (obstore.exceptions.PermissionDeniedError, obstore.exceptions.UnauthenticatedError):
        why = "permission denied"
    except (obstore.exceptions.BaseError, OSError) as error:
        why = _wrong_size(_size(client, source["name"]), size)
        why = why or f"not readable: {_first_line(error)}"
    if why:
        raise BlockLostError(f"coded block {source['index']} is lost: {source['path']} is {why}.")
    return data


def _wrong_size(actual: int | None, size: int) -> str:
    if actual is None or actual == size:
        return ""
    return f"{'truncated' if actual < size else 'damaged'}: {actual} bytes instead of {size}"


def _size(client: Client, name: str) -> int | None:
    """Size of an object, if it can be had: a range beyond its end is refused without a reason."""
    with contextlib.suppress(Exception):
        return int(_obstore().head(client, name)["size"])
    return None


def _patiently(call: Callable[[], T]) -> T:
    """Read or write, a few times over when a connection breaks off, with growing pauses."""
    exceptions = _obstore().exceptions
    final = (
        exceptions.PermissionDeniedError,
        exceptions.UnauthenticatedError,
        exceptions.AlreadyExistsError,
        exceptions.PreconditionError,
        FileNotFoundError,
    )
    for attempt in range(1, _ATTEMPTS):
        try:
            return call()
        except final:
            raise
        except (exceptions.BaseError, OSError) as error:
            if "416 Range Not" in _first_line(
                error
            ):  # a range beyond the end, which no patience helps
                raise
            time.sleep(random.random() * _FIRST_PAUSE * 2**attempt)
    return call()


@contextlib.contextmanager
def _explained(message: str, but: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Turn what obstore raises, `but` some, into a `StoreError` that says what for."""
    exceptions = _obstore().exceptions
    try:
        yield
    except but:
        raise
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise StoreError(
            f"{message}: permission denied. Give credentials that may, in the environment or as "
            f"storage_options."
        ) from error
    except (exceptions.BaseError, FileNotFoundError) as error:
        raise StoreError(f"{message}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]


def _obstore() -> ModuleType:
    try:
        import obstore
    except ImportError as error:
        raise MissingExtraError(
            'stores behind a URL need obstore: pip install "sooner[s3]"'
        ) from error
    return obstore


def _client(url: str, options: Mapping[str, Any]) -> Client:
    """Give the client of a store; one keeps its connections between requests."""
    pid = os.getpid()
    if any(owner != pid for owner, _, _ in _clients):  # a request would wait for ever
        raise StoreError(
            f"{url} cannot be reached from a process that was forked from one that had used an "
            f"object store, since obstore's threads do not survive a fork. Start workers with "
            f"'spawn' or 'forkserver', or use LocalExecutor."
        )
    key = pid, url, json.dumps(options, sort_keys=True, default=repr)
    client = _clients.get(key)
    if client is None:
        obstore = _obstore()
        from obstore.store import from_url

        try:
            client = from_url(url, **{"retry_config": _PATIENCE, **options})
        except (obstore.exceptions.BaseError, TypeError, ValueError) as error:
            raise ValueError(
                f"store and storage_options must be what obstore.store.from_url takes, got "
                f"{url!r} with {sorted(options)}: {_first_line(error)}"
            ) from error
        _clients[key] = client
    return client
