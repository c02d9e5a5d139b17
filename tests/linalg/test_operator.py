"""The operator: SciPy's protocol in full, one round of tasks per product, always exact."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator, lsqr, svds

import sooner
from sooner.testing import check_adjoint

DTYPES = ["f4", "f8", "c8", "c16"]
TOLERANCE = {"f4": 2e-5, "f8": 1e-12, "c8": 2e-5, "c16": 1e-12}


def close(actual, expected, dtype="f8"):
    tolerance = TOLERANCE[np.dtype(dtype).str[1:]] * max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


# Situation 9: matvec is handed (n,), (n, 1), int64 and strided vectors ---------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_situation_9_vectors_as_solvers_hand_them_in(operator_of, matrix, dtype, kind):
    A = matrix((50, 20), dtype)
    check_adjoint(operator_of(kind(A)))
    check_adjoint(operator_of(kind(A.T)))


def test_situation_9_the_shape_of_the_output_mirrors_that_of_the_input(operator_of, matrix):
    A = matrix((50, 20))
    operator = operator_of(A)
    x = np.arange(40)[::2]
    x.flags.writeable = False
    for operand in (x, x[:, None], np.eye(20, dtype=int), np.ones((20, 3, 2))[:, ::2, 0]):
        close(operator @ operand, A @ operand)
        close(operator.dot(operand), A @ operand)
        close(operator(operand), A @ operand)
    close(operator.matvec(x[:, None]), A @ x[:, None])
    close(operator.rmatvec(np.ones((50, 1))), A.T @ np.ones((50, 1)))


def test_situation_9_twenty_columns_are_one_round_of_tasks(operator_of, matrix, executor):
    A = matrix((50, 20))
    operator = operator_of(A)
    X, Y = np.ones((20, 20)), np.ones((50, 20))
    for product in (
        lambda: operator @ X,
        lambda: operator.matmat(X),
        lambda: operator.H @ Y,
        lambda: operator.rmatmat(Y),
        lambda: operator.T @ Y,
        lambda: Y.T @ operator,
        lambda: operator.H.rmatmat(X),
        lambda: (3 * operator).matmat(X),
        lambda: operator @ (X + 1j),
    ):
        executor.rounds.clear()
        product()
        assert executor.rounds == [16]


def test_a_product_does_not_wait_for_stragglers(operator_of, matrix, executor):
    A = matrix((50, 20))
    close(operator_of(A) @ np.ones(20), A @ np.ones(20))
    assert executor.now() <= 2.0  # three of the 16 tasks never return


# Situation 21: complex matrices and adjoints -----------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x_dtype", ["f4", "f8", "c8", "c16", "i8", "?"])
def test_situation_21_every_mixture_of_dtypes_is_numpys(operator_of, matrix, dtype, x_dtype):
    A = matrix((30, 20), dtype)
    x, y = (matrix(n, "c16", seed=1) for n in (20, 30))
    x, y = (
        v.astype(x_dtype) if np.dtype(x_dtype).kind == "c" else (3 * v.real).astype(x_dtype)
        for v in (x, y)
    )
    operator = operator_of(A)
    assert operator.dtype == A.dtype
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a ComplexWarning above all
        for product, expected in (
            (operator @ x, A @ x),
            (operator @ x[:, None], A @ x[:, None]),
            (operator.T @ y, A.T @ y),
            (operator.H @ y, A.conj().T @ y),
            (operator.rmatvec(y), A.conj().T @ y),
            (y @ operator, y @ A),
        ):
            assert product.dtype == np.result_type(A, x)
            close(product, expected, "f4" if "4" in A.dtype.str or "8" in dtype[1:] else "f8")


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_situation_21_compositions_are_numpys(operator_of, matrix, dtype, executor):
    A, B = matrix((20, 30), dtype), matrix((20, 30), dtype, seed=1)
    a, b = operator_of(A), operator_of(B)
    assert not executor.rounds, "making and composing operators must send no task"
    X, Y = matrix((30, 2), "c16", seed=2), matrix((20, 2), "c16", seed=3)
    for composed, dense in (
        (2j * a, 2j * A),
        ((2j * a).H, (2j * A).conj().T),
        (a + b, A + B),
        (a - b, A - B),
        (a @ b.H, A @ B.conj().T),
        (a.H @ b, A.conj().T @ B),
        ((a @ b.T).H, (A @ B.T).conj().T),
        ((a @ a.H) ** 2, np.linalg.matrix_power(A @ A.conj().T, 2)),
        (-a, -A),
        (a / 2, A / 2),
        (a + aslinearoperator(B), A + B),
        (a.T.H, A.conj()),
        (a.H.T, A.conj()),
        (a.H.H, A),
    ):
        assert isinstance(composed, LinearOperator)
        assert composed.shape == dense.shape
        operand = X if dense.shape[1] == 30 else Y
        close(composed @ operand, dense @ operand)
    check_adjoint((2j * a).H)
    check_adjoint(a.H @ b)


def test_situation_21_complex_columns_of_a_real_matrix_are_real_products(operator_of, matrix):
    A, x = matrix((30, 20)), matrix(20, "c16")
    operator = operator_of(A, adjoint=False)
    close(operator @ x.astype(">c16"), A @ x)
    assert (operator @ np.ones((20, 0), complex)).shape == (30, 0)
    x[3] = np.inf  # parts of one column do not mix
    product = operator @ np.array([x, np.ones(20) * 1j]).T
    assert np.isfinite(product[:, 1]).all()


def test_situation_21_estimates_of_complex_products(matrix):
    A, x = matrix((32, 20), "c16"), matrix(20, "c16")
    coded = sooner.encode(A, sooner.PolarCode(16, 8, rng=0))
    job = sooner.matvec(coded, x, executor=sooner.VirtualExecutor(np.arange(1.0, 17.0)))
    estimates = [estimate for estimate in job if not estimate.exact]
    assert estimates
    for estimate in estimates:
        assert estimate.value.dtype == np.complex128
        assert 0 < estimate.relative_error < np.inf
    close(job.result(), A @ x)


# Situation 22: the adjoint is missing ------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda op, y: op.T @ y,
        lambda op, y: op.H @ y,
        lambda op, y: op.rmatvec(y),
        lambda op, y: op.rmatmat(y[:, None]),
        lambda op, y: y @ op,
        lambda op, y: np.array([y, y]) @ op,
        lsqr,
        lambda op, y: svds(op, k=2),
    ],
)
def test_situation_22_without_the_transpose_the_error_says_how_to_get_it(
    operator_of, matrix, use, executor
):
    operator = operator_of(matrix((30, 20)), adjoint=False)
    with pytest.raises(NotImplementedError, match=r"Encode again with adjoint=True") as caught:
        use(operator, np.ones(30))
    assert isinstance(caught.value, sooner.MissingAdjointError)
    assert len(executor.rounds) <= 1
    close(operator.matvec(np.ones(20)), matrix((30, 20)) @ np.ones(20))


def test_situation_22_multiplication_from_the_left(operator_of, matrix):
    A = matrix((30, 20), "c16")
    operator = operator_of(A)
    Y = matrix((4, 30), "c16", seed=1)
    close(Y @ operator, Y @ A)
    close(Y[:1] @ operator, Y[:1] @ A)
    close(Y[0] @ operator, Y[0] @ A)
    close(sparse.csr_array(Y) @ operator, Y @ A)


# Situation 23: sparse x, sparse A ---------------------------------------------------------------


@pytest.mark.parametrize(
    "A_kind", [np.array, sparse.csr_array, sparse.coo_matrix, sparse.bsr_array]
)
@pytest.mark.parametrize("x_kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_situation_23_sparse_operands_are_made_dense(operator_of, A_kind, x_kind):
    A = np.round(sparse.random(40, 24, 0.2, random_state=0).toarray(), 3)
    X = np.round(sparse.random(24, 3, 0.3, random_state=1).toarray(), 3)
    operator = operator_of(A_kind(A))
    for operand, expected in (
        (x_kind(X), A @ X),
        (x_kind(X[:, :1]), A @ X[:, :1]),
    ):
        for product in (operator @ operand, operator.matmat(operand), operator.H.H @ operand):
            assert type(product) is np.ndarray
            assert product.dtype == np.float64
            close(product, expected)
    close(operator.T @ x_kind(A), A.T @ A)
    close(operator.matvec(x_kind(X[:, :1])), A @ X[:, :1])


def test_situation_23_what_is_no_number_is_refused(operator_of, matrix, executor):
    operator = operator_of(matrix((30, 20)))
    for x in (np.array([None] * 20), np.array(["a"] * 20), np.ones(20, np.longdouble)):
        with pytest.raises(TypeError, match="must"):
            operator.matvec(x)
    assert not executor.rounds


# Situation 24: empty arrays ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1), (5, 2)])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_situation_24_empty_shapes_are_numpys(operator_of, shape, dtype, executor):
    A = np.ones(shape, dtype)
    operator = operator_of(A)
    for width in (0, 1, 4):
        for product, expected in (
            (operator @ np.ones((shape[1], width)), A @ np.ones((shape[1], width))),
            (operator.H @ np.ones((shape[0], width)), A.T @ np.ones((shape[0], width))),
            (operator @ np.ones((shape[1], width), complex), A @ np.ones((shape[1], width))),
        ):
            assert product.shape == expected.shape
            close(product, expected)
    close(operator @ np.ones(shape[1]), A @ np.ones(shape[1]))
    close(np.ones(shape[0]) @ operator, np.ones(shape[0]) @ A)
    if 0 in shape:
        assert not executor.rounds or not any(executor.rounds)


# Situation 25: shape errors are found before anything is sent -----------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda op: op @ np.ones(19),
        lambda op: op @ np.ones(30),
        lambda op: op @ np.ones((19, 2)),
        lambda op: op @ np.ones((20, 2, 2)),
        lambda op: op @ np.ones((20, 1, 1)),
        lambda op: op.matvec(3.0),
        lambda op: op.matvec(np.ones((20, 2))),
        lambda op: op.matmat(np.ones(20)),
        lambda op: op.matmat(np.ones((30, 2))),
        lambda op: op.rmatvec(np.ones(20)),
        lambda op: op.rmatmat(np.ones((20, 2))),
        lambda op: op.H @ np.ones(20),
        lambda op: op.T @ np.ones((20, 3)),
        lambda op: np.ones(20) @ op,
        lambda op: np.ones((2, 20)) @ op,
        lambda op: op @ sparse.csr_array(np.ones((30, 2))),
    ],
)
def test_situation_25_a_shape_error_names_both_shapes_and_sends_nothing(
    operator_of, matrix, use, executor
):
    operator = operator_of(matrix((30, 20)))
    with pytest.raises(ValueError, match=r"(shape \(|of) ?(20|30).*, got (shape )?\("):
        use(operator)
    assert not executor.rounds


def test_situation_25_compositions_that_do_not_fit(operator_of, matrix, executor):
    operator = operator_of(matrix((30, 20)))
    with pytest.raises(ValueError, match="shape mismatch"):
        _ = operator @ operator
    with pytest.raises(ValueError, match="Scalar operands are not allowed"):
        _ = operator @ 3.0
    assert not executor.rounds


# Options, time and the executor -------------------------------------------------------------------


def test_options_of_matvec_are_passed_on(operator_of, matrix):
    operator = operator_of(matrix((30, 20)), verify_extra=2, deadline=0.5)
    with pytest.raises(sooner.JobTimeoutError):  # no task takes less than a second
        operator.matvec(np.ones(20))


@pytest.mark.parametrize("name", ["rtol", "out", "x", "nothing"])
def test_options_that_would_end_a_product_inexact_are_refused(operator_of, matrix, name):
    with pytest.raises(TypeError, match=r"options of matvec that keep it exact.*; got"):
        sooner.CodedLinearOperator(
            sooner.encode(matrix((3, 2)), sooner.Uncoded(1)), None, **{name: 1}
        )


def test_what_is_not_coded_is_refused(matrix):
    with pytest.raises(TypeError, match="A must be a coded matrix, from encode or open_coded"):
        sooner.CodedLinearOperator(matrix((3, 2)), "threads:2")


def test_until_ends_products_by_the_executors_clock(operator_of, matrix, executor):
    A = matrix((30, 20))
    operator = operator_of(A)
    limited = operator.until(executor.now() + 3.0)
    close(limited @ np.ones(20), A @ np.ones(20))  # takes two virtual seconds
    with pytest.raises(sooner.JobTimeoutError):
        _ = limited.H @ np.ones(30)
    assert executor.now() == pytest.approx(3.0)
    close(operator @ np.ones(20), A @ np.ones(20))


def test_an_operator_is_small_when_pickled_and_leaves_its_executor_behind(
    matrix, tmp_path, executor
):
    A = matrix((300, 200))
    coded = sooner.encode(A, sooner.PolarCode(16, 12), tmp_path / "A", adjoint=True)
    operator = sooner.CodedLinearOperator(coded, executor)
    data = pickle.dumps(2 * operator.H)
    assert len(data) < A.nbytes / 10
    copy = pickle.loads(data)
    assert (copy.shape, copy.dtype) == ((200, 300), A.dtype)
    with pytest.raises(RuntimeError, match=r"CodedLinearOperator\(operator.A, executor\)"):
        copy.matvec(np.ones(300))
    again = sooner.CodedLinearOperator(pickle.loads(pickle.dumps(operator)).A, executor)
    close(again @ np.ones(200), A @ np.ones(200))


def test_an_executor_given_by_name_travels_and_is_shared(matrix, tmp_path):
    A = matrix((300, 200))
    coded = sooner.encode(A, sooner.PolarCode(16, 12), tmp_path / "A", adjoint=True)
    with sooner.CodedLinearOperator(coded, "threads:2", verify_extra=1) as operator:
        assert operator.H.executor is operator.executor
        copy = pickle.loads(pickle.dumps(operator))
        with copy:
            close(copy @ np.ones(200), A @ np.ones(200))
            assert copy.T.executor is copy.executor is not operator.executor
        close(operator.H @ np.ones(300), A.T @ np.ones(300))
    close(operator @ np.ones(200), A @ np.ones(200))  # made anew
    operator.close()


def test_the_users_executor_stays_open(operator_of, matrix, executor):
    A = matrix((30, 20))
    with operator_of(A) as operator:
        pass
    close(operator @ np.ones(20), A @ np.ones(20))


# check_adjoint ------------------------------------------------------------------------------------


class Wrong(LinearOperator):
    """A matrix whose operator makes one mistake."""

    def __init__(self, A, **mistakes):
        super().__init__(A.dtype, A.shape)
        self._A, self._mistakes = A, mistakes

    def _matvec(self, x):
        return self._mistakes.get("matvec", lambda A, x: A @ x)(self._A, x)

    def _matmat(self, X):
        return self._mistakes.get("matmat", lambda A, X: A @ X)(self._A, X)

    def _rmatmat(self, X):
        return self._mistakes.get("rmatmat", lambda A, X: A.conj().T @ X)(self._A, X)

    def _rmatvec(self, x):
        return self._mistakes.get("rmatvec", lambda A, x: A.conj().T @ x)(self._A, x)


def scribble(A, X):
    with np.errstate(all="ignore"):
        X.flags.writeable = True
        X *= 2
    return A @ X / 2


@pytest.mark.parametrize(
    "mistakes",
    [
        {"rmatmat": lambda A, X: A.T @ X},
        {"rmatmat": lambda A, X: 1.001 * A.conj().T @ X},
        {"rmatvec": lambda A, x: A.T @ x},
        {"matvec": lambda A, x: A.real @ x},
        {"matvec": lambda A, x: abs(A @ x)},
        {"matmat": lambda A, X: (A @ X).astype("c8")},
        {"matmat": lambda A, X: (A @ X)[:, :1]},
        {"matmat": lambda A, X: A @ np.abs(X)},
        {"matmat": scribble},
    ],
)
def test_check_adjoint_finds_every_mistake(matrix, mistakes):
    A = matrix((6, 5), "c16")
    check_adjoint(Wrong(A))
    with pytest.raises((AssertionError, ValueError)):
        check_adjoint(Wrong(A, **mistakes))
