"""Tasks on a clock that jumps: a job of hours runs in milliseconds, and the same way every time."""

from __future__ import annotations

import heapq
import math
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.errors import WorkerLostError
from sooner.executors._completions import TaskFuture, completed, settle
from sooner.executors._task_executor import TaskExecutor
from sooner.executors.base import Capabilities
from sooner.executors.references import ObjectReference

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future

    from sooner._types import RNGLike
    from sooner.executors.base import Reference
    from sooner.runtimes import RunTimes

__all__ = ["VirtualExecutor"]


@dataclass(order=True, slots=True)
class _Task:
    finish: float
    ordinal: int
    run_time: float = field(compare=False)
    lost: bool = field(compare=False)
    fn: Callable[..., Any] = field(compare=False)
    args: tuple[Any, ...] = field(compare=False)
    future: TaskFuture = field(compare=False)


class VirtualExecutor(TaskExecutor):
    """Tasks that take virtual time, for tests and simulations: no process, no thread, no sleep.

    Each task has a run time, drawn or given.  `wait` moves the clock to the next completion, and
    there runs the task's real function, in this process; a task whose run time is infinite never
    returns, and a lost one fails with `WorkerLostError` after its run time.  The futures say when
    they started and finished, in virtual seconds: ``future.started``, ``future.finished``.
    For one thread only.

    Parameters
    ----------
    run_times
        A `sooner.runtimes.RunTimes` to draw from; or seconds in order of submission, which begin
        again when they are used up; or a function of a task's ordinal (0, 1, … over the life of
        the executor) and attempt (0 in the first ``submit_many``, then 1, …) to seconds.
    slots
        Tasks that can run at the same time, the others queue; None for all.
    lost
        Ordinals of the tasks that are lost, or a function of ordinal and attempt that tells.
    rng
        Seed or generator of the draws.

    Raises
    ------
    TypeError
        If `run_times` is none of these.

    Examples
    --------
    >>> executor = VirtualExecutor([5.0, 1.0, float("inf")])
    >>> futures = executor.submit_many(pow, [(2, 3), (2, 4), (2, 5)])
    >>> executor.wait(futures) == {futures[1]}, executor.now()
    (True, 1.0)
    >>> executor.wait({futures[2]}, timeout=10), executor.now()
    (set(), 11.0)
    >>> futures[0].result(), futures[0].finished
    (8, 5.0)
    """

    def __init__(
        self,
        run_times: RunTimes | Sequence[float] | Callable[[int, int], float],
        *,
        slots: int | None = None,
        lost: Collection[int] | Callable[[int, int], bool] = (),
        rng: RNGLike = 0,
    ) -> None:
        super().__init__()
        self._slots = None if slots is None else _checks.integer(slots, "slots", at_least=1)
        self._draw = _drawer(run_times, np.random.default_rng(rng))
        self._is_lost = lost if callable(lost) else lambda ordinal, _: ordinal in lost
        self._now = 0.0
        self._n_submitted = self._n_calls = 0
        self._queue: deque[_Task] = deque()
        self._running: list[_Task] = []  # a heap, the next to finish first
        self._stuck: set[Future[Any]] = set()  # those that never return
        self._n_busy = 0

    def __repr__(self) -> str:
        return f"VirtualExecutor(slots={self._slots}, now={self._now:g})"

    @property
    def slots(self) -> int | None:
        """Tasks that can run at the same time; None if all can."""
        return self._slots

    @property
    def capabilities(self) -> Capabilities:
        """It can kill a task, loses one at a time, and tasks run in this process."""
        return Capabilities(can_kill=True, survives_lost_worker=True, shares_memory=True)

    def _new_future(self, description: str) -> TaskFuture:
        return _VirtualFuture(self, description)

    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        first, attempt = self._n_submitted, self._n_calls
        run_times = self._draw(first, len(args), attempt)
        if not (run_times >= 0).all():  # also for NaN
            raise ValueError(f"run times must not be negative, got {run_times}.")
        self._n_submitted += len(args)
        self._n_calls += 1
        for i, (future, run_time) in enumerate(zip(futures, run_times.tolist(), strict=True)):
            lost = bool(self._is_lost(first + i, attempt))
            self._queue.append(_Task(math.inf, first + i, run_time, lost, fn, args[i], future))
        self._start_queued()

    def wait(
        self, futures: Collection[Future[Any]], timeout: float | None = None
    ) -> set[Future[Any]]:
        """Move the clock until at least one of `futures` is done.

        Parameters
        ----------
        futures
            Of this executor; with none, there is nothing to wait for.
        timeout
            Virtual seconds to wait at most; 0 only looks, None waits as long as it takes.

        Returns
        -------
        set of Future
            Those that are done; empty when the time is over.

        Raises
        ------
        RuntimeError
            If none of them can ever be done and no `timeout` was given.
        """
        deadline = math.inf if timeout is None else self._now + max(timeout, 0.0)
        while True:
            done = completed(futures)
            if done or not futures:
                return done
            if self._next_finish() > min(deadline, sys.float_info.max):
                break
            self._finish_next()
        if math.isinf(deadline):
            raise RuntimeError(
                f"wait must have a timeout here: none of the {len(futures)} tasks can ever end "
                f"({len(self._stuck)} that never return are running)."
            )
        self._now = deadline
        return done

    def _next_finish(self) -> float:
        while self._running and self._running[0].future.done():  # abandoned
            heapq.heappop(self._running)
        return self._running[0].finish if self._running else math.inf

    def _finish_next(self) -> None:
        """Move to the next completion, and to all others of the same moment."""
        self._now = max(self._now, self._next_finish())
        while self._next_finish() <= self._now:
            task = heapq.heappop(self._running)
            task.future.finished = task.finish
            self._n_busy -= 1
            self._run(task)
            self._start_queued()

    @staticmethod
    def _run(task: _Task) -> None:
        if task.lost:
            message = f"{task.future.description} is lost: its virtual worker ended."
            settle(task.future, error=WorkerLostError(message))
            return
        try:
            result = task.fn(*task.args)
        except BaseException as error:
            settle(task.future, error=error)
            if isinstance(error, KeyboardInterrupt):  # meant for this process, not for the task
                raise
        else:
            settle(task.future, result)

    def _start_queued(self) -> None:
        while self._queue and (self._slots is None or self._n_busy < self._slots):
            task = self._queue.popleft()
            if not task.future.set_running_or_notify_cancel():
                continue
            self._n_busy += 1
            task.future.started = self._now
            task.finish = self._now + task.run_time
            if math.isinf(task.finish):
                self._stuck.add(task.future)
            else:
                heapq.heappush(self._running, task)

    def now(self) -> float:
        """Virtual seconds since the executor was made.

        Returns
        -------
        float
            The time.
        """
        return self._now

    def broadcast(self, value: Any) -> Reference[Any]:
        """Hold `value` for tasks, which run in this process.

        Parameters
        ----------
        value
            An array, as a rule.

        Returns
        -------
        Reference
            To pass as an argument of tasks; loaded arrays are read-only.
        """
        return ObjectReference(value)

    def release(self, reference: Reference[Any]) -> None:
        """Do nothing: the reference alone holds its value.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """

    def _drop(self, running: Collection[Future[Any]]) -> None:
        self._n_busy -= len(running)
        self._stuck.difference_update(running)
        self._start_queued()

    def close(self) -> None:
        """Abandon all tasks."""
        self._closed = True
        waiting = [task.future for task in (*self._queue, *self._running)]
        self._queue.clear()
        self.abandon([*waiting, *self._stuck])


