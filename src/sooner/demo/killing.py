"""Executors that lose a worker on purpose."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from sooner.executors import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from sooner.executors import Executor
    from sooner.executors._completions import TaskFuture

__all__ = ["Killing", "KillingExecutor", "MortalTasks"]


class Killing(Protocol):
    """An executor, as far as the demo uses it, that loses a worker when told to."""

    def kill_next(self, *, task: int, after: float) -> None:
        """Have one task of the next `submit_many` lose its worker, `after` seconds later."""

    def submit_many(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        *,
        descriptions: Sequence[str] | None = None,
    ) -> Sequence[Future[Any]]:
        """Start tasks, as any executor does."""


class KillingExecutor(LocalExecutor):
    """`LocalExecutor` with a SIGKILL from outside for the worker of one task, while it runs.

    Parameters
    ----------
    max_workers
        As for `LocalExecutor`.

    Examples
    --------
    >>> import time
    >>> with KillingExecutor(max_workers=2) as executor:
    ...     executor.kill_next(task=1, after=0.2)
    ...     futures = executor.submit_many(time.sleep, [(0.0,), (30.0,)])
    ...     type(futures[1].exception(timeout=10)).__name__
    'WorkerLostError'
    """

    def __init__(self, max_workers: int | None = None) -> None:
        super().__init__(max_workers)
        self._plan: tuple[int, float] | None = None

    def kill_next(self, *, task: int, after: float) -> None:
        """Have one task of the next `submit_many` lose its worker.

        Parameters
        ----------
        task
            Its place.
        after
            Seconds from then.  Should the task still wait for a worker, it is killed as soon as it
            has one; should it be done, nothing happens.
        """
        self._plan = task, after

    def submit_many(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        *,
        descriptions: Sequence[str] | None = None,
    ) -> list[TaskFuture]:
        """Start ``fn(*a)`` for each tuple a of `args`, and the clock of the planned kill.

        Parameters
        ----------
        fn, args, descriptions
            As for `LocalExecutor`.

        Returns
        -------
        list of TaskFuture
            In the order of `args`.
        """
        futures = super().submit_many(fn, args, descriptions=descriptions)
        plan, self._plan = self._plan, None
        if plan is not None:
            task, after = plan
            timer = threading.Timer(after, _kill_worker_of, [futures[task]])
            timer.daemon = True
            timer.start()
        return futures


def _kill_worker_of(future: TaskFuture) -> None:
    while not future.done():
        if future.running() and future.worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(future.worker.rpartition(":")[2]), signal.SIGKILL)
            return
        time.sleep(0.01)


class MortalTasks:
    """An executor of any engine, with a task that ends its own worker while it runs.

    Only the local executor says in which process a task is; elsewhere SIGKILL comes from within.

    Parameters
    ----------
    executor
        Whatever `as_executor` gives; its user closes it.

    Examples
    --------
    >>> import time
    >>> from sooner.executors import LocalExecutor
    >>> with LocalExecutor(max_workers=2) as executor:
    ...     tasks = MortalTasks(executor)
    ...     tasks.kill_next(task=1, after=0.2)
    ...     futures = tasks.submit_many(time.sleep, [(0.0,), (30.0,)])
    ...     type(futures[1].exception(timeout=10)).__name__
    'WorkerLostError'
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._plan: tuple[int, float] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def __enter__(self) -> MortalTasks:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Do nothing: the executor is closed by its own user."""

    def kill_next(self, *, task: int, after: float) -> None:
        """Have one task of the next `submit_many` lose its worker.

        Parameters
        ----------
        task
            Its place.
        after
            Seconds after it has begun.
        """
        self._plan = task, after

    def submit_many(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        *,
        descriptions: Sequence[str] | None = None,
    ) -> Sequence[Future[Any]]:
        """Start ``fn(*a)`` for each tuple a of `args`, one of them mortal if that was planned.

        Parameters
        ----------
        fn, args, descriptions
            As for any executor.

        Returns
        -------
        sequence of Future
            In the order of `args`.
        """
        plan, self._plan = self._plan, None
        if plan is None:
            return self._executor.submit_many(fn, args, descriptions=descriptions)
        task, after = plan
        mortal = [(after if i == task else None, fn, *each) for i, each in enumerate(args)]
        return self._executor.submit_many(_run_mortal, mortal, descriptions=descriptions)


def _run_mortal(after: float | None, fn: Callable[..., Any], *args: Any) -> Any:
    if after is not None:
        timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
    return fn(*args)
