"""Operands of every kind: dtypes, strides, shapes, and what is refused before a task is sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.executors import VirtualExecutor


def product(A, x, *, n=16, k=12, **options):
    coded = sooner.encode(A, sooner.PolarCode(n, k, **options))
    start = sooner.matvec if np.ndim(x) == 1 else sooner.matmat
    return start(coded, x, executor=VirtualExecutor([1.0])).result()


@given(
    st.sampled_from([1, 11, 12, 13, 10, 20011]),
    st.sampled_from([1, 2, 3, 7, 16, 20, 96]),
    st.sampled_from([0.0, 0.1, 0.375, 0.5, 0.99]),
)
def test_any_number_of_rows_tasks_and_redundancy(m, n, redundancy):
    k = max(1, round(n * (1 - redundancy)))
    A = np.random.default_rng(m).standard_normal((m, 3))
    y = product(A, A[0], n=n, k=k)
    assert y.shape == (m,)
    np.testing.assert_allclose(y, A @ A[0], rtol=1e-7, atol=1e-8)


def test_a_thousand_tasks():
    A = np.random.default_rng(0).standard_normal((1500, 2))
    np.testing.assert_allclose(product(A, A[0], n=1024, k=768), A @ A[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "i4", "i8", "?"])
def test_integers_are_exact_with_the_sequential_decoder(dtype):
    rng = np.random.default_rng(0)
    big = 2 if dtype == "?" else min(np.iinfo(dtype).max, 2**38)
    A = rng.integers(0, big, size=(50, 6)).astype(dtype)
    if dtype.startswith("i"):
        A[::2] *= -1
    x = rng.integers(-50, 50, size=6)
    y = product(A, x, decoder="sequential")
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, A.astype(np.float64) @ x)


@pytest.mark.parametrize("a_dtype", ["f2", "f4", "f8", "c8", "c16", "i4"])
@pytest.mark.parametrize("x_dtype", ["f4", "f8", "c8", "c16", "i8", "?", ">f8"])
def test_the_answer_has_numpys_result_type(a_dtype, x_dtype):
    rng = np.random.default_rng(0)
    A = (rng.standard_normal((20, 5)) * 8).astype(a_dtype)
    x = (rng.standard_normal(5) * 8).astype(x_dtype)
    coded = sooner.encode(A, sooner.PolarCode(16, 12))
    y = sooner.matvec(coded, x, executor=VirtualExecutor([1.0])).result()
    assert y.dtype == np.result_type(coded.dtype, x.dtype.newbyteorder("="))
    expected = A.astype(coded.dtype) @ x
    tolerance = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(y, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda X: X[:, ::-1],
        lambda X: X[::-1],
        lambda X: X.T.copy().T,
        lambda X: np.broadcast_to(X[:, :1], X.shape),
        lambda X: X.astype(">f8"),
    ],
)
def test_any_strides_of_x(view):
    rng = np.random.default_rng(0)
    A, X = rng.standard_normal((30, 6)), view(rng.standard_normal((6, 4)))
    X.flags.writeable = False
    np.testing.assert_allclose(product(A, X), A @ X, atol=1e-10)
    np.testing.assert_allclose(product(A, X[:, 1]), A @ X[:, 1], atol=1e-10)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1), (5, 2)])
@pytest.mark.parametrize("width", [None, 0, 1, 4])
def test_empty_and_tiny_shapes_are_numpys(shape, width):
    A = np.ones(shape)
    x = np.ones(shape[1:] if width is None else (shape[1], width))
    coded = sooner.encode(A, sooner.PolarCode(16, 12))
    executor = VirtualExecutor([1.0])
    start = sooner.matvec if width is None else sooner.matmat
    job = start(coded, x, executor=executor)
    y = job.result()
    np.testing.assert_allclose(y, A @ x)
    assert y.dtype == np.float64
    if 0 in {*shape, width}:
        assert len(job.trace) == 0
        assert list(job)[-1].exact


@pytest.mark.parametrize(
    ("start", "x", "message"),
    [
        (sooner.matvec, np.ones(6), r"x must have shape \(7,\) .* shape \(200, 7\), got \(6,\)"),
        (sooner.matvec, np.ones(200), r"got \(200,\)"),
        (sooner.matvec, np.ones((7, 1)), r"got \(7, 1\). Use matmat"),
        (sooner.matvec, 3.0, r"got \(\)"),
        (sooner.matmat, np.ones((6, 2)), r"X must have shape \(7, width\) .* got \(6, 2\)"),
        (sooner.matmat, np.ones(7), r"Use matvec"),
        (sooner.matmat, np.ones((7, 2, 2)), r"got \(7, 2, 2\)"),
    ],
)
def test_a_shape_error_is_found_before_a_task_is_sent(problem, start, x, message):
    executor = VirtualExecutor([1.0])
    with pytest.raises(ValueError, match=message):
        start(problem[0], x, executor=executor)
    assert executor._n_submitted == 0


@pytest.mark.parametrize("x", [["a"] * 7, [None] * 7, np.ones(7, dtype=np.longdouble)])
def test_what_is_no_number_is_refused(problem, x):
    with pytest.raises(TypeError, match=r"x must"):
        sooner.matvec(problem[0], x, executor=VirtualExecutor([1.0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries must be at least 0"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"delays": [1.0]}, "delays must hold 16 numbers"),
    ],
)
def test_options_are_checked(problem, options, message):
    with pytest.raises(ValueError, match=message):
        sooner.matvec(problem[0], np.ones(7), executor=VirtualExecutor([1.0]), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline": "3"}, "deadline must be a number, got '3' of type str"),
        ({"timeout": [1]}, "timeout must be a number"),
        ({"callback": 3}, "callback must be a function of an estimate, got 3"),
    ],
)
def test_options_of_another_type_are_refused(problem, options, message):
    with pytest.raises(TypeError, match=message):
        sooner.matvec(problem[0], np.ones(7), executor=VirtualExecutor([1.0]), **options)


@pytest.mark.parametrize("A", [np.ones((16, 7)), "A.coded"])
@pytest.mark.parametrize("start", [sooner.matvec, sooner.matmat])
def test_what_is_no_coded_matrix_is_refused(start, A):
    with pytest.raises(TypeError, match="A must be a coded matrix, from encode or open_coded"):
        start(A, np.ones(7), executor=VirtualExecutor([1.0]))


def test_infinities_of_x_go_where_numpys_go(problem):
    coded, _, x = problem
    x = x.copy()
    x[2] = np.inf
    with np.errstate(invalid="ignore"):
        y = sooner.matvec(coded, x, executor=VirtualExecutor([1.0])).result()
    assert not np.isfinite(y).any()


@pytest.mark.parametrize(("dtype", "size"), [("f4", 1e-30), ("f4", 1e30), ("f8", 1e-200)])
def test_very_small_and_large_numbers_are_checked_like_others(dtype, size):
    A = (np.random.default_rng(0).standard_normal((50, 7)) * size).astype(dtype)
    coded = sooner.encode(A, sooner.PolarCode(16, 8, rng=0))
    x = np.ones(7, dtype)
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), verify_extra=2)
    np.testing.assert_allclose(job.result(), A @ x, rtol=1e-3)
    assert 0 < job.checked.residual < 0.3
