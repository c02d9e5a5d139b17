"""An engine: whether it answers, what its workers have installed, and whether they multiply."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from sooner.doctor.finding import CheckFailedError
from sooner.doctor.network import CLOCK_TOLERANCE, ask_clock, connect_to, hear_from
from sooner.doctor.packages import version
from sooner.doctor.storage import MATRIX, code, encoded_in
from sooner.errors import SoonerError
from sooner.executors import as_executor
from sooner.jobs import encode, matvec

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Mapping, Sequence

    from sooner.executors import Executor
    from sooner.store import CodedMatrix

__all__ = ["ENGINES", "compare_workers", "connect", "multiply"]

ENGINES = ("local", "dask", "ray", "lithops")

_COMPARED = ("sooner", "numpy", "cloudpickle")
_LOOKS = 8  # tasks that look at the worker they run on

_TOGETHER = {
    "dask": "Start some: dask worker ADDRESS.",
    "ray": "Start some: ray start --address=ADDRESS.",
}
"""What to do about an engine without workers."""


def connect(
    engine: str, address: str | None, timeout: float, stack: contextlib.ExitStack
) -> Executor:
    """Make an executor of an engine that answers.

    Parameters
    ----------
    engine
        One of `ENGINES`.
    address
        Of its scheduler.
    timeout
        Seconds to wait for a first word of it.
    stack
        Closes what is opened.

    Returns
    -------
    Executor
        Of the engine.

    Raises
    ------
    CheckFailedError
        If it does not answer, or has no workers.
    """
    try:
        started = _start(engine, address, timeout, stack)
    except ImportError as error:
        raise CheckFailedError(
            f'{engine} cannot be imported ({error}): pip install "sooner[{engine}]"'
        ) from error
    executor = stack.enter_context(as_executor(started))
    if executor.slots is None and engine in _TOGETHER:
        raise CheckFailedError(f"{engine} answers and has no workers. {_TOGETHER[engine]}")
    return executor


def _start(engine: str, address: str | None, timeout: float, stack: contextlib.ExitStack) -> Any:
    if engine == "dask":
        import distributed

        if address is None:
            raise CheckFailedError(
                "give the address of the scheduler, such as tcp://10.0.0.1:8786."
            )
        _knock_at(address, timeout)
        client = distributed.Client(address, timeout=timeout)
        stack.callback(client.close)  # not as a context manager, which keeps to its thread
        return client
    if engine == "ray":
        import ray

        if not ray.is_initialized():
            address = address or os.environ.get("RAY_ADDRESS", "auto")
            if address != "auto":
                _knock_at(address, timeout, http2=True)
            ray.init(address=address, log_to_driver=False)
            stack.callback(ray.shutdown)
        return ray
    if engine == "lithops":
        import lithops

        _knock_at_storage(lithops.config.default_config(), timeout)
        return stack.enter_context(lithops.FunctionExecutor(log_level=None))
    return "local:2"


def _knock_at(address: str, timeout: float, *, http2: bool = False) -> None:
    """Hear whether a scheduler is there: its client would try for long, and leave threads."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.hostname is None or parts.port is None:
        raise CheckFailedError(f"the address must have a host and a port, got {address!r}.")
    encrypted = parts.scheme == "tls" or bool(os.environ.get("RAY_USE_TLS"))
    connection = connect_to(parts.hostname, parts.port, timeout)
    with connection:
        if not encrypted:
            hear_from(connection, http2=http2)


def _knock_at_storage(config: Mapping[str, Any], timeout: float) -> None:
    """The same for the storage of Lithops, if it is behind a URL of its own."""
    endpoint = config.get(config["lithops"]["storage"], {}).get("endpoint")
    if endpoint:
        ask_clock(endpoint, timeout)


def compare_workers(executor: Executor, *, also: Sequence[str] = ()) -> str:
    """Compare the versions and clocks of workers with those here.

    Parameters
    ----------
    executor
        Runs tasks on them.
    also
        Distributions that they need beside.

    Returns
    -------
    str
        What was found.

    Raises
    ------
    CheckFailedError
        If something differs.
    """

    def look(names: tuple[str, ...]) -> tuple[str, str, float, dict[str, str | None]]:
        # It travels by value, to where sooner may be missing.
        import os as system
        import platform as there
        import time as clock
        from importlib import metadata as installed

        found: dict[str, str | None] = dict.fromkeys(names)
        for name in names:
            try:
                found[name] = installed.version(name)
            except installed.PackageNotFoundError:
                continue
        return f"{there.node()}:{system.getpid()}", there.python_version(), clock.time(), found

    names = (*_COMPARED, *also)
    asked = time.time()
    n_looks = min(executor.slots or 1, _LOOKS)
    futures = executor.submit_many(look, [(names,)] * n_looks)
    seen = {worker: rest for worker, *rest in (future.result() for future in futures)}
    answered = time.time()
    for worker, (python, moment, found) in seen.items():
        _compare_versions(worker, python, found)
        _compare_clock(worker, max(0.0, moment - answered) - max(0.0, asked - moment))
    looked_at = f"{len(seen)} worker{'s' * (len(seen) > 1)} looked at"
    return f"{looked_at}: the same versions as here, Python {python}, and clocks agree"


def _compare_versions(worker: str, python: str, found: Mapping[str, str | None]) -> None:
    here = {name: version(name) for name in found}
    differing = [
        f"{name} {there or 'missing'} (here {here[name]})"
        for name, there in found.items()
        if there != here[name]
    ]
    if python.rpartition(".")[0] != platform.python_version().rpartition(".")[0]:
        differing.append(f"Python {python} (here {platform.python_version()})")
    if differing:
        raise CheckFailedError(
            f"{worker} has {', '.join(differing)}. Install the same versions there."
        )


def _compare_clock(worker: str, ahead: float) -> None:
    if abs(ahead) > CLOCK_TOLERANCE:
        raise CheckFailedError(
            f"the clock of {worker} is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}: "
            "stores refuse its requests, and traces do not tell when its tasks began. Set it by "
            "NTP."
        )


def multiply(executor: Executor, store: str | None, options: Mapping[str, Any]) -> str:
    """Make one coded product, from the store if there is one.

    Parameters
    ----------
    executor
        Runs its tasks.
    store
        Folder or URL that workers read the blocks from; None for memory.
    options
        For obstore.

    Returns
    -------
    str
        How it went.

    Raises
    ------
    CheckFailedError
        If the workers cannot read the store, or the product is wrong.
    """
    if store is None:
        return _multiply(encode(MATRIX, code()), executor)
    with encoded_in(store, options) as coded:
        try:
            return _multiply(coded, executor)
        except SoonerError as error:
            shared = "" if "://" in store else " Do they see this folder, at the same path?"
            raise CheckFailedError(
                f"workers cannot multiply what is in {store}: {error}{shared}"
            ) from error


def _multiply(coded: CodedMatrix, executor: Executor) -> str:
    x = MATRIX[0]
    with matvec(coded, x, executor=executor, retries=0) as job:
        y = job.result()
    error = float(np.abs(y - MATRIX @ x).max())
    if error > 1e-9:
        raise CheckFailedError(f"a coded product is off by {error:.1e}: a worker computes wrongly.")
    elapsed = job.trace.decoded or 0.0
    return (
        f"{len(job.trace)} tasks, exact after {elapsed:.2f} s from {job.trace.n_available} of them"
    )
