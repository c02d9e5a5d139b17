"""Power iteration agrees with NumPy's eigenvalues, and says when it does not know."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import sooner
from sooner.linalg import power_iteration


def hermitian(matrix, dtype):
    Q, _ = np.linalg.qr(matrix((30, 30), dtype))
    values = np.r_[9.0, -7.0, 5.0, 3.0, 2.0, np.linspace(-1, 1, 25)]
    return Q * values @ Q.conj().T


@pytest.mark.parametrize("kind", [np.array, csr_array])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("k", [1, 3])
def test_eigenvalues_of_largest_magnitude(operator_of, matrix, dtype, k, kind):
    A = hermitian(matrix, dtype)
    result = power_iteration(operator_of(kind(A), adjoint=False), k, rtol=1e-9)
    assert (result.success, result.status) == (True, 0)
    np.testing.assert_allclose(result.eigenvalues, [9, -7, 5][:k], rtol=1e-8)
    vectors = result.eigenvectors
    np.testing.assert_allclose(A @ vectors, vectors * result.eigenvalues, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1)
    assert (result.residuals <= 9e-9).all()


def test_a_matrix_that_is_not_symmetric(operator_of, matrix):
    """A Markov chain, as of PageRank, and one with a complex pair."""
    P = np.abs(matrix((30, 30)))
    P /= P.sum(axis=0)
    result = power_iteration(operator_of(P, adjoint=False), rtol=1e-10)
    assert result.eigenvalues == pytest.approx(1.0)
    stationary = result.eigenvectors[:, 0] / result.eigenvectors[:, 0].sum()
    np.testing.assert_allclose(P @ stationary, stationary, atol=1e-9)

    turning = np.diag(np.linspace(0.1, 1, 30))
    turning[:2, :2] = [[0, 5], [-5, 0]]
    result = power_iteration(operator_of(turning, adjoint=False), 2, rtol=1e-10)
    np.testing.assert_allclose(np.sort_complex(result.eigenvalues), [-5j, 5j], atol=1e-8)


def test_each_iteration_is_one_round_of_tasks(operator_of, matrix, executor):
    result = power_iteration(operator_of(hermitian(matrix, "f8"), adjoint=False), 3)
    assert executor.rounds == [16] * result.nit


def test_singular_values_by_composition(operator_of, matrix):
    A = matrix((40, 12))
    operator = operator_of(A)
    result = power_iteration(operator.H @ operator, rtol=1e-8)
    assert np.sqrt(result.eigenvalues[0]) == pytest.approx(np.linalg.norm(A, 2))


def test_callback_deadline_and_maxiter_end_it(operator_of, matrix, executor):
    A = hermitian(matrix, "f8")
    operator = operator_of(A, adjoint=False)
    assert power_iteration(operator, maxiter=2, rtol=0).status == 1
    seen = []
    stopped = power_iteration(operator, rtol=0, callback=lambda r: seen.append(r) or r.nit == 3)
    assert (stopped.status, stopped.nit, len(seen)) == (99, 3, 3)
    began = executor.now()
    late = power_iteration(operator, rtol=0, deadline=7.0)
    assert (late.status, late.nit, late.success) == (3, 3, False)
    assert executor.now() - began == pytest.approx(7.0)
    with pytest.raises(sooner.JobTimeoutError):
        power_iteration(operator, deadline=1.0)


@pytest.mark.parametrize("A", [np.zeros((6, 6)), np.eye(6), np.diag([2.0, 0, 0, 0, 0, 0])])
def test_degenerate_matrices(operator_of, A):
    result = power_iteration(operator_of(A, adjoint=False), 2)
    assert result.success
    np.testing.assert_allclose(result.eigenvalues, np.sort(np.diag(A))[:3:-1], atol=1e-12)


def test_it_begins_with_the_given_columns(operator_of, matrix):
    A = hermitian(matrix, "f8")
    _, vectors = np.linalg.eigh(A)
    result = power_iteration(operator_of(A, adjoint=False), v0=vectors[:, -1:])
    assert result.nit == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be at least 1"),
        ({"k": 31}, "k must be at most 30"),
        ({"v0": np.ones(30)}, r"v0 must have shape \(30, at least 1\), got \(30,\)"),
        ({"k": 2, "v0": np.ones((30, 1))}, r"at least 2"),
        ({"maxiter": 0}, "maxiter must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_task_is_sent(
    operator_of, matrix, arguments, message, executor
):
    with pytest.raises(ValueError, match=message):
        power_iteration(operator_of(hermitian(matrix, "f8"), adjoint=False), **arguments)
    with pytest.raises(ValueError, match=r"A must be square, got shape \(4, 3\)"):
        power_iteration(operator_of(matrix((4, 3))))
    assert not executor.rounds
