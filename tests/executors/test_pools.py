"""Pools of the standard library and of others."""

import logging
import multiprocessing
import os
import threading
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import Executor as Pool
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

from sooner.errors import WorkerLostError
from sooner.executors import Executor, PoolExecutor
from sooner.executors.references import InlineReference, ObjectReference, SharedReference
from sooner.executors.worker import run_bounded


class _ByHand(Pool):
    """A pool whose tasks end when the test says so."""

    def __init__(self):
        self.futures, self.broken, self.shut = [], False, None

    def submit(self, fn, /, *args, **kwargs):
        if self.broken:
            raise BrokenProcessPool("it broke before")
        self.futures.append(Future())
        return self.futures[-1]

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.shut = (wait, cancel_futures)


def _process_pool():
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver"))


def test_it_says_what_it_cannot_do():
    with ThreadPoolExecutor(3) as pool, PoolExecutor(pool) as threads:
        assert isinstance(threads, Executor)
        assert threads.slots == 3
        assert threads.capabilities.shares_memory
        assert not threads.capabilities.can_kill
        assert not threads.capabilities.survives_lost_worker
        assert isinstance(threads.broadcast(np.ones(3)), ObjectReference)
    other = PoolExecutor(_ByHand())
    assert other.slots is None
    assert not other.capabilities.shares_memory
    reference = other.broadcast(np.ones(100_000))
    assert isinstance(reference, InlineReference), "its workers may be on another machine"
    other.release(reference)


def test_a_pool_of_the_user_stays_open_and_one_made_here_does_not():
    theirs, made = _ByHand(), _ByHand()
    PoolExecutor(theirs).close()
    assert theirs.shut is None
    executor = PoolExecutor(lambda: made)
    executor.close()
    executor.close()
    assert made.shut == (False, True)
    with pytest.raises(RuntimeError, match="it was closed"):
        executor.submit_many(abs, [(1,)])


def test_outcomes_pass_through():
    pool = _ByHand()
    executor = PoolExecutor(pool)
    good, bad, stopped, open_ = executor.submit_many(abs, [(1,)] * 4)
    assert executor.wait([good, bad], timeout=0) == set()
    pool.futures[0].set_result("answer")
    assert executor.wait([good, bad]) == {good}
    pool.futures[1].set_exception(ValueError("wrong"))
    pool.futures[2].cancel()
    assert good.result(0) == "answer"
    with pytest.raises(ValueError, match="wrong"):
        bad.result(0)
    assert stopped.cancelled()
    assert executor.wait([open_], timeout=0.01) == set()
    open_.cancel()
    assert pool.futures[3].cancelled(), "the pool need not run it"


def test_abandoned_tasks_are_cancelled_or_forgotten():
    pool = _ByHand()
    executor = PoolExecutor(pool)
    waiting, running, done = futures = executor.submit_many(abs, [(1,)] * 3)
    pool.futures[1].set_running_or_notify_cancel()
    pool.futures[2].set_result(1)
    assert executor.abandon(futures) == {"killed": 0, "cancelled": 1, "forgotten": 1}
    assert waiting.cancelled()
    assert isinstance(running.exception(0), CancelledError)
    assert done.result(0) == 1
    pool.futures[1].set_result("late")
    assert isinstance(running.exception(0), CancelledError), "a late answer is dropped"
    assert executor.abandon(futures) == {"killed": 0, "cancelled": 0, "forgotten": 0}


def test_a_pool_that_refuses_to_cancel_is_forgiven():
    class Refuses(Future):
        def cancel(self):
            raise NotImplementedError("Cancel not implemented")

    pool = _ByHand()
    executor = PoolExecutor(pool)
    pool.submit = lambda *_: Refuses()
    futures = executor.submit_many(abs, [(1,)])
    assert executor.abandon(futures) == {"killed": 0, "cancelled": 0, "forgotten": 1}


def test_close_leaves_nobody_waiting():
    pool = _ByHand()
    with PoolExecutor(pool) as executor:
        futures = executor.submit_many(abs, [(1,)] * 2)
        pool.futures[0].set_running_or_notify_cancel()
    assert all(future.done() for future in futures)


