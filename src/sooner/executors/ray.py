"""Tasks on Ray: this machine or a cluster, whatever the user's ``ray.init`` connects to."""

from __future__ import annotations

import contextlib
import functools
import pickle
import signal
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner.errors import MissingExtraError
from sooner.executors._bounded import TASK_TIMEOUT, run_packed
from sooner.executors._completions import settle
from sooner.executors._engine import PATIENCE, EngineExecutor
from sooner.executors._outcomes import complete
from sooner.executors._wire import dumps

try:
    import ray
except ImportError as error:
    raise MissingExtraError('RayExecutor needs Ray: pip install "sooner[ray]"') from error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["RayExecutor"]

_leaving: dict[str, list[tuple[ray.ObjectRef[Any], Future[Any]]]] = {}  # let go of, still there
_leaving_lock = threading.Lock()


class RayExecutor(EngineExecutor):
    """Tasks on Ray, which the caller starts with ``ray.init`` and ends.

    Ray's forced cancel kills the worker process, whose successor needs seconds, so it is not used:
    tasks are let go of, the slot is free within 0.1 s, and the thread behind ends at its next line
    of Python.  A lost worker fails its own task only.

    Parameters
    ----------
    num_cpus
        What Ray reserves for each task; it may be a fraction.
    task_timeout
        Seconds after which a task gives its slot back by itself.
    patience
        Seconds without a node for a task after which tasks fail instead of waiting for one.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    RuntimeError
        If Ray is not initialized.

    Examples
    --------
    >>> import ray  # doctest: +SKIP
    >>> ray.init()  # doctest: +SKIP
    >>> with RayExecutor() as executor:  # doctest: +SKIP
    ...     [future.result() for future in executor.submit_many(pow, [(2, 3), (2, 4)])]
    [8, 16]
    """

    _engine = "Ray"

    def __init__(
        self,
        *,
        num_cpus: float = 1.0,
        task_timeout: float = TASK_TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        self._num_cpus = _checks.positive(num_cpus, "num_cpus")
        if not ray.is_initialized():
            raise RuntimeError(
                "Ray must be initialized before an executor is made of it. Call ray.init() first."
            )
        cluster = ray.get_runtime_context().get_node_id()
        super().__init__(cluster, task_timeout=task_timeout, patience=patience)
        self._run = ray.remote(num_cpus=self._num_cpus, max_retries=0)(_run)
        self._slots: int | None = None
        self._waiting: deque[TaskFuture] = deque()  # assumed not to have begun, the oldest first
        self._running: set[Future[Any]] = set()  # assumed to

    def __repr__(self) -> str:
        return f"RayExecutor(num_cpus={self._num_cpus:g})"

    @property
    def slots(self) -> int | None:
        """Tasks for which the cluster has processors; None if it has none yet."""
        return self._slots or self._count_slots()

    def _count_slots(self) -> int | None:
        # Not from the sum: a task runs on one node.
        cpus = [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]
        self._slots = sum(int(each / self._num_cpus) for each in cpus) or None
        return self._slots

    def _has_workers(self) -> bool:
        return not ray.is_initialized() or self.slots is not None

    def _start_tasks(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        self._count_slots()  # the cluster may have grown
        self._let_go({})
        packed_fn = dumps(fn)
        for name, future, arguments in zip(self._new_names(len(args)), futures, args, strict=True):
            values = self._shipped_in([arguments])
            # One argument: Ray serializes each on its own.
            task = name, self._task_timeout, packed_fn, dumps(arguments), list(values)
            payload = pickle.dumps(task)
            handle = self._run.remote(payload, *values.values())
            outcome = handle.future()
            self._hold(future, (handle, outcome))
            self._assume_running(future)
            outcome.add_done_callback(functools.partial(self._pass_outcome, future))

    def _assume_running(self, future: TaskFuture) -> None:
        """Take the oldest tasks for running, as many as there are slots: Ray does not say.

        A job gives a task only so long to run, and must not count the time in a queue.
        """
        with self._lock:
            self._waiting.append(future)
        future.add_done_callback(functools.partial(_move_up_after, weakref.ref(self)))
        self._move_up()

    def _move_up(self, ended: Future[Any] | None = None) -> None:
        slots = self._slots
        with self._lock:
            self._running.discard(ended)
            while self._waiting and (slots is None or len(self._running) < slots):
                future = self._waiting.popleft()
                if self._mark_running(future):
                    self._running.add(future)

    def _pass_outcome(self, future: TaskFuture, inner: Future[Any]) -> None:
        error = inner.exception()
        if error is None:
            complete(future, inner.result())
        elif isinstance(error, ray.exceptions.RayTaskError):  # it did not come as far as the task
            settle(future, error=error)
        elif isinstance(error, ray.exceptions.RayError):  # the worker, its node, its memory
            self._fail_lost(future, error)
        else:  # the result could not be unpickled
            settle(future, error=error)

    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        # One cancellation in some hundred goes astray, so those before are repeated as well; by no
        # thread of ours, since a call into Ray while it is shut down ends the process.
        with _leaving_lock:
            before = _leaving.get(self._cluster_name, [])
            _leaving.clear()  # another cluster's end with it
            leaving = [*handles.values(), *(each for each in before if not each[1].done())]
            _leaving[self._cluster_name] = leaving
        for handle, _ in leaving:
            with contextlib.suppress(Exception):  # Ray was shut down
                ray.cancel(handle, force=False, recursive=False)

    def broadcast(self, value: Any) -> Reference[Any]:
        """Put `value` into Ray's object store, from which tasks read it without a copy.

        Parameters
        ----------
        value
            An array, as a rule.

        Returns
        -------
        Reference
            To pass as an argument of tasks; loaded arrays are read-only.
        """
        return self._ship(ray.put(value))

    def _unship(self, held: ray.ObjectRef[Any]) -> None:
        """Do nothing: Ray frees what is not referred to any more."""

    def _stop(self) -> None:
        self._waiting.clear()


def _move_up_after(executor: weakref.ref[RayExecutor], future: Future[Any]) -> None:
    if (alive := executor()) is not None:
        alive._move_up(future)


def _run(payload: bytes, *values: Any) -> bytearray:
    """What workers run; Ray has put the values in the place of their references."""
    task, timeout, packed_fn, packed_args, names = pickle.loads(payload)
    named = dict(zip(names, values, strict=True))
    # Ray cancels by an interrupt as well, which may hit its own code and end the worker, or nobody.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return run_packed(task, timeout, packed_fn, packed_args, named, _is_canceled)
    finally:
        signal.signal(signal.SIGINT, before)


def _is_canceled() -> bool:
    return bool(ray.get_runtime_context().is_canceled())
