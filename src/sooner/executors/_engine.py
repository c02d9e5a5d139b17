"""What the executors over clusters share: our futures before, the engine's handles behind.

An adapter says how tasks start, how a handle is let go of, how a value is shipped, and what is to
be freed at the end.  The rest is here.
"""

from __future__ import annotations

import abc
import functools
import itertools
import logging
import secrets
import threading
import weakref
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, ClassVar

from sooner import _checks
from sooner.errors import WorkerLostError
from sooner.executors._bounded import TASK_TIMEOUT, Shipped
from sooner.executors._completions import settle
from sooner.executors._task_executor import TaskExecutor
from sooner.executors._versions import version_probe, warn_of_other_versions
from sooner.executors.base import Capabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from concurrent.futures import Future

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["PATIENCE", "EngineExecutor"]

PATIENCE = 60.0
"""Seconds that tasks wait for an engine without any worker."""

logger = logging.getLogger(__name__)

_compared: set[str] = set()  # clusters that were asked for their versions


class EngineExecutor(TaskExecutor):
    """An executor over an engine with futures of its own.

    Parameters
    ----------
    cluster
        A name that no other cluster of the same engine has.
    task_timeout
        Seconds after which a task gives its slot back by itself.
    patience
        Seconds without a single worker after which tasks fail instead of waiting for one.
    """

    _engine: ClassVar[str]
    """What messages call the engine."""

    def __init__(
        self, cluster: str, *, task_timeout: float = TASK_TIMEOUT, patience: float = PATIENCE
    ) -> None:
        super().__init__()
        self._task_timeout = _checks.positive(task_timeout, "task_timeout")
        self._patience = _checks.positive(patience, "patience")
        self._cluster_name = f"{self._engine} {cluster}"
        self._prefix = f"sooner-{secrets.token_hex(6)}"
        self._ordinals = itertools.count()
        self._lock = threading.RLock()
        self._handles: dict[TaskFuture, Any] = {}  # of those that are not done
        self._shipped: dict[str, Any] = {}
        self._alarm: threading.Timer | None = None

    # What an adapter says -----------------------------------------------------------------

    @property
    @abc.abstractmethod
    def slots(self) -> int | None:
        """Tasks that can run at the same time; None if unknown."""

    @abc.abstractmethod
    def _start_tasks(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        """Start one task for each future, and remember its handle with `_hold`."""

    @abc.abstractmethod
    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        """Have the engine forget tasks; never blocks or raises."""

    @abc.abstractmethod
    def broadcast(self, value: Any) -> Reference[Any]:
        """Ship `value` once, for many tasks."""

    @abc.abstractmethod
    def _unship(self, held: Any) -> None:
        """Free what the engine holds of a shipped value; never raises."""

    @abc.abstractmethod
    def _stop(self) -> None:
        """Free what the executor itself holds; never blocks or raises."""

    def _has_workers(self) -> bool:
        """Whether there is a worker that could run a task, now or soon."""
        return True

    def _compare_versions(self) -> None:
        """Have one worker say its versions, as the first task of all."""
        probe = self._new_future("versions of a worker")
        probe.add_done_callback(functools.partial(_warn_of_versions, self._engine))
        self._start_tasks(version_probe(), [()], [probe])

    # What they share ----------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """It cannot kill a task, but frees its slot; a dying worker costs its own tasks only."""
        return Capabilities(can_kill=False, survives_lost_worker=True, shares_memory=False)

    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        if self._cluster_name not in _compared and self._has_workers():
            _compared.add(self._cluster_name)
            self._compare_versions()
        self._start_tasks(fn, args, futures)
        self._watch_for_workers()

    def _new_names(self, n: int) -> list[str]:
        return [f"{self._prefix}-{ordinal}" for ordinal in itertools.islice(self._ordinals, n)]

    def _hold(self, future: TaskFuture, handle: Any) -> None:
        self._handles[future] = handle
        # Through a weak reference: a future must not keep its executor alive.
        future.add_done_callback(functools.partial(_forget, weakref.ref(self)))

    def _done(self, future: TaskFuture) -> None:
        handle = self._handles.pop(future, None)
        if handle is not None and future.cancelled():  # by its user: the engine need not run it
            self._let_go({future: handle})

    def _mark_running(self, future: TaskFuture) -> bool:
        """Note that a task has begun; tell whether it was waiting until now."""
        if future.running() or future.done():  # else it logs that it is surprised
            return False
        try:
            begun = future.set_running_or_notify_cancel()
        except RuntimeError:  # done meanwhile
            return False
        if begun:
            future.started = self.now()
        return begun

    def _fail_lost(self, future: TaskFuture, reason: object) -> None:
        cause = reason if isinstance(reason, BaseException) else None
        where = f" ({future.worker})" if future.worker else ""
        lost = WorkerLostError(f"{future.description} is lost with its worker{where}: {reason}")
        lost.__cause__ = cause
        if settle(future, error=lost):
            logger.warning("%s", lost)

    def abandon(self, futures: Collection[Future[Any]]) -> dict[str, int]:
        """Do as every executor does, and tell the engine of all of them at once."""
        dropped = set(futures)
        known = [future for future in list(self._handles) if future in dropped]
        handles = {future: self._handles.pop(future, None) for future in known}
        counts = super().abandon(futures)
        held = {future: handle for future, handle in handles.items() if handle is not None}
        if held:
            self._let_go(held)
        return counts

    def close(self) -> None:
        """Abandon all tasks and free what was shipped; the engine stays its owner's."""
        if self._closed:
            return
        self._closed = True
        self.abandon(list(self._handles))
        self._watch_for_workers()
        while self._shipped:
            self._unship(self._shipped.popitem()[1])
        self._stop()

    # Values -------------------------------------------------------------------------------

    def _ship(self, handle: Any) -> Shipped:
        shipped = Shipped(f"value_{secrets.token_hex(8)}")
        self._shipped[shipped.name] = handle
        return shipped

    def _shipped_in(self, args: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        names = {each.name for task in args for each in task if isinstance(each, Shipped)}
        return {name: self._shipped[name] for name in names}

    def release(self, reference: Reference[Any]) -> None:
        """Free what `broadcast` holds; tasks that load it later fail.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """
        if isinstance(reference, Shipped) and reference.name in self._shipped:
            self._unship(self._shipped.pop(reference.name))

    # An engine without workers ------------------------------------------------------------

    def _watch_for_workers(self) -> None:
        """Count the time that tasks wait for a first worker, or stop to count."""
        alone = bool(self._handles) and not self._closed and not self._has_workers()
        with self._lock:
            if alone == (self._alarm is not None):
                return
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None
                return
            self._alarm = threading.Timer(self._patience, self._give_up)
            self._alarm.daemon = True
            self._alarm.start()
        logger.warning(
            "%s has no worker that could run a task; tasks fail when none comes within %g s.",
            self._engine,
            self._patience,
        )

    def _give_up(self) -> None:
        with self._lock:
            self._alarm = None
        if self._closed or self._has_workers():
            return
        handles = dict(self._handles)
        for future in handles:
            settle(
                future,
                error=WorkerLostError(f"{self._engine} had no worker for {self._patience:g} s."),
            )
        self._let_go(handles)


def _forget(executor: weakref.ref[EngineExecutor], future: TaskFuture) -> None:
    if (alive := executor()) is not None:
        alive._done(future)


def _warn_of_versions(engine: str, probe: Future[Any]) -> None:
    if probe.cancelled() or isinstance(probe.exception(), CancelledError | WorkerLostError):
        return
    error = probe.exception()
    if error is None:
        warn_of_other_versions(engine, [probe.result()])
    else:
        logger.warning(
            "%s: a worker cannot run tasks of sooner, so all may fail: %r", engine, error
        )
