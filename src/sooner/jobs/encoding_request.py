"""What `encode` is asked to do, the matrix aside."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from sooner._version import __version__
from sooner.store.location import ADJOINT
from sooner.store.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from sooner.codes.base import Code
    from sooner.store.location import Location
    from sooner.store.sparse_writer import SparseWriter
    from sooner.store.writer import BlockWriter

    Progress: TypeAlias = Callable[[int, int], None]

__all__ = ["Request", "Written"]


@dataclass(frozen=True, slots=True)
class Request:
    """What `encode` is asked to do, the matrix aside."""

    code: Code
    """Which sums."""
    location: Location
    """Where to write them."""
    home: Location
    """Where the manifest goes that names them."""
    dtype: DTypeLike | None
    """Of the blocks, if the user says."""
    max_memory: int
    """Bytes to take at a time."""
    check: bool
    """Whether to refuse what is not finite."""
    holds: str
    """What is stored: ``"coded"`` blocks, or blocks of ``"data"``."""
    overwrite: bool
    """Whether to replace what is there."""
    progress: Progress | None
    """Called with what is done, and with all there is to do."""
    slab_bytes: int
    """What a slab should measure."""
    exponents: bool
    """Whether blocks of very different size get exponents."""
    gram: bool
    """Whether to keep the inner products of the data blocks."""

    @property
    def of_transpose(self) -> bool:
        """Whether this is the second part of an encoding, which goes inside the first one's."""
        return self.location is not self.home

    def for_transpose(self, code: Code) -> Request:
        """Say what to do with the transpose.

        Parameters
        ----------
        code
            Which sums.

        Returns
        -------
        Request
            The same, but for the code and the place.
        """
        return replace(self, code=code, location=self.home.inside(ADJOINT))

    @property
    def n_stored(self) -> int:
        """Blocks to write."""
        return self.code.n if self.holds == "coded" else self.code.k

    def manifest(self, **fields: Any) -> Manifest:
        """Make the manifest of what was written just now.

        Parameters
        ----------
        **fields
            Those that are not known from here.

        Returns
        -------
        Manifest
            The manifest.
        """
        return Manifest(
            holds=self.holds,
            code=self.code.spec(),
            created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            sooner_version=__version__,
            **fields,
        )


@dataclass(frozen=True, slots=True)
class Written:
    """A matrix whose blocks are complete, and count for nothing without a manifest."""

    manifest: Manifest
    """What they are."""
    code: Code
    """What made them, maybe with exponents."""
    writer: BlockWriter | SparseWriter
    """Removes them when it is left, unless they are kept."""
