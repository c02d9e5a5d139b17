"""A coded matrix at rest, as its users hold it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes import SideBySide, from_spec
from sooner.errors import MissingAdjointError, StoreFormatError
from sooner.store import slabs
from sooner.store.gram import unpacked
from sooner.store.location import ADJOINT, MANIFEST, as_location
from sooner.store.manifest import read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

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
        """Bytes of the numbers of all blocks that are stored."""
        manifest = self._manifest
        return sum(block.size - manifest.header_bytes for block in manifest.blocks)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the matrix that was encoded: shape, element type and values."""
        return self._manifest.fingerprint

    @functools.cached_property
    def gram(self) -> NDArray[np.float64] | None:
        """Inner products of the data blocks over the largest of them, shape (k, k).

        None unless they were kept (``encode(..., gram=True)``).
        """
        text = self._manifest.gram
        return unpacked(text, self._code.k) if text else None

    @functools.cached_property
    def T(self) -> CodedMatrix:
        """The transpose, coded; there with ``encode(..., adjoint=True)``.

        It has blocks and a code of its own, and its transpose is this matrix.  The adjoint of a
        complex matrix needs no more: the product of A's adjoint and y is that of A.T and the
        conjugate of y, conjugated.

        Raises
        ------
        MissingAdjointError
            If it was not encoded.
        """
        if self._manifest.adjoint is None:
            raise MissingAdjointError(
                "this matrix was encoded without its transpose, so products of A.T and A.H cannot "
                "be computed. Encode again with adjoint=True."
            )
        transpose = _opened(self._location.inside(ADJOINT), self._manifest.adjoint)
        transpose.__dict__["T"] = self
        return transpose

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
            The block, read-only; a memory map where it is a local file.  Of a sparse matrix a
            SciPy ``csr_array``.

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
        if self._manifest.holds == "coded":
            return self._stored_source(number, number)
        used = self.stored_for(number)
        coefs, first = self._sums(number)
        return {
            "kind": "sum",
            "path": f"{self._location}, a sum of data blocks",
            "index": number,
            "shape": (self.block_rows, self.shape[1]),
            "dtype": self._manifest.dtype,
            "coefs": tuple(float(coefs[block - first]) for block in used),
            "sources": tuple(self._stored_source(block, number) for block in used),
        }

    @property
    def n_stored(self) -> int:
        """Blocks in the store: n coded ones, or k data blocks that tasks encode."""
        return self._code.n if self._manifest.holds == "coded" else self._code.k

    @property
    def read_amplification(self) -> float:
        """Stored blocks that a task reads on average: 1, unless tasks encode."""
        return sum(len(self.stored_for(task)) for task in range(self._code.n)) / self._code.n

    def stored_for(self, index: int) -> tuple[int, ...]:
        """Say which stored blocks make a coded block.

        Parameters
        ----------
        index
            Which coded block.

        Returns
        -------
        tuple of int
            Itself, or the data blocks that a task adds up.
        """
        if self._manifest.holds == "coded":
            return (index,)
        coefs, first = self._sums(index)
        return tuple((np.flatnonzero(coefs) + first).tolist())

    def _stored_source(self, block: int, index: int) -> dict[str, Any]:
        """Source of a stored block, for the coded block `index`."""
        manifest = self._manifest
        if manifest.layout == "dense":
            shape = (self.block_rows, self.shape[1])
            return self._object_source(block, index, shape, manifest.dtype)
        parts = {
            name: self._object_source(
                3 * block + place, index, (manifest.entries(3 * block + place), 1), dtype
            )
            for place, (name, dtype) in enumerate(manifest.sparse_parts())
        }
        return {
            "kind": "csr",
            "path": parts["data"]["path"],
            "index": index,
            "shape": (self.block_rows, self.shape[1]),
            "dtype": manifest.dtype,
            **parts,
        }

    def _object_source(
        self, place: int, index: int, shape: tuple[int, int], dtype: str
    ) -> dict[str, Any]:
        block = self._manifest.blocks[place]
        return {
            **self._location.source(block.name),
            "index": index,
            "offset": self._manifest.header_bytes,
            "shape": shape,
            "dtype": dtype,
            "slab_rows": self.slab_rows,
            "crc32c": block.crc32c,
        }

    def _sums(self, index: int) -> tuple[Array, int]:
        """What a coded block is of the data blocks of its part: coefficients, and the first one."""
        first = 0
        for coefs in self._coefficients:
            if index < len(coefs):
                break
            index -= len(coefs)
            first += coefs.shape[1]
        return coefs[index], first

    @functools.cached_property
    def _coefficients(self) -> list[Array]:
        """What each output of each part adds up, shapes (n, k) of the parts."""
        codes = self._code.codes if isinstance(self._code, SideBySide) else (self._code,)
        return [code.encode(np.eye(code.k)) for code in codes]

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


def stored_sources(coded: CodedMatrix) -> Iterator[dict[str, Any]]:
    """Sources of the blocks that are stored, which are the coded blocks as a rule.

    Parameters
    ----------
    coded
        The matrix.

    Yields
    ------
    dict
        As from `CodedMatrix.block_source`.
    """
    for block in range(coded.n_stored):
        yield coded._stored_source(block, block)


def open_coded(
    store: StoreLike, *, storage_options: Mapping[str, Any] | None = None
) -> CodedMatrix:
    """Open a matrix that was encoded before; reads its manifest and no block.

    Parameters
    ----------
    store
        A path to a local folder, a URL such as ``"s3://bucket/A"``, or a `MemoryStore`.
    storage_options
        Options of a store behind a URL, as in `encode`.

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
    return _opened(location, read_manifest(location))


def _opened(location: Location, manifest: Manifest) -> CodedMatrix:
    """Give a matrix whose manifest says what is needed to use it."""
    try:
        code = from_spec(manifest.code)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreFormatError(
            f"{location}/{MANIFEST} names a code that this version of sooner cannot rebuild: "
            f"{error} Open it with the version that wrote it, sooner {manifest.sooner_version}."
        ) from error
    coded = CodedMatrix(location, manifest, code)
    per_block = 1 if manifest.layout == "dense" else 3
    if coded.n_stored * per_block != len(manifest.blocks):
        raise StoreFormatError(
            f"{location}/{MANIFEST} is damaged: it has {len(manifest.blocks)} blocks for a code "
            f"of n={code.n}. Encode the matrix again with overwrite=True."
        )
    return coded
