"""The small matrices whose Kronecker powers are the codes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ARIKAN", "HADAMARD", "Kernel"]


class Kernel:
    r"""An l x l matrix F; a code's transform is its Kronecker power :math:`F^{\otimes r}`.

    Parameters
    ----------
    matrix
        Shape ``(l, l)``, real, invertible, l >= 2.

    Raises
    ------
    ValueError
        If the matrix is not square, not finite or singular.

    Notes
    -----
    Inputs are decoded in the order 0 … l-1.  F is *polarizing at the best rate* when for every i
    any l-i rows of its last l-i columns are non-singular: input i is then known as soon as l-i
    outputs are, the earlier inputs being known.

    Examples
    --------
    >>> Kernel([[1, 1], [1, -1]]) == HADAMARD
    True
    >>> ARIKAN.is_polarizing, ARIKAN.is_orthogonal
    (True, False)
    """

    __slots__ = ("matrix",)

    matrix: NDArray[np.float64]
    """The matrix, read-only."""

    def __init__(self, matrix: ArrayLike) -> None:
        values = np.array(matrix, dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.shape[0] < 2:
            raise ValueError(
                f"a kernel must be a square matrix of size 2 or more, got shape {values.shape}."
            )
        if not np.isfinite(values).all() or np.linalg.matrix_rank(values) < values.shape[0]:
            raise ValueError(f"a kernel must be finite and invertible, got {values.tolist()}.")
        values.setflags(write=False)
        self.matrix = values

    @property
    def size(self) -> int:
        """Number of rows, l."""
        return len(self.matrix)

    @property
    def is_orthogonal(self) -> bool:
        """Whether the columns are orthogonal and of equal length, as anytime estimates need."""
        gram = self.matrix.T @ self.matrix
        return bool(np.allclose(gram, gram[0, 0] * np.eye(self.size), rtol=1e-12, atol=1e-12))

    @property
    def is_polarizing(self) -> bool:
        """Whether any l-i rows of the last l-i columns are non-singular, for every i."""
        return all(
            np.linalg.matrix_rank(self.matrix[np.ix_(rows, range(first, self.size))])
            == self.size - first
            for first in range(self.size)
            for rows in itertools.combinations(range(self.size), self.size - first)
        )

    @property
    def n_operations(self) -> tuple[int, int]:
        """Additions and multiplications (other than by ±1) of one product with a vector."""
        nonzero = self.matrix != 0
        additions = int(np.maximum(np.count_nonzero(nonzero, axis=1) - 1, 0).sum())
        return additions, int(np.count_nonzero(nonzero & (np.abs(self.matrix) != 1)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel):
            return NotImplemented
        return np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash(self.matrix.tobytes())

    def __repr__(self) -> str:
        name = {HADAMARD: "HADAMARD", ARIKAN: "ARIKAN"}.get(self)
        return name or f"Kernel({self.matrix.tolist()})"


HADAMARD = Kernel([[1, 1], [1, -1]])
"""The default: orthogonal, so it gives anytime estimates, and the most accurate one."""

ARIKAN = Kernel([[1, 1], [0, 1]])
"""The first paper's kernel: of all that polarize, the one with the fewest operations."""
