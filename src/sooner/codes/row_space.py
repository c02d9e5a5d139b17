"""What a set of rows spans, row by row: whether outputs determine the data, and which blocks.

Rows of small dyadic fractions, such as those of a polar code, are counted modulo a prime (see
`modular`), which proves what it says.  Rows of other numbers, such as Gaussian ones, are known to
rounding only; there a direction counts if floating point can still solve for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import modular

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Mask

__all__ = ["ModularRowSpace", "RoundedRowSpace", "row_space"]

_BITS = 12
"""Entries below 2**12 that are multiples of 2**-12 are exact, and so are products of two."""

_NEGLIGIBLE = 1e-10
"""Singular values below this share of the largest do not count."""


class ModularRowSpace:
    """Span of rows modulo a prime, in reduced echelon form: O(k**2) for each row.

    Parameters
    ----------
    k
        Length of the rows.

    Examples
    --------
    >>> space = ModularRowSpace(3)
    >>> for row in ([1, 1, 0], [1, -1, 0], [2, 0, 0]):
    ...     space.add(np.array(row, dtype=float))
    >>> space.rank, space.fixed
    (2, array([ True,  True, False]))
    """

    def __init__(self, k: int) -> None:
        self._rows = np.zeros((k, k), dtype=np.int64)  # row j has its pivot in column j, or is zero
        self._pivots: Mask = np.zeros(k, dtype=np.bool_)
        self.rank = 0

    def add(self, row: NDArray[np.float64]) -> None:
        """Take a row in.

        Parameters
        ----------
        row
            Dyadic fractions, shape (k,).
        """
        new = modular.residues(row)
        busy = np.flatnonzero(self._pivots & (new != 0))
        new = (new - (new[busy, None] * self._rows[busy] % modular.PRIME).sum(axis=0)) % (
            modular.PRIME
        )
        candidates = np.flatnonzero(new)
        if not candidates.size:
            return
        pivot = int(candidates[0])
        new = new * pow(int(new[pivot]), -1, modular.PRIME) % modular.PRIME
        busy = np.flatnonzero(self._rows[:, pivot])
        factors = self._rows[busy, pivot, None]
        self._rows[busy] = (self._rows[busy] - factors * new % modular.PRIME) % modular.PRIME
        self._rows[pivot] = new
        self._pivots[pivot] = True
        self.rank += 1

    @property
    def fixed(self) -> Mask:
        """Unknowns that the rows fix, shape (k,): unit vectors that they span."""
        alone: Mask = np.count_nonzero(self._rows, axis=1) == 1
        return alone


class RoundedRowSpace:
    """Span of rows as far as floating point can tell, by their singular values.

    Parameters
    ----------
    k
        Length of the rows.

    Examples
    --------
    >>> space = RoundedRowSpace(2)
    >>> space.add(np.array([0.3, 0.1]))
    >>> space.add(np.array([0.3, 0.1 + 1e-15]))
    >>> space.rank, space.fixed
    (1, array([False, False]))
    """

    def __init__(self, k: int) -> None:
        self._k = k
        self._rows: list[NDArray[np.float64]] = []
        self._spanned: NDArray[np.float64] | None = np.zeros((0, k))

    def add(self, row: NDArray[np.float64]) -> None:
        """Take a row in.

        Parameters
        ----------
        row
            Shape (k,).
        """
        self._rows.append(row)
        self._spanned = None

    def _basis(self) -> NDArray[np.float64]:
        """Orthonormal basis of the span, shape (rank, k)."""
        if self._spanned is None:
            _, singular, right = np.linalg.svd(np.array(self._rows), full_matrices=False)
            self._spanned = right[singular > _NEGLIGIBLE * singular[0]]
        return self._spanned

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return len(self._basis())

    @property
    def fixed(self) -> Mask:
        """Unknowns that the rows fix, shape (k,): unit vectors that they span."""
        inside: Mask = np.sum(self._basis() ** 2, axis=0) > 1 - _NEGLIGIBLE
        return inside


def row_space(*matrices: NDArray[np.float64]) -> ModularRowSpace | RoundedRowSpace:
    """Give an empty row space for rows that are Kronecker products of rows of one or two matrices.

    Parameters
    ----------
    *matrices
        The matrices, each of shape (n, k) with its own n and k.

    Returns
    -------
    ModularRowSpace or RoundedRowSpace
        The first if every entry is a small dyadic fraction.
    """
    k = int(np.prod([matrix.shape[1] for matrix in matrices]))
    exact = all(
        np.abs(matrix).max() < 2**_BITS
        and np.array_equal(np.rint(matrix * 2**_BITS), matrix * 2**_BITS)
        for matrix in matrices
    )
    return ModularRowSpace(k) if exact else RoundedRowSpace(k)
