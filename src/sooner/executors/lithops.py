"""Tasks as functions of a cloud, through a Lithops `FunctionExecutor`; or here, to try it out."""

from __future__ import annotations

import contextlib
import itertools
import math
import pickle
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sooner.executors._bounded import TASK_TIMEOUT
from sooner.executors._completions import settle
from sooner.executors._engine import EngineExecutor
from sooner.executors._wire import dumps
from sooner.executors.references import inline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import lithops
    from lithops.future import ResponseFuture
    from lithops.storage.utils import CloudObject

    from sooner.executors._completions import TaskFuture
    from sooner.executors.base import Reference

__all__ = ["LithopsExecutor"]

_TEMPORARY = "lithops.jobs/tmp"  # where Lithops' own temporary objects are, and are cleaned up

_SMALL = 1 << 12  # bytes; Lithops sends 8 KiB with a call, and 4 MiB with all of a map at most
_FIRST_LOOK, _LAST_LOOK = 0.01, 0.1  # seconds between two looks: doubled while nothing comes
_DOWNLOADS = 8  # at the same time


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

    _engine = "Lithops"

    def __init__(
        self,
        function_executor: lithops.FunctionExecutor,
        *,
        task_timeout: float | None = None,
        include_modules: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            function_executor.executor_id,
            task_timeout=TASK_TIMEOUT if task_timeout is None else task_timeout,
        )
        self._timeout = None if task_timeout is None else max(1, round(task_timeout))
        self._functions = function_executor
        self._modules = None if include_modules is None else list(include_modules)
        self._arguments: dict[str, list[CloudObject]] = {}  # of a map, by its key
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"LithopsExecutor(backend={self._functions.backend!r})"

    @property
    def slots(self) -> int | None:
        """Calls that Lithops runs at the same time; None if its configuration does not say.

        None on localhost, version 1: what is submitted later waits for all that was before.
        """
        config = self._functions.config.get(self._functions.backend, {})
        key = "worker_processes" if self._functions.backend == "localhost" else "max_workers"
        found = config.get(key) if config.get("version") != 1 else None
        return int(found) if found else None

    def _start_tasks(
        self, fn: Callable[..., Any], args: Sequence[tuple[Any, ...]], futures: Sequence[TaskFuture]
    ) -> None:
        large: list[CloudObject] = []
        handles = self._functions.map(
            _caller_of(dumps(fn)),
            [(self._sendable(dumps(each), large),) for each in args],
            extra_args=(self._shipped_in(args),),
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
        large.append(self._put(packed))
        return large[-1]

    def _put(self, content: bytes) -> CloudObject:
        # Names that Lithops gives are numbers, which begin anew in each program.
        name = f"{_TEMPORARY}/{self._prefix}-{secrets.token_hex(8)}"
        return self._functions.storage.put_cloudobject(content, key=name)

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
                self._forget_calls(ended.values())
                self._end_maps(ended.values())
                for place, (future, handle) in enumerate(handles.items()):
                    if handle.running or place < self._begin_at_once:
                        self._mark_running(future)
                pause = _FIRST_LOOK if ended else min(2 * pause, _LAST_LOOK)
                self._stopped.wait(pause)

    def _pass_outcome(self, future: TaskFuture, handle: ResponseFuture) -> None:
        try:
            # Otherwise it would replace sys.excepthook and raise.
            answer = handle.result(
                throw_except=False, internal_storage=self._functions.internal_storage
            )
        except Exception as error:  # storage, or the result cannot be unpickled
            settle(future, error=error)
            return
        if not handle.error:
            handle._call_output = None  # Lithops keeps its futures for good
            settle(future, answer[0])
        elif handle._handler_exception:  # the process, memory, time-out
            self._fail_lost(future, handle._exception[1])
        else:
            settle(future, error=handle._exception[1])

    def _let_go(self, handles: Mapping[TaskFuture, Any]) -> None:
        self._forget_calls(handles.values())
        for handle in self._end_maps(handles.values()):
            with contextlib.suppress(Exception):
                self._functions.invoker.discard_pending({handle.job_key}, {handle.job_id})
                if self._functions.backend == "localhost":  # kills the process of this map
                    self._functions.compute_handler.clear({handle.job_key}, TimeoutError())

    def _forget_calls(self, handles: Iterable[ResponseFuture]) -> None:
        """Have nothing poll for calls any more; Lithops would, for as long as it lives."""
        with contextlib.suppress(Exception):
            self._functions.job_monitor.remove(list(handles))

    @property
    def _begin_at_once(self) -> float:
        """How many of the oldest calls are taken for running whatever Lithops says.

        A function that dies on its first line is never seen running, and would be waited for.
        """
        if self._functions.backend == "localhost":  # they queue
            return 0
        return math.inf if self.slots is None else self.slots

    def _end_maps(self, handles: Iterable[ResponseFuture]) -> list[ResponseFuture]:
        """Free what maps hold of which no call is wanted any more; give one call of each."""
        wanted = {handle.job_key for handle in list(self._handles.values())}
        over = {handle.job_key: handle for handle in handles if handle.job_key not in wanted}
        for stored in itertools.chain(*(self._arguments.pop(key, ()) for key in over)):
            self._unship(stored)
        return list(over.values())

    def broadcast(self, value: Any) -> Reference[Any]:
        """Write `value` into Lithops' storage, from which each call reads it.

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
        return self._ship(self._put(pickle.dumps(reference, 5)))

    def _unship(self, held: CloudObject) -> None:
        with contextlib.suppress(Exception):
            self._functions.storage.delete_cloudobject(held)

    def _stop(self) -> None:
        self._stopped.set()


def _caller_of(packed_fn: bytes) -> Callable[..., tuple[Any]]:
    """Make what each call runs; by value, since importing sooner takes longer than a small task."""

    def call(
        packed: bytes | CloudObject, stored: Mapping[str, CloudObject], storage: lithops.Storage
    ) -> tuple[Any]:  # the storage is passed by Lithops, because of its name
        import pickle

        content = packed if isinstance(packed, bytes) else storage.get_cloudobject(packed)
        args = pickle.loads(content)
        if stored:
            from sooner.executors._bounded import Shipped

            args = [
                pickle.loads(storage.get_cloudobject(stored[each.name]))
                if isinstance(each, Shipped)
                else each
                for each in args
            ]
        return (pickle.loads(packed_fn)(*args),)  # futures in a tuple are not waited for

    return call
