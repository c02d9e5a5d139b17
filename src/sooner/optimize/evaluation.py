"""Evaluate candidates on an executor: what does not answer in time is NaN, and costs nothing else.

Not a `Job`: a lost evaluation is not repeated, since its value would serve this generation only,
and when to go on depends on noise and on pairs, beside the decoder.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks, policy
from sooner.errors import WorkerLostError
from sooner.executors import as_executor
from sooner.optimize.candidates import CENTER
from sooner.optimize.objective import Objective, evaluate_point, ship

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from sooner._types import Mask
    from sooner.executors.base import Executor
    from sooner.optimize.candidates import Candidates, Center
    from sooner.optimize.objective import Shipped

__all__ = ["Evaluations", "check_call", "evaluate", "is_ours"]

_log = logging.getLogger(__name__)

_LOOKS_PER_LIMIT = 20
_SHORTEST_LOOK = 0.01


@dataclass(slots=True)
class Evaluations:
    """Points of one generation under evaluation on an executor."""

    executor: Executor
    """Runs them."""
    timeout: float | None
    """Seconds that one may run; None adapts to the others."""
    run_times: list[float] = field(default_factory=list)
    """Seconds that evaluations took."""
    values: dict[int, float] = field(default_factory=dict)
    """Finite values that came, by id."""
    failures: Counter[str] = field(default_factory=Counter)
    """How often what went wrong."""
    first_error: str | None = None
    """What went wrong first."""
    _pending: dict[Future[float], int] = field(default_factory=dict)
    _began: dict[Future[float], float] = field(default_factory=dict)

    def run(
        self,
        shipped: Shipped,
        center: Center,
        numbers: Sequence[int],
        *,
        end: float = math.inf,
        enough: Callable[[dict[int, float]], bool] = lambda _: False,
    ) -> None:
        """Evaluate points until all have answered, the time is over or it is enough.

        Parameters
        ----------
        shipped
            The objective.
        center
            What the generation starts from.
        numbers
            Ids of the points.
        end
            When to stop, on the executor's clock.
        enough
            Asked after answers came, with the values by id.
        """
        self.values, self.failures, self.first_error = {}, Counter(), None
        if self.executor.now() >= end:
            return
        reference = self.executor.broadcast(center)
        try:
            self._submit(shipped, reference, center, numbers)
            while self._pending and not enough(self.values):
                left = end - self.executor.now()
                if left <= 0:
                    break
                self._step(left)
        finally:
            self.executor.abandon(list(self._pending))
            self._pending.clear()
            self._began.clear()
            self.executor.release(reference)
        self._tell(center.generation, len(numbers))

    def _submit(
        self, shipped: Shipped, reference: Any, center: Center, numbers: Sequence[int]
    ) -> None:
        futures = self.executor.submit_many(
            evaluate_point,
            [(shipped.key, shipped.reference, reference, number) for number in numbers],
            descriptions=[_name(center.generation, number) for number in numbers],
        )
        self._pending.update(zip(futures, numbers, strict=True))

    def _step(self, left: float) -> None:
        """Take what ends within a while; give up what has run for too long."""
        limit = policy.patience(self.timeout, self.run_times)
        interval = max(limit / _LOOKS_PER_LIMIT, _SHORTEST_LOOK)
        done = self.executor.wait(self._pending.keys(), min(left, interval))
        for future in sorted(done, key=self._pending.__getitem__):
            self._take(future)
        now = self.executor.now()
        for future in self._pending:
            if future not in self._began and future.running():
                started = getattr(future, "started", None)
                self._began[future] = now if started is None else started
        running = list(self._began)
        for place in policy.overdue(now, self._began.values(), limit):
            self._forget(running[place])
            self.executor.abandon([running[place]])
            self._failed("no answer in time", f"no answer within {limit:.3g} s")

    def _forget(self, future: Future[float]) -> int:
        self._began.pop(future, None)
        return self._pending.pop(future)

    def _take(self, future: Future[float]) -> None:
        """Take one answer, or note what there is instead."""
        began = self._began.get(future, getattr(future, "started", None))
        number = self._forget(future)
        try:
            value = future.result(timeout=0)
        except WorkerLostError as error:
            self._failed("worker lost", str(error))
        except BaseException as error:
            self._failed(type(error).__name__, f"{type(error).__name__}: {error}")
        else:
            if began is not None:
                finished = getattr(future, "finished", None)
                now = self.executor.now() if finished is None else finished
                self.run_times.append(now - began)
            if math.isfinite(value):
                self.values[number] = value
            else:
                self._failed("no finite number", f"the objective gave {value}")

    def _failed(self, kind: str, reason: str) -> None:
        self.failures[kind] += 1
        self.first_error = self.first_error or reason

    def _tell(self, generation: int, n_started: int) -> None:
        """One line in the log for all that went wrong."""
        if self.failures:
            kinds = ", ".join(f"{kind} {count}" for kind, count in self.failures.most_common())
            _log.warning(
                "generation %d: %d of %d evaluations failed (%s); the first: %s",
                generation,
                self.failures.total(),
                n_started,
                kinds,
                self.first_error,
            )


def _name(generation: int, number: int) -> str:
    if number == CENTER:
        return f"evaluation of the start of generation {generation}"
    return f"evaluation {number} of generation {generation}"


def evaluate(
    fun: Callable[..., Any],
    candidates: Candidates,
    args: tuple[Any, ...] = (),
    *,
    executor: Any = None,
    timeout: float | None = None,
    deadline: float | None = None,
    until: Callable[[Mask], bool] | None = None,
    factory: bool = False,
) -> NDArray[np.float64]:
    """Evaluate an objective at candidates, each in a task of its own.

    An evaluation that raises, crashes its worker, hangs or gives no finite number costs itself
    only.  Workers make their points themselves; no array travels but the generation's start.

    Parameters
    ----------
    fun
        The objective: called with a point, shape (d,), and `args`; gives a number.  A lambda or a
        closure will do.
    candidates
        What `EvolutionStrategy.ask` gave, or a part of it.
    args
        Further arguments of `fun`.
    executor
        Where tasks run: whatever `as_executor` takes.  One that it makes for this call is closed.
    timeout
        Seconds that one evaluation may run.  None: 20 times the slowest one so far and at least
        30 s.
    deadline
        Seconds from this call after which control returns, with what has come.
    until
        Told which values came, a mask of the shape of ``candidates.ids``, says whether that is
        enough; `EvolutionStrategy.suffices` does.  None waits for all.
    factory
        Whether `fun` makes the objective rather than is it: called without arguments, once per
        worker process (of threads: per call of this function and thread), for what cannot travel
        or takes long to make, such as a simulator.

    Returns
    -------
    ndarray
        Values of the shape of ``candidates.ids``, NaN where none came: for `tell`.

    Raises
    ------
    TypeError
        If `fun` cannot be pickled and has to be; no task is sent then.

    Examples
    --------
    >>> from sooner.optimize import EvolutionStrategy
    >>> strategy = EvolutionStrategy([1.0, 2.0], sigma=0.1, learning_rate=0.1, n=2)
    >>> values = evaluate(lambda x: x @ x, strategy.ask(), executor="threads:2")
    >>> values.shape, bool((values > 0).all())
    ((2, 2), True)
    """
    check_call(fun, timeout, deadline)
    runner = as_executor(executor)
    shape, numbers = candidates.ids.shape, candidates.ids.ravel().tolist()
    values = np.full(len(numbers), np.nan)

    def enough(came: dict[int, float]) -> bool:
        if until is None:
            return False
        return until(np.array([number in came for number in numbers]).reshape(shape))

    evaluations = Evaluations(runner, timeout)
    end = math.inf if deadline is None else runner.now() + deadline
    objective = Objective(fun, args, factory, candidates.directions)
    try:
        shipped = ship(objective, runner)
        try:
            evaluations.run(shipped, candidates.center, numbers, end=end, enough=enough)
        finally:
            runner.release(shipped.reference)
    finally:
        if is_ours(runner, executor):
            runner.close()
    for place, number in enumerate(numbers):
        values[place] = evaluations.values.get(number, np.nan)
    return values.reshape(shape)


def is_ours(runner: Executor, given: Any) -> bool:
    """Tell whether an executor was made here, to be closed here.

    Parameters
    ----------
    runner
        What `as_executor` made.
    given
        Of this.

    Returns
    -------
    bool
        False for what the user made.
    """
    return runner is not given and not hasattr(given, "submit")


def check_call(fun: Any, timeout: float | None, deadline: float | None) -> None:
    """Check what `evaluate` and `minimize` share.

    Parameters
    ----------
    fun, timeout, deadline
        As for `evaluate`.

    Raises
    ------
    TypeError
        If `fun` is no function.
    ValueError
        If a time is negative.
    """
    if not callable(fun):
        raise TypeError(f"fun must be a function of a point, got {fun!r}.")
    if timeout is not None:
        _checks.positive(timeout, "timeout")
    if deadline is not None:
        _checks.not_negative(deadline, "deadline")
