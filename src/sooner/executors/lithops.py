"""Tasks as functions of a cloud, through a Lithops `FunctionExecutor`; or here, to try it out."""

from __future__ import annotations

import contextlib
import pickle
import secrets
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sooner.executors._bounded import Shipped
from sooner.executors._completions import settle
from sooner.executors._engine import EngineExecutor, mark_running, name_mismatch
from sooner.executors._wire import dumps
from sooner.executors.references import ObjectReference, inline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import lithops
    from lithops.future import ResponseFuture
    from lithops.storage.utils import CloudObject

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["LithopsExecutor"]

_SMALL = 1 << 12  # bytes; Lithops sends 8 KiB with a call, and 4 MiB with all of a map at most
_FIRST_LOOK, _LAST_LOOK = 0.01, 0.5  # seconds between two looks: doubled while nothing comes
_DOWNLOADS = 8  # at the same time
_COMPARED = ("sooner", "numpy", "cloudpickle")

_kept: OrderedDict[str, Any] = OrderedDict()  # in a worker: values of this round and the last one


class LithopsExecutor(EngineExecutor):
    """Tasks as calls of a Lithops executor, which stays the caller's to close.

    Values and arguments above 4 KiB travel through the storage of Lithops, as results above 8 KiB
    do.  One thread looks for answers, less and less often, and ends with the last task.  A call
    that runs cannot be ended alone: on localhost the calls of one `submit_many` are killed when
    none of them is wanted any more, elsewhere they run to their time-out.

    Parameters
    ----------
    function_executor
        A `lithops.FunctionExecutor`.
    task_timeout
        Seconds after which Lithops ends a call; None leaves it to its configuration.
    include_modules
        Modules to send along with the function; None for none, since sooner is installed where
        functions run.
    """

    def __init__(
        self,
        function_executor: lithops.FunctionExecutor,
        *,
        task_timeout: float | None = None,
        include_modules: Sequence[str] | None = None,
    ) -> None:
        super().__init__(3600.0 if task_timeout is None else task_timeout)
        self._timeout = None if task_timeout is None else max(1, round(task_timeout))
        self._functions = function_executor
        self._modules = None if include_modules is None else list(include_modules)
        self._shipped: dict[str, CloudObject] = {}
        self._arguments: dict[str, list[CloudObject]] = {}  # of a map, by its key
        self._thread: threading.Thread | None = None
        self._something_ended = threading.Event()
        self._compared = False

    def __repr__(self) -> str:
        return f"LithopsExecutor(backend={self._functions.backend!r})"

    @property
    def slots(self) -> int | None:
        """Calls that Lithops runs at the same time; None if its configuration does not say."""
        config = self._functions.config.get(self._functions.backend, {})
        here = self._functions.backend == "localhost"
        found = config.get("worker_processes" if here else "max_workers")
        return int(found) if found else None

    def _start(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        names = {a.name for each in args for a in each if isinstance(a, Shipped)}
        stored = {name: self._shipped[name] for name in names}
        large: list[CloudObject] = []
        handles = self._functions.map(
            _run,
            [(self._sendable(dumps(each), large),) for each in args],
            extra_args=(dumps(fn), stored, not self._compared),
            include_modules=self._modules,
            timeout=self._timeout,
        )
        self._arguments[handles[0].job_key] = large
        with self._lock:
            for future, handle in zip(futures, handles, strict=True):
                self._hold(future, handle)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._look_for_answers, name="sooner-lithops", daemon=True
                )
                self._thread.start()

    def _sendable(self, packed: bytes, large: list[CloudObject]) -> bytes | CloudObject:
        if len(packed) <= _SMALL:
            return packed
        large.append(self._functions.storage.put_cloudobject(packed))
        return large[-1]

    def _look_for_answers(self) -> None:
        pause = _FIRST_LOOK
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            while True:
                with self._lock:
                    handles = dict(self._handles)
                    if not handles:
                        self._thread = None
                        return
                ended = {f: h for f, h in handles.items() if h.ready or h.success or h.done}
                list(pool.map(self._pass_outcome, ended, ended.values()))
                for future, handle in handles.items():
                    if handle.running and mark_running(future):
                        future.started = self.now()
                pause = _FIRST_LOOK if ended else min(2 * pause, _LAST_LOOK)
                self._something_ended.wait(pause)

    def _pass_outcome(self, future: TaskFuture, handle: ResponseFuture) -> None:
        try:
            # Otherwise it would replace sys.excepthook and raise.
            answer = handle.result(
                throw_except=False, internal_storage=self._functions.internal_storage
            )
        except Exception as error:  # storage, or the result cannot be unpickled
            settle(future, error=error)
            return
        if handle.error:
            raised = handle._exception[1]
            if handle._handler_exception:  # the process, memory, time-out
                self._fail_lost(future, raised)
            else:
                settle(future, error=raised)
            return
        versions, value = answer
        handle._call_output = None  # Lithops keeps its futures for good
        if versions is not None and not self._compared:
            self._compared = True
            here = {name: version for name, version in _versions().items() if version}
            name_mismatch("Lithops", here, [versions])
        settle(future, value)

    def _done(self, future: TaskFuture) -> None:
        handle = self._handles.get(future)
        super()._done(future)
        if handle is not None:
            self._end_map_of(handle)

    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        with contextlib.suppress(Exception):  # nothing polls for them any more
            self._functions.job_monitor.remove(list(handles.values()))
        for handle in {handle.job_key: handle for handle in handles.values()}.values():
            self._end_map_of(handle, unfinished=True)

    def _end_map_of(self, handle: ResponseFuture, *, unfinished: bool = False) -> None:
        """Free what a map holds when none of its calls is wanted any more."""
        key = handle.job_key
        if any(each.job_key == key for each in list(self._handles.values())):
            return
        for stored in self._arguments.pop(key, ()):
            self._delete(stored)
        if not unfinished:
            return
        with contextlib.suppress(Exception):
            self._functions.invoker.discard_pending({key}, {handle.job_id})
            if self._functions.backend == "localhost":  # kills the process of this map
                self._functions.compute_handler.clear({key}, exception=TimeoutError())

    def _delete(self, stored: CloudObject) -> None:
        with contextlib.suppress(Exception):
            self._functions.storage.delete_cloudobject(stored)

    def broadcast(self, value: Any) -> Reference[Any]:
        """Write `value` into Lithops' storage, from which each worker process reads it once.

        Parameters
        ----------
        value
            An array, as a rule; anything that can be pickled.

        Returns
        -------
        Reference
            To pass as an argument of tasks; loaded arrays are read-only.
        """
        reference = inline(value)
        if len(reference.packed) <= _SMALL:
            return reference
        shipped = Shipped(secrets.token_hex(8))
        stored = self._functions.storage.put_cloudobject(pickle.dumps(reference, 5))
        self._shipped[shipped.name] = stored
        return shipped

    def release(self, reference: Reference[Any]) -> None:
        """Delete what `broadcast` wrote; tasks that load it later fail.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """
        if isinstance(reference, Shipped):
            stored = self._shipped.pop(reference.name, None)
            if stored is not None:
                self._delete(stored)

    def _stop(self) -> None:
        self._something_ended.set()
        while self._shipped:
            self._delete(self._shipped.popitem()[1])


def _versions() -> dict[str, str | None]:
    from importlib import metadata  # slow, and each call may be a new process

    found: dict[str, str | None] = dict.fromkeys(_COMPARED)
    for name in _COMPARED:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _run(
    args: bytes | CloudObject,
    packed_fn: bytes,
    stored: Mapping[str, CloudObject],
    tell_versions: bool,
    storage: lithops.Storage,
) -> tuple[dict[str, str | None] | None, Any]:
    """What workers run; Lithops passes the storage by the argument's name."""
    packed = args if isinstance(args, bytes) else storage.get_cloudobject(args)
    values = []
    for each in pickle.loads(packed):
        if not isinstance(each, Shipped):
            values.append(each)
            continue
        if each.name not in _kept:
            content = storage.get_cloudobject(stored[each.name])
            _kept[each.name] = pickle.loads(content).load()
            while len(_kept) > 2:
                _kept.popitem(last=False)
        values.append(ObjectReference(_kept[each.name]))
    return _versions() if tell_versions else None, pickle.loads(packed_fn)(*values)
