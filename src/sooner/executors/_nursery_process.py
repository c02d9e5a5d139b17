"""The driver's side of the nursery: starting it, telling it, listening to it, ending it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import sooner
from sooner.executors._channel import Channel
from sooner.executors.nursery import EVENT, ORDER

if TYPE_CHECKING:
    import selectors
    from collections.abc import Callable, Iterable

__all__ = ["NurseryEvent", "NurseryProcess", "describe_exit"]

_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); import sooner; del sys.path[0]; "
    "from sooner.executors.nursery import main; main()"
)
"""Not ``-m``: the workers must run this very copy of sooner, wherever the driver found it."""

_PRELOAD = ("numpy", "cloudpickle", "sooner.errors")

_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""One thread per worker: measured, that is more than twice as fast as all cores for each."""

_MANY_FDS = 64
_SIGKILL = 9  # the number everywhere; a user's own signal.py may hide the module


class NurseryEvent(NamedTuple):
    """What the nursery reports: see its module."""

    kind: bytes
    number: int
    value: int
    connection: socket.socket | None


class NurseryProcess:
    """A running nursery.

    Parameters
    ----------
    selector
        Where its socket is registered.
    on_readable
        Called when it has something to say, or is gone.
    """

    def __init__(self, selector: selectors.BaseSelector, on_readable: Callable[[], None]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-c", _BOOTSTRAP),
                        str(Path(sooner.__file__).parent.parent),
                        *(str(theirs.fileno()), str(os.getpid()), *_PRELOAD),
                    ],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # signals of the terminal go to the driver alone
                    env=os.environ | dict.fromkeys(_THREAD_LIMITS, "1"),
                )
            except BaseException:
                ours.close()
                raise
        self._channel = Channel(ours, selector, on_readable)
        self._unread = b""
        self._fds: deque[int] = deque()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def fork(self, numbers: Iterable[int]) -> None:
        """Have workers forked.

        Parameters
        ----------
        numbers
            Their numbers, never used before.
        """
        self._channel.send(b"".join(ORDER.pack(b"F", number) for number in numbers))

    def kill(self, number: int) -> None:
        """Have a worker killed, if it still lives.

        The nursery does it: as their parent it knows which process numbers are still theirs.

        Parameters
        ----------
        number
            The worker's number.
        """
        self._channel.send(ORDER.pack(b"K", number))

    def preload(self, module: str) -> None:
        """Have a module imported before the next fork.

        Parameters
        ----------
        module
            Its full name.
        """
        name = module.encode()
        self._channel.send(ORDER.pack(b"P", len(name)) + name)

    def read(self) -> list[NurseryEvent]:
        """Read what it reports.

        Returns
        -------
        list of NurseryEvent
            In the order in which things happened.

        Raises
        ------
        EOFError
            If it is gone.
        """
        try:
            data, fds, _, _ = socket.recv_fds(self._channel.connection, 1 << 12, _MANY_FDS)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError from error
        for fd in fds:  # received ones are inheritable, unlike Python's own
            os.set_inheritable(fd, False)
        self._fds += fds
        if not data:
            raise EOFError
        self._unread += data
        events = []
        whole = len(self._unread) // EVENT.size * EVENT.size
        for kind, number, value in EVENT.iter_unpack(self._unread[:whole]):
            connection = None
            if kind == b"S" and self._fds:  # without one, the driver has too many files open
                connection = socket.socket(fileno=self._fds.popleft())
            events.append(NurseryEvent(kind, number, value, connection))
        self._unread = self._unread[whole:]
        return events

    def stop(self, timeout: float) -> int:
        """Have it kill all workers and end.

        Parameters
        ----------
        timeout
            Seconds to wait before it is killed itself (and Linux kills its workers).

        Returns
        -------
        int
            Its exit code, negative for a signal.
        """
        if not self._channel.closed:
            with contextlib.suppress(OSError):  # not only closed: a forked child may hold it open
                self._channel.connection.shutdown(socket.SHUT_RDWR)
            self._channel.close()
        while self._fds:
            os.close(self._fds.popleft())
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.kill(self._process.pid, _SIGKILL)
            return self._process.wait()


def describe_exit(code: int) -> str:
    """Say how a process ended.

    Parameters
    ----------
    code
        Its exit code, negative for a signal.

    Returns
    -------
    str
        What a sentence about it goes on with.

    Examples
    --------
    >>> describe_exit(-9)
    'was killed by SIGKILL, probably out of memory'
    >>> describe_exit(3)
    'ended with exit code 3'
    """
    if code >= 0:
        return f"ended with exit code {code}"
    import signal

    try:
        name = signal.Signals(-code).name
    except (AttributeError, ValueError):  # a user's own signal.py; a real-time signal
        name = f"signal {-code}"
    return f"was killed by {name}" + (", probably out of memory" if code == -_SIGKILL else "")