class _VirtualFuture(TaskFuture):
    """A future that moves the clock when its outcome is asked for: nobody else would."""

    def __init__(self, executor: VirtualExecutor, description: str) -> None:
        super().__init__(description)
        self._executor = executor
        self.add_done_callback(_mark_completed)

    def result(self, timeout: float | None = None) -> Any:
        self._executor.wait({self}, timeout)
        return super().result(timeout=0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._executor.wait({self}, timeout)
        return super().exception(timeout=0)


def _mark_completed(future: Future[Any]) -> None:
    future.completed = True  # type: ignore[attr-defined]


def _drawer(
    run_times: RunTimes | Sequence[float] | Callable[[int, int], float], rng: np.random.Generator
) -> Callable[[int, int, int], np.ndarray[Any, np.dtype[np.float64]]]:
    """Give a function of (first ordinal, count, attempt) to run times, shape (count,)."""
    if hasattr(run_times, "sample"):
        return lambda _, count, __: np.asarray(run_times.sample(rng, count), dtype=np.float64)
    if callable(run_times):
        return lambda first, count, attempt: np.array(
            [run_times(first + i, attempt) for i in range(count)], dtype=np.float64
        )
    try:
        times = np.asarray(run_times, dtype=np.float64)
    except (TypeError, ValueError):
        times = np.empty((0, 0))
    if times.ndim != 1 or times.size == 0:
        raise TypeError(
            "run_times must be a RunTimes, a function of (ordinal, attempt), or a sequence of "
            f"seconds, got {run_times!r}."
        )
    return lambda first, count, _: times[(first + np.arange(count)) % times.size]