def test_a_broken_pool_loses_its_tasks_and_is_told_once(caplog):
    pool = _ByHand()
    executor = PoolExecutor(pool)
    futures = list(executor.submit_many(abs, [(1,)] * 2))
    pool.broken = True
    for inner in pool.futures:
        inner.set_exception(BrokenProcessPool("a child process terminated abruptly"))
    futures += executor.submit_many(abs, [(1,)], descriptions=["block 7"])
    for future in futures:
        with pytest.raises(WorkerLostError, match="is lost: a worker died and broke the pool"):
            future.result(0)
    assert "block 7" in str(futures[2].exception())
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "give as_executor a function that makes the pool, or use LocalExecutor" in line


def test_a_broken_pool_is_made_again_by_its_factory(caplog):
    pools = []

    def make():
        pools.append(_ByHand())
        return pools[-1]

    executor = PoolExecutor(make)
    executor.submit_many(abs, [(1,)])
    pools[0].broken = True
    executor.submit_many(abs, [(1,)] * 3)
    assert len(pools) == 2
    assert pools[0].shut == (False, True)
    assert len(pools[1].futures) == 3
    assert [r.getMessage() for r in caplog.records] == [
        "PoolExecutor: a worker died and broke the pool; made a new one."
    ]


def test_a_process_pool_breaks_as_a_whole_and_comes_back():
    with PoolExecutor(_process_pool) as executor:
        reference = executor.broadcast(np.arange(100_000.0))
        assert isinstance(reference, SharedReference)
        (total,) = executor.submit_many(_total, [(reference,)])
        assert total.result(20) == sum(range(100_000))
        (lost,) = executor.submit_many(os._exit, [(1,)])
        assert isinstance(lost.exception(20), WorkerLostError)
        (again,) = executor.submit_many(abs, [(-3,)])
        assert again.result(20) == 3
        executor.release(reference)
        with pytest.raises(LookupError, match="must not be released before it is loaded"):
            SharedReference(reference.path, b"0" * 16).load()


def _total(reference):
    return float(reference.load().sum())


def test_bounded_tasks_give_their_slot_back():
    release = threading.Event()
    with PoolExecutor(lambda: ThreadPoolExecutor(1), task_timeout=0.1) as executor:
        stuck, quick = executor.submit_many(_wait_or_answer, [(release,), (None,)])
        with pytest.raises(TimeoutError, match=r"must end within 0\.1 s, and did not; its slot is"):
            stuck.result(10)
        assert quick.result(10) == "answer"
    release.set()


def _wait_or_answer(event):
    if event is not None:
        event.wait(20)
    return "answer"


def test_run_bounded_passes_results_and_errors_through():
    assert run_bounded(10.0, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        run_bounded(10.0, lambda: 1 / 0)
    with pytest.raises(SystemExit):
        run_bounded(10.0, _leave)
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        run_bounded(0.05, threading.Event().wait, 0.3)
    assert time.monotonic() - before < 0.25


def _leave():
    raise SystemExit(1)


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (3, r"pool must be a concurrent\.futures\.Executor or a function that makes one, got 3"),
        (dict, r"the function must make a concurrent\.futures\.Executor, got {}"),
    ],
)
def test_what_is_no_pool_is_refused(pool, message):
    with pytest.raises(TypeError, match=message):
        PoolExecutor(pool)


def test_the_timeout_is_checked():
    with pytest.raises(ValueError, match="task_timeout must be positive"):
        PoolExecutor(_ByHand(), task_timeout=0)


def test_a_job_can_tell_what_runs_from_what_waits():
    pool = _ByHand()
    with PoolExecutor(pool) as executor:
        first, second = executor.submit_many(abs, [(1,), (2,)])
        pool.futures[0].set_running_or_notify_cancel()
        assert (first.running(), second.running()) == (True, False)


def test_the_pool_of_loky_is_known_to_be_on_this_machine_and_closes_without_waiting():
    from loky.process_executor import ProcessPoolExecutor as LokyPool

    with PoolExecutor(lambda: LokyPool(2, timeout=None)) as executor:
        reference = executor.broadcast(np.ones(100_000))
        assert isinstance(reference, SharedReference)
        assert executor.submit_many(_total, [(reference,)])[0].result(30) == 100_000
        executor.submit_many(time.sleep, [(60.0,)] * 2)
        began = time.monotonic()
    assert time.monotonic() - began < 5


def _total(reference):
    return float(reference.load().sum())
