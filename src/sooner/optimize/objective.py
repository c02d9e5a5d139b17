"""What a worker does: make a point, call the objective, send a number.

The objective travels once; a point is made from the generation's start and a number.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sooner.executors._wire import dumps
from sooner.optimize.values import as_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sooner.executors.base import Executor, Reference
    from sooner.optimize.candidates import Center
    from sooner.optimize.directions import Directions

__all__ = ["Objective", "Shipped", "evaluate_point", "ship"]

_KEPT = 2
"""Objectives that a process keeps: this one, and that of a straggler."""

_lock = threading.Lock()
_objectives: OrderedDict[bytes, Objective] = OrderedDict()


@dataclass(slots=True)
class Objective:
    """An objective and the directions of its points."""

    fun: Callable[..., Any]
    """Called with a point and `args`; or makes what is called, see `factory`."""
    args: tuple[Any, ...]
    """Passed after the point."""
    factory: bool
    """Whether `fun` makes the objective, once per worker process."""
    directions: Directions
    """Of all generations."""
    _idle: list[Callable[..., Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.args, tuple):  # as SciPy has it
            self.args = (self.args,)

    def __call__(self, center: Center, number: int) -> float:
        """Evaluate a point.

        Parameters
        ----------
        center
            What its generation starts from.
        number
            Its id.

        Returns
        -------
        float
            The value, as the objective gave it; NaN for None.
        """
        point = center.point(self.directions, number)
        if not self.factory:
            return as_number(self.fun(point, *self.args))
        try:  # one that another thread uses is not idle, and one that has raised is not used again
            made = self._idle.pop()
        except IndexError:
            made = self.fun()
        value = as_number(made(point, *self.args))
        self._idle.append(made)
        return value


@dataclass(frozen=True, slots=True)
class Shipped:
    """An objective on its way to the workers of an executor."""

    key: bytes
    """What it is known by there; empty where it need not be kept, since workers see it itself."""
    reference: Reference[Any]
    """To the objective, or to its pickle."""


def ship(objective: Objective, executor: Executor) -> Shipped:
    """Send an objective to the workers.

    Parameters
    ----------
    objective
        The objective.
    executor
        Will run it.

    Returns
    -------
    Shipped
        To be released by the caller.

    Raises
    ------
    TypeError
        If it cannot be pickled and has to be; the message names what is in the way.
    """
    if executor.capabilities.shares_memory:
        # The ids are those of what the objective holds, so as long as it is kept they are unique.
        return Shipped(b"", executor.broadcast(objective))
    try:
        packed = dumps(objective)
    except Exception as error:
        args = {f"args[{place}]": value for place, value in enumerate(objective.args)}
        culprit = _culprit(objective.fun) or _failing(args, "") or "it"
        raise TypeError(
            f"fun and args must be picklable to reach a worker, got {objective.fun!r}: {culprit} "
            f"cannot be pickled ({error}). Make it in the worker: pass a function that makes the "
            "objective, and factory=True."
        ) from error
    return Shipped(hashlib.sha256(packed).digest(), executor.broadcast(packed))


def _culprit(fun: Any) -> str | None:
    """Name the part of a callable that cannot be pickled."""
    if isinstance(fun, functools.partial):
        parts = {f"argument {place}": value for place, value in enumerate(fun.args)}
        return _culprit(fun.func) or _failing({**parts, **fun.keywords}, "bound ")
    if inspect.ismethod(fun):
        return _failing(vars(fun.__self__), "attribute ")
    if not inspect.isfunction(fun):
        return _failing(getattr(fun, "__dict__", {}), "attribute ")
    used = inspect.getclosurevars(fun)
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(fun).parameters.items()
        if parameter.default is not parameter.empty
    }
    return (
        _failing(used.nonlocals, "closure variable ")
        or _failing(used.globals, "global ")
        or _failing(defaults, "default of ")
    )


def _failing(parts: Mapping[str, Any], kind: str) -> str | None:
    for name, value in parts.items():
        try:
            dumps(value)
        except Exception:
            return f"its {kind}{name!r}, of type {type(value).__name__},"
    return None


def evaluate_point(
    key: bytes, reference: Reference[Any], center: Reference[Center], number: int
) -> float:
    """Evaluate one point in a worker.

    Parameters
    ----------
    key
        What the objective is known by in this process; empty if it is not kept.
    reference
        To the objective or its pickle.
    center
        Reference to what the generation starts from.
    number
        Id of the point.

    Returns
    -------
    float
        Its value.
    """
    objective: Objective = _kept(key, reference) if key else reference.load()
    return objective(center.load(), number)


def _kept(key: bytes, reference: Reference[Any]) -> Objective:
    """Unpickle an objective the first time that this process needs it."""
    with _lock:
        if key not in _objectives:
            _objectives[key] = pickle.loads(reference.load())
        _objectives.move_to_end(key)
        while len(_objectives) > _KEPT:
            _objectives.popitem(last=False)
        return _objectives[key]
