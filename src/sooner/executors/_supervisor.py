"""The thread that serves all workers of a `LocalExecutor`; every decision about them is made here.

Another thread only leaves a note and wakes this one.  So a worker is killed for the task that it
runs at that moment, never for one that it has just finished.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import selectors
import socket
import sys
import threading
import time
from collections import deque
from concurrent.futures import InvalidStateError
from functools import partial
from typing import TYPE_CHECKING, Any

from sooner.errors import WorkerLostError
from sooner.executors._channel import Channel, FrameReader
from sooner.executors._completions import abandoned, settle
from sooner.executors._nursery_process import NurseryProcess, describe_exit
from sooner.executors._outcomes import complete
from sooner.executors._wire import TASK_HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet
    from concurrent.futures import Future

    from sooner.executors._calls import Task
    from sooner.executors._completions import TaskFuture

__all__ = ["Supervisor"]

logger = logging.getLogger("sooner.executors.local")

_STOP_TIMEOUT = 1.0  # seconds until a nursery that does not end is killed
_SIGKILL = 9

_GRACE = 0.05
"""Seconds that an abandoned task may still take to end: its worker then lives on with what it has
in memory, where a new one would have to read its blocks again."""


_REMEMBERED = 16
"""Tasks of a worker that are remembered, so that it gets them again: more than it caches."""

_LOOKED_AT = 64
"""Waiting tasks among which one is looked for that suits an idle worker."""


class _Worker:
    """A worker process as the driver sees it."""

    def __init__(self, number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.channel: Channel
        self.reader = FrameReader()
        self.task: Task | None = None
        self.call_number = -1  # whose function it has
        self.unwanted = False  # killed because its task was abandoned
        self.end = math.inf  # when it is, unless its task ends before
        self.done: deque[str] = deque(maxlen=_REMEMBERED)  # descriptions of its last tasks


class Supervisor:
    """Runs tasks in worker processes; the methods without underscore may be called by any thread.

    Parameters
    ----------
    max_workers
        Workers that may run at the same time.
    """

    def __init__(self, max_workers: int) -> None:
        self.broken: str | None = None
        """Why no task can run any more, or None."""
        self._pid = os.getpid()
        self._host = socket.gethostname()
        self._max_workers = self._limit = max_workers  # the limit sinks when starting one fails
        self._numbers = itertools.count()
        self._inbox: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._queue: deque[Task] = deque()
        self._starting: set[int] = set()
        self._workers: dict[int, _Worker] = {}
        self._idle: list[_Worker] = []
        self._leaving: dict[int, _Worker] = {}
        self._nursery: NurseryProcess | None = None
        self._nursery_was_lost = False
        self._preloaded: list[str] = []
        self._selector = selectors.DefaultSelector()
        woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._wakeups = Channel(woken, self._selector, self._on_woken)
        self._stopping = self._stopped = False
        self._thread = threading.Thread(target=self._run, name="sooner-local", daemon=True)
        self._thread.start()

    # Any thread ------------------------------------------------------------------------------

    def submit(self, tasks: Sequence[Task]) -> None:
        """Run `tasks`, in order, as workers become free.

        Parameters
        ----------
        tasks
            With pending futures.
        """
        self._post(self._on_submit, tasks)

    def preload(self, module: str) -> None:
        """Have workers that start from now on begin with `module` imported.

        Parameters
        ----------
        module
            Its full name.
        """
        self._post(self._on_preload, module)

    def kill(self, futures: AbstractSet[Future[Any]]) -> None:
        """Kill the workers that still run the tasks of `futures`.

        Parameters
        ----------
        futures
            Settled already, so that a late result is dropped.
        """
        self._post(self._on_kill, futures)

    def stop(self) -> None:
        """Cancel all tasks and end all processes; waits for them a bounded time."""
        if os.getpid() != self._pid:  # a forked child has no part in this
            return
        self._post(self._on_stop, None)
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * _STOP_TIMEOUT)

    def _post(self, act: Callable[[Any], None], argument: Any) -> None:
        self._inbox.append((act, argument))
        with contextlib.suppress(BlockingIOError, OSError):  # it is awake already; it has ended
            self._waker.send(b"!")
        if self._stopped:
            self._refuse_inbox()

    def _refuse_inbox(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                act, argument = self._inbox.popleft()
                if act == self._on_submit:
                    for task in argument:
                        self._refuse(task)

    def _refuse(self, task: Task) -> None:
        if self.broken:
            settle(task.future, error=WorkerLostError(self.broken))
        elif not task.future.cancel():
            settle(task.future, error=abandoned())

    # The supervising thread --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                for key, events in self._selector.select(self._until_next_end()):
                    key.data(events)
                self._end_unwanted()
                self._dispatch()
        except BaseException:
            self.broken = "the thread that serves the workers failed; please report the log."
            logger.exception("LocalExecutor: %s", self.broken)
        finally:
            self._shut_down()

    def _shut_down(self) -> None:
        self._stopped = True
        running = [*self._workers.values(), *self._leaving.values()]
        for worker in running:
            worker.channel.close()
        if self._nursery is not None:
            self._nursery.stop(_STOP_TIMEOUT)
        for task in [worker.task for worker in running if worker.task] + list(self._queue):
            self._refuse(task)
        self._refuse_inbox()
        self._wakeups.close()
        self._waker.close()
        self._selector.close()

    def _on_woken(self) -> None:
        self._wakeups.connection.recv(1 << 12)
        while self._inbox:
            act, argument = self._inbox.popleft()
            act(argument)

    def _on_submit(self, tasks: Sequence[Task]) -> None:
        self._queue.extend(tasks)
        self._limit = self._max_workers  # what could not be started before may start now
        if self.broken:
            self._break(self.broken)

    def _on_stop(self, _: None) -> None:
        self._stopping = True

    def _on_preload(self, module: str) -> None:
        self._preloaded.append(module)
        if self._nursery is not None:
            self._nursery.preload(module)

    def _on_kill(self, futures: AbstractSet[Future[Any]]) -> None:
        for worker in list(self._workers.values()):
            if worker.task is not None and worker.task.future in futures:
                worker.end = time.monotonic() + _GRACE

    def _until_next_end(self) -> float | None:
        end = min((worker.end for worker in self._workers.values()), default=math.inf)
        return None if math.isinf(end) else max(0.0, end - time.monotonic())

    def _end_unwanted(self) -> None:
        """Kill the workers whose abandoned tasks have not ended by themselves."""
        now = time.monotonic()
        for worker in [each for each in self._workers.values() if each.end <= now]:
            worker.unwanted = True
            worker.task = None
            self._let_go(worker)

    def _let_go(self, worker: _Worker) -> None:
        """Have nothing more to do with a worker; its end will be reported."""
        worker.channel.close()
        del self._workers[worker.number]
        with contextlib.suppress(ValueError):
            self._idle.remove(worker)
        self._leaving[worker.number] = worker
        if self._nursery is not None:
            self._nursery.kill(worker.number)

    def _dispatch(self) -> None:
        while self._queue and self._idle:
            worker, task = self._match()
            claimed = _claim(task.future)
            self._queue.remove(task)
            if claimed:
                self._idle.remove(worker)
                self._assign(worker, task)
        room = self._limit - len(self._workers) - len(self._starting)
        missing = min(len(self._queue) - len(self._starting), room)
        if missing > 0 and not self._stopping and self._have_nursery():
            numbers = list(itertools.islice(self._numbers, missing))
            self._starting.update(numbers)
            self._nursery.fork(numbers)  # type: ignore[union-attr]  # _have_nursery

    def _match(self) -> tuple[_Worker, Task]:
        """Choose an idle worker and a task for it, one that it has done before if there is one."""
        # Tasks of one description read the same block, in a solver once per step: a worker that
        # has the block in its memory need not read it again.  Else the oldest task that no other
        # worker has done, else the oldest.
        near: dict[str, Task] = {}
        for task in itertools.islice(self._queue, _LOOKED_AT):
            near.setdefault(task.future.description, task)
        for worker in reversed(self._idle):
            for name in worker.done:
                if name in near:
                    return worker, near[name]
        elsewhere = {name for worker in self._workers.values() for name in worker.done}
        unclaimed = (task for name, task in near.items() if name not in elsewhere)
        return self._idle[-1], next(unclaimed, self._queue[0])

    def _assign(self, worker: _Worker, task: Task) -> None:
        worker.done.append(task.future.description)
        call = task.call
        packed_fn = call.packed_fn if worker.call_number != call.number else b""
        worker.task, worker.call_number = task, call.number
        task.future.worker = f"{self._host}:{worker.pid}"
        task.future.started = time.monotonic()
        head = TASK_HEAD.pack(len(packed_fn), len(task.packed_args))
        worker.channel.send(head + packed_fn + task.packed_args)

    def _on_worker(self, worker: _Worker) -> None:
        try:
            frame = worker.reader.read(worker.channel.connection)
        except BlockingIOError:
            return
        except EOFError:
            self._let_go(worker)  # dead as a rule; or its task has closed the socket
            return
        if frame is not None and worker.task is not None:
            task, worker.task = worker.task, None
            worker.end = math.inf
            self._idle.append(worker)
            try:
                self._dispatch()  # first, so that the worker need not wait for the completing
            finally:
                complete(task.future, frame)

    # What the nursery reports --------------------------------------------------------------------

    def _have_nursery(self) -> bool:
        if self._nursery is None:
            try:
                self._nursery = NurseryProcess(self._selector, self._on_nursery)
            except OSError as error:
                self._break(f"no worker can be started: {error}.")
                return False
            for module in self._preloaded:
                self._nursery.preload(module)
        return True

    def _on_nursery(self) -> None:
        if self._nursery is None:
            return
        try:
            events = self._nursery.read()
        except EOFError:
            self._on_nursery_lost(self._nursery)
            return
        for event in events:
            if event.kind == b"E":
                self._on_ended(event.number, event.value)
            elif event.connection is not None:
                self._on_started(event.number, event.value, event.connection)
            elif event.kind == b"X":
                self._on_not_started(event.number, event.value)
            else:
                self._nursery.kill(event.number)
                self._on_not_started(event.number, None)

    def _on_started(self, number: int, pid: int, connection: socket.socket) -> None:
        self._starting.discard(number)
        worker = _Worker(number, pid)
        worker.channel = Channel(connection, self._selector, partial(self._on_worker, worker))
        self._workers[number] = worker
        self._idle.append(worker)

    def _on_not_started(self, number: int, errno: int | None) -> None:
        self._starting.discard(number)
        why = os.strerror(errno) if errno else "too many open files"
        if self._limit == self._max_workers:  # one line, however many more cannot be started
            message = "LocalExecutor: not all %d workers can be started: %s; going on with fewer."
            logger.warning(message, self._max_workers, why)
        self._limit = len(self._workers) + len(self._starting)
        if not self._limit:
            error = WorkerLostError(f"no worker process could be started: {why}.")
            while self._queue:
                settle(self._queue.popleft().future, error=error)

    def _on_ended(self, number: int, code: int) -> None:
        if number in self._workers:
            self._drain(self._workers[number])
            self._let_go(self._workers[number])
        worker = self._leaving.pop(number, None)
        if worker is None or worker.unwanted:
            return
        task, worker.task = worker.task, None
        what = f"{task.future.description} is lost: its" if task is not None else "an idle"
        message = f"{what} worker (pid {worker.pid}) {describe_exit(code)}."
        if task is None or not task.future.done():  # else it was abandoned at this moment
            logger.warning("%s", message)
        if task is not None:
            settle(task.future, error=WorkerLostError(message))

    @staticmethod
    def _drain(worker: _Worker) -> None:
        """Read what a worker sent before it ended: perhaps its task's whole result."""
        with contextlib.suppress(EOFError, BlockingIOError):
            while worker.task is not None:
                frame = worker.reader.read(worker.channel.connection)
                if frame is not None:
                    task, worker.task = worker.task, None
                    complete(task.future, frame)

    def _on_nursery_lost(self, nursery: NurseryProcess) -> None:
        how = describe_exit(nursery.stop(_STOP_TIMEOUT))
        self._nursery = None
        lost = [*self._workers.values(), *self._leaving.values()]
        for worker in lost:
            worker.channel.close()
            if sys.platform != "linux":  # there, the kernel has done it
                with contextlib.suppress(OSError):
                    os.killpg(worker.pid, _SIGKILL)
        for group in (self._starting, self._workers, self._leaving, self._idle):
            group.clear()
        tasks = [worker.task for worker in lost if worker.task is not None]
        parent = f"the process that starts the workers (pid {nursery.pid}) {how}"
        if self._nursery_was_lost:
            self._break(f"{parent}, for the second time.")
        else:
            self._nursery_was_lost = True
            logger.warning("%s; %d tasks are lost, and it is started again.", parent, len(tasks))
        for task in tasks:
            message = f"{task.future.description} is lost: {parent}."
            settle(task.future, error=WorkerLostError(message))

    def _break(self, why: str) -> None:
        self.broken = why
        logger.error("LocalExecutor: %s", why)
        while self._queue:
            self._refuse(self._queue.popleft())


def _claim(future: TaskFuture) -> bool:
    """Mark a future as running, unless it was cancelled or completed by somebody else."""
    try:
        return not future.completed and future.set_running_or_notify_cancel()
    except (RuntimeError, InvalidStateError):
        return False
