"""Tasks that give their slot back: at a deadline, or as soon as the driver lets go of them.

Dask, Ray and Lithops cannot end what runs in a worker.  So a task's work runs in a daemon thread,
and what the engine sees only waits for it.  Let go of, the task ends at once and the engine has its
slot again; the thread is asked to end and does so at its next line of Python.

It runs in workers, and imports what every task needs anyway.
"""

from __future__ import annotations

import ctypes
import functools
import pickle
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sooner.executors.references import ObjectReference
from sooner.executors.worker import outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

__all__ = ["TASK_TIMEOUT", "LetGoError", "Shipped", "let_go", "run_packed", "run_until_let_go"]

TASK_TIMEOUT = 3600.0
"""Seconds after which a task ends by itself: its driver may be gone."""

_STEP = 0.05  # seconds between two looks whether the task is still wanted
_REMEMBERED = 10_000  # tasks that were let go before they began

_lock = threading.Lock()
_running: dict[Hashable, threading.Event] = {}
_let_go: OrderedDict[Hashable, None] = OrderedDict()


class LetGoError(TimeoutError):
    """The driver does not want this task any more."""


def let_go(tasks: Iterable[Hashable]) -> None:
    """End tasks of this process, also those that have not begun yet.

    Parameters
    ----------
    tasks
        Their names, as `run_until_let_go` has them or will have them.
    """
    with _lock:
        for task in tasks:
            _let_go[task] = None
            if task in _running:
                _running[task].set()
        while len(_let_go) > _REMEMBERED:
            _let_go.popitem(last=False)


def run_until_let_go(
    task: Hashable,
    timeout: float,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    is_unwanted: Callable[[], bool] | None = None,
) -> Any:
    """Give ``fn(*args)`` unless the task is let go of first.

    Parameters
    ----------
    task
        Its name, unique among all executors.
    timeout
        Seconds after which it is let go of at the latest.
    fn, args
        What to run.
    is_unwanted
        Another way to let go of it: asked for in this thread, 20 times a second.

    Returns
    -------
    object
        What `fn` returns.

    Raises
    ------
    LetGoError
        If it was let go of.
    TimeoutError
        If it took too long.
    BaseException
        What `fn` raises.

    Examples
    --------
    >>> run_until_let_go("a", 5.0, sum, ([1, 2],))
    3
    >>> let_go(["b"])
    >>> run_until_let_go("b", 5.0, sum, ([1, 2],))
    Traceback (most recent call last):
    sooner.executors._bounded.LetGoError: the task was let go of by its driver.
    """
    over = threading.Event()
    with _lock:
        if task in _let_go:
            raise LetGoError("the task was let go of by its driver.")
        _running[task] = over
    outcome: list[Any] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(fn(*args))
        except BaseException as caught:
            error.append(caught)
        over.set()

    thread = threading.Thread(target=work, daemon=True, name=f"sooner-task-{task}")
    deadline = time.monotonic() + timeout
    try:
        thread.start()
        while not over.wait(min(_STEP, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline or (is_unwanted is not None and is_unwanted()):
                break
    finally:
        with _lock:
            del _running[task]
        if thread.is_alive() and not (outcome or error):
            _ask_to_end(thread)
    if error:
        raise error[0]
    if not outcome:
        if time.monotonic() < deadline:
            raise LetGoError("the task was let go of by its driver.")
        raise TimeoutError(f"the task must end within {timeout} s, and did not; its slot is free.")
    return outcome[0]


def _ask_to_end(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread at its next line of Python; a call into C ends first."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
        )


@dataclass(frozen=True, slots=True)
class Shipped:
    """Stands among a task's arguments for a value that the engine brings to the worker.

    Examples
    --------
    >>> import numpy as np
    >>> args = pickle.dumps((Shipped("x"),))
    >>> from sooner.executors._wire import unpack
    >>> unpack(run_packed("c", 5.0, pickle.dumps(_sum_of), args, {"x": np.ones(3)}))
    (True, 3.0, '')
    """

    name: str
    """Which one."""

    def load(self) -> Any:
        """Say that the value is with the tasks; they are given a reference that has it.

        Raises
        ------
        LookupError
            Always.
        """
        raise LookupError("a value shipped to workers is loaded in tasks, not in the driver.")


def _sum_of(reference: ObjectReference) -> float:
    return float(reference.load().sum())


def run_packed(
    task: Hashable,
    timeout: float,
    packed_fn: bytes,
    packed_args: bytes,
    values: Mapping[str, Any],
    is_unwanted: Callable[[], bool] | None = None,
) -> bytearray:
    """Run a pickled task with `run_until_let_go`.

    Parameters
    ----------
    task, timeout
        As there.
    packed_fn
        The function; a process unpickles it once.
    packed_args
        The tuple of arguments.
    values
        What `Shipped` arguments stand for, by name.
    is_unwanted
        As there.

    Returns
    -------
    bytearray
        Its result or exception, packed: no engine needs to understand either.
    """

    def run() -> Any:
        fn = _unpickled(packed_fn)
        args = tuple(
            ObjectReference(values[each.name]) if isinstance(each, Shipped) else each
            for each in pickle.loads(packed_args)
        )
        return run_until_let_go(task, timeout, fn, args, is_unwanted)

    return bytearray().join(outcome_of(run, ()))


@functools.lru_cache(maxsize=8)
def _unpickled(packed: bytes) -> Any:
    return pickle.loads(packed)
