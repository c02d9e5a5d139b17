"""Waiting for the first of many futures, without touching each of them at every turn.

`concurrent.futures.wait` locks all pending futures and puts a waiter into each, at every call:
with 512 pending that is most of a job's time.  Here a future marks itself, and one condition wakes
whoever waits; a waiter then looks at plain attributes.  Nothing is kept, so nothing can leak.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Completions", "TaskFuture", "describe_tasks", "settle"]


class TaskFuture(Future[Any]):
    """What `submit_many` gives: a `concurrent.futures.Future` that knows a little about its task.

    Parameters
    ----------
    description
        What messages call the task.

    Examples
    --------
    >>> TaskFuture("task 3 of 64").description
    'task 3 of 64'
    """

    def __init__(self, description: str = "a task") -> None:
        super().__init__()
        self.description = description
        """What messages call the task."""
        self.worker: str | None = None
        """What runs or ran it, ``host:pid``; None if it did not start or is not known."""
        self.started: float | None = None
        """When it was given to a worker, by the executor's clock; None if that is not known."""
        self.finished: float | None = None
        """When it finished, by the executor's clock; only a `VirtualExecutor` knows."""
        self.completed = False
        """Like ``done()``, without taking a lock; set last."""


def describe_tasks(fn: object, n: int, descriptions: Sequence[str] | None) -> Sequence[str]:
    """Name the tasks of one call of `submit_many`.

    Parameters
    ----------
    fn
        What they run.
    n
        How many there are.
    descriptions
        What the caller named them, or None.

    Returns
    -------
    sequence of str
        One per task.

    Raises
    ------
    ValueError
        If there are not `n` descriptions.

    Examples
    --------
    >>> describe_tasks(len, 2, None)
    ['task 0 of 2 (len)', 'task 1 of 2 (len)']
    """
    if descriptions is None:
        name = getattr(fn, "__name__", type(fn).__name__)
        return [f"task {i} of {n} ({name})" for i in range(n)]
    if len(descriptions) != n:
        raise ValueError(
            f"descriptions must name each task, got {len(descriptions)} for {n} tasks."
        )
    return descriptions


def settle(
    future: Future[Any], result: object = None, *, error: BaseException | None = None
) -> bool:
    """Complete `future` unless it is complete already: the first to come wins.

    Parameters
    ----------
    future
        What to complete.
    result
        Its result.
    error
        What it fails with instead, if given.

    Returns
    -------
    bool
        True if it was not complete.

    Examples
    --------
    >>> future = TaskFuture()
    >>> settle(future, 1), settle(future, 2), future.result()
    (True, False, 1)
    """
    try:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
    except InvalidStateError:
        return False
    return True


def abandoned() -> CancelledError:
    """Give the exception of a task that ran, and that nobody waits for any more.

    Returns
    -------
    CancelledError
        As if the future had been cancelled.
    """
    return CancelledError("abandoned while running")


class Completions:
    """Wakes those who wait for any of many futures.

    Examples
    --------
    >>> completions = Completions()
    >>> first, second = completions.new_future("a"), completions.new_future("b")
    >>> second.set_result(2)
    >>> [future.description for future in completions.wait({first, second})]
    ['b']
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def new_future(self, description: str) -> TaskFuture:
        """Make a future that `wait` knows.

        Parameters
        ----------
        description
            What messages call its task.

        Returns
        -------
        TaskFuture
            Pending.
        """
        future = TaskFuture(description)
        future.add_done_callback(self._mark)
        return future

    def _mark(self, future: Future[Any]) -> None:
        future.completed = True  # type: ignore[attr-defined]
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait(
        self, futures: Collection[Future[Any]], timeout: float | None = None
    ) -> set[Future[Any]]:
        """Wait until at least one of `futures` is done.

        Parameters
        ----------
        futures
            Futures of `new_future`; with none, there is nothing to wait for.
        timeout
            Seconds to wait at most; 0 only looks, None waits for ever.

        Returns
        -------
        set of Future
            Those that are done; empty when the time is over.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            count = self._count  # read before looking: what completes later changes it
            done = completed(futures)
            if done or not futures:
                return done
            remaining = threading.TIMEOUT_MAX
            if deadline is not None:
                remaining = min(remaining, deadline - time.monotonic())
                if not remaining > 0:
                    return done
            with self._condition:
                if self._count == count:
                    self._condition.wait(remaining)


def completed(futures: Collection[Future[Any]]) -> set[Future[Any]]:
    """Give those of `futures` that are done.

    Parameters
    ----------
    futures
        Futures of ``submit_many``.

    Returns
    -------
    set of Future
        Those that are done.

    Raises
    ------
    TypeError
        If there is another future among them, whose end would go unnoticed.
    """
    try:
        return {future for future in futures if future.completed}  # type: ignore[attr-defined]
    except AttributeError:
        raise TypeError(
            "futures must come from submit_many of this executor, got another future among them."
        ) from None
