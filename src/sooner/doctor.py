"""What is wrong with this set-up: versions, optional packages, a store, an engine, a product.

Each check is bounded in time and says in one line what it found, and what to do if that is bad.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import secrets
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.executors import as_executor
from sooner.executors.worker import run_bounded
from sooner.jobs import encode, matvec
from sooner.store import open_coded
from sooner.store.location import MANIFEST, as_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sooner.executors import Executor
    from sooner.store import CodedMatrix

__all__ = ["ENGINES", "EXTRAS", "Finding", "examine"]

EXTRAS = {
    "cli": ("click", "rich"),
    "plots": ("matplotlib",),
    "demo": ("scikit-learn", "pillow"),
    "s3": ("obstore",),
    "dask": ("distributed",),
    "ray": ("ray",),
    "lithops": ("lithops",),
}
"""What each extra installs."""

ENGINES = ("local", "dask", "ray", "lithops")

_COMPARED = ("sooner", "numpy", "cloudpickle")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    name: str
    ok: bool
    message: str
    """What was found; and if it is bad, what to do."""

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'failed':<8}{self.name:<10}{self.message}"


def examine(
    *,
    engine: str = "local",
    address: str | None = None,
    store: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    timeout: float = 10.0,
) -> Iterator[Finding]:
    """Look at everything that a coded product needs, one check after the other.

    Parameters
    ----------
    engine
        One of `ENGINES`.  Lithops is configured by its own file.
    address
        Of a Dask scheduler or a Ray cluster; None for the one that Ray finds.
    store
        Folder or URL that coded matrices will be in: something small is written there, read back
        and removed.  None for no store.
    storage_options
        Of a store behind a URL.
    timeout
        Seconds that each check may take.

    Yields
    ------
    Finding
        As each check ends.

    Raises
    ------
    ValueError
        If `engine` is none of them.

    Examples
    --------
    >>> all(finding.ok for finding in examine(engine="local"))
    True
    """
    _checks.positive(timeout, "timeout")
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}.")
    needed = {engine} & EXTRAS.keys() | ({"s3"} if store and "://" in store else set())
    yield _try("python", timeout, _versions)
    for extra in EXTRAS:
        yield _try(extra, timeout, functools.partial(_extra, extra, extra in needed))
    with contextlib.ExitStack() as stack:
        if store is not None:
            check = functools.partial(_write_and_read_back, store, storage_options)
            yield _try("store", timeout, check)
        found: list[Executor] = []
        connect = functools.partial(_connect, engine, address, stack, found)
        yield _try("engine", timeout, connect)
        if found:
            yield _try("workers", timeout, functools.partial(_compare_workers, found[0]))
            yield _try("product", timeout, functools.partial(_multiply, found[0]))


def _try(name: str, timeout: float, check: Callable[[], str]) -> Finding:
    """Run a check in a thread that is left behind if it takes too long."""
    try:
        return Finding(name, True, run_bounded(timeout, check))
    except TimeoutError as error:
        late = "the task must end within" in str(error)
        reason = f"no answer within {timeout:g} s. Can it be reached from here?"
        return Finding(name, False, reason if late else _one_line(error))
    except Exception as error:
        return Finding(name, False, _one_line(error))


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _version(name: str) -> str:
    return metadata.version(name)


def _versions() -> str:
    names = ("sooner", "numpy", "scipy", "cloudpickle")
    found = ", ".join(f"{name} {_version(name)}" for name in names)
    return f"Python {platform.python_version()}, {found}"


def _extra(extra: str, needed: bool) -> str:
    found, missing = [], []
    for name in EXTRAS[extra]:
        try:
            found.append(f"{name} {_version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if not missing:
        return ", ".join(found)
    advice = f'{" and ".join(missing)} not installed: pip install "sooner[{extra}]"'
    if needed:
        raise ImportError(advice)
    return f"{advice}, if wanted"


def _write_and_read_back(store: str, options: Mapping[str, Any] | None) -> str:
    if not store:
        raise ValueError("store must be a path to a local folder, or a URL, got ''.")
    where = f"{store.rstrip('/')}/sooner-doctor-{secrets.token_hex(6)}"
    A = np.arange(32.0).reshape(8, 4)
    coded = encode(A, _code(), where, storage_options=options)
    try:
        again = open_coded(where, storage_options=options)
        if any(np.any(again.block(i) != coded.block(i)) for i in range(coded.code.n)):
            raise OSError(f"what was read from {where} is not what was written.")
    finally:
        _remove(where, coded, options)
    return f"{store}: written, read back, removed"


def _code() -> Any:
    from sooner.codes import PolarCode

    return PolarCode(4, 3, rng=0)


def _remove(where: str, coded: CodedMatrix, options: Mapping[str, Any] | None) -> None:
    paths = (coded.block_source(i)["path"] for i in range(coded.code.n))
    location = as_location(where, options)
    location.discard([MANIFEST, *(path.rpartition("/")[2] for path in paths)])
    if location.folder is not None:
        with contextlib.suppress(OSError):
            Path(where).rmdir()


def _connect(
    engine: str, address: str | None, stack: contextlib.ExitStack, found: list[Executor]
) -> str:
    executor = as_executor(_start(engine, address, stack))
    found.append(stack.enter_context(executor))
    slots = "an unknown number of" if executor.slots is None else executor.slots
    return f"{executor!r}: {slots} slots"


def _start(engine: str, address: str | None, stack: contextlib.ExitStack) -> Any:
    if engine == "dask":
        import distributed

        if address is None:
            raise ValueError("give the address of the scheduler, such as tcp://10.0.0.1:8786.")
        return stack.enter_context(distributed.Client(address, timeout=5))
    if engine == "ray":
        import ray

        if not ray.is_initialized():
            ray.init(address=address or "auto", log_to_driver=False)
            stack.callback(ray.shutdown)
        return ray
    if engine == "lithops":
        import lithops

        return stack.enter_context(lithops.FunctionExecutor(log_level=None))
    return "local:2"


def _compare_workers(executor: Executor) -> str:
    def look(names: tuple[str, ...]) -> tuple[str, dict[str, str | None]]:  # travels by value
        import platform as there
        from importlib import metadata as installed

        found: dict[str, str | None] = dict.fromkeys(names)
        for name in names:
            try:
                found[name] = installed.version(name)
            except installed.PackageNotFoundError:
                continue
        return there.python_version(), found

    (future,) = executor.submit_many(look, [(_COMPARED,)])
    python, found = future.result()
    here = {name: _version(name) for name in _COMPARED}
    differing = [
        f"{name} {found[name] or 'missing'} (here {here[name]})"
        for name in _COMPARED
        if found[name] != here[name]
    ]
    if python.rpartition(".")[0] != platform.python_version().rpartition(".")[0]:
        differing.append(f"Python {python} (here {platform.python_version()})")
    if differing:
        raise RuntimeError(f"a worker has {', '.join(differing)}. Install the same versions there.")
    return f"the same versions as here, Python {python}"


def _multiply(executor: Executor) -> str:
    A = np.random.default_rng(0).standard_normal((40, 5))
    coded = encode(A, _code())
    with matvec(coded, A[0], executor=executor) as job:
        y = job.result()
    error = float(np.abs(y - A @ A[0]).max())
    if error > 1e-9:
        raise RuntimeError(f"a coded product is off by {error:.1e}: a worker computes wrongly.")
    elapsed = job.trace.decoded or 0.0
    return f"4 tasks, exact after {elapsed:.2f} s from {job.trace.n_available} of them"
