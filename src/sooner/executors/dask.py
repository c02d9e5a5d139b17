"""Tasks on a Dask cluster, through the user's `distributed.Client`."""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import dask
import distributed
from distributed.scheduler import KilledWorker

from sooner.executors._bounded import TASK_TIMEOUT, let_go, run_packed
from sooner.executors._completions import settle
from sooner.executors._dask_cluster import BEGAN, cluster_of
from sooner.executors._engine import PATIENCE, EngineExecutor
from sooner.executors._outcomes import complete
from sooner.executors._versions import version_probe, warn_of_other_versions
from sooner.executors._wire import dumps
from sooner.executors.base import Capabilities
from sooner.executors.references import InlineReference, SharedValues, inline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["DaskExecutor"]

_SMALL = 1 << 16  # bytes; a value below travels with each task
_NO_WARNING_OF_SIZE = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # blocks and x


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

    _engine = "Dask"

    def __init__(
        self,
        client: distributed.Client,
        *,
        task_timeout: float = TASK_TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        super().__init__(client.id, task_timeout=task_timeout, patience=patience)
        self._client = client
        self._cluster = cluster_of(client)
        self._tasks: dict[str, TaskFuture] = {}  # by key, the oldest first
        self._began: dict[str, str] = {}  # addresses of workers, by key
        self._values = SharedValues()  # that workers of this machine map
        self._cluster.listen(client, self)

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

    def _has_workers(self) -> bool:
        return bool(self._cluster.workers)

    def _compare_versions(self) -> None:
        found = self._client.run(version_probe(), on_error="ignore")
        warn_of_other_versions(self._engine, found.values())

    def _start_tasks(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        keys = self._new_names(len(args))
        self._tasks.update(zip(keys, futures, strict=True))
        with dask.config.set(_NO_WARNING_OF_SIZE):
            handles = self._client.map(
                _run,
                keys,
                [dumps(each) for each in args],
                key=keys,
                pure=False,
                retries=0,
                timeout=self._task_timeout,
                packed_fn=dumps(fn),
                **self._shipped_in(args),
            )
        for future, handle in zip(futures, handles, strict=True):
            self._hold(future, handle)
        self._client.loop.add_callback(self._wait_for, handles)

    async def _wait_for(self, handles: Sequence[distributed.Future]) -> None:
        """Runs in the client's own thread."""
        await asyncio.gather(*(self._pass_outcome(each) for each in handles))

    async def _pass_outcome(self, handle: distributed.Future) -> None:
        future = self._tasks[handle.key]
        try:
            # Not to be cancelled: Dask gathers the results of several at once, and all would be.
            # When the handle is released, this ends by itself.
            complete(future, await handle.result())
        except (KilledWorker, CancelledError, asyncio.CancelledError) as error:
            if not future.done():
                self._fail_lost(future, str(error) or "the client was closed")
        except Exception as error:
            settle(future, error=error)
        del self._tasks[handle.key]
        self._began.pop(handle.key, None)
        handle.release()

    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        keys = [handle.key for handle in handles.values()]
        for handle in handles.values():
            handle.release()  # nobody wants it any more, so the scheduler forgets it
        if self._client.status == "running":
            self._client.loop.add_callback(self._tell_workers, keys)

    async def _tell_workers(self, keys: list[str]) -> None:
        # All of them: a task may have begun whose word of it is still on its way.
        await self._client.run(let_go, keys, on_error="ignore")

    # What the cluster tells, in the client's own thread -----------------------------------

    def on_began(self, event: Mapping[str, Any]) -> None:
        """Take note of a task that began.

        Parameters
        ----------
        event
            From `_run`.
        """
        future = self._tasks.get(event["key"])
        if future is None:  # of another executor, or over
            return
        future.worker = event["name"]
        self._began[event["key"]] = event["worker"]
        self._mark_running(future)

    def on_workers(self, lost: str | None, keys: Set[str]) -> None:
        """Fail the tasks that ran on a lost worker; those in its queue run elsewhere.

        Parameters
        ----------
        lost
            Address of the worker; None if one came.
        keys
            What it ran or was to run.
        """
        self._watch_for_workers()
        tasks = list(self._tasks.items())  # others may start some meanwhile
        here = [key for key, future in tasks if key in keys and not future.done()]
        began = [key for key in here if self._began.get(key) == lost]
        # A worker may die before its word that a task began is out: then it was the oldest.
        for key in began or here[:1]:
            future = self._tasks[key]
            handle = self._handles.pop(future, None)
            self._fail_lost(future, f"the cluster lost {lost}")
            if handle is not None:  # Dask would run it again
                self._let_go({future: handle})

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
        with dask.config.set(_NO_WARNING_OF_SIZE):
            return self._ship(self._client.submit(InlineReference.load, packed, pure=False))

    def release(self, reference: Reference[Any]) -> None:
        """Free what `broadcast` holds; tasks that load it later fail."""
        self._values.release(reference)
        super().release(reference)

    def _unship(self, held: distributed.Future) -> None:
        held.release()

    def _stop(self) -> None:
        self._cluster.leave(weakref.ref(self._client), self)
        self._values.close()


def _run(
    key: str, packed_args: bytes, *, timeout: float, packed_fn: bytes, **values: Any
) -> bytearray:
    """What workers run."""
    worker = distributed.get_worker()
    name = f"{socket.gethostname()}:{os.getpid()}"
    began = {"action": BEGAN, "key": key, "worker": worker.address, "name": name}
    worker.log_event(BEGAN, began)
    return run_packed(key, timeout, packed_fn, packed_args, values)
