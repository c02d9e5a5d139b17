"""Tasks on a Dask cluster, through the user's `distributed.Client`."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import socket
import threading
import warnings
import weakref
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import distributed
from distributed.scheduler import KilledWorker

from sooner import _checks
from sooner.executors._bounded import TASK_TIMEOUT, LetGoError, Shipped, let_go, run_packed
from sooner.executors._completions import settle
from sooner.executors._dask_cluster import BEGAN, cluster_of
from sooner.executors._engine import EngineExecutor, mark_running
from sooner.executors._wire import dumps
from sooner.executors.base import Capabilities
from sooner.executors.references import InlineReference, SharedValues, inline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["DaskExecutor"]

_SMALL = 1 << 16  # bytes; a value below travels with each task


class DaskExecutor(EngineExecutor):
    """Tasks on the workers of a Dask client, which stays the caller's to close.

    A worker cannot end a running task, so tasks are let go of: the slot is free at once, the thread
    behind ends at its next line of Python.  A lost worker fails the tasks that ran on it.  Dask is
    told not to repeat them, but it is fast: a task that ends its worker may end a second one.

    Parameters
    ----------
    client
        The client, not an asynchronous one.
    task_timeout
        Seconds after which a task gives its slot back by itself.
    patience
        Seconds without a single worker after which tasks fail instead of waiting for one.
    """

    def __init__(
        self,
        client: distributed.Client,
        *,
        task_timeout: float = TASK_TIMEOUT,
        patience: float = 60.0,
    ) -> None:
        super().__init__(task_timeout)
        self._patience = _checks.positive(patience, "patience")
        self._client = client
        self._cluster = cluster_of(client)
        self._id = secrets.token_hex(6)
        self._prefix = f"sooner-{self._id}-"  # of keys
        self._ordinals = itertools.count()
        self._tasks: dict[int, TaskFuture] = {}
        self._began_at: dict[int, str] = {}  # worker
        self._values = SharedValues()  # that workers of this machine map
        self._shipped: dict[str, distributed.Future] = {}  # that are tasks of the cluster
        self._alarm: threading.Timer | None = None
        self._cluster.listen(client, self)
        self._watch_for_none()

    def __repr__(self) -> str:
        return f"DaskExecutor({self._client!r})"

    @property
    def capabilities(self) -> Capabilities:
        """It cannot kill a task but frees its slot; a dying worker may take other tasks along."""
        return Capabilities(can_kill=False, survives_lost_worker=False, shares_memory=False)

    @property
    def slots(self) -> int | None:
        """Threads of all workers; None while there is no worker."""
        return sum(self._client.nthreads().values()) or None

    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        self._cluster.compare_versions(self._client)
        ordinals = list(itertools.islice(self._ordinals, len(args)))
        names = {a.name for each in args for a in each if isinstance(a, Shipped)}
        with warnings.catch_warnings():  # about blocks that a store in memory sends along
            warnings.filterwarnings("ignore", "Sending large graph")
            handles = self._client.map(
                _run,
                ordinals,
                [dumps(each) for each in args],
                key=[f"{self._prefix}{ordinal}" for ordinal in ordinals],
                pure=False,
                retries=0,
                executor=self._id,
                timeout=self._task_timeout,
                packed_fn=dumps(fn),
                **{name: self._shipped[name] for name in names},
            )
        for ordinal, future, handle in zip(ordinals, futures, handles, strict=True):
            self._tasks[ordinal] = future
            self._hold(future, (ordinal, handle))
        self._client.loop.add_callback(self._wait_for, list(zip(futures, handles, strict=True)))

    async def _wait_for(self, tasks: Sequence[tuple[TaskFuture, distributed.Future]]) -> None:
        """Runs in the client's own thread."""
        await asyncio.gather(*(self._pass_outcome(*each) for each in tasks))

    async def _pass_outcome(self, future: TaskFuture, handle: distributed.Future) -> None:
        try:
            # Not to be cancelled: Dask gathers the results of several at once, and all would be.
            # When the handle is released, this ends by itself.
            settle(future, await handle.result())
        except (KilledWorker, CancelledError, asyncio.CancelledError) as error:
            if not future.done():
                self._fail_lost(future, str(error) or "the client was closed")
        except Exception as error:
            settle(future, error=error)
        handle.release()

    def _done(self, future: TaskFuture) -> None:
        if future in self._handles:
            self._forget_task(self._handles[future][0])
        super()._done(future)

    def _forget_task(self, ordinal: int) -> None:
        self._tasks.pop(ordinal, None)
        self._began_at.pop(ordinal, None)

    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        names = []
        for ordinal, handle in handles.values():
            self._forget_task(ordinal)
            names.append((self._id, ordinal))
            handle.release()  # nobody wants it any more, so the scheduler forgets it
        if self._client.status == "running":
            self._client.loop.add_callback(self._tell_workers, names)

    async def _tell_workers(self, names: list[tuple[str, int]]) -> None:
        # All of them: a task may have begun whose word of it is still on its way.
        await self._client.run(let_go, names, on_error="ignore")

    # What the cluster tells, in the client's own thread -----------------------------------

    def on_began(self, event: Mapping[str, Any]) -> None:
        """Take note of a task that began.

        Parameters
        ----------
        event
            From `_run`.
        """
        future = self._tasks.get(event["task"]) if event["executor"] == self._id else None
        if future is None:
            return
        future.worker = event["name"]
        self._began_at[event["task"]] = event["worker"]
        if mark_running(future):
            future.started = self.now()

    def on_workers(self, lost: str | None, keys: Set[str]) -> None:
        """Fail the tasks that ran on a lost worker; those in its queue run elsewhere.

        Parameters
        ----------
        lost
            Address of the worker; None if one came.
        keys
            What it ran or was to run.
        """
        self._watch_for_none()
        mine = sorted(
            int(key[len(self._prefix) :]) for key in map(str, keys) if key.startswith(self._prefix)
        )
        here = [ordinal for ordinal in mine if ordinal in self._tasks]
        began = [ordinal for ordinal in here if self._began_at.get(ordinal) == lost]
        # A worker may die before its word that a task began is out: then it was the oldest.
        for ordinal in began or here[:1]:
            future = self._tasks[ordinal]
            handle = self._handles.pop(future, None)
            self._fail_lost(future, f"the cluster lost {lost}")
            if handle is not None:  # Dask would run it again
                self._let_go({future: handle})

    def _watch_for_none(self) -> None:
        with self._lock:
            alone = not self._cluster.workers and not self._closed
            if self._alarm is not None and not alone:
                self._alarm.cancel()
                self._alarm = None
            elif self._alarm is None and alone:
                self._alarm = threading.Timer(self._patience, self._give_up)
                self._alarm.daemon = True
                self._alarm.start()

    def _give_up(self) -> None:
        handles = dict(self._handles)
        for future in handles:
            self._fail_lost(future, f"the cluster had no worker for {self._patience:g} s")
        self._let_go(handles)
        with self._lock:
            self._alarm = None
        self._watch_for_none()  # for those that come later

    # Values -------------------------------------------------------------------------------

    def broadcast(self, value: Any) -> Reference[Any]:
        """Ship `value` once per worker.

        A small one travels with the tasks.  Workers of this machine map the memory of this process.
        For others it is a task of its own that all tasks depend on: Dask moves it from worker to
        worker, and makes it again where the one that has it is lost, which it does not do for
        scattered data.

        Parameters
        ----------
        value
            An array, as a rule; anything that can be pickled.

        Returns
        -------
        Reference
            To pass as an argument of tasks; loaded arrays are read-only.
        """
        if self._cluster.maps_memory_of_driver(
            self._client, self._values, distributed.utils.get_ip()
        ):
            return self._values.put(value)
        packed = inline(value)
        if len(packed.packed) < _SMALL:
            return packed
        shipped = Shipped(f"sooner_{secrets.token_hex(8)}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            self._shipped[shipped.name] = self._client.submit(
                InlineReference.load, packed, key=shipped.name, pure=False
            )
        return shipped

    def release(self, reference: Reference[Any]) -> None:
        """Free what `broadcast` holds; tasks that load it later fail.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """
        if isinstance(reference, Shipped):
            held = self._shipped.pop(reference.name, None)
            if held is not None:
                held.release()
        else:
            self._values.release(reference)

    def _stop(self) -> None:
        self._cluster.leave(weakref.ref(self._client), self)
        self._watch_for_none()
        self._values.close()
        for name in list(self._shipped):
            self._shipped.pop(name).release()


def _run(
    ordinal: int,
    packed_args: bytes,
    *,
    executor: str,
    timeout: float,
    packed_fn: bytes,
    **values: Any,
) -> Any:
    """What workers run."""
    worker = distributed.get_worker()
    name = f"{socket.gethostname()}:{os.getpid()}"
    began = {"executor": executor, "task": ordinal, "worker": worker.address, "name": name}
    worker.log_event(BEGAN, {"action": BEGAN, **began})
    try:
        return run_packed((executor, ordinal), timeout, packed_fn, packed_args, values)
    except LetGoError:  # nobody asks for the outcome, and an exception would be logged
        return None
