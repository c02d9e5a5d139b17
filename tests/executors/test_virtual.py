"""The clock that jumps."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.errors import WorkerLostError
from sooner.executors import Executor, VirtualExecutor
from sooner.runtimes import ShiftedExponential

seconds = st.floats(0, 1e6, allow_nan=False)
run_times = st.lists(seconds, min_size=1, max_size=30)


def _drain(executor, futures):
    """Wait for all futures; give them in order of completion with the times of the clock."""
    pending, seen = set(futures), []
    while pending:
        done = executor.wait(pending)
        seen += [(executor.now(), future) for future in done]
        pending -= done
    return seen


def test_it_is_an_executor():
    assert isinstance(VirtualExecutor([1.0]), Executor)


@given(times=run_times, slots=st.none() | st.integers(1, 8))
def test_every_task_is_seen_when_it_finishes(times, slots):
    executor = VirtualExecutor(times, slots=slots)
    futures = executor.submit_many(math.sqrt, [(i,) for i in range(len(times))])
    seen = _drain(executor, futures)
    assert [now for now, _ in seen] == sorted(now for now, _ in seen)
    for now, future in seen:
        assert now == future.finished
    for i, (time, future) in enumerate(zip(times, futures, strict=True)):
        assert future.finished == future.started + time
        assert future.result() == math.sqrt(i)


@given(times=run_times, slots=st.integers(1, 8))
def test_slots_are_never_exceeded_and_never_idle_while_tasks_wait(times, slots):
    executor = VirtualExecutor(times, slots=slots)
    futures = executor.submit_many(abs, [(1,)] * len(times))
    _drain(executor, futures)
    free = [0.0] * slots  # list scheduling, the oracle
    for time, future in zip(times, futures, strict=True):
        start = min(free)
        assert future.started == start
        free[free.index(start)] = start + time


@given(times=run_times, timeout=seconds)
def test_a_timeout_moves_the_clock_by_exactly_that_or_to_a_completion(times, timeout):
    executor = VirtualExecutor(times)
    futures = executor.submit_many(abs, [(1,)] * len(times))
    done = executor.wait(futures, timeout)
    first = min(times)
    assert executor.now() == min(first, timeout)
    expected = {f for t, f in zip(times, futures, strict=True) if t == first <= timeout}
    assert done == expected


@given(seed=st.integers(0, 2**32), n=st.integers(1, 20))
def test_equal_rng_gives_equal_runs(seed, n):
    def run():
        executor = VirtualExecutor(ShiftedExponential(1.0, 2.0), slots=3, rng=seed)
        futures = executor.submit_many(abs, [(1,)] * n)
        _drain(executor, futures)
        return [(future.started, future.finished) for future in futures]

    assert run() == run()


@given(times=run_times, data=st.data())
def test_lost_and_endless_tasks_touch_no_other(times, data):
    indices = st.sets(st.integers(0, len(times) - 1))
    lost, endless = data.draw(indices), data.draw(indices)
    given_times = [math.inf if i in endless else t for i, t in enumerate(times)]
    executor = VirtualExecutor(given_times, lost=lost)
    futures = executor.submit_many(abs, [(-i,) for i in range(len(times))])
    _drain(executor, [future for i, future in enumerate(futures) if i not in endless])
    for i, future in enumerate(futures):
        if i in endless:
            assert not future.done()
        elif i in lost:
            with pytest.raises(WorkerLostError, match=rf"task {i} of {len(times)} \(abs\) is lost"):
                future.result()
        else:
            assert future.result() == i
    executor.close()
    assert all(future.done() for future in futures)


def test_waiting_for_what_never_comes_is_refused_instead_of_hanging():
    executor = VirtualExecutor([math.inf, 1.0], slots=1)
    stuck, behind = executor.submit_many(abs, [(1,), (2,)])
    for pending in ({stuck}, {behind}, {stuck, behind}):
        with pytest.raises(RuntimeError, match=r"wait must have a timeout here: none of the \d"):
            executor.wait(pending)
    with pytest.raises(RuntimeError, match="must have a timeout"):
        stuck.result()
    with pytest.raises(TimeoutError):
        stuck.exception(timeout=3.0)
    assert executor.now() == pytest.approx(3.0)


def test_abandoned_tasks_free_their_slot_and_do_not_move_the_clock():
    executor = VirtualExecutor([math.inf, 50.0, 2.0, 3.0], slots=2)
    futures = executor.submit_many(abs, [(i,) for i in range(4)])
    last = futures[3:]
    assert executor.abandon(futures[:2]) == {"killed": 2, "cancelled": 0, "forgotten": 0}
    assert executor.wait(last) == set(last)
    assert executor.now() == pytest.approx(3.0)
    assert futures[2].result() == 2
    assert executor.wait(futures[:2], 0) == set(futures[:2])
    executor.wait(executor.submit_many(abs, [(1,)]), timeout=100.0)
    assert executor.now() == pytest.approx(103.0), "the run times begin again with the endless one"


def test_queued_tasks_are_cancelled():
    executor = VirtualExecutor([5.0], slots=1)
    futures = executor.submit_many(abs, [(1,)] * 3)
    assert executor.abandon(futures) == {"killed": 1, "cancelled": 2, "forgotten": 0}
    assert all(future.done() for future in futures)
    (again,) = executor.submit_many(abs, [(-4,)])
    assert (again.result(), again.started) == (4, 0.0)


def test_run_times_by_ordinal_and_attempt():
    asked = []

    def run_time(ordinal, attempt):
        asked.append((ordinal, attempt))
        return 1.0

    executor = VirtualExecutor(run_time, lost=lambda ordinal, attempt: attempt == 0)
    first = executor.submit_many(abs, [(1,)] * 2)
    second = executor.submit_many(abs, [(1,)])
    _drain(executor, [*first, *second])
    assert asked == [(0, 0), (1, 0), (2, 1)]
    assert all(isinstance(future.exception(), WorkerLostError) for future in first)
    assert second[0].result() == 1


def test_exceptions_are_the_futures_and_a_callback_may_ask_for_the_result():
    executor = VirtualExecutor([1.0])
    bad, good = executor.submit_many(math.sqrt, [(-1.0,), (4.0,)])
    heard = []
    good.add_done_callback(lambda future: heard.append(future.result()))
    assert isinstance(bad.exception(), ValueError)
    assert heard == [2.0]


def test_ctrl_c_in_a_task_reaches_the_user():
    def interrupted():
        raise KeyboardInterrupt

    def leaving():
        raise SystemExit(3)

    executor = VirtualExecutor([1.0, 2.0])
    (future,) = executor.submit_many(interrupted, [()])
    with pytest.raises(KeyboardInterrupt):
        executor.wait([future])
    assert future.done()
    (future,) = executor.submit_many(leaving, [()])
    executor.wait([future])
    assert isinstance(future.exception(), SystemExit)


def test_arrays_of_a_reference_are_read_only_and_not_copied():
    executor, array = VirtualExecutor([1.0]), np.arange(4)
    loaded = executor.broadcast(array).load()
    assert np.shares_memory(loaded, array)
    assert not loaded.flags.writeable
    assert array.flags.writeable


@pytest.mark.parametrize("wrong", [[], [[1.0]], "often", 3.0, None])
def test_run_times_of_another_kind_are_refused(wrong):
    with pytest.raises(TypeError, match="run_times must be a RunTimes, a function"):
        VirtualExecutor(wrong)


@pytest.mark.parametrize("wrong", [-1.0, math.nan])
def test_impossible_run_times_are_refused(wrong):
    with pytest.raises(ValueError, match="run times must not be negative"):
        VirtualExecutor([wrong]).submit_many(abs, [(1,)])


def test_slots_and_names_are_checked():
    with pytest.raises(ValueError, match="slots must be at least 1"):
        VirtualExecutor([1.0], slots=0)
    with pytest.raises(ValueError, match="descriptions must name each task, got 1 for 2"):
        VirtualExecutor([1.0]).submit_many(abs, [(1,), (2,)], descriptions=["one"])
    with VirtualExecutor([1.0]) as executor:
        pass
    with pytest.raises(RuntimeError, match="it was closed"):
        executor.submit_many(abs, [(1,)])
