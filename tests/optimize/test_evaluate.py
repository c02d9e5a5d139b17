"""Evaluations in threads, in processes and on the virtual clock."""

import ctypes
import functools
import os
import threading
import time

import numpy as np
import pytest

import sooner
from sooner import VirtualExecutor

INF = float("inf")


def square(x):
    return x @ x


@pytest.fixture
def candidates(strategy_of):
    return strategy_of(n=4).ask()


def test_workers_make_the_points_that_the_driver_sees(candidates):
    expected = np.array([[square(point) for point in pair] for pair in np.asarray(candidates)])
    for executor in (VirtualExecutor([1.0]), "threads:2", "local:2"):
        np.testing.assert_array_equal(
            sooner.evaluate(square, candidates, executor=executor), expected
        )
    part = sooner.evaluate(square, candidates[1:3], executor="threads:2")
    np.testing.assert_array_equal(part, expected[1:3])
    one = sooner.evaluate(square, candidates[3, 1], executor="threads:1")
    np.testing.assert_array_equal(one, expected[3, 1])


def test_perturbations_are_not_shipped(strategy_of):
    """Only numbers travel with a task: what it gets is as small for many variables as for few."""
    sizes = {}

    class Counting(VirtualExecutor):
        def submit_many(self, fn, args, **options):
            sizes[d] = [sum(isinstance(a, (int, str, tuple)) for a in each) for each in args]
            assert not any(isinstance(a, np.ndarray) for each in args for a in each)
            return super().submit_many(fn, args, **options)

    for d in (5, 500):
        with Counting([1.0]) as executor:
            sooner.evaluate(square, strategy_of(d, n=3).ask(), executor=executor)
    assert sizes[5] == sizes[500]


def test_the_deadline_holds_and_what_came_is_given(candidates):
    with VirtualExecutor([1.0, 2.0, 30.0, INF]) as executor:
        values = sooner.evaluate(square, candidates, executor=executor, deadline=5.0)
        assert executor.now() == pytest.approx(5.0)
        assert np.isfinite(values).tolist() == [[True, True], [False, False]] * 2
        values = sooner.evaluate(square, candidates, executor=executor, deadline=0.0)
        assert np.isnan(values).all()
        assert executor.now() == pytest.approx(5.0)


def test_a_hanging_evaluation_is_given_up_after_the_timeout(candidates):
    with VirtualExecutor([1.0, INF]) as executor:
        values = sooner.evaluate(square, candidates, executor=executor, timeout=7.0)
        assert 7.0 <= executor.now() < 8.0
    assert np.isfinite(values).tolist() == [[True, False]] * 4


def test_the_timeout_counts_from_the_start_not_from_the_queue(candidates):
    with VirtualExecutor([3.0], slots=1) as executor:
        values = sooner.evaluate(square, candidates, executor=executor, timeout=4.0)
        assert executor.now() == pytest.approx(24.0)
    assert np.isfinite(values).all()


def test_without_a_timeout_patience_follows_the_others(candidates):
    with VirtualExecutor([4.0] * 7 + [INF]) as executor:
        sooner.evaluate(square, candidates, executor=executor)
        assert 80.0 <= executor.now() < 90.0


def test_it_ends_when_enough_has_come(candidates):
    with VirtualExecutor([1, 1, 2, 2, 3, 3, 9, 9]) as executor:
        values = sooner.evaluate(
            square, candidates, executor=executor, until=lambda came: came.all(axis=1).sum() == 3
        )
        assert executor.now() == pytest.approx(3.0)
    assert np.isfinite(values).all(axis=1).tolist() == [True, True, True, False]


def test_a_lost_worker_costs_its_evaluation(candidates):
    with VirtualExecutor([1.0], lost={3}) as executor:
        values = sooner.evaluate(square, candidates, executor=executor)
    assert np.flatnonzero(np.isnan(values)).tolist() == [3]


BROKEN = {
    "nan": lambda: float("nan"),
    "none": lambda: None,
    "infinity": lambda: float("inf"),
    "string": lambda: "broken",
    "array": lambda: np.zeros(2),
    "exception": lambda: 1 / 0,
    "exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(1e6),
}


