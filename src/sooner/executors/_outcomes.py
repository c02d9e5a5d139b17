"""From what a worker sends to how a future ends."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from sooner.executors._completions import settle
from sooner.executors._wire import unpack

if TYPE_CHECKING:
    from sooner.executors._completions import TaskFuture

__all__ = ["RemoteTraceback", "complete"]


class RemoteTraceback(Exception):
    """The traceback that an exception had in the worker; the exception's ``__cause__``."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def complete(future: TaskFuture, frame: bytes | bytearray) -> None:
    """End a future with the result or exception that its worker sent.

    Parameters
    ----------
    future
        Passed over if it was abandoned meanwhile.
    frame
        What the worker sent.
    """
    try:
        ok, value, text = unpack(frame)
    except BaseException as error:  # unpickling runs the user's code
        message = f"the result of {future.description} could not be unpickled: {error!r}."
        failure = RuntimeError(message)
        failure.__cause__ = error
        settle(future, error=failure)
        return
    if ok:
        settle(future, value)
        return
    try:
        raised = pickle.loads(value)
    except BaseException:  # an exception that does not survive pickling
        raised = RuntimeError(text.rstrip().rpartition("\n")[2])
    raised.__cause__ = RemoteTraceback(text)
    settle(future, error=raised)
