"""The process that forks workers: started once by the driver, single-threaded, NumPy loaded.

A fork of it takes about a millisecond, and it has never seen the user's main module.  It does what
the driver says over one socket, and reports what became of its children:

=========  ==============================================================================
``F i``    to it: fork worker i
``K i``    to it: kill worker i, if it lives
``P n``    to it: import the module whose name is the next n bytes, for workers to come
``S i p``  from it, with a socket: worker i runs as process p
``X i e``  from it: worker i could not be forked, with errno e
``E i c``  from it: worker i ended with exit code c, negative for a signal
=========  ==============================================================================

When the socket ends, or the driver is gone, it kills all workers and ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

from sooner.executors.worker import serve

__all__ = ["EVENT", "ORDER", "main"]

ORDER = struct.Struct("<cQ")
"""What the driver says: kind, and number of the worker or length of a name."""

EVENT = struct.Struct("<cQq")
"""What the nursery says: kind, number of the worker, process or code."""

_LOOK_FOR_DRIVER = 1.0  # seconds; a process forked by the driver may hold the socket open
_PR_SET_PDEATHSIG = 1


class _Nursery:
    def __init__(self, control: socket.socket, driver: int) -> None:
        self._control = control
        self._driver = driver
        self._own_pid = os.getpid()
        self._pids: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._orders = b""
        self._child_ended, self._child_signal = socket.socketpair()
        for end in (self._child_ended, self._child_signal):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the driver may ignore it, and that stays
        signal.set_wakeup_fd(self._child_signal.fileno(), warn_on_full_buffer=False)
        self._prctl = _find_prctl()

    def run(self) -> None:
        while os.getppid() == self._driver:
            waiting = [self._control, self._child_ended]
            ready, _, _ = select.select(waiting, [], [], _LOOK_FOR_DRIVER)
            if self._child_ended in ready:
                with contextlib.suppress(BlockingIOError):
                    self._child_ended.recv(4096)
                self._reap()
            if self._control in ready:
                data = self._control.recv(1 << 16)
                if not data:
                    return
                self._obey(data)

    def kill_all(self) -> None:
        """Kill and reap what still lives."""
        for pid in self._numbers:
            _kill_group(pid)
        for pid in self._numbers:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _obey(self, data: bytes) -> None:
        self._orders += data
        while len(self._orders) >= ORDER.size:
            kind, number = ORDER.unpack_from(self._orders)
            length = ORDER.size + (number if kind == b"P" else 0)
            if len(self._orders) < length:
                return
            name = self._orders[ORDER.size : length]
            self._orders = self._orders[length:]
            if kind == b"F":
                self._fork(number)
            elif kind == b"K" and number in self._pids:
                _kill_group(self._pids[number])
            elif kind == b"P":
                _preload(name.decode())

    def _fork(self, number: int) -> None:
        try:
            drivers_end, workers_end = socket.socketpair()
        except OSError as error:
            self._tell(b"X", number, error.errno or 0)
            return
        with drivers_end, workers_end:
            try:
                pid = os.fork()
            except OSError as error:
                self._tell(b"X", number, error.errno or 0)
                return
            if pid == 0:
                drivers_end.close()
                self._become_worker(workers_end)
            with contextlib.suppress(OSError):  # both do it, so that neither can come too early
                os.setpgid(pid, pid)
            self._pids[number], self._numbers[pid] = pid, number
            socket.send_fds(self._control, [EVENT.pack(b"S", number, pid)], [drivers_end.fileno()])

    def _become_worker(self, connection: socket.socket) -> NoReturn:
        code = 1
        try:
            os.setpgid(0, 0)  # a kill takes along what the task has started
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (self._control, self._child_ended, self._child_signal):
                end.close()
            if self._prctl is not None:
                self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == self._own_pid:  # else the nursery died before prctl could tell
                _reseed()
                serve(connection)
                code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while self._numbers:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self._numbers.pop(pid)
            del self._pids[number]
            _kill_group(pid)  # processes that a crashed task had started
            self._tell(b"E", number, os.waitstatus_to_exitcode(status))

    def _tell(self, kind: bytes, number: int, value: int) -> None:
        self._control.sendall(EVENT.pack(kind, number, value))


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _preload(name: str) -> None:
    with contextlib.suppress(Exception):  # a task that needs it will say what is wrong
        importlib.import_module(name)
    gc.freeze()


def _reseed() -> None:
    """Forks share NumPy's global generator; without this all workers would draw the same."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def _find_prctl() -> Any:
    """Find what lets a worker die with the nursery; Linux alone has it."""
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None).prctl


def main() -> NoReturn:
    """Run the nursery: ``argv`` has the socket's file descriptor, the driver's pid and modules."""
    control_fd, driver, *modules = sys.argv[2:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which decides
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    nursery = _Nursery(socket.socket(fileno=int(control_fd)), int(driver))
    for name in modules:
        _preload(name)
    gc.collect()
    gc.freeze()  # a collection in a worker would copy every page
    code = 0
    try:
        nursery.run()
    except (BrokenPipeError, ConnectionResetError):  # the driver went while it was told something
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        nursery.kill_all()
        os._exit(code)
