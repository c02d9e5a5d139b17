"""Helpers for tests with real processes; nothing here sleeps to wait for another process."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import psutil
import pytest

from sooner.executors import LocalExecutor


class Starts:
    """A pipe by which tasks in other processes say that they run."""

    def __init__(self, path):
        self.path = str(path)
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def wait(self, n, timeout=10.0):
        """Give the process numbers of the next n tasks that start."""
        pids, deadline, rest = [], time.monotonic() + timeout, b""
        while len(pids) < n:
            ready, _, _ = select.select([self._fd], [], [], deadline - time.monotonic())
            assert ready, f"{len(pids)} of {n} tasks have started after {timeout} s"
            *lines, rest = (rest + os.read(self._fd, 4096)).split(b"\n")
            pids += map(int, lines)
        return pids

    def close(self):
        os.close(self._fd)


@pytest.fixture
def starts(tmp_path):
    pipe = Starts(tmp_path / "starts")
    yield pipe
    pipe.close()


@pytest.fixture
def stuck():
    """A task that says that it runs, and never returns (by value: workers cannot import it)."""

    def stuck(path):
        import os
        import pathlib
        import time

        pathlib.Path(path).write_text(f"{os.getpid()}\n", encoding="utf-8")
        time.sleep(3600)

    return stuck


@pytest.fixture
def local():
    """Two workers; afterwards nothing of them may be left."""
    with LocalExecutor(2) as executor:
        yield executor
    assert not nurseries(), "a nursery or worker is left"


def nurseries(pid=None):
    """Give the processes that a driver has started for tasks: nurseries and workers."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if any("sooner.executors.nursery" in part for part in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def gone(processes, timeout=5.0):
    """Wait for processes to end; tell whether all did."""
    _, alive = psutil.wait_procs(processes, timeout=timeout)
    return not [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def run_script(code, *, cwd, how="file", timeout=20.0, **kwargs):
    """Run a script of a user as ``python script.py``, ``python -`` or ``python -c``."""
    code = textwrap.dedent(code)
    command, given = [sys.executable], None
    if how == "file":
        (cwd / "script.py").write_text(code)
        command.append("script.py")
    elif how == "stdin":
        command.append("-")
        given = code
    else:
        command += ["-c", code]
    return subprocess.run(
        command,
        cwd=cwd,
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **kwargs,
    )


def start_script(code, *, cwd):
    """Start a script in a session of its own, its output to be read line by line."""
    (cwd / "script.py").write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def processes():
    return SimpleNamespace(nurseries=nurseries, gone=gone)


@pytest.fixture
def scripts():
    return SimpleNamespace(run=run_script, start=start_script)
