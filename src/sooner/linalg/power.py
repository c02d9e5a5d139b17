"""The largest eigenvalues by multiplying again and again: power iteration with several columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.errors import JobTimeoutError
from sooner.linalg.stopping import as_operator, called_off, outcome, with_deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike
    from scipy.optimize import OptimizeResult

    from sooner._types import Array, RNGLike

__all__ = ["power_iteration"]

_MESSAGES = {
    0: "The residuals are at most rtol times the largest eigenvalue.",
    1: "The maximum number of iterations was reached.",
    3: "The deadline has passed.",
    99: "The callback said so.",
}


def power_iteration(
    A: Any,
    k: int = 1,
    *,
    v0: ArrayLike | None = None,
    rtol: float = 1e-6,
    maxiter: int = 1000,
    callback: Callable[[OptimizeResult], Any] | None = None,
    deadline: float | None = None,
    rng: RNGLike = 0,
) -> OptimizeResult:
    r"""Eigenvalues of largest magnitude, and their vectors, by subspace iteration.

    Each iteration is one product with a few orthonormal columns Q, one round of tasks for all
    of them.  The small matrix $Q^H A Q$ gives the eigenvalues (Rayleigh and Ritz), and the next
    columns are $A Q$, orthonormal again.  An error falls by $|\lambda_{b+1} / \lambda_i|$ each
    time, b being the number of columns, so more of them than k help.

    Parameters
    ----------
    A
        A square operator, as a rule a `CodedLinearOperator`; anything that SciPy takes for one.
        Of a rectangular one take ``A.H @ A``.
    k
        How many eigenvalues.
    v0
        Columns to begin with, shape (n, at least k); None draws ``2 k + 1`` of them.
    rtol
        Largest residual $\|A v - \lambda v\|$ of a unit vector v, over the largest eigenvalue.
    maxiter
        Iterations at most.
    callback
        Called after each iteration with an ``OptimizeResult`` of that moment; returning True or
        raising StopIteration stops.
    deadline
        Seconds after which it stops; by the executor's clock, and in the middle of a product, if
        `A` is a `CodedLinearOperator` itself.
    rng
        Draws the first columns.

    Returns
    -------
    OptimizeResult
        ``eigenvalues`` (k,), by falling magnitude, ``eigenvectors`` (n, k), ``residuals`` (k,),
        ``nit``, ``success``, ``status`` (0 converged, 1 `maxiter`, 3 `deadline`, 99 `callback`) and
        ``message``.

    Raises
    ------
    ValueError
        If `A` is not square, or the numbers do not fit it; no task is sent then.
    JobTimeoutError
        If the deadline passes before the first iteration is done.

    Examples
    --------
    >>> import sooner
    >>> A = np.diag([5.0, -4.0, 3.0, 2.0, 1.0])
    >>> coded = sooner.encode(A, sooner.PolarCode(4, 3))
    >>> with sooner.CodedLinearOperator(coded, "threads:2") as operator:
    ...     result = power_iteration(operator, 2)
    >>> result.eigenvalues.round(6), result.success
    (array([ 5., -4.]), True)
    """
    operator, is_over = with_deadline(as_operator(A), deadline)
    columns = _first_columns(operator.shape, operator.dtype, k, v0, rng)
    _checks.not_negative(rtol, "rtol")
    _checks.integer(maxiter, "maxiter", at_least=1)
    result, status = outcome(), 1
    for nit in range(1, maxiter + 1):
        try:
            product = operator.matmat(columns)
        except JobTimeoutError:
            if not result:
                raise
            status = 3
            break
        result = _ritz(columns, product, k, nit)
        if (result["residuals"] <= rtol * np.abs(result["eigenvalues"][0])).all():
            status = 0
            break
        if called_off(callback, result) or is_over():
            status = 3 if is_over() else 99
            break
        columns = np.linalg.qr(product)[0]
    result.update(status=status, success=status == 0, message=_MESSAGES[status])
    return result


def _first_columns(
    shape: tuple[int, int],
    dtype: np.dtype[Any] | None,
    k: int,
    v0: ArrayLike | None,
    rng: RNGLike,
) -> Array:
    """Give orthonormal columns to begin with."""
    n = shape[0]
    if shape[1] != n:
        raise ValueError(f"A must be square, got shape {shape}. Take A.H @ A, for singular values.")
    _checks.integer(k, "k", at_least=1)
    if k > n:
        raise ValueError(f"k must be at most {n} for an operator of shape {shape}, got k={k}.")
    if v0 is None:
        v0 = np.random.default_rng(rng).standard_normal((n, min(n, 2 * k + 1)))
    columns = np.asarray(v0)
    if columns.ndim != 2 or columns.shape[0] != n or not k <= columns.shape[1] <= n:
        raise ValueError(f"v0 must have shape ({n}, at least {k}), got {columns.shape}.")
    precise = np.result_type(dtype or np.float64, np.float32)
    if columns.dtype.kind == "c":
        precise = np.result_type(precise, np.complex64)
    return np.linalg.qr(columns.astype(precise))[0]


def _ritz(columns: Array, product: Array, k: int, nit: int) -> OptimizeResult:
    """Give the eigenvalues of the small matrix, and how far they are off."""
    values, weights = np.linalg.eig(columns.conj().T @ product)
    largest = np.argsort(-np.abs(values), kind="stable")[:k]
    values, weights = values[largest], weights[:, largest]
    vectors = columns @ weights
    residuals = np.linalg.norm(product @ weights - vectors * values, axis=0)
    return outcome(eigenvalues=values, eigenvectors=vectors, residuals=residuals, nit=nit)
