"""Any pool with the standard library's interface, as far as it can do what a job asks for."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import threading
from concurrent.futures import BrokenExecutor, Future
from concurrent.futures import Executor as Pool
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner.errors import WorkerLostError
from sooner.executors._completions import settle
from sooner.executors._task_executor import TaskExecutor
from sooner.executors.base import Capabilities
from sooner.executors.references import ObjectReference, SharedValues, inline
from sooner.executors.worker import run_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["PoolExecutor"]

logger = logging.getLogger(__name__)


class PoolExecutor(TaskExecutor):
    """Tasks in a `concurrent.futures.Executor`: threads, processes, or another library's pool.

    Such a pool cannot end a running task, so an abandoned one keeps its slot until it returns;
    `task_timeout` bounds that.  A process pool of the standard library breaks as a whole when one
    worker dies: all its unfinished tasks then fail with `WorkerLostError`, and tasks can run again
    only if a factory was given, from which a new pool is made.

    Parameters
    ----------
    pool
        The pool, which stays the caller's to shut down; or a callable without arguments that
        makes one, and the executor shuts down what it made.
    task_timeout
        Seconds after which a task fails with `TimeoutError` and gives its slot back, while its
        thread goes on in the worker; None for no bound.  Costs about 0.1 ms per task.

    Raises
    ------
    TypeError
        If `pool` is neither, or the callable makes something else.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with PoolExecutor(ThreadPoolExecutor) as executor:
    ...     futures = executor.submit_many(pow, [(2, 3), (2, 4)])
    ...     [future.result() for future in futures]
    [8, 16]
    """

    def __init__(
        self, pool: Pool | Callable[[], Pool], *, task_timeout: float | None = None
    ) -> None:
        super().__init__()
        self._task_timeout = (
            None if task_timeout is None else _checks.positive(task_timeout, "task_timeout")
        )
        self._factory = None if isinstance(pool, Pool) else pool
        self._pool = pool if isinstance(pool, Pool) else _make(pool)
        threads, processes = _kinds(self._pool)
        self._shares_memory = threads
        self._values = SharedValues() if processes else None
        self._lock = threading.Lock()
        self._pending: dict[Future[Any], Future[Any]] = {}  # ours to the pool's
        self._told_broken = False

    def __repr__(self) -> str:
        return f"PoolExecutor({self._pool!r})"

    @property
    def slots(self) -> int | None:
        """Tasks that can run at the same time; None if the pool does not say."""
        return getattr(self._pool, "_max_workers", None)

    @property
    def capabilities(self) -> Capabilities:
        """It cannot kill a task, and a dying worker may take other tasks along."""
        return Capabilities(
            can_kill=False, survives_lost_worker=False, shares_memory=self._shares_memory
        )

    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        if self._task_timeout is not None:
            fn = functools.partial(run_bounded, self._task_timeout, fn)
        for future, arguments in zip(futures, args, strict=True):
            try:
                inner = self._submit(fn, arguments)
            except BrokenExecutor as error:
                self._fail_lost(future, error)
                continue
            self._pending[future] = inner
            future.running = inner.running  # type: ignore[method-assign]  # only the pool knows
            future.add_done_callback(self._forget)
            inner.add_done_callback(functools.partial(self._pass_outcome, future))

    def _submit(self, fn: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        pool = self._pool
        try:
            return pool.submit(fn, *arguments)
        except BrokenExecutor:
            if self._factory is None:
                raise
        with self._lock:
            if self._pool is pool:  # else another thread has replaced it
                _shut_down(pool)
                self._pool = _make(self._factory)
                logger.warning("PoolExecutor: a worker died and broke the pool; made a new one.")
        return self._pool.submit(fn, *arguments)

    def _forget(self, future: Future[Any]) -> None:
        inner = self._pending.pop(future)
        if future.cancelled():  # by its user, and then the pool need not run it
            _try_cancel(inner)

    def _pass_outcome(self, future: TaskFuture, inner: Future[Any]) -> None:
        if inner.cancelled():
            future.cancel()
            return
        error = inner.exception()
        if isinstance(error, BrokenExecutor):
            self._fail_lost(future, error)
        elif error is not None:
            settle(future, error=error)
        else:
            settle(future, inner.result())

    def _fail_lost(self, future: TaskFuture, error: BrokenExecutor) -> None:
        message = f"{future.description} is lost: a worker died and broke the pool: {error}"
        lost = WorkerLostError(message)
        lost.__cause__ = error
        settle(future, error=lost)
        if self._factory is None and not self._told_broken:
            self._told_broken = True
            logger.warning(
                "PoolExecutor: a worker died and broke the pool, so no task can run in it any "
                "more; give as_executor a function that makes the pool, or use LocalExecutor."
            )

    def broadcast(self, value: Any) -> Reference[Any]:
        """Ship `value` once, as far as the pool is known to allow it.

        Threads see the object, processes of this machine map it; for the pool of another library,
        whose workers may be anywhere, the value travels with every task.

        Parameters
        ----------
        value
            An array, as a rule.

        Returns
        -------
        Reference
            To pass as an argument of tasks; loaded arrays are read-only.
        """
        if self._shares_memory:
            return ObjectReference(value)
        return inline(value) if self._values is None else self._values.put(value)

    def release(self, reference: Reference[Any]) -> None:
        """Free what `broadcast` holds; tasks that load it later may fail.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """
        if self._values is not None:
            self._values.release(reference)

    def _cancel(self, future: Future[Any]) -> bool:
        inner = self._pending.get(future)
        return inner is not None and _try_cancel(inner)  # then _pass_outcome cancels ours

    def close(self) -> None:
        """Abandon all tasks, and shut the pool down if it was made here; waits for nothing."""
        self._closed = True
        self.abandon(list(self._pending))
        if self._factory is not None:
            _shut_down(self._pool)
        if self._values is not None:
            self._values.close()


def _make(factory: Callable[[], Pool]) -> Pool:
    if not callable(factory):
        raise TypeError(
            "pool must be a concurrent.futures.Executor or a function that makes one, "
            f"got {factory!r}."
        )
    pool = factory()
    if not isinstance(pool, Pool):
        raise TypeError(
            f"the function must make a concurrent.futures.Executor, got {pool!r} from {factory!r}."
        )
    return pool


def _shut_down(pool: Pool) -> None:
    """Close a pool without waiting; loky calls its options by other names."""
    options = inspect.signature(pool.shutdown).parameters
    known = {"cancel_futures": True, "kill_workers": True}
    pool.shutdown(wait=False, **{name: on for name, on in known.items() if name in options})


def _kinds(pool: Pool) -> tuple[bool, bool]:
    """Tell whether a pool runs threads here, or processes of this machine."""

    # A class whose module is not loaded is not looked for: multiprocessing takes long to import.
    def is_a(module: str, name: str) -> bool:
        loaded = sys.modules.get(module)
        return loaded is not None and isinstance(pool, getattr(loaded, name))

    threads = is_a("concurrent.futures.thread", "ThreadPoolExecutor")
    # threads that share no objects
    isolated = is_a("concurrent.futures.interpreter", "InterpreterPoolExecutor")
    processes = is_a("concurrent.futures.process", "ProcessPoolExecutor") or is_a(
        "loky.process_executor", "ProcessPoolExecutor"
    )
    return threads and not isolated, isolated or processes


def _try_cancel(inner: Future[Any]) -> bool:
    try:
        return inner.cancel()
    except Exception:
        return False
