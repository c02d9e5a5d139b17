"""Tasks in supervised worker processes of this machine: the default executor."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner._machine import usable_cores
from sooner.executors._completions import Completions, abandoned, describe_tasks, settle
from sooner.executors._wire import dumps
from sooner.executors.base import Capabilities
from sooner.executors.references import SharedValues

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future

    from sooner.executors._completions import TaskFuture
    from sooner.executors._supervisor import Supervisor
    from sooner.executors.base import Reference

__all__ = ["LocalExecutor", "usable_cores"]


class LocalExecutor:
    """Tasks in worker processes of this machine, each of which may die or be killed alone.

    A killed, crashed or out-of-memory worker fails its own task with `WorkerLostError`, is logged
    in one line and replaced.  `abandon` kills stragglers, `close` never waits for them, and no
    process is left behind, not even when the driver itself is killed.  Workers start when tasks
    come, have one BLAS thread each, and never import the user's main module: functions defined
    there travel by value, so a script needs no ``if __name__ == "__main__"``.

    Not for Windows, which cannot fork.

    Parameters
    ----------
    max_workers
        Tasks that may run at the same time; by default the cores this process may use.

    Raises
    ------
    RuntimeError
        If this system cannot fork processes.

    Examples
    --------
    >>> with LocalExecutor(max_workers=2) as executor:
    ...     futures = executor.submit_many(pow, [(2, 3), (2, 4)])
    ...     [future.result() for future in futures]
    [8, 16]
    """

    def __init__(self, max_workers: int | None = None) -> None:
        if not hasattr(os, "fork"):
            raise RuntimeError(
                "LocalExecutor needs a system that can fork processes, and this one cannot. "
                "Use as_executor(concurrent.futures.ProcessPoolExecutor())."
            )
        if max_workers is None:
            max_workers = usable_cores()
        self._max_workers = _checks.integer(max_workers, "max_workers", at_least=1)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._completions = Completions()
        self._values = SharedValues()
        self._calls = itertools.count()
        self._preloaded: set[str] = set()
        self._supervisors: list[Supervisor] = []  # empty, or one
        # Also run at exit; it must not know the executor itself, or that would live for ever.
        self._finalizer = weakref.finalize(self, _stop, self._supervisors, self._values)

    def __repr__(self) -> str:
        return f"LocalExecutor(max_workers={self._max_workers})"

    @property
    def slots(self) -> int:
        """Tasks that can run at the same time."""
        return self._max_workers

    @property
    def capabilities(self) -> Capabilities:
        """It can kill a task, and a dying worker costs its own task only."""
        return Capabilities(can_kill=True, survives_lost_worker=True, shares_memory=False)

    def submit_many(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        *,
        descriptions: Sequence[str] | None = None,
    ) -> list[TaskFuture]:
        """Start ``fn(*a)`` for each tuple a of `args`, in this order as workers become free.

        Parameters
        ----------
        fn
            What to run; pickled once, and sent once to each worker.
        args
            One tuple of arguments per task, pickled at once: later changes are not seen.
        descriptions
            What messages call each task; by default its place and the function's name.

        Returns
        -------
        list of TaskFuture
            In the order of `args`.

        Raises
        ------
        TypeError
            If the function or an argument cannot be pickled; then no task is started.
        RuntimeError
            If the executor is closed, broken, or belongs to a process that this one was forked
            from.
        """
        self._check_usable()
        names = describe_tasks(fn, len(args), descriptions)
        packed_fn = _pickled(fn, "fn")
        packed_args = [_pickled(tuple(a), f"args[{i}]") for i, a in enumerate(args)]
        return self._start(fn, packed_fn, packed_args, names)

    def _start(
        self,
        fn: Callable[..., Any],
        packed_fn: bytes,
        packed_args: Sequence[bytes],
        names: Sequence[str],
    ) -> list[TaskFuture]:
        from sooner.executors._supervisor import Call, Task

        path = [
            entry if Path(entry).is_absolute() else str(Path.cwd() / entry) for entry in sys.path
        ]
        call = Call(next(self._calls), dumps((path, packed_fn)), self)
        futures = [self._completions.new_future(name) for name in names]
        supervisor = self._supervisor()
        module = str(getattr(fn, "__module__", None))
        if module.startswith("sooner.") and module not in self._preloaded:
            # Our own task functions: imported once and forked, not once in each worker.  Modules
            # of others may start threads, which do not survive a fork.
            self._preloaded.add(module)
            supervisor.preload(module)
        tasks = zip(packed_args, futures, strict=True)
        supervisor.submit([Task(call, packed, future) for packed, future in tasks])
        return futures

    def _supervisor(self) -> Supervisor:
        with self._lock:
            self._check_usable()
            if not self._supervisors:
                from sooner.executors._supervisor import Supervisor

                self._supervisors.append(Supervisor(self._max_workers))
            return self._supervisors[0]

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(
                "an executor must be used in the process that made it, and this one was forked "
                "from it. Make a new executor here."
            )
        if self._closed:
            raise RuntimeError("the executor must be open, and it was closed. Make a new one.")
        if self._supervisors and self._supervisors[0].broken:
            raise RuntimeError(f"the executor is broken: {self._supervisors[0].broken}")

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

    def broadcast(self, value: Any) -> Reference[Any]:
        """Ship `value` once: into memory that all workers map, or with the reference if small.

        Parameters
        ----------
        value
            An array, as a rule; anything that can be pickled.

        Returns
        -------
        Reference
            To pass as an argument of tasks; loaded arrays are read-only.
        """
        self._check_usable()
        return self._values.put(value)

    def release(self, reference: Reference[Any]) -> None:
        """Free what `broadcast` holds; tasks that load it later fail.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """
        self._values.release(reference)

    def abandon(self, futures: Collection[Future[Any]]) -> dict[str, int]:
        """Stop caring for `futures`: cancel those that wait, kill the workers of those that run.

        Parameters
        ----------
        futures
            Done ones are passed over; the others fail with ``CancelledError`` at once.

        Returns
        -------
        dict of str to int
            How many were ``"killed"``, ``"cancelled"`` (never started) or ``"forgotten"`` (none).
        """
        counts = {"killed": 0, "cancelled": 0, "forgotten": 0}
        running = set()
        for future in futures:
            if future.done():
                continue
            if future.cancel():
                counts["cancelled"] += 1
            elif settle(future, error=abandoned()):
                counts["killed"] += 1
                running.add(future)
        if running and self._supervisors and os.getpid() == self._pid:
            self._supervisors[0].kill(running)
        return counts

    def close(self) -> None:
        """End all workers without waiting for their tasks; a second time does nothing.

        Tasks that are not done fail with ``CancelledError``.
        """
        with self._lock:
            self._closed = True
        self._finalizer()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _stop(supervisors: list[Supervisor], values: SharedValues) -> None:
    for supervisor in supervisors:
        supervisor.stop()
    values.close()


def _pickled(value: object, name: str) -> bytes:
    try:
        return dumps(value)
    except Exception as error:
        raise TypeError(
            f"{name} must be picklable to reach a worker process, got {value!r}: {error}"
        ) from error
