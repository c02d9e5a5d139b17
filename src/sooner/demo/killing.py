"""A local executor that loses a worker on purpose."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from sooner.executors import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sooner.executors._completions import TaskFuture

__all__ = ["KillingExecutor"]


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
