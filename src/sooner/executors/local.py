"""Tasks in supervised worker processes of this machine: the default executor."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner._machine import usable_cores
from sooner.executors._task_executor import TaskExecutor
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


class LocalExecutor(TaskExecutor):
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
        super().__init__()
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

    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        from sooner.executors._calls import Call, Task

        path = [
            entry if Path(entry).is_absolute() else str(Path.cwd() / entry) for entry in sys.path
        ]
        packed_fn = _pickled(fn, "fn")
        packed_args = [_pickled(tuple(a), f"args[{i}]") for i, a in enumerate(args)]
        call = Call(next(self._calls), dumps((path, packed_fn)), self)
        supervisor = self._supervisor()
        module = str(getattr(fn, "__module__", None))
        if module.startswith("sooner.") and module not in self._preloaded:
            # Our own task functions: imported once and forked, not once in each worker.  Modules
            # of others may start threads, which do not survive a fork.
            self._preloaded.add(module)
            supervisor.preload(module)
        tasks = zip(packed_args, futures, strict=True)
        supervisor.submit([Task(call, packed, future) for packed, future in tasks])

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
        super()._check_usable()
        if self._supervisors and self._supervisors[0].broken:
            raise RuntimeError(f"the executor is broken: {self._supervisors[0].broken}")

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

    def _drop(self, running: Collection[Future[Any]]) -> None:
        if running and self._supervisors and os.getpid() == self._pid:
            self._supervisors[0].kill(set(running))

    def close(self) -> None:
        """End all workers without waiting for their tasks; a second time does nothing.

        Tasks that are not done fail with ``CancelledError``.
        """
        with self._lock:
            self._closed = True
        self._finalizer()


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
