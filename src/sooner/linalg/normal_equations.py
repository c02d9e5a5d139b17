"""Least squares by products alone: its gradient, and the matrix of the normal equations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

    from sooner._types import Array

__all__ = ["NormalEquations", "dots"]


class NormalEquations:
    """``min |A X - B|² / 2 + damp² |X|² / 2``, for the columns of B at once.

    Parameters
    ----------
    A
        The operator, shape (m, n); if `formed`, the Gram matrix of that, shape (n, n).
    B
        Right-hand sides, shape (m, r); if `formed`, the adjoint's product with them, shape (n, r).
    damp
        Square root of the ridge.
    formed
        Whether A and B are those of the normal equations already.
    """

    def __init__(self, A: LinearOperator, B: Array, damp: float, *, formed: bool) -> None:
        self._A: Any = A
        self._B, self._ridge, self._formed = B, damp**2, formed

    def right_side(self) -> Array:
        """Give the right-hand sides of the normal equations, shape (n, r).

        Returns
        -------
        ndarray
            The adjoint's product with B.
        """
        return self._B if self._formed else self._A.rmatmat(self._B)

    def times(self, P: Array) -> Array:
        """Multiply by the matrix of the normal equations.

        Parameters
        ----------
        P
            Shape (n, r).

        Returns
        -------
        ndarray, shape (n, r)
            The product: one round of tasks if the Gram matrix is formed, else two.
        """
        product: Array = self._A.matmat(P)
        if not self._formed:
            product = self._A.rmatmat(product)
        return product + self._ridge * P if self._ridge else product

    def gradient(self, X: Array) -> tuple[Array, float]:
        """Give the gradient and the objective.

        Parameters
        ----------
        X
            Shape (n, r).

        Returns
        -------
        gradient : ndarray, shape (n, r)
            Of the objective.
        fun : float
            The objective, summed over the columns; if the Gram matrix is formed, less the
            constant ``|B|² / 2``.
        """
        ridge = 0.5 * self._ridge * dots(X, X).sum()
        product = self._A.matmat(X)
        if self._formed:
            fun = dots(X, 0.5 * product - self._B).sum() + ridge
            gradient = product - self._B
        else:
            residual = product - self._B
            fun = 0.5 * dots(residual, residual).sum() + ridge
            gradient = self._A.rmatmat(residual)
        return gradient + self._ridge * X, float(fun)


def dots(U: Array, V: Array) -> Array:
    """Real part of the inner product of each column of U with that of V, shape (r,).

    Parameters
    ----------
    U, V
        Shape (n, r).

    Returns
    -------
    ndarray
        The inner products.
    """
    products: Array = np.einsum("ij,ij->j", U.conj(), V).real
    return products
