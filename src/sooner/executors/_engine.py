"""What the executors over clusters share: our futures before, the engine's handles behind.

An adapter says how tasks start, how a handle is let go of, how a value is shipped, and what is to
be freed at the end.  The rest is here.
"""

from __future__ import annotations

import abc
import functools
import logging
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner.errors import WorkerLostError
from sooner.executors._bounded import TASK_TIMEOUT
from sooner.executors._completions import Completions, abandoned, describe_tasks, settle
from sooner.executors.base import Capabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Self

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["EngineExecutor", "mark_running", "name_mismatch"]

logger = logging.getLogger(__name__)


class EngineExecutor(abc.ABC):
    """An executor over an engine with futures of its own.

    Parameters
    ----------
    task_timeout
        Seconds after which a task gives its slot back by itself.
    """

    def __init__(self, task_timeout: float = TASK_TIMEOUT) -> None:
        self._task_timeout = _checks.positive(task_timeout, "task_timeout")
        self._completions = Completions()
        self._lock = threading.RLock()
        self._handles: dict[TaskFuture, Any] = {}  # of those that are not done
        self._waiting: deque[TaskFuture] = deque()  # assumed not to have begun, the oldest first
        self._running: set[TaskFuture] = set()  # assumed to
        self._closed = False

    # What an adapter says -----------------------------------------------------------------

    @property
    @abc.abstractmethod
    def slots(self) -> int | None:
        """Tasks that can run at the same time; None if unknown."""

    @abc.abstractmethod
    def _start(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        futures: Sequence[TaskFuture],
    ) -> None:
        """Start one task for each future, and remember its handle with `_hold`."""

    @abc.abstractmethod
    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        """Have the engine forget tasks; never blocks or raises."""

    @abc.abstractmethod
    def broadcast(self, value: Any) -> Reference[Any]:
        """Ship `value` once, for many tasks."""

    @abc.abstractmethod
    def release(self, reference: Reference[Any]) -> None:
        """Free what `broadcast` holds."""

    @abc.abstractmethod
    def _stop(self) -> None:
        """Free what the executor itself holds; never blocks or raises."""

    # What they share ----------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """It cannot kill a task, but frees its slot; a dying worker costs its own tasks only."""
        return Capabilities(can_kill=False, survives_lost_worker=True, shares_memory=False)

    def submit_many(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        *,
        descriptions: Sequence[str] | None = None,
    ) -> list[TaskFuture]:
        """Start ``fn(*a)`` for each tuple a of `args`.

        Parameters
        ----------
        fn
            What to run.
        args
            One tuple of arguments per task.
        descriptions
            What messages call each task; by default its place and the function's name.

        Returns
        -------
        list of TaskFuture
            In the order of `args`.

        Raises
        ------
        RuntimeError
            If the executor is closed.
        """
        if self._closed:
            raise RuntimeError("the executor must be open, and it was closed. Make a new one.")
        names = describe_tasks(fn, len(args), descriptions)
        futures = [self._completions.new_future(name) for name in names]
        if futures:
            self._start(fn, args, futures)
        return futures

    def _hold(self, future: TaskFuture, handle: Any) -> None:
        self._handles[future] = handle
        # Through a weak reference: a future must not keep its executor alive.
        future.add_done_callback(functools.partial(_forget, weakref.ref(self)))

    def _done(self, future: TaskFuture) -> None:
        handle = self._handles.pop(future, None)
        if handle is not None and future.cancelled():  # by its user: the engine need not run it
            self._let_go({future: handle})

    def _assume_running(self, future: TaskFuture) -> None:
        """Take the oldest tasks for running, as many as there are slots: the engine says nothing.

        A job gives a task only so long to run, and must not count the time in a queue.
        """
        with self._lock:
            self._waiting.append(future)
        future.add_done_callback(functools.partial(_move_up_after, weakref.ref(self)))
        self._move_up()

    def _move_up(self, ended: TaskFuture | None = None) -> None:
        slots = self.slots
        with self._lock:
            self._running.discard(ended)
            while self._waiting and (slots is None or len(self._running) < slots):
                future = self._waiting.popleft()
                if mark_running(future):
                    future.started = self.now()
                    self._running.add(future)

    def _fail_lost(self, future: TaskFuture, reason: object) -> None:
        cause = reason if isinstance(reason, BaseException) else None
        where = f" ({future.worker})" if future.worker else ""
        lost = WorkerLostError(f"{future.description} is lost with its worker{where}: {reason}")
        lost.__cause__ = cause
        if settle(future, error=lost):
            logger.warning("%s", lost)

    def wait(
        self, futures: Collection[Future[Any]], timeout: float | None = None
    ) -> set[Future[Any]]:
        """Wait until at least one of `futures` is done.

        Parameters
        ----------
        futures
            Of this executor; with none, there is nothing to wait for.
        timeout
            Seconds to wait at most; 0 only looks, None waits for ever.

        Returns
        -------
        set of Future
            Those that are done; empty when the time is over.
        """
        return self._completions.wait(futures, timeout)

    def now(self) -> float:
        """Seconds of `time.monotonic`.

        Returns
        -------
        float
            The time; only differences mean anything.
        """
        return time.monotonic()

    def abandon(self, futures: Collection[Future[Any]]) -> dict[str, int]:
        """Stop caring for `futures`: those that wait never start, those that run are let go of.

        Parameters
        ----------
        futures
            Done ones are passed over; the others fail with ``CancelledError`` at once.

        Returns
        -------
        dict of str to int
            How many were ``"killed"`` (none), ``"cancelled"`` (not known to have begun) or
            ``"forgotten"`` (running: the slot is given back, the answer dropped).
        """
        counts = {"killed": 0, "cancelled": 0, "forgotten": 0}
        dropped = {}
        for future in futures:
            handle = self._handles.pop(future, None)  # type: ignore[call-overload]
            if future.done():
                continue
            if future.cancel():
                counts["cancelled"] += 1
            elif settle(future, error=abandoned()):
                counts["forgotten"] += 1
            if handle is not None:
                dropped[future] = handle
        if dropped:
            self._let_go(dropped)  # type: ignore[arg-type]
        return counts

    def close(self) -> None:
        """Abandon all tasks and free what was shipped; the engine stays its owner's."""
        if self._closed:
            return
        self._closed = True
        self.abandon(list(self._handles))
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def mark_running(future: TaskFuture) -> bool:
    """Note that a task has begun.

    Parameters
    ----------
    future
        The task's.

    Returns
    -------
    bool
        False if it has begun already, or is done.
    """
    if future.running() or future.done():  # else it logs that it is surprised
        return False
    try:
        return future.set_running_or_notify_cancel()
    except RuntimeError:  # done meanwhile
        return False


def _forget(executor: weakref.ref[EngineExecutor], future: TaskFuture) -> None:
    if (alive := executor()) is not None:
        alive._done(future)


def _move_up_after(executor: weakref.ref[EngineExecutor], future: TaskFuture) -> None:
    if (alive := executor()) is not None:
        alive._move_up(future)


def name_mismatch(
    engine: str, here: Mapping[str, str], workers: Iterable[Mapping[str, str | None]]
) -> None:
    """Log one line if a worker has something in another version than the driver.

    Parameters
    ----------
    engine
        What the workers belong to.
    here
        Versions of the driver, by name of package.
    workers
        The same of each worker; None where it is not installed.
    """
    for there in workers:
        differing = [
            f"{name} {there.get(name) or 'missing'} (here {version})"
            for name, version in here.items()
            if there.get(name) != version
        ]
        if differing:
            logger.warning(
                "%s: a worker has %s; tasks may fail. Install the same versions there.",
                engine,
                ", ".join(differing),
            )
            return
