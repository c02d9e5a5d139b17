"""Gradient descent finds the least squares, by whatever way down; or it says why not."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

import sooner
from sooner.linalg import Anytime, gradient_descent
from sooner.runtimes import ShiftedExponential

METHODS = ["gradient", "nesterov", "cg"]


@pytest.fixture
def problem(matrix):
    """A well-conditioned problem with three right-hand sides."""

    def make(dtype="f8", rows=80):
        Q, _ = np.linalg.qr(matrix((rows, 12), dtype))
        A = Q * np.linspace(1, 3, 12)
        return A.astype(dtype), matrix((rows, 3), dtype, seed=1)

    return make


def solution(A, B, damp=0.0):
    gram = A.conj().T @ A + damp**2 * np.eye(A.shape[1])
    return np.linalg.solve(gram, A.conj().T @ B)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("formed", [False, True])
def test_every_way_down_ends_at_the_least_squares(operator_of, problem, method, dtype, formed):
    A, B = problem(dtype)
    for damp in (0.0, 2.0):
        operands = (A.conj().T @ A, A.conj().T @ B) if formed else (A, B)
        result = gradient_descent(
            operator_of(operands[0]), operands[1], normal_equations=formed, method=method,
            damp=damp, rtol=1e-7,
        )  # fmt: skip
        expected = solution(A, B, damp)
        assert isinstance(result, OptimizeResult)
        assert result.success, result.message
        assert result.status == 0
        assert result.x.shape == result.jac.shape == expected.shape
        np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        fun = 0.5 * np.linalg.norm(A @ expected - B) ** 2
        fun += 0.5 * damp**2 * np.linalg.norm(expected) ** 2
        constant = 0.5 * np.linalg.norm(B) ** 2 if formed else 0.0
        assert result.fun + constant == pytest.approx(fun)


def test_columns_are_solved_in_the_same_rounds(operator_of, problem, executor):
    A, B = problem()
    together = gradient_descent(operator_of(A), B, method="cg", rtol=1e-9)
    rounds = len(executor.rounds)
    for column in range(3):
        alone = gradient_descent(operator_of(A), B[:, column], method="cg", rtol=1e-9)
        assert alone.x.shape == (12,)
        np.testing.assert_allclose(alone.x, together.x[:, column], atol=1e-9)
    assert set(executor.rounds) == {16}
    assert rounds == 1 + 2 + 2 * together.nit  # the right side, the first gradient, the steps


def test_the_formed_gram_matrix_takes_one_round_a_step(operator_of, problem, executor):
    A, B = problem()
    result = gradient_descent(
        operator_of(A.T @ A, adjoint=False), A.T @ B, normal_equations=True, step=0.1, rtol=1e-6
    )
    assert result.success
    assert len(executor.rounds) == 1 + result.nit


@pytest.mark.parametrize("wanted", [("nesterov", "gradient"), ("cg", "nesterov")])
def test_better_methods_need_fewer_steps(matrix, wanted):
    A = matrix((80, 12)) * np.logspace(0, 1, 12)
    b = matrix(80, seed=1)
    counts = [
        gradient_descent(A, b, method=method, rtol=1e-8, maxiter=5000).nit for method in wanted
    ]
    assert counts[0] < counts[1] / 2


def test_the_estimated_step_is_near_the_best(operator_of, problem):
    A, B = problem()
    result = gradient_descent(operator_of(A), B)
    assert 0.9 / 9 < result.step < 1.0 / 9  # the largest singular value is 3


@pytest.mark.parametrize("method", ["gradient", "nesterov"])
def test_divergence_is_noticed(operator_of, problem, method):
    A, B = problem()
    result = gradient_descent(operator_of(A), B, method=method, step=1.0)
    assert (result.success, result.status) == (False, 2)
    assert "step must be below" in result.message
    assert result.nit < 50


def test_it_begins_where_it_is_told(operator_of, problem):
    A, B = problem()
    expected = solution(A, B)
    for method in METHODS:
        result = gradient_descent(operator_of(A), B, x0=expected, method=method)
        assert (result.nit, result.status) == (0, 0)
        np.testing.assert_array_equal(result.x, expected)


def test_a_callback_sees_every_step_and_may_stop(operator_of, problem):
    A, B = problem()
    seen = []

    def watch(intermediate_result):
        seen.append(intermediate_result)
        if len(seen) == 4:
            raise StopIteration

    result = gradient_descent(operator_of(A), B, callback=watch)
    assert (result.status, result.nit, result.success) == (99, 3, False)
    assert [step.nit for step in seen] == [0, 1, 2, 3]
    assert all(a.fun > b.fun for a, b in pairwise(seen))
    assert gradient_descent(operator_of(A), B, callback=lambda _: True).nit == 0


def test_maxiter_ends_it(operator_of, problem):
    A, B = problem()
    result = gradient_descent(operator_of(A), B, maxiter=3, rtol=0)
    assert (result.nit, result.status, result.success) == (3, 1, False)


def test_a_deadline_ends_it_in_the_middle_of_a_product(operator_of, problem, executor):
    A, B = problem()
    result = gradient_descent(operator_of(A), B, deadline=41.0, step=0.01, rtol=0)
    assert executor.now() == pytest.approx(41.0)  # a product takes 2 virtual seconds
    assert (result.status, result.success) == (3, False)
    assert result.nit == 8  # one product for the right side, and two for each gradient
    at_once = gradient_descent(operator_of(A), B, deadline=0.0)
    assert (at_once.status, at_once.nit) == (3, 0)
    np.testing.assert_array_equal(at_once.x, np.zeros((12, 3)))


def test_a_deadline_of_any_other_operator(problem):
    A, B = problem()
    assert gradient_descent(A, B, deadline=0.0).status == 3
    assert gradient_descent(A, B, deadline=1e6, method="cg").status == 0


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 1)])
@pytest.mark.parametrize("method", METHODS)
def test_situation_24_empty_problems(operator_of, shape, method):
    result = gradient_descent(operator_of(np.ones(shape)), np.ones(shape[0]), method=method)
    assert result.success
    np.testing.assert_allclose(result.x, np.full(shape[1], shape == (4, 1)), atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"b": np.ones(79)}, r"b must have shape \(80,\) or \(80, r\) .* \(80, 12\), got \(79,\)"),
        ({"b": np.ones((12, 2))}, r"got \(12, 2\)"),
        ({"b": np.ones((80, 2, 2))}, r"got \(80, 2, 2\)"),
        ({"x0": np.ones(11)}, r"x0 must have shape \(12,\) .* got \(11,\)"),
        ({"b": np.full(80, np.nan)}, "b must be finite"),
        ({"x0": np.full(12, np.inf)}, "x0 must be finite"),
        ({"normal_equations": True}, r"A must be square with normal_equations=True"),
        ({"method": "newton"}, "method must be one of"),
        ({"damp": -1}, "damp must not be negative"),
        ({"rtol": -1}, "rtol must not be negative"),
        ({"step": 0.0}, "step must be positive"),
        ({"maxiter": -1}, "maxiter must be at least 0"),
        ({"anytime": Anytime(), "method": "cg"}, 'anytime is for method="gradient"'),
    ],
)
def test_situation_25_what_does_not_fit_is_refused_before_a_task_is_sent(
    operator_of, matrix, arguments, message, executor
):
    operator = operator_of(matrix((80, 12)))
    with pytest.raises(ValueError, match=message):
        gradient_descent(operator, **({"b": np.ones(80)} | arguments))
    assert not executor.rounds


def test_what_is_no_operator_is_refused(operator_of, matrix):
    coded = sooner.encode(matrix((8, 2)), sooner.Uncoded(2))
    with pytest.raises(TypeError, match=r"Pass CodedLinearOperator\(A, executor\)"):
        gradient_descent(coded, np.ones(8))
    with pytest.raises(TypeError, match="anytime needs A to be a CodedLinearOperator"):
        gradient_descent(matrix((8, 2)), np.ones(8), anytime=Anytime())


# Anytime gradients --------------------------------------------------------------------------------


@pytest.fixture
def workers():
    """Workers whose run times are drawn, so that other outputs come first each time."""
    return sooner.VirtualExecutor(ShiftedExponential(1.0, 1.0))


def descend(workers, problem, formed, anytime):
    """Relative error after 80 steps, and the virtual time that they took."""
    A, B = problem()
    operands = (A.T @ A, A.T @ B) if formed else (A, B)
    coded = sooner.encode(operands[0], sooner.PolarCode(16, 12, rng=0), adjoint=True)
    operator = sooner.CodedLinearOperator(coded, workers)
    began = workers.now()
    result = gradient_descent(
        operator, operands[1], normal_equations=formed, rtol=0, maxiter=80, anytime=anytime
    )
    error = np.linalg.norm(result.x - solution(A, B)) / np.linalg.norm(solution(A, B))
    return error, workers.now() - began


@pytest.mark.parametrize("formed", [False, True])
def test_increments_converge_where_the_plain_form_stalls(workers, problem, formed):
    exact, time_exact = descend(workers, problem, formed, None)
    good, time_good = descend(workers, problem, formed, Anytime(outputs=0.5))
    plain, _ = descend(workers, problem, formed, Anytime(outputs=0.5, increments=False))
    assert exact < 1e-3
    assert good < 0.2 * plain
    assert plain > 0.05  # of the first error, and it stays there
    assert time_good < 0.95 * time_exact


def test_anytime_gradients_go_on_to_any_accuracy(workers, problem):
    A, B = problem()
    coded = sooner.encode(A, sooner.PolarCode(16, 12, rng=0), adjoint=True)
    operator = sooner.CodedLinearOperator(coded, workers)
    result = gradient_descent(operator, B, anytime=Anytime(0.6), rtol=1e-6)
    assert result.success
    assert result.nit % 5 == 0  # an estimate does not count
    np.testing.assert_allclose(result.x, solution(A, B), atol=1e-4)


def test_a_deadline_ends_estimated_products_too(operator_of, problem, executor):
    A, B = problem()
    result = gradient_descent(
        operator_of(A), B, anytime=Anytime(0.5), step=0.1, rtol=0, deadline=30.0
    )
    assert result.status == 3
    assert executor.now() == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"outputs": 0.0}, "outputs must be positive"), ({"outputs": 1.5}, "between 0 and 1"),
     ({"refresh": 0}, "refresh must be at least 1")],
)  # fmt: skip
def test_anytime_checks_its_numbers(options, message):
    with pytest.raises(ValueError, match=message):
        Anytime(**options)
