"""What every executor here does the same way: futures of our own, and one wait for them all."""

from __future__ import annotations

import abc
import time
from typing import TYPE_CHECKING, Any

from sooner.executors._completions import Completions, abandoned, describe_tasks, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future
    from typing import Self

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Capabilities

__all__ = ["TaskExecutor"]


class TaskExecutor(abc.ABC):
    """An executor whose futures are completed by whatever runs the tasks."""

    def __init__(self) -> None:
        self._completions = Completions()
        self._closed = False

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities:
        """What this executor can do when things go wrong."""

    @abc.abstractmethod
    def close(self) -> None:
        """Free everything without waiting for tasks that still run."""

    @abc.abstractmethod
    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        """Start one task for each future; there is at least one."""

    def _check_usable(self) -> None:
        if self._closed:
            raise RuntimeError("the executor must be open, and it was closed. Make a new one.")

    def _new_future(self, description: str) -> TaskFuture:
        return self._completions.new_future(description)

    def _cancel(self, future: Future[Any]) -> bool:
        """Cancel a task that has not begun; tell whether that was so."""
        return future.cancel()

    def _drop(self, running: Collection[Future[Any]]) -> None:  # ruff: ignore[empty-method-without-abstract-decorator]  # not abstract: few need it
        """Take note that nobody wants these tasks any more, which had begun; never raises."""

    def submit_many(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        *,
        descriptions: Sequence[str] | None = None,
    ) -> list[TaskFuture]:
        """Start ``fn(*a)`` for each tuple a of `args`, in this order as slots become free.

        Parameters
        ----------
        fn
            What to run.
        args
            One tuple of arguments per task.  Where tasks run in other processes they are pickled
            now: later changes are not seen.
        descriptions
            What messages call each task; by default its place and the function's name.

        Returns
        -------
        list of TaskFuture
            In the order of `args`.

        Raises
        ------
        RuntimeError
            If the executor is closed, or cannot run tasks any more.
        TypeError
            If the function or an argument cannot be pickled, and has to be.
        """
        self._check_usable()
        names = describe_tasks(fn, len(args), descriptions)
        futures = [self._new_future(name) for name in names]
        if futures:
            self._start(fn, args, futures)
        return futures

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
        """Stop caring for `futures`: those that wait never start, those that run are ended.

        An executor that cannot kill forgets those that run: it drops their answers, and gives
        their slots back as far as its engine allows.

        Parameters
        ----------
        futures
            Done ones are passed over; the others fail with ``CancelledError`` at once.

        Returns
        -------
        dict of str to int
            How many were ``"killed"``, ``"cancelled"`` (not known to have begun) or
            ``"forgotten"`` (running, where no task can be killed).
        """
        counts = {"killed": 0, "cancelled": 0, "forgotten": 0}
        ended = "killed" if self.capabilities.can_kill else "forgotten"
        running = []
        for future in futures:
            if future.done():
                continue
            if self._cancel(future):
                counts["cancelled"] += 1
            elif settle(future, error=abandoned()):
                counts[ended] += 1
                running.append(future)
        self._drop(running)
        return counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
