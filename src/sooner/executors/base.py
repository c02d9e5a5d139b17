"""The small interface between jobs and whatever runs tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from concurrent.futures import Future

__all__ = ["Capabilities", "Executor", "Reference"]

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an executor can do when things go wrong."""

    can_kill: bool
    """A running task can be ended, and its slot is free at once."""
    survives_lost_worker: bool
    """A dying worker costs its own task and no other."""
    shares_memory: bool
    """Tasks run in the driver's process and see its objects."""


class Reference(Protocol[T_co]):
    """A value shipped once; small, picklable, read in a task with ``load()``."""

    def load(self) -> T_co:
        """Give the value, from this worker's own copy after the first time.

        Returns
        -------
        object
            The value; arrays are read-only.
        """


@runtime_checkable
class Executor(Protocol):
    """What `as_executor` makes of a pool, a client or a name.

    A future fails with ``WorkerLostError`` when its worker is gone, and with the task's own
    exception when the task raised.  It may say more of its task: ``worker`` (``host:pid``),
    ``started`` (given to a worker) and ``finished``, by this executor's clock; where the executor
    knows them.
    """

    @property
    def slots(self) -> int | None:
        """Tasks that can run at the same time; None if unknown."""

    @property
    def capabilities(self) -> Capabilities:
        """What this executor can do when things go wrong."""

    def submit_many(
        self,
        fn: Callable[..., Any],
        args: Sequence[tuple[Any, ...]],
        *,
        descriptions: Sequence[str] | None = None,
    ) -> Sequence[Future[Any]]:
        """Start ``fn(*a)`` for each tuple a of `args`.

        Parameters
        ----------
        fn
            What to run; sent once, not once per task, where the engine allows it.
        args
            One tuple of arguments per task.
        descriptions
            What messages call the tasks, one each.

        Returns
        -------
        sequence of Future
            In the order of `args`.
        """

    def wait(
        self, futures: Collection[Future[Any]], timeout: float | None = None
    ) -> set[Future[Any]]:
        """Wait until at least one of `futures` is done.

        Parameters
        ----------
        futures
            What to wait for; a set or the keys of a dict is fastest.
        timeout
            Seconds to wait at most; 0 only looks, None waits for ever.

        Returns
        -------
        set of Future
            Those that are done; empty when the time is over.
        """

    def now(self) -> float:
        """Seconds on this executor's clock; only differences mean anything.

        Returns
        -------
        float
            The time.
        """

    def broadcast(self, value: Any) -> Reference[Any]:
        """Ship `value` once, for many tasks.

        Parameters
        ----------
        value
            An array, as a rule.

        Returns
        -------
        Reference
            To pass as an argument of tasks.
        """

    def release(self, reference: Reference[Any]) -> None:
        """Free what `broadcast` holds; never raises, and tasks that still run may fail.

        Parameters
        ----------
        reference
            What `broadcast` returned.
        """

    def abandon(self, futures: Collection[Future[Any]]) -> Mapping[str, int]:
        """Stop caring for `futures`: kill, cancel or forget; never blocks or raises.

        Parameters
        ----------
        futures
            Done ones are passed over.

        Returns
        -------
        mapping of str to int
            How many were ``"killed"``, ``"cancelled"`` (never started) or ``"forgotten"``
            (still running; the answer will be dropped).
        """

    def close(self) -> None:
        """Free everything without waiting for tasks that still run."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *exc_info: object) -> None: ...
