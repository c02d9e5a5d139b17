"""What every executor must do, by the capabilities that it declares."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.errors import WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from sooner.executors.base import Executor, Reference

__all__ = ["check_executor"]

_STUCK_WHEN_KILLABLE = 3600.0  # seconds
_STUCK_OTHERWISE = 1.0  # its slot is lost for so long, and the interpreter may wait for it
_ROUNDS = 10


def check_executor(
    make_executor: Callable[[], Executor], *, patience: float = 30.0, owns_processes: bool = False
) -> None:
    """Assert that an executor keeps the promises of `sooner.executors.base.Executor`.

    Results come in order, exceptions with their message; a lost worker costs its task; what never
    returns can be abandoned, round after round; ``wait`` keeps its time; values are shipped;
    nothing runs after ``close``.  What an executor declares that it cannot do is not asked for.

    Parameters
    ----------
    make_executor
        Makes a fresh executor with at least two slots; called several times.
    patience
        Seconds, by the executor's clock, in which a few small tasks must be done.
    owns_processes
        True if the executor starts processes of this machine, so that ``close`` must end them.

    Examples
    --------
    A virtual clock on which later tasks take longer:

    >>> from sooner.executors import VirtualExecutor
    >>> check_executor(lambda: VirtualExecutor(lambda ordinal, attempt: 0.1 + ordinal / 100))
    """
    for check in (
        _check_results,
        _check_exceptions,
        _check_lost_worker,
        _check_timeout,
        _check_broadcast,
        _check_rounds_with_stragglers,
    ):
        with make_executor() as executor:
            check(executor, patience)
    _check_close(make_executor(), patience, owns_processes)


def _check_results(executor: Executor, patience: float) -> None:
    assert executor.slots is None or executor.slots >= 2, "the checks need at least two slots"
    assert list(executor.submit_many(_square, [])) == [], "no arguments must give no futures"
    assert executor.wait((), timeout=0) == set(), "waiting for nothing must give nothing"
    for n in (1, 2, 50):
        futures = executor.submit_many(_square, [(i,) for i in range(n)])
        _wait_for_all(executor, futures, patience)
        found = [future.result(timeout=0) for future in futures]
        assert found == [i * i for i in range(n)], f"results must be in order, got {found}"
        assert executor.wait(futures, timeout=0) == set(futures), "done futures stay done"


def _check_exceptions(executor: Executor, patience: float) -> None:
    bad, good = executor.submit_many(_square_of_even, [(3,), (4,)])
    _wait_for_all(executor, [bad, good], patience)
    error = bad.exception(timeout=0)
    assert isinstance(error, ValueError), f"the task's own exception must come, got {error!r}"
    assert "3 is odd" in str(error), f"its message must come along, got {error}"
    assert good.result(timeout=0) == 16, "an exception must not touch another task"


def _check_lost_worker(executor: Executor, patience: float) -> None:
    declared = executor.capabilities
    if not declared.survives_lost_worker or declared.shares_memory:
        return
    good = executor.submit_many(_square, [(i,) for i in range(6)])
    (bad,) = executor.submit_many(_die, [(3,)])
    more = executor.submit_many(_square, [(i,) for i in range(6, 12)])
    _wait_for_all(executor, [*good, bad, *more], patience)
    error = bad.exception(timeout=0)
    assert isinstance(error, WorkerLostError), f"a lost worker must be told, got {error!r}"
    found = [future.result(timeout=0) for future in (*good, *more)]
    assert found == [i * i for i in range(12)], "a lost worker must cost its own task alone"


def _check_timeout(executor: Executor, patience: float) -> None:
    del patience
    stuck = executor.submit_many(_pause, [(_stuck_for(executor),)])
    before = executor.now()
    assert executor.wait(stuck, timeout=0) == set(), "timeout=0 must only look"
    assert executor.wait(stuck, timeout=0.05) == set(), "a running task is not done"
    elapsed = executor.now() - before
    assert 0.04 <= elapsed < 0.9, f"wait must keep its timeout of 0.05 s, took {elapsed} s"
    _check_abandon(executor, stuck)


def _check_abandon(executor: Executor, stuck: Iterable[Future[Any]]) -> None:
    stuck = list(stuck)
    counts = executor.abandon(stuck)
    assert set(counts) <= {"killed", "cancelled", "forgotten"}, f"unknown kinds in {counts}"
    assert sum(counts.values()) == len(stuck), f"each must be counted once, got {counts}"
    assert executor.capabilities.can_kill or not counts.get("killed"), (
        f"an executor that cannot kill must not say it did, got {counts}"
    )
    assert all(future.done() for future in stuck), "nobody may wait for an abandoned task"
    again = executor.abandon(stuck)
    assert sum(again.values()) == 0, f"done futures must be passed over, got {again}"


def _check_broadcast(executor: Executor, patience: float) -> None:
    small, large = np.arange(5.0), np.arange(100_000.0).reshape(100, 1000)
    for value in (small, large, np.asfortranarray(large), large[::2, ::3], {"x": small}, None):
        reference = executor.broadcast(value)
        futures = executor.submit_many(_describe, [(reference,)] * 3)
        _wait_for_all(executor, futures, patience)
        for future in futures:
            total, shape, writeable = future.result(timeout=0)
            if isinstance(value, np.ndarray):
                assert (total, shape) == (float(value.sum()), value.shape), "another value came"
                assert not writeable, "arrays of a reference must be read-only"
        executor.release(reference)
        executor.release(reference)


def _check_rounds_with_stragglers(executor: Executor, patience: float) -> None:
    for round_ in range(_ROUNDS):
        quick = executor.submit_many(_square, [(10 * round_ + i,) for i in range(4)])
        stuck = executor.submit_many(_pause, [(_stuck_for(executor),)])
        _wait_for_all(executor, quick, patience)
        found = [future.result(timeout=0) for future in quick]
        assert found == [(10 * round_ + i) ** 2 for i in range(4)], f"wrong in round {round_}"
        _check_abandon(executor, stuck)


def _check_close(executor: Executor, patience: float, owns_processes: bool) -> None:
    futures = executor.submit_many(_own_pid, [()] * 4)
    _wait_for_all(executor, futures, patience)
    pids = {future.result(timeout=0) for future in futures} - {os.getpid()}
    stuck = executor.submit_many(_pause, [(_stuck_for(executor),)] * 4)
    before = time.monotonic()
    executor.close()
    elapsed = time.monotonic() - before
    assert elapsed < _STUCK_OTHERWISE, f"close must not wait for tasks, took {elapsed} s"
    executor.close()
    assert all(future.done() for future in stuck), "nobody may wait for a task after close"
    try:
        executor.submit_many(_square, [(1,)])
    except RuntimeError:
        pass
    else:
        raise AssertionError("submit_many must raise RuntimeError after close")
    if owns_processes:
        assert pids, "tasks must have run in other processes"
        left = {pid for pid in pids if _is_running(pid)}
        assert not left, f"close must end its processes, {left} are left"


def _wait_for_all(executor: Executor, futures: Iterable[Future[Any]], patience: float) -> None:
    pending = set(futures)
    deadline = executor.now() + patience
    while pending:
        done = executor.wait(pending, timeout=deadline - executor.now())
        assert done, f"{len(pending)} small tasks are not done after {patience} s"
        assert done <= pending, "wait must give futures that it was asked for"
        assert all(future.done() for future in done), "wait must give futures that are done"
        pending -= done


def _stuck_for(executor: Executor) -> float:
    return _STUCK_WHEN_KILLABLE if executor.capabilities.can_kill else _STUCK_OTHERWISE


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# What the tasks run: in this module, which workers can import.


def _square(x: int) -> int:
    return x * x


def _square_of_even(x: int) -> int:
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x * x


def _die(code: int) -> None:
    os._exit(code)


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _own_pid() -> int:
    time.sleep(0.01)  # so that one worker does not get all
    return os.getpid()


def _describe(reference: Reference[Any]) -> tuple[float, tuple[int, ...], bool]:
    value = reference.load()
    if not isinstance(value, np.ndarray):
        return 0.0, (), False
    return float(value.sum()), value.shape, value.flags.writeable
