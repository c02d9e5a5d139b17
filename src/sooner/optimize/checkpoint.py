"""Checkpoints: written whole or not at all, checked when read, never unpickled.

A file is one line of JSON with length and CRC-32C of the rest, and then an ``.npz`` archive.
"""

from __future__ import annotations

import io
import json
import logging
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np

from sooner.errors import StoreFormatError, StoreNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sooner._types import Array

__all__ = ["exists", "read", "write"]

_log = logging.getLogger(__name__)

_FORMAT = 1
_FACTS = "facts"


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def exists(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is a checkpoint, be it the previous one.

    Parameters
    ----------
    path
        Where it was written.

    Returns
    -------
    bool
        Whether there is one.
    """
    return Path(path).exists() or _previous(Path(path)).exists()


def write(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], facts: Mapping[str, Any]
) -> None:
    """Write a checkpoint; the one before stays beside it, as ``<path>.previous``.

    Parameters
    ----------
    path
        Where.
    arrays
        By name.
    facts
        JSON values.
    """
    path = Path(path)
    archive = io.BytesIO()
    contents: dict[str, Any] = {**arrays, _FACTS: np.array(json.dumps(dict(facts)))}
    np.savez(archive, **contents)
    content = archive.getvalue()
    head = {"format": _FORMAT, "length": len(content), "crc32c": google_crc32c.value(content)}
    growing = path.with_name(path.name + ".tmp")
    with growing.open("wb") as file:
        file.write(json.dumps(head).encode() + b"\n" + content)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(_previous(path))
    growing.replace(path)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read the latest checkpoint that is whole.

    Parameters
    ----------
    path
        Where it was written.

    Returns
    -------
    dict of str to ndarray
        The arrays.
    dict of str to object
        The facts.

    Raises
    ------
    StoreNotFoundError
        If there is none.
    StoreFormatError
        If neither it nor the previous one is whole.
    """
    path = Path(path)
    if not exists(path):
        raise StoreNotFoundError(f"no checkpoint lies at {path}.")
    reasons = []
    for place in (path, _previous(path)):
        try:
            found = _read(place)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            reasons.append(f"{place.name}: {error}")
        else:
            if reasons:
                _log.warning("went back to the previous checkpoint: %s", reasons[0])
            return found
    raise StoreFormatError(f"no checkpoint at {path} is whole ({'; '.join(reasons)}).")


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    line, _, content = path.read_bytes().partition(b"\n")
    head = json.loads(line)
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise ValueError("it is of another format")
    if head["length"] != len(content) or head["crc32c"] != google_crc32c.value(content):
        raise ValueError("it is truncated or damaged")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = dict(archive)
    return arrays, json.loads(str(arrays.pop(_FACTS)))
