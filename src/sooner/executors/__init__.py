"""Where tasks run: worker processes of this machine, any standard pool, a virtual clock."""

from __future__ import annotations

from concurrent.futures import Executor as Pool
from typing import TYPE_CHECKING, Any

from sooner.executors.base import Capabilities, Executor, Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from sooner.executors.local import LocalExecutor
    from sooner.executors.pools import PoolExecutor
    from sooner.executors.virtual import VirtualExecutor

__all__ = [
    "Capabilities",
    "Executor",
    "LocalExecutor",
    "PoolExecutor",
    "Reference",
    "VirtualExecutor",
    "as_executor",
]

_LAZY = {"LocalExecutor": "local", "PoolExecutor": "pools", "VirtualExecutor": "virtual"}


def __getattr__(name: str) -> Any:
    """Import an executor when it is first asked for: workers need none of them."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)


def as_executor(obj: Executor | Pool | Callable[[], Pool] | str | None = None) -> Executor:
    """Make an executor of what there is.

    Parameters
    ----------
    obj
        An `Executor`, which is given back; a `concurrent.futures.Executor`, which stays the
        caller's to shut down; a function without arguments that makes one, so that it can be
        replaced when it breaks; or a name: ``"local"``, ``"local:8"`` and ``"processes:8"`` for
        worker processes of this machine, ``"threads"`` and ``"threads:4"``.  None is ``"local"``.

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
    if isinstance(obj, Pool) or callable(obj):
        from sooner.executors.pools import PoolExecutor

        return PoolExecutor(obj)
    raise TypeError(
        "executor must be an executor of sooner, a concurrent.futures.Executor, a function that "
        "makes one, None, or a name such as 'local', 'local:8', 'threads:4' or 'processes:8', "
        f"got {obj!r}."
    )


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
