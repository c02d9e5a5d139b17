"""The manifest of a coded matrix: what its blocks are, and how to tell that they are intact."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner._version import __version__
from sooner.errors import StoreFormatError
from sooner.store.location import MANIFEST
from sooner.store.slabs import checksum

if TYPE_CHECKING:
    from sooner.store.location import Location

__all__ = ["FORMAT", "FORMAT_VERSION", "Block", "Manifest", "read_manifest"]

FORMAT = "sooner coded matrix"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Block:
    """One object of a store."""

    name: str
    """Of the object, beside the manifest."""
    size: int
    """Of the object, in bytes, its header included."""
    crc32c: tuple[int, ...]
    """Checksum of each row slab, in order."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """All there is to know about a coded matrix at rest, its numbers aside."""

    shape: tuple[int, int]
    """Of the matrix that was encoded."""
    dtype: str
    """Of the blocks' elements, little-endian, as NumPy names it: ``"<f8"``."""
    source_dtype: str
    """Of the matrix that was encoded, likewise."""
    layout: str
    """``"dense"``: one array per block, or ``"csr"``: three per block, for a sparse matrix."""
    holds: str
    """``"coded"``: the n coded blocks, or ``"data"``: the k data blocks, which tasks encode."""
    block_rows: int
    """Rows of each block: those of the matrix, shared among k and rounded up."""
    slab_rows: int
    """Rows of each slab; the last one of a block may have fewer."""
    header_bytes: int
    """Where the numbers of each object begin."""
    code: dict[str, Any]
    """All that rebuilds the code."""
    fingerprint: str
    """SHA-256 of the matrix that was encoded (`sooner.store.fingerprint`)."""
    gram: str
    """Inner products of the data blocks (`sooner.store.gram`); empty if they were not kept."""
    generation: str
    """Random; part of the blocks' names, so that no two encodings share any."""
    created: str
    """When the blocks were complete, ISO 8601 in UTC."""
    sooner_version: str
    """What wrote it."""
    blocks: tuple[Block, ...]
    """The objects, in the order of the coded blocks."""
    adjoint: Manifest | None = None
    """Of the transpose, whose objects are in a place inside the store; None without."""
    axis: int = 0
    """1 if the matrix is the transpose of the one that was encoded, by its columns."""

    def to_json(self) -> bytes:
        """Give the contents of ``manifest.json``.

        Returns
        -------
        bytes
            UTF-8, one line per field and one per block.
        """
        fields = {"format": FORMAT, "format_version": FORMAT_VERSION, **self._fields()}
        fields["checksum"] = _checksum(fields)
        blocks = ",\n".join(f"    {json.dumps(block)}" for block in fields.pop("blocks"))
        lines = [f'  "{key}": {json.dumps(value)},\n' for key, value in fields.items()]
        return f'{{\n{"".join(lines)}  "blocks": [\n{blocks}\n  ]\n}}\n'.encode()

    @classmethod
    def from_json(cls, data: bytes, name: str) -> Manifest:
        """Read the contents of ``manifest.json``, and believe nothing in it unchecked.

        Parameters
        ----------
        data
            The contents.
        name
            Of the manifest, for messages.

        Returns
        -------
        Manifest
            The manifest.

        Raises
        ------
        StoreFormatError
            If a later version wrote it, or it is damaged, or it is of another program.
        """
        fields = _load(data, name)
        try:
            return cls._from_fields(_unsealed(fields))
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise StoreFormatError(_damaged(name, f"{type(error).__name__}: {error}")) from error

    def _fields(self) -> dict[str, Any]:
        """Give the fields as JSON has them."""
        fields = asdict(replace(self, adjoint=None))
        del fields["adjoint"]
        if not self.axis:
            del fields["axis"]
        return fields if self.adjoint is None else fields | {"adjoint": self.adjoint._fields()}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Manifest:
        blocks = tuple(
            Block(block["name"], block["size"], tuple(block["crc32c"]))
            for block in fields.pop("blocks")
        )
        rows, columns = fields.pop("shape")
        adjoint = cls._from_fields(fields.pop("adjoint")) if "adjoint" in fields else None
        manifest = cls(shape=(rows, columns), blocks=blocks, adjoint=adjoint, **fields)
        manifest._check()
        return manifest

    @property
    def n_slabs(self) -> int:
        """Row slabs of each block; of a sparse one, 1."""
        return -(-self.block_rows // self.slab_rows) if self.layout == "dense" else 1

    def entries(self, place: int) -> int:
        """Numbers in one of the objects of a sparse matrix.

        Parameters
        ----------
        place
            Which object.

        Returns
        -------
        int
            How many.
        """
        itemsize = np.dtype(self.sparse_parts()[place % 3][1]).itemsize
        return (self.blocks[place].size - self.header_bytes) // itemsize

    def sparse_parts(self) -> tuple[tuple[str, str], ...]:
        """Names and element types of the three arrays of a sparse block, as SciPy has them.

        Returns
        -------
        tuple of (str, str)
            In the order of the objects.
        """
        indices = "<i4" if self.shape[1] <= np.iinfo(np.int32).max else "<i8"
        return ("data", self.dtype), ("indices", indices), ("indptr", "<i8")

    def _check(self) -> None:
        """Hold the fields against each other; whoever computes a checksum can still be wrong."""
        if self.layout not in {"dense", "csr"} or self.holds not in {"coded", "data"}:
            raise ValueError(f"its layout is {self.layout!r} and it holds {self.holds!r}")
        if self.axis not in {0, 1}:
            raise ValueError(f"its axis is {self.axis!r}")
        if self.adjoint is not None and self.adjoint.shape != self.shape[::-1]:
            raise ValueError(f"it is of shape {self.shape}, its adjoint of {self.adjoint.shape}")
        for place, block in enumerate(self.blocks):
            if not block.name or "/" in block.name or "\\" in block.name:
                raise ValueError(f"a block is named {block.name!r}, which is not beside it")
            if not self._fits(place, block):
                raise ValueError(f"{block.name} does not fit the shape of the matrix")

    def _fits(self, place: int, block: Block) -> bool:
        nbytes = block.size - self.header_bytes
        if self.layout == "dense":
            row_bytes = self.shape[1] * np.dtype(self.dtype).itemsize
            return nbytes == self.block_rows * row_bytes and len(block.crc32c) == self.n_slabs
        entries = self.entries(place)
        first = place - place % 3
        expected = self.entries(first) if place % 3 < 2 else self.block_rows + 1
        return entries == expected and len(block.crc32c) == -(-entries // self.slab_rows)


def read_manifest(location: Location) -> Manifest:
    """Read the manifest of a store.

    Parameters
    ----------
    location
        Where.

    Returns
    -------
    Manifest
        The manifest.
    """
    return Manifest.from_json(location.read_manifest(), f"{location}/{MANIFEST}")


def _load(data: bytes, name: str) -> dict[str, Any]:
    """Give the fields, if this version can read them."""
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise StoreFormatError(_damaged(name, str(error))) from error
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise StoreFormatError(f"{name} was not written by sooner. Is this the right folder?")
    version = fields.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise StoreFormatError(_damaged(name, f"its format_version is {version!r}"))
    if version > FORMAT_VERSION:
        raise StoreFormatError(
            f"{name} has store format {version}; this version of sooner ({__version__}) reads up "
            f"to {FORMAT_VERSION}. Upgrade sooner."
        )
    return fields


def _unsealed(fields: dict[str, Any]) -> dict[str, Any]:
    """Give the fields of the matrix, if they are as they were written."""
    if fields.pop("checksum") != _checksum(fields):
        raise ValueError("it was changed after it was written")
    del fields["format"], fields["format_version"]
    return fields


def _damaged(name: str, why: str) -> str:
    return (
        f"{name} is damaged: {why} (this version of sooner reads store format {FORMAT_VERSION}). "
        f"Restore it from a copy, or encode the matrix again with overwrite=True."
    )


def _checksum(fields: dict[str, Any]) -> int:
    """CRC-32C over the fields as canonical JSON: a flipped digit of the code would go unseen."""
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return checksum(np.frombuffer(canonical.encode(), np.uint8))
