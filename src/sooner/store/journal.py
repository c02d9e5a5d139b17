"""What is written of an encoding that is under way, so that the next one can take it up.

A journal lies in the folder of the blocks and is locked as long as its writer lives: one that
nobody holds is what a killed writer left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sooner.store.slabs import checksum

try:
    import fcntl
except ImportError:  # without locks nobody can tell a dead writer from a slow one
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Journal", "interrupted"]


class Journal:
    """One encoding's slabs as they are finished: the checksums of all blocks, the fingerprint.

    Parameters
    ----------
    file
        Opened and locked.
    facts
        What the encoding is; another one must not go on with its blocks.
    slabs
        The finished slabs: the checksum of each block's slab, and the fingerprint up to there.
    ends
        Where the line of each finished slab ends in the file; first that of the facts.
    """

    def __init__(
        self,
        file: IO[bytes],
        facts: dict[str, Any],
        slabs: list[tuple[list[int], str]],
        ends: list[int],
    ) -> None:
        self._file, self._ends = file, ends
        self.facts, self.slabs = facts, slabs

    @classmethod
    def create(cls, folder: Path, facts: Mapping[str, Any]) -> Journal | None:
        """Begin a journal.

        Parameters
        ----------
        folder
            Where the blocks grow.
        facts
            What the encoding is, as JSON values; its ``generation`` among them.

        Returns
        -------
        Journal or None
            None where files cannot be locked, or the journal cannot be written: an encoding
            does without rather than fail.
        """
        path = folder / f"encoding-{facts['generation']}.journal"
        with contextlib.suppress(OSError):
            file = path.open("xb")
            journal = cls(file, dict(facts), [], [])
            try:
                if _lock(file, wait=True):
                    journal._write(facts)
                    return journal
            except OSError:
                pass
            journal.remove()
        return None

    def append(self, crc32c: Sequence[int], fingerprint: str) -> None:
        """Note that a slab of every block is written, as far as that is possible.

        Parameters
        ----------
        crc32c
            Its checksum in each block.
        fingerprint
            Of the matrix up to there.
        """
        self.slabs.append((list(crc32c), fingerprint))
        with contextlib.suppress(OSError):  # then less can be taken up
            self._write(self.slabs[-1])

    def cut(self, n_slabs: int) -> None:
        """Forget all slabs but the first few.

        Parameters
        ----------
        n_slabs
            How many to keep.
        """
        del self.slabs[n_slabs:], self._ends[n_slabs + 1 :]
        self._file.truncate(self._ends[-1])
        self._file.seek(self._ends[-1])

    def remove(self) -> None:
        """Remove the file, and with it the lock."""
        with contextlib.suppress(OSError):
            Path(self._file.name).unlink(missing_ok=True)
        self._file.close()

    def _write(self, value: Any) -> None:
        self._file.write(json.dumps(value).encode() + b"\n")
        self._file.flush()
        self._ends.append(self._file.tell())

    def intact_slabs(self, paths: Sequence[Path], header: bytes, slab_bytes: int) -> int:
        """Count the slabs that every block has, intact; believes only checksums.

        Parameters
        ----------
        paths
            The files of the blocks.
        header
            What each begins with.
        slab_bytes
            Size of a slab; the last one may be smaller.

        Returns
        -------
        int
            How many of the finished slabs, from the first on, are there in all blocks.
        """
        n_slabs = len(self.slabs)
        for index, path in enumerate(paths):
            try:
                with path.open("rb") as file:
                    if file.read(len(header)) != header:
                        return 0
                    for slab in range(n_slabs):
                        rows = np.frombuffer(file.read(slab_bytes), np.uint8)
                        if checksum(rows) != self.slabs[slab][0][index]:
                            n_slabs = slab
                            break
            except OSError:
                return 0
        return n_slabs


def interrupted(folder: Path) -> Iterator[Journal]:
    """Journals that nobody holds any more; each is locked when it is given.

    Parameters
    ----------
    folder
        Where blocks may have been growing.

    Yields
    ------
    Journal
        To be gone on with, or removed.
    """
    for path in sorted(folder.glob("encoding-*.journal")):
        try:
            file = path.open("rb+")
        except OSError:
            continue
        journal = _read(file) if _lock(file, wait=False) else None
        if journal is None:
            file.close()
        else:
            yield journal


def _read(file: IO[bytes]) -> Journal | None:
    """Give a journal as far as it can be read; a killed writer's last line may be half a line."""
    facts: dict[str, Any] | None = None
    slabs: list[tuple[list[int], str]] = []
    ends: list[int] = []
    position = 0
    with contextlib.suppress(ValueError, TypeError):
        for line in file:
            if not line.endswith(b"\n"):
                break
            value = json.loads(line)
            if facts is None:
                facts = {**value}
            else:
                crc32c, fingerprint = value
                slabs.append((crc32c, fingerprint))
            position += len(line)
            ends.append(position)
    if facts is None or not isinstance(facts.get("n"), int):
        return None
    if not re.fullmatch(r"[0-9a-f]{12}", str(facts.get("generation"))):
        return None
    return Journal(file, facts, slabs, ends)


def _lock(file: IO[bytes], *, wait: bool) -> bool:
    """Lock a file for as long as this process lives and keeps it open."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # whoever held it before may have removed it
        return os.fstat(file.fileno()).st_nlink > 0
    except OSError:
        return False
