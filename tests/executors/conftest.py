"""Helpers for tests with real processes; nothing here sleeps to wait for another process."""

from __future__ import annotations

import contextlib
import importlib
import logging
import multiprocessing
import os
import select
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import psutil
import pytest

from sooner.executors import LocalExecutor, PoolExecutor, as_executor


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


# Engines: each is started once, when a test first asks for it, and ends with the one module that
# uses it; an executor is made for each test.

SLOTS = 4
POOL_TIMEOUT = 1.0  # seconds after which a task of a pool gives its slot back


def process_pool():
    context = multiprocessing.get_context("forkserver")  # not fork: this process has threads
    context.set_forkserver_preload(["sooner.testing.executors"])
    return ProcessPoolExecutor(SLOTS, mp_context=context)


def loky_pool():
    from loky.process_executor import ProcessPoolExecutor as LokyPool

    return LokyPool(SLOTS, timeout=None)


@contextlib.contextmanager
def dask_cluster(n_workers, host="127.0.0.1"):
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            host=host,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def dask_client():
    with dask_cluster(SLOTS) as client:
        yield client


@pytest.fixture(scope="module")
def dask_elsewhere():
    """A cluster that a driver takes for other machines, since it listens on another address."""
    with dask_cluster(SLOTS, host="127.0.0.2") as client:
        yield client


@pytest.fixture(scope="module")
def ray_engine():
    settings = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else it takes the host's address for loopback
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # Ray ends this process when its own server does not answer for so long, 60 s by default.
        "RAY_gcs_rpc_server_reconnect_timeout_s": "3600",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        import ray

        folder = tempfile.mkdtemp(prefix="ray")  # short: it holds sockets
        ray.init(
            num_cpus=SLOTS,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            object_store_memory=200 << 20,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        yield ray
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def lithops_home():
    """A home and a folder for what Lithops leaves behind; it looks for both when imported."""
    if "lithops" in sys.modules:  # by an example of the documentation: workers must look there too
        yield
        return
    folder = tempfile.mkdtemp(prefix="lithops")  # by which tempfile has settled for its own folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", folder)
        patch.setenv("TMPDIR", folder)
        with pytest.MonkeyPatch.context() as meanwhile:  # others keep theirs
            meanwhile.setattr(tempfile, "tempdir", folder)
            importlib.import_module("lithops")
        yield
    shutil.rmtree(folder, ignore_errors=True)


def function_executor(storage, **sections):
    import lithops

    settings = {
        "backend": "localhost",
        "storage": storage,
        "monitoring_interval": 0.1,
        "data_cleaner": False,
        "telemetry": False,
    }
    # The full path: otherwise it takes whichever Python is first on PATH.
    localhost = {"runtime": sys.executable, "worker_processes": SLOTS, "version": 1}
    return lithops.FunctionExecutor(
        config={"lithops": settings, "localhost": localhost, **sections}, log_level=None
    )


@pytest.fixture(scope="module")
def lithops_localhost(lithops_home):
    with function_executor("localhost") as functions:
        yield functions


@pytest.fixture(scope="module")
def lithops_s3(lithops_home):
    """Lithops as in the cloud: its storage is an S3 server, here one on loopback."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"access_key_id": "tester", "secret_access_key": "secret"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:{port}")
        with function_executor(
            "aws_s3",
            aws={"region": "us-east-1", **keys},
            aws_s3={"storage_bucket": "products"},
        ) as functions:
            yield functions
    server.stop()


ENGINES = {
    "local": lambda _: LocalExecutor(SLOTS),
    "threads": lambda _: PoolExecutor(lambda: ThreadPoolExecutor(SLOTS), task_timeout=POOL_TIMEOUT),
    "processes": lambda _: PoolExecutor(process_pool, task_timeout=POOL_TIMEOUT),
    "loky": lambda _: PoolExecutor(loky_pool, task_timeout=POOL_TIMEOUT),
    "dask": lambda request: as_executor(request.getfixturevalue("dask_client")),
    "dask-elsewhere": lambda request: as_executor(request.getfixturevalue("dask_elsewhere")),
    "ray": lambda request: as_executor(request.getfixturevalue("ray_engine")),
    "lithops": lambda request: as_executor(request.getfixturevalue("lithops_localhost")),
    "lithops-s3": lambda request: as_executor(request.getfixturevalue("lithops_s3")),
}


@pytest.fixture
def engine(request):
    """Name of an engine, and what makes an executor of it; ``@engines(...)`` says of which."""
    make = ENGINES[request.param]
    return SimpleNamespace(name=request.param, make=lambda: make(request))


@pytest.fixture
def clusters():
    return dask_cluster
