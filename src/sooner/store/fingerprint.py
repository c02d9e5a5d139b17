"""A fingerprint of a matrix, taken while it streams by."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sooner._types import Array

__all__ = ["Fingerprint"]


class Fingerprint:
    """SHA-256 of a matrix by its shape, element type and values.

    Encoding reads the k data blocks in step, so each has a running hash of its own: of its rows
    as given, row-major, little-endian, without padding.  The fingerprint hashes a line
    ``"<rows> <columns> <dtype> <k>"`` and then the k digests.  Layout in memory, byte order and
    the size of the panels do not change it; k does.

    Parameters
    ----------
    shape
        Of the matrix.
    dtype
        Of the matrix.
    k
        Data blocks.

    Examples
    --------
    >>> A = np.arange(4, dtype=np.int8).reshape(2, 2)
    >>> fingerprint = Fingerprint(A.shape, A.dtype, 1)
    >>> fingerprint.update(0, A[:1])
    >>> fingerprint.update(0, A[1:])
    >>> fingerprint.hexdigest()[:16]
    'c8d6174e3b8e51ff'
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[np.generic], k: int) -> None:
        line = f"{shape[0]} {shape[1]} {dtype.newbyteorder('<').str} {k}\n"
        self._line = line.encode()
        self._dtype = dtype.newbyteorder("<")
        self._blocks = [hashlib.sha256() for _ in range(k)]

    def update(self, block: int, panel: Array) -> None:
        """Take the next values of a data block.

        Parameters
        ----------
        block
            Which one.
        panel
            Its values, those after the last ones in row-major order.
        """
        panel = np.ascontiguousarray(panel, self._dtype)
        self._blocks[block].update(panel.reshape(-1).view(np.uint8).data)

    def hexdigest(self) -> str:
        """Give the fingerprint of all that was taken.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        whole = hashlib.sha256(self._line)
        for block in self._blocks:
            whole.update(block.digest())
        return whole.hexdigest()
