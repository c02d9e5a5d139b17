"""What a worker process runs: one task after the other, until its socket is closed.

Imports the standard library only; NumPy and cloudpickle come from the process it is forked from.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sooner.executors._wire import FRAME_HEAD, TASK_HEAD, dumps, pack

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

__all__ = ["outcome_of", "run_bounded", "serve"]

_SMALL = 1 << 16  # bytes; smaller chunks are joined, which saves system calls


def serve(connection: socket.socket) -> None:
    """Run tasks from `connection` until the driver closes it.

    Parameters
    ----------
    connection
        To the driver; blocking.
    """
    with contextlib.suppress(ConnectionError):  # closed while something was on its way
        _serve(connection)


def _serve(connection: socket.socket) -> None:
    reader = connection.makefile("rb")
    packed_fn, fn = b"", None
    while len(head := reader.read(TASK_HEAD.size)) == TASK_HEAD.size:
        fn_length, args_length = TASK_HEAD.unpack(head)
        if fn_length:
            packed_fn, fn = reader.read(fn_length), None
        packed_args = reader.read(args_length)
        if len(packed_args) < args_length:  # the driver is gone
            return
        try:
            if fn is None:
                fn = _load_function(packed_fn)
            args = pickle.loads(packed_args)
        except BaseException as error:
            chunks = _failure(error)
        else:
            chunks = outcome_of(fn, args)
            del args
        _flush_output()
        _send(connection, chunks)
        del chunks, packed_args  # nothing large is kept while idle


def outcome_of(fn: Callable[..., Any], args: tuple[Any, ...]) -> Sequence[bytes | memoryview]:
    """Run a task, and pack its result or its exception for `sooner.executors._outcomes`.

    Parameters
    ----------
    fn, args
        What to run.

    Returns
    -------
    sequence of bytes-like
        What to send, one after the other.
    """
    try:
        result = fn(*args)
    except BaseException as error:
        return _failure(error)
    try:
        return pack((True, result, ""))
    except Exception as error:
        refusal = TypeError(
            f"a task's result must be picklable, got one of type {type(result).__name__}: {error}"
        )
        refusal.__cause__ = error
        return _failure(refusal)


def _failure(error: BaseException) -> Sequence[bytes | memoryview]:
    """Pack an exception with the text of its traceback, which itself cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = dumps(error)
    except Exception:
        packed = b""
    return pack((False, packed, text))


def _send(connection: socket.socket, chunks: Sequence[bytes | memoryview]) -> None:
    length = sum(chunk.nbytes if isinstance(chunk, memoryview) else len(chunk) for chunk in chunks)
    head = FRAME_HEAD.pack(length)
    if length < _SMALL:
        connection.sendall(b"".join([head, *chunks]))
        return
    for chunk in (head, *chunks):
        connection.sendall(chunk)


def _flush_output() -> None:
    """A worker may be killed at any time: what a task printed must be out by then."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # None, closed, full
            stream.flush()


def _load_function(packed: bytes) -> Callable[..., Any]:
    """Unpickle a function where the driver's modules can be found, the standard library's first."""
    # first, so that a queue.py in the user's folder does not stand in for Python's own
    driver_path, packed_fn = pickle.loads(packed)
    library = str(Path(os.__file__).parent)
    own = [entry for entry in sys.path if entry in {library, f"{library}/lib-dynload"}]
    sys.path[:] = own + [entry for entry in driver_path if entry not in own]
    fn: Callable[..., Any] = pickle.loads(packed_fn)
    return fn


def run_bounded(timeout: float, fn: Callable[..., Any], *args: Any) -> Any:
    """Give ``fn(*args)``, or give up after `timeout` seconds and leave its thread behind.

    For pools that cannot end a running task: the slot is free again at the deadline.  The thread
    goes on until it ends by itself; as a daemon it does not hold up the end of its process.

    Parameters
    ----------
    timeout
        Seconds.
    fn
        What to run.
    *args
        Its arguments.

    Returns
    -------
    object
        What `fn` returns.

    Raises
    ------
    TimeoutError
        If it takes longer.
    BaseException
        What `fn` raises.

    Examples
    --------
    >>> run_bounded(5.0, sum, [1, 2])
    3
    """
    outcome: list[Any] = []
    error: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(fn(*args))
        except BaseException as caught:
            error.append(caught)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout)
    if error:
        raise error[0]
    if not outcome:
        raise TimeoutError(f"the task must end within {timeout} s, and did not; its slot is free.")
    return outcome[0]
