"""SciPy's solvers on the operator agree with NumPy on the same matrix."""

import inspect
import warnings

import numpy as np
import pytest
import scipy
from scipy import sparse
from scipy.sparse import linalg

import sooner

DTYPES = ["f8", "c16"]
KINDS = [np.array, sparse.csr_array]
OLD = scipy.__version__.startswith("1.11.")  # which has propack only where an environment says so
SVD_SOLVERS = ["arpack", "lobpcg"] if OLD else ["arpack", "lobpcg", "propack"]


def tall(matrix, dtype):
    A = matrix((60, 12), dtype)
    A[np.abs(A) < 0.3] = 0
    return A


def definite(matrix, dtype):
    """Hermitian, positive definite, with separate eigenvalues."""
    Q, _ = np.linalg.qr(matrix((40, 40), dtype))
    A = Q * np.logspace(0, 2, 40) @ Q.conj().T
    return (A + A.conj().T) / 2


def right_hand_side(matrix, rows, dtype):
    return matrix(rows, dtype, seed=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("solver", [linalg.lsqr, linalg.lsmr])
def test_least_squares(operator_of, matrix, solver, dtype, kind):
    A = tall(matrix, dtype)
    b = right_hand_side(matrix, 60, dtype)
    for damp in (0.0, 0.7):
        tight = {"atol": 1e-14, "btol": 1e-14}
        x, *_ = solver(operator_of(kind(A)), b, damp=damp, **tight)
        expected = np.linalg.solve(A.conj().T @ A + damp**2 * np.eye(12), A.conj().T @ b)
        np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("solver", "dtype"),
    [
        (linalg.cg, "f8"),
        (linalg.cg, "c16"),
        (linalg.gmres, "f8"),
        (linalg.gmres, "c16"),
        (linalg.minres, "f8"),  # for real matrices only
    ],
)
def test_linear_systems(operator_of, matrix, solver, dtype, kind):
    A = definite(matrix, dtype)
    b = right_hand_side(matrix, 40, dtype)
    x, info = solver(operator_of(kind(A), adjoint=False), b, maxiter=400, **tight(solver))
    assert info == 0
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-8, atol=1e-8)


def tight(solver):
    """A small tolerance, by the names that this SciPy's solver has for it."""
    names = inspect.signature(solver).parameters
    tolerance = {"rtol" if "rtol" in names else "tol": 1e-13}
    return tolerance | ({"atol": 0.0} if "atol" in names else {})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigsh(operator_of, matrix, dtype, kind):
    A = definite(matrix, dtype)
    operator = operator_of(kind(A), adjoint=False)
    values, vectors = linalg.eigsh(operator, k=4, tol=1e-12)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(A)[-4:], rtol=1e-10)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigs(operator_of, matrix, dtype, kind):
    A = definite(matrix, dtype) + np.triu(matrix((40, 40), dtype, seed=2))
    values, vectors = linalg.eigs(operator_of(kind(A), adjoint=False), k=3, tol=1e-12)
    expected = np.linalg.eigvals(A)
    for value in values:
        assert np.abs(expected - value).min() < 1e-8
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("solver", SVD_SOLVERS)
def test_svds(operator_of, matrix, solver, dtype, kind):
    A = matrix((60, 30), dtype)
    A[:, :4] *= [4, 5, 6, 7]
    operator = operator_of(kind(A))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lobpcg tells how near it came
        U, values, Vh = linalg.svds(operator, k=3, solver=solver, tol=1e-9, **seeded())
    order = np.argsort(values)
    np.testing.assert_allclose(values[order], np.linalg.svd(A, compute_uv=False)[2::-1], rtol=1e-6)
    np.testing.assert_allclose(A @ Vh.conj().T, U * values, atol=1e-2)


def seeded():
    """The same start each time, by the name that this SciPy has for it."""
    names = inspect.signature(linalg.svds).parameters
    return {"rng": 0} if "rng" in names else {"random_state": 0}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lobpcg(operator_of, matrix, dtype, kind, executor):
    A = definite(matrix, dtype)
    X = right_hand_side(matrix, (40, 3), dtype)
    values, vectors = linalg.lobpcg(operator_of(kind(A), adjoint=False), X, tol=1e-8, maxiter=200)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(A)[-3:], rtol=1e-8)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-4)
    assert set(executor.rounds) == {16}


def test_single_precision_stays_single(operator_of, matrix):
    A = tall(matrix, "f4")
    b = right_hand_side(matrix, 60, "f4")
    x, *_ = linalg.lsqr(operator_of(A), b, atol=1e-7, btol=1e-7)
    np.testing.assert_allclose(x, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-3, atol=1e-4)
    assert (operator_of(A) @ b[:12]).dtype == np.float32


def test_a_transpose_of_another_code(operator_of, matrix):
    A = tall(matrix, "f8")
    b = right_hand_side(matrix, 60, "f8")
    x, *_ = linalg.lsqr(operator_of(A, adjoint=sooner.Uncoded(3)), b, atol=1e-14)
    np.testing.assert_allclose(x, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-8)
