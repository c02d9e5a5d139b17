"""What the supervisor of the local workers is given to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sooner.executors._completions import TaskFuture

__all__ = ["Call", "Task"]


@dataclass(eq=False, slots=True)
class Call:
    """What all tasks of one ``submit_many`` share."""

    number: int
    packed_fn: bytes
    owner: object
    """The executor, so that it is not collected while it has tasks."""


@dataclass(eq=False, slots=True)
class Task:
    """One call of the function."""

    call: Call
    packed_args: bytes
    future: TaskFuture
