"""Where tasks run: processes of this machine, any pool, Dask, Ray, Lithops, a virtual clock."""

from __future__ import annotations

from concurrent.futures import Executor as Pool
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sooner.executors.base import Capabilities, Executor, Reference

if TYPE_CHECKING:
    from sooner.executors.local import LocalExecutor
    from sooner.executors.pools import PoolExecutor
    from sooner.executors.ray import RayExecutor
    from sooner.executors.virtual import VirtualExecutor

__all__ = [
    "Capabilities",
    "Executor",
    "LocalExecutor",
    "PoolExecutor",
    "RayExecutor",
    "Reference",
    "VirtualExecutor",
    "as_executor",
]

_LAZY = {
    "LocalExecutor": "local",
    "PoolExecutor": "pools",
    "RayExecutor": "ray",
    "VirtualExecutor": "virtual",
}


def __getattr__(name: str) -> Any:
    """Import an executor when it is first asked for: workers need none of them."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)


def as_executor(obj: Any = None) -> Executor:
    """Make an executor of what there is.

    Parameters
    ----------
    obj
        An `Executor`, which is given back; a `concurrent.futures.Executor`, which stays the
        caller's to shut down; a function without arguments that makes one, so that it can be
        replaced when it breaks; a Dask ``Client``, the initialized module ``ray``, or a Lithops
        ``FunctionExecutor``, all of them the caller's to close; or a name: ``"local"``,
        ``"local:8"`` and ``"processes:8"`` for worker processes of this machine, ``"threads"``
        and ``"threads:4"``.  None is ``"local"``.

    Returns
    -------
    Executor
        Use it in a ``with`` block, or close it.

    Raises
    ------
    TypeError
        If `obj` is none of these.
    ValueError
        If a name is not known, or its number is none.

    Examples
    --------
    >>> with as_executor("threads:2") as executor:
    ...     executor.slots
    2
    """
    if isinstance(obj, str):
        return _named(obj)
    if obj is None:
        return _named("local")
    if isinstance(obj, Executor) and not isinstance(obj, type):
        return obj
    if (engine := _of_an_engine(obj)) is not None:
        return engine
    if isinstance(obj, Pool) or callable(obj):
        from sooner.executors.pools import PoolExecutor

        return PoolExecutor(obj)
    raise TypeError(
        "executor must be an executor of sooner, a Dask client, the module ray, a Lithops "
        "FunctionExecutor, a concurrent.futures.Executor, a function that makes one, None, or a "
        f"name such as 'local', 'local:8', 'threads:4' or 'processes:8', got {obj!r}."
    )


def _of_an_engine(obj: Any) -> Executor | None:
    """Adapt what belongs to Dask, Ray or Lithops; no engine is imported to find out."""
    engine = type(obj).__module__.partition(".")[0]
    if engine == "distributed" and hasattr(obj, "scheduler_info"):
        from sooner.executors.dask import DaskExecutor

        return DaskExecutor(obj)
    if isinstance(obj, ModuleType) and obj.__name__ == "ray":
        from sooner.executors.ray import RayExecutor

        return RayExecutor()
    if engine == "lithops" and hasattr(obj, "call_async"):
        from sooner.executors.lithops import LithopsExecutor

        return LithopsExecutor(obj)
    return None


def _named(name: str) -> Executor:
    kind, colon, number = name.partition(":")
    known = kind in {"local", "processes", "threads"}
    if not known or (colon and not (number.isdecimal() and int(number) > 0)):
        raise ValueError(
            "executor must be 'local', 'processes' or 'threads', with a number of workers after a "
            f"colon if wanted, as in 'local:8', got {name!r}."
        )
    max_workers = int(number) if number else None
    if kind == "threads":
        from concurrent.futures import ThreadPoolExecutor

        from sooner.executors.pools import PoolExecutor

        return PoolExecutor(lambda: ThreadPoolExecutor(max_workers))
    from sooner.executors.local import LocalExecutor

    return LocalExecutor(max_workers)
