"""What every linear operator must satisfy, whatever computes its products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

    from sooner._types import Array, RNGLike

__all__ = ["check_adjoint"]

_WIDTH = 3


def check_adjoint(operator: LinearOperator, *, rng: RNGLike = 0, rtol: float | None = None) -> None:
    """Assert that an operator and its adjoint belong together, and that it takes any vector.

    For random u and v, real and complex, ``<A u, v> = <u, A^H v>``.  Products are linear, have the
    shape that NumPy's have and a dtype that holds the operator's and the operand's; ``matvec``,
    ``matmat``, ``@``, ``T``, ``H``, ``rmatvec``, ``rmatmat`` and ``Y @ operator`` agree;
    integer, strided, read-only and (n, 1) vectors are taken, and left as they are.

    Parameters
    ----------
    operator
        A SciPy ``LinearOperator`` with an adjoint.
    rng
        Seed or generator of the vectors.
    rtol
        What products may differ by, of their lengths; None is ``eps ** (2 / 3)`` of the
        operator's dtype, 4e-11 for float64 and 2e-5 for float32.

    Examples
    --------
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> check_adjoint(aslinearoperator(np.array([[1.0, 2j], [3.0, 4.0], [5.0, 6.0]])))
    """
    rng = np.random.default_rng(rng)
    if rtol is None:
        rtol = float(np.finfo(np.result_type(operator.dtype, np.float32)).eps) ** (2 / 3)
    rows, columns = operator.shape
    for is_complex in (False, True):
        u, v = _random(rng, columns, is_complex), _random(rng, rows, is_complex)
        _check_inner_products(operator, u, v, rtol)
        _check_transpose(operator, u, v, rtol)
    _check_linear(operator, rng, rtol)
    _check_vectors(operator, rng, rtol)
    _check_vectors(operator.H, rng, rtol)


def _random(rng: np.random.Generator, length: int, is_complex: bool) -> Array:
    block: Array = rng.standard_normal((length, _WIDTH))
    return block + 1j * rng.standard_normal((length, _WIDTH)) if is_complex else block


def _check_inner_products(operator: Any, u: Array, v: Array, rtol: float) -> None:
    forward, backward = operator.matmat(u), operator.rmatmat(v)
    _check_kind(operator, forward, u, (operator.shape[0], _WIDTH))
    _check_kind(operator, backward, v, (operator.shape[1], _WIDTH))
    for i in range(_WIDTH):
        left, right = np.vdot(v[:, i], forward[:, i]), np.vdot(backward[:, i], u[:, i])
        size = _norm(forward[:, i]) * _norm(v[:, i]) + _norm(u[:, i]) * _norm(backward[:, i])
        assert abs(left - right) <= rtol * size, (
            f"<A u, v> must equal <u, A^H v>, and they are {left} and {right}"
        )


def _check_transpose(operator: Any, u: Array, v: Array, rtol: float) -> None:
    adjoint = operator.rmatmat(v)
    _check_equal("A.H @ v and rmatmat(v)", operator.H @ v, adjoint, rtol)
    _check_equal("A.H.H @ u and matmat(u)", operator.H.H @ u, operator.matmat(u), rtol)
    transposed = operator.rmatmat(v.conj()).conj()
    _check_equal("A.T @ v and the conjugate of A.H @ conj(v)", operator.T @ v, transposed, rtol)
    _check_equal("v.T @ A and (A.T @ v).T", v.T @ operator, transposed.T, rtol)
    _check_equal("A.T.T @ u and matmat(u)", operator.T.T @ u, operator.matmat(u), rtol)
    rmatvec = operator.rmatvec(v[:, 0])
    _check_equal("rmatvec(v) and a column of rmatmat", rmatvec, adjoint[:, 0], rtol)


def _check_linear(operator: Any, rng: np.random.Generator, rtol: float) -> None:
    u = _random(rng, operator.shape[1], is_complex=False)
    parts = 2 * operator.matvec(u[:, 0]) - 1j * operator.matvec(u[:, 1])
    _check_equal(
        "A (2 u - i v) and 2 A u - i A v", operator.matvec(2 * u[:, 0] - 1j * u[:, 1]), parts, rtol
    )


def _check_vectors(operator: Any, rng: np.random.Generator, rtol: float) -> None:
    """Vectors as solvers hand them in."""
    rows, columns = operator.shape
    integers = rng.integers(-9, 9, (columns, 2 * _WIDTH))
    strided = integers[:, ::2]
    strided.flags.writeable = False
    before = strided.copy()
    whole = operator.matmat(strided)
    _check_kind(operator, whole, strided, (rows, _WIDTH))
    for i in range(_WIDTH):
        vector = operator.matvec(strided[:, i])
        column = operator @ strided[:, i : i + 1]
        _check_kind(operator, vector, strided, (rows,))
        _check_kind(operator, column, strided, (rows, 1))
        _check_equal("matvec and a column of matmat", vector, whole[:, i], rtol)
        _check_equal("A @ (n, 1) and a column of matmat", column, whole[:, i : i + 1], rtol)
    backwards = operator.matmat(before[:, ::-1])
    _check_equal("columns in reverse", backwards, whole[:, ::-1], rtol)
    assert np.array_equal(strided, before), "an operator must not write to its operand"


def _check_kind(operator: Any, product: Any, operand: Array, shape: tuple[int, ...]) -> None:
    assert isinstance(product, np.ndarray), f"a product must be an array, got {type(product)}"
    assert product.shape == shape, f"a product must have shape {shape}, got {product.shape}"
    least = np.result_type(operator.dtype, operand.dtype)
    assert np.can_cast(least, product.dtype), f"{product.dtype} cannot hold a product of {least}"


def _check_equal(what: str, left: Array, right: Array, rtol: float) -> None:
    assert left.shape == right.shape, f"{what}: shapes {left.shape} and {right.shape}"
    difference = _norm(left - right)
    assert difference <= rtol * (_norm(left) + _norm(right)), f"{what} differ by {difference}"


def _norm(values: Array) -> float:
    return float(np.linalg.norm(values))