def test_situation_19_a_broken_objective_costs_its_evaluation_only(strategy_of, caplog):
    """All kinds at once, in real processes; a closure over this test's own variables."""
    candidates = strategy_of(n=len(BROKEN)).ask()
    backwards = np.asarray(candidates)[:, 1]
    kinds = list(BROKEN.values())

    def fun(x):
        at = np.flatnonzero((backwards == x).all(axis=1))
        return kinds[at[0]]() if at.size else np.array([x @ x])

    with sooner.LocalExecutor(4) as executor:
        values = sooner.evaluate(fun, candidates, executor=executor, timeout=1.0)
    assert np.isfinite(values[:, 0]).all()
    assert np.isnan(values[:, 1]).all()
    line = next(text for text in caplog.messages if text.startswith("generation 0: 9 of 18"))
    for count in ("no finite number 3", "worker lost 2", "TypeError 2", "ZeroDivisionError 1",
                  "no answer in time 1"):  # fmt: skip
        assert count in line


def product(a, x):
    return a * x


class Locked:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, x):
        return x @ x

    def method(self, x):
        return x @ x


def a_closure():
    lock = threading.Lock()
    return lambda x: x @ x if lock else 0


def a_default():
    lock = threading.Lock()
    return lambda x, lock=lock: x @ x if lock else 0


@pytest.mark.parametrize(
    ("fun", "args", "culprit"),
    [
        (a_closure(), (), "its closure variable 'lock', of type lock,"),
        (a_default(), (), "its default of 'lock'"),
        (Locked(), (), "its attribute 'lock'"),
        (Locked().method, (), "its attribute 'lock'"),
        (functools.partial(product, threading.Lock()), (), "its bound 'argument 0', of type lock,"),
        (functools.partial(a_closure(), y=1), (), "its closure variable 'lock'"),
        (square, (threading.Lock(),), "its 'args\\[0\\]', of type lock,"),
    ],
)
def test_what_cannot_travel_is_named_before_any_task_is_sent(fun, args, culprit, candidates):
    with sooner.LocalExecutor(1) as executor:
        with pytest.raises(TypeError, match=culprit):
            sooner.evaluate(fun, candidates, args, executor=executor)
        assert not executor._supervisors  # no worker was started
    values = sooner.evaluate(lambda x: x @ x, candidates, executor="local:1")
    assert np.isfinite(values).all()


def test_threads_need_not_pickle(candidates):
    values = sooner.evaluate(a_closure(), candidates, executor="threads:2")
    assert np.isfinite(values).all()


def test_a_factory_makes_the_objective_once_per_process(candidates):
    def make():
        lock, calls = threading.Lock(), []  # a lock could not travel

        def fun(x):
            with lock:
                calls.append(x)
            return len(calls)

        return fun

    with sooner.LocalExecutor(1) as executor:
        values = sooner.evaluate(make, candidates, executor=executor, factory=True)
        more = sooner.evaluate(make, candidates[:2], executor=executor, factory=True)
    assert sorted(values.ravel()) == list(range(1, 9))
    assert sorted(more.ravel()) == list(range(9, 13))  # kept from one call to the next


def test_two_threads_never_share_what_a_factory_made(candidates):
    barrier = threading.Barrier(2, timeout=30)

    def make():
        users = []

        def fun(x):
            users.append(1)
            barrier.wait()  # until the other thread is in its own
            alone = len(users) == 1
            barrier.wait()
            users.pop()
            return float(alone)

        return fun

    values = sooner.evaluate(make, candidates, executor="threads:2", factory=True)
    assert (values == 1).all()


def test_further_arguments_are_passed_on(candidates):
    values = sooner.evaluate(lambda x, a, b: a - b, candidates, (5, 3), executor="threads:1")
    assert (values == 2).all()
    values = sooner.evaluate(lambda x, a: a, candidates, 7.0, executor="threads:1")
    assert (values == 7).all()


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"fun": 3}, TypeError, "fun must be a function"),
        ({"timeout": 0}, ValueError, "timeout must be positive"),
        ({"deadline": -1}, ValueError, "deadline must not be negative"),
    ],
)
def test_wrong_arguments_are_refused(options, error, match, candidates):
    options = {"fun": square, **options}
    with pytest.raises(error, match=match):
        sooner.evaluate(candidates=candidates, executor="threads:1", **options)
