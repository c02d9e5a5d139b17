"""A small coded matrix in the user's store, to see whether it keeps what is written."""

from __future__ import annotations

import contextlib
import functools
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes import PolarCode
from sooner.doctor.finding import CheckFailedError
from sooner.jobs import encode
from sooner.store import open_coded
from sooner.store.location import MANIFEST, as_location

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sooner._types import Array
    from sooner.store import CodedMatrix

__all__ = ["MATRIX", "code", "encoded_in", "write_and_read_back"]

MATRIX: Array = np.arange(200.0).reshape(40, 5) / 7.0
"""What is encoded."""


@functools.cache
def code() -> PolarCode:
    """With what it is encoded."""
    return PolarCode(4, 3, rng=0)


def write_and_read_back(store: str, options: Mapping[str, Any]) -> str:
    """Encode a small matrix in a store, read its blocks, and remove it.

    Parameters
    ----------
    store
        Folder or URL.
    options
        For obstore.

    Returns
    -------
    str
        What was done.

    Raises
    ------
    CheckFailedError
        If something else is read than was written.
    """
    with encoded_in(store, options) as coded:
        again = open_coded(coded.location, storage_options=options or None)
        expected = encode(MATRIX, code())
        if any(np.any(again.block(i) != expected.block(i)) for i in range(code().n)):
            raise CheckFailedError(f"what was read from {coded.location} is not what was written.")
    return f"{store}: written, read back, removed"


@contextlib.contextmanager
def encoded_in(store: str, options: Mapping[str, Any]) -> Generator[CodedMatrix]:
    """Keep a small coded matrix in a store for a while.

    Parameters
    ----------
    store
        Folder or URL.
    options
        For obstore.

    Yields
    ------
    CodedMatrix
        Of `MATRIX`, under a name of its own.
    """
    as_location(store, options)  # an empty one is refused before something is added to it
    where = f"{store.rstrip('/')}/sooner-doctor-{secrets.token_hex(6)}"
    coded = encode(MATRIX, code(), where, storage_options=options or None)
    try:
        yield coded
    finally:
        _remove(where, coded, options)


def _remove(where: str, coded: CodedMatrix, options: Mapping[str, Any]) -> None:
    paths = (coded.block_source(i)["path"] for i in range(coded.code.n))
    location = as_location(where, options)
    location.discard([MANIFEST, *(path.rpartition("/")[2] for path in paths)])
    if location.folder is not None:
        with contextlib.suppress(OSError):
            Path(where).rmdir()
