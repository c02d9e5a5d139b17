"""A coded matrix at rest, as its users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes import from_spec
from sooner.errors import StoreFormatError
from sooner.store import slabs
from sooner.store.location import MANIFEST, as_location
from sooner.store.manifest import read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sooner._types import Array
    from sooner.codes.base import Code
    from sooner.store.location import Location, StoreLike
    from sooner.store.manifest import Manifest

__all__ = ["CodedMatrix", "open_coded"]


class CodedMatrix:
    """A matrix as n coded blocks at rest; made by `encode` and `open_coded`.

    It knows where its blocks are and reads none until asked.  Two of them are equal when they
    are the same encoding in the same store; pickling takes the manifest along and no block,
    except from memory, where the blocks have no other place.

    Parameters
    ----------
    location
        Where the blocks are.
    manifest
        What they are.
    code
        What made them.

    Examples
    --------
    >>> import sooner
    >>> A = np.arange(6.0).reshape(3, 2)
    >>> coded = sooner.encode(A, sooner.Uncoded(2))
    >>> coded.shape, coded.dtype, coded.nbytes
    ((3, 2), dtype('float64'), 64)
    >>> coded.block(1)
    array([[4., 5.],
           [0., 0.]])
    """

    def __init__(self, location: Location, manifest: Manifest, code: Code) -> None:
        self._location = location
        self._manifest = manifest
        self._code = code

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix that was encoded."""
        return self._manifest.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the coded blocks."""
        return np.dtype(self._manifest.dtype)

    @property
    def code(self) -> Code:
        """What made the blocks, and undoes them."""
        return self._code

    @property
    def block_rows(self) -> int:
        """Rows of each block: ``ceil(rows / k)``, the last data blocks padded with zeros."""
        return self._manifest.block_rows

    @property
    def slab_rows(self) -> int:
        """Rows of each slab of a block, the last one aside."""
        return self._manifest.slab_rows

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers of all blocks."""
        return self._code.n * self.block_rows * self.shape[1] * self.dtype.itemsize

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the matrix that was encoded: shape, element type and values."""
        return self._manifest.fingerprint

    @property
    def location(self) -> str:
        """Name of the store."""
        return str(self._location)

    @property
    def manifest(self) -> Manifest:
        """Everything that is written about it."""
        return self._manifest

    def block(self, index: int) -> Array:
        """One coded block, its checksums compared.

        Parameters
        ----------
        index
            Which one, in ``0 … n-1``.

        Returns
        -------
        ndarray, shape (block_rows, columns)
            The block, read-only; a memory map where it is a local file.

        Raises
        ------
        BlockLostError
            If it is missing, forbidden, truncated or damaged.
        IndexError
            If there is no such block.
        """
        return slabs.read_block(self.block_source(index))

    def block_source(self, index: int) -> dict[str, Any]:
        """All that a worker needs to read one coded block, without the manifest.

        Parameters
        ----------
        index
            Which one, in ``0 … n-1``.

        Returns
        -------
        dict
            Builtins only; `sooner.store.slabs` reads it.

        Raises
        ------
        IndexError
            If there is no such block.
        """
        number = _checks.integer(index, "index")
        if not 0 <= number < self._code.n:
            raise IndexError(f"index must satisfy 0 <= index < {self._code.n}, got index={number}.")
        block = self._manifest.blocks[number]
        return {
            **self._location.source(block.name),
            "index": number,
            "offset": self._manifest.header_bytes,
            "shape": (self.block_rows, self.shape[1]),
            "dtype": self._manifest.dtype,
            "slab_rows": self.slab_rows,
            "crc32c": block.crc32c,
        }

    def __repr__(self) -> str:
        return (
            f"CodedMatrix(shape={self.shape}, dtype={self.dtype}, n={self._code.n}, "
            f"k={self._code.k}, {self.nbytes / 1e6:.1f} MB, {self.location!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CodedMatrix):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, str]:
        return self.location, self._manifest.generation


def open_coded(
    store: StoreLike, *, storage_options: Mapping[str, Any] | None = None
) -> CodedMatrix:
    """Open a matrix that was encoded before; reads its manifest and no block.

    Parameters
    ----------
    store
        A path to a local folder, or a `MemoryStore`.
    storage_options
        Options of a remote store; the stores of this version take none.

    Returns
    -------
    CodedMatrix
        The matrix.

    Raises
    ------
    StoreNotFoundError
        If nothing complete is there.
    StoreFormatError
        If a later version of sooner wrote it, or its manifest is damaged.

    Examples
    --------
    >>> import sooner
    >>> store = sooner.store.MemoryStore()
    >>> coded = sooner.encode(np.eye(3), sooner.Uncoded(3), store)
    >>> open_coded(store).block(2)
    array([[0., 0., 1.]])
    """
    location = as_location(store, storage_options)
    manifest = read_manifest(location)
    try:
        code = from_spec(manifest.code)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreFormatError(
            f"{location}/{MANIFEST} names a code that this version of sooner cannot rebuild: "
            f"{error} Open it with the version that wrote it, sooner {manifest.sooner_version}."
        ) from error
    if code.n != len(manifest.blocks):
        raise StoreFormatError(
            f"{location}/{MANIFEST} is damaged: it has {len(manifest.blocks)} blocks for a code "
            f"of n={code.n}. Encode the matrix again with overwrite=True."
        )
    return CodedMatrix(location, manifest, code)
