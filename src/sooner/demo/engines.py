"""The demo's executor on each engine, started on this machine for the demo alone."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from typing import TYPE_CHECKING

from sooner.demo.killing import KillingExecutor, MortalTasks
from sooner.errors import MissingExtraError
from sooner.executors import as_executor

if TYPE_CHECKING:
    from collections.abc import Generator

    from sooner.demo.killing import Killing

__all__ = ["ENGINES", "start_engine"]

_THREADS = 4  # of one Dask worker: most of a task's time is waiting, so a machine holds many


@contextlib.contextmanager
def _local(n: int) -> Generator[Killing]:
    executor = KillingExecutor(max_workers=n)
    with executor:
        yield executor


@contextlib.contextmanager
def _dask(n: int) -> Generator[Killing]:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=-(-n // _THREADS),
            threads_per_worker=_THREADS,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
        as_executor(client) as executor,
    ):
        yield MortalTasks(executor)


@contextlib.contextmanager
def _ray(n: int) -> Generator[Killing]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Without it, Ray takes the host's address for that of loopback.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=n,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        try:
            with as_executor(ray) as executor:
                yield MortalTasks(executor)
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _lithops(n: int) -> Generator[Killing]:
    import lithops

    settings = {"backend": "localhost", "storage": "localhost", "monitoring_interval": 0.1}
    # The full path: otherwise it takes whichever Python is first on PATH.
    localhost = {"runtime": sys.executable, "worker_processes": n, "version": 1}
    with (
        lithops.FunctionExecutor(
            config={"lithops": settings, "localhost": localhost}, log_level=None
        ) as functions,
        as_executor(functions) as executor,
    ):
        yield MortalTasks(executor)


_STARTERS = {"local": _local, "dask": _dask, "ray": _ray, "lithops": _lithops}
ENGINES = tuple(_STARTERS)
"""Where the demo can run."""


@contextlib.contextmanager
def start_engine(name: str, n: int) -> Generator[Killing]:
    """Start an engine on this machine, with a slot for each of n tasks.

    Parameters
    ----------
    name
        One of `ENGINES`.
    n
        How many slots.

    Yields
    ------
    Killing
        An executor that loses a worker on purpose.

    Raises
    ------
    ValueError
        If there is no such engine.
    MissingExtraError
        If it is not installed.
    """
    if name not in _STARTERS:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {name!r}.")
    try:
        stack = contextlib.ExitStack()
        executor = stack.enter_context(_STARTERS[name](n))
    except ImportError as error:
        raise MissingExtraError(
            f'the demo on {name} needs it installed: pip install "sooner[{name}]"'
        ) from error
    with stack:
        yield executor
