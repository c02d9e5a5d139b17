"""The public suite on every executor, and that it finds what it is there to find."""

import multiprocessing
import time
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from sooner.executors import Capabilities, LocalExecutor, PoolExecutor, VirtualExecutor
from sooner.runtimes import ShiftedExponential
from sooner.testing.executors import check_executor


def _process_pool():
    context = multiprocessing.get_context("forkserver")  # not fork: this process has threads
    context.set_forkserver_preload(["sooner.testing.executors"])
    return ProcessPoolExecutor(2, mp_context=context)


def test_local():
    check_executor(lambda: LocalExecutor(3), owns_processes=True)


@pytest.mark.parametrize("task_timeout", [None, 20.0])
def test_threads(task_timeout):
    check_executor(lambda: PoolExecutor(lambda: ThreadPoolExecutor(6), task_timeout=task_timeout))


def test_process_pool():
    check_executor(lambda: PoolExecutor(_process_pool, task_timeout=0.5))


@pytest.mark.parametrize("slots", [None, 2, 7])
def test_virtual(slots):
    check_executor(lambda: VirtualExecutor(lambda i, _: 0.1 + i / 100, slots=slots))


def test_virtual_with_drawn_run_times_of_one_moment():
    # Equal run times: stragglers end with the others, so they must be quick to run.
    with VirtualExecutor(ShiftedExponential(0.1, 0.01)) as executor:
        futures = executor.submit_many(pow, [(i, 2) for i in range(5)])
        assert [future.result() for future in futures] == [0, 1, 4, 9, 16]


class _Faulty(VirtualExecutor):
    """A right executor, to be made wrong in one place."""

    def __init__(self):
        super().__init__(lambda i, _: 0.1 + i / 100)


class _Shuffles(_Faulty):
    def submit_many(self, fn, args, **kwargs):
        return super().submit_many(fn, list(args)[::-1], **kwargs)


class _HidesMessages(_Faulty):
    def submit_many(self, fn, args, **kwargs):
        def quiet(*a):
            try:
                return fn(*a)
            except ValueError:
                raise ValueError("an error") from None

        return super().submit_many(quiet, args, **kwargs)


class _WaitsTooLong(_Faulty):
    def wait(self, futures, timeout=None):
        done = super().wait(futures, timeout)
        if timeout and not done:
            self._now += 1.0
        return done


class _GivesStrangers(_Faulty):
    def wait(self, futures, timeout=None):
        done = super().wait(futures, timeout)
        return done | set(super().submit_many(pow, [(1, 1)])) if done else done


class _MiscountsAbandoned(_Faulty):
    def abandon(self, futures):
        return super().abandon(futures) | {"forgotten": 1}


class _LeavesAbandonedPending(_Faulty):
    def abandon(self, futures):
        futures = [future for future in futures if not future.done()]
        return {"killed": len(futures)}


class _BoastsOfKills(_Faulty):
    @property
    def capabilities(self):
        return Capabilities(can_kill=False, survives_lost_worker=False, shares_memory=True)

    def abandon(self, futures):
        counts = super().abandon(futures)
        return {"killed": counts["forgotten"], "cancelled": counts["cancelled"]}


class _WritableValues(_Faulty):
    def broadcast(self, value):
        class Writable:
            def load(self):
                return value

        return Writable()


class _OpenAfterClose(_Faulty):
    def close(self):
        super().close()
        self._closed = False


class _ClosesSlowly(_Faulty):
    def close(self):
        waiting = any(not task.future.done() for task in self._running)
        super().close()
        time.sleep(1.05 if waiting else 0)


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (_Shuffles, "results must be in order"),
        (_HidesMessages, "its message must come along"),
        (_WaitsTooLong, "wait must keep its timeout"),
        (_GivesStrangers, "wait must give futures that it was asked for"),
        (_MiscountsAbandoned, "each must be counted once"),
        (_LeavesAbandonedPending, "nobody may wait for an abandoned task"),
        (_BoastsOfKills, "must not say it did"),
        (_WritableValues, "must be read-only"),
        (_OpenAfterClose, "RuntimeError after close"),
    ],
)
def test_a_fault_is_found(faulty, message):
    with pytest.raises(AssertionError, match=message):
        check_executor(faulty)


def test_an_executor_that_claims_processes_but_has_none_is_found():
    with pytest.raises(AssertionError, match="in other processes"):
        check_executor(_Faulty, owns_processes=True)


def test_a_slow_close_is_found():
    with pytest.raises(AssertionError, match="close must not wait"):
        check_executor(_ClosesSlowly)


class _LosesSilently(LocalExecutor):
    def submit_many(self, fn, args, **kwargs):
        futures = super().submit_many(fn, args, **kwargs)
        if fn.__name__ == "_die":  # as a pool does that fails everything with another error
            for future in futures:
                future.set_exception(CancelledError())
        return futures


def test_a_lost_worker_that_is_not_told_is_found():
    with pytest.raises(AssertionError, match="a lost worker must be told"):
        check_executor(lambda: _LosesSilently(2))
