"""Tasks on Ray: this machine or a cluster, whatever the user's ``ray.init`` connects to."""

from __future__ import annotations

import contextlib
import functools
import itertools
import pickle
import secrets
import signal
import threading
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner.errors import MissingExtraError
from sooner.executors._bounded import TASK_TIMEOUT, Shipped, run_packed
from sooner.executors._completions import settle
from sooner.executors._engine import EngineExecutor, name_mismatch
from sooner.executors._outcomes import RemoteTraceback
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

_leaving: list[tuple[ray.ObjectRef[Any], Future[Any]]] = []  # let go of, and still there
_leaving_lock = threading.Lock()

_COMPARED = ("sooner", "numpy", "cloudpickle")


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

    def __init__(self, *, num_cpus: float = 1.0, task_timeout: float = TASK_TIMEOUT) -> None:
        super().__init__(task_timeout)
        self._num_cpus = _checks.positive(num_cpus, "num_cpus")
        if not ray.is_initialized():
            raise RuntimeError(
                "Ray must be initialized before an executor is made of it. Call ray.init() first."
            )
        self._id = secrets.token_hex(6)
        self._ordinals = itertools.count()
        self._shipped: dict[str, ray.ObjectRef[Any]] = {}
        self._run = ray.remote(num_cpus=self._num_cpus, max_retries=0)(_run)
        self._slots: int | None = None
        self._compared = False

    def __repr__(self) -> str:
        return f"RayExecutor(num_cpus={self._num_cpus:g})"

    @property
    def slots(self) -> int | None:
        """Tasks for which the cluster has processors; None if it has none yet."""
        return self._slots or self._count_slots()

    def _count_slots(self) -> int | None:
        self._slots = int(ray.cluster_resources().get("CPU", 0.0) / self._num_cpus) or None
        return self._slots

    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        self._count_slots()  # the cluster may have grown
        self._compare_versions()
        self._let_go({})
        packed_fn = dumps(fn)
        for future, arguments in zip(futures, args, strict=True):
            names = [each.name for each in arguments if isinstance(each, Shipped)]
            task = (self._id, next(self._ordinals))
            # One argument: Ray serializes each on its own.
            payload = pickle.dumps((task, self._task_timeout, packed_fn, dumps(arguments), names))
            handle = self._run.remote(payload, *(self._shipped[name] for name in names))
            outcome = handle.future()
            self._hold(future, (handle, outcome))
            self._assume_running(future)
            outcome.add_done_callback(functools.partial(self._pass_outcome, future))

    def _pass_outcome(self, future: TaskFuture, inner: Future[Any]) -> None:
        error = inner.exception()
        if error is None:
            settle(future, inner.result())
        elif isinstance(error, ray.exceptions.RayTaskError):
            cause = error.cause if isinstance(error.cause, Exception) else error
            if cause is not error:
                cause.__cause__ = RemoteTraceback(str(error))
            settle(future, error=cause)
        elif isinstance(error, ray.exceptions.RayError):  # the worker, its node, its memory
            self._fail_lost(future, error)
        else:  # the result could not be unpickled
            settle(future, error=error)

    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        # One cancellation in some hundred goes astray, so those before are repeated as well; by no
        # thread of ours, since a call into Ray while it is shut down ends the process.
        with _leaving_lock:
            _leaving[:] = [each for each in _leaving if not each[1].done()]
            _leaving.extend(handles.values())
            leaving = list(_leaving)
        for handle, _ in leaving:
            with contextlib.suppress(Exception):  # Ray was shut down
                ray.cancel(handle, force=False, recursive=False)

    def _compare_versions(self) -> None:
        if self._compared:
            return
        self._compared = True

        def find(names: Sequence[str]) -> dict[str, str | None]:  # travels by value
            from importlib import metadata

            found: dict[str, str | None] = dict.fromkeys(names)
            for name in names:
                try:
                    found[name] = metadata.version(name)
                except metadata.PackageNotFoundError:
                    continue
            return found

        def tell(inner: Future[dict[str, str | None]]) -> None:
            if inner.exception() is None:
                name_mismatch("Ray", {name: version(name) for name in _COMPARED}, [inner.result()])

        probe = ray.remote(num_cpus=0, max_retries=0)(find).remote(_COMPARED)
        probe.future().add_done_callback(tell)

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
        shipped = Shipped(secrets.token_hex(8))
        self._shipped[shipped.name] = ray.put(value)
        return shipped

    def release(self, reference: Reference[Any]) -> None:
        """Have Ray free what `broadcast` holds, once no task uses it.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """
        if isinstance(reference, Shipped):
            self._shipped.pop(reference.name, None)

    def _stop(self) -> None:
        self._shipped.clear()


def _run(payload: bytes, *values: Any) -> Any:
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
