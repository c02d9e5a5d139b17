"""`minimize` with SciPy's conventions: an evolution strategy, its evaluations in tasks."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.executors import as_executor
from sooner.optimize import checkpoint as checkpoints
from sooner.optimize.candidates import CENTER
from sooner.optimize.evaluation import Evaluations, check_call, is_ours
from sooner.optimize.objective import Objective, ship
from sooner.optimize.strategy import EvolutionStrategy

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import ArrayLike
    from scipy.optimize import OptimizeResult

    from sooner._types import RNGLike
    from sooner.codes.base import Code
    from sooner.executors.base import Executor
    from sooner.optimize.objective import Shipped

__all__ = ["minimize"]

_LOST_GENERATIONS = 3
"""Generations in a row of which nothing came, after which there is no hope."""

_FINAL_ATTEMPTS = 3
"""At evaluating the last point."""

_MESSAGES = {
    0: "Maximum number of iterations has been reached.",
    1: "The deadline has passed.",
    2: f"No evaluation of {_LOST_GENERATIONS} generations in a row gave a number; the first: {{}}",
    99: "`callback` raised `StopIteration`.",
}


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    sigma: float,
    learning_rate: float,
    executor: Any = None,
    code: Code | None = None,
    n: int | None = None,
    directions: str = "orthogonal",
    gradient: str = "least_squares",
    noise_gain: float | None = None,
    optimizer: str = "plain",
    shaping: str | None = None,
    share: float = 1.0,
    bounds: Any = None,
    maxiter: int = 100,
    deadline: float | None = None,
    timeout: float | None = None,
    callback: Callable[..., Any] | None = None,
    factory: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    rng: RNGLike = 0,
) -> OptimizeResult:
    """Minimize a black box whose evaluations run in tasks, some of them late, lost or broken.

    Each generation evaluates n antithetic pairs and the point that it starts from.  With a code
    it goes on when the pairs that came decode, without when `share` of them came; what is late
    then is stopped.

    Parameters
    ----------
    fun
        The objective: called with a point, shape (d,), and `args`; gives a number.  A lambda or a
        closure will do.
    x0
        Where to start, shape (d,).
    args
        Further arguments of `fun`.
    sigma, learning_rate, code, n, directions, gradient, noise_gain, optimizer, shaping, share
        As for `EvolutionStrategy`.
    bounds, rng
        As for `EvolutionStrategy`.
    executor
        Where tasks run: whatever `as_executor` takes.  One that it makes for this call is closed.
    maxiter
        Number of generations.
    deadline
        Seconds from this call after which control returns.
    timeout
        Seconds that one evaluation may run.  None: 20 times the slowest one so far and at least
        30 s.
    callback
        Called after each generation: with the keyword ``intermediate_result`` if it has such a
        parameter, else with the point.  Raising StopIteration ends the run.
    factory
        Whether `fun` makes the objective, once per worker process; see `evaluate`.
    checkpoint
        File to write after each generation.  A run that finds one goes on from it, bit for bit as
        if it had not been interrupted when the same evaluations come.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x`` is the last point that was evaluated, ``fun`` its value, NaN if there is none;
        ``success``, ``status`` (0 all generations, 1 deadline, 2 nothing came, 99 callback) and
        ``message`` as usual; ``nit`` generations, ``nfev`` values that came, ``nfailed``
        evaluations that failed, ``noise_gain`` of the last generation, and the ``strategy``.

    Raises
    ------
    TypeError
        If `fun` cannot be pickled and has to be; no task is sent then.
    ValueError
        If the arguments do not fit each other, or `checkpoint` is of another run.

    Examples
    --------
    >>> import sooner
    >>> result = minimize(
    ...     lambda x: np.sum((x - 1) ** 2),
    ...     np.zeros(6),
    ...     sigma=0.01,
    ...     learning_rate=0.3,
    ...     code=sooner.PolarCode(8, 6),
    ...     maxiter=20,
    ...     executor="threads:2",
    ... )
    >>> result.success, result.x.round(4)
    (True, array([1., 1., 1., 1., 1., 1.]))
    """
    check_call(fun, timeout, deadline)
    maxiter = _checks.integer(maxiter, "maxiter", at_least=0)
    strategy = EvolutionStrategy(
        x0,
        sigma=sigma,
        learning_rate=learning_rate,
        code=code,
        n=n,
        directions=directions,
        gradient=gradient,
        noise_gain=noise_gain,
        optimizer=optimizer,
        shaping=shaping,
        share=share,
        bounds=bounds,
        rng=rng,
    )
    facts = None
    if checkpoint is not None and checkpoints.exists(checkpoint):
        facts = strategy.resume(checkpoint)
    runner = as_executor(executor)
    try:
        shipped = ship(Objective(fun, args, factory, strategy.directions), runner)
        try:
            run = _Run(strategy, runner, shipped, timeout, deadline)
            if facts is not None:
                run.recall(facts["run"])
            status = run.go(maxiter, callback, checkpoint)
            return run.result(status)
        finally:
            runner.release(shipped.reference)
    finally:
        if is_ours(runner, executor):
            runner.close()


class _Run:
    """One call of `minimize`."""

    def __init__(
        self,
        strategy: EvolutionStrategy,
        executor: Executor,
        shipped: Shipped,
        timeout: float | None,
        deadline: float | None,
    ) -> None:
        self._strategy = strategy
        self._executor = executor
        self._shipped = shipped
        self._end = math.inf if deadline is None else executor.now() + deadline
        self._evaluations = Evaluations(executor, timeout)
        self._x, self._fun = strategy.x, math.nan
        self._nfev = self._nfailed = self._n_lost = 0

    def recall(self, facts: dict[str, Any]) -> None:
        """Go on counting where a checkpoint ended."""
        self._nfev, self._nfailed, self._n_lost = facts["nfev"], facts["nfailed"], facts["n_lost"]

    @property
    def _nit(self) -> int:
        return self._strategy.n_told

    def go(
        self,
        maxiter: int,
        callback: Callable[..., Any] | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> int:
        """Run generations; give the status."""
        call = _caller(callback)
        while self._nit < maxiter:
            if self._executor.now() >= self._end:
                return 1
            self._generation()
            if checkpoint is not None:
                facts = {"nfev": self._nfev, "nfailed": self._nfailed, "n_lost": self._n_lost}
                self._strategy.save(checkpoint, run=facts)
            if self._executor.now() >= self._end:
                return 1
            try:
                call(self._intermediate())
            except StopIteration:
                return 99
            if self._n_lost == _LOST_GENERATIONS:
                return 2
        return 0

    def _generation(self) -> None:
        """Evaluate one generation and tell the strategy; its first point is evaluated beside it."""
        strategy = self._strategy
        candidates = strategy.ask()
        shape, numbers = candidates.ids.shape, candidates.ids.ravel()

        def enough(values: dict[int, float]) -> bool:
            came = np.array([number in values for number in numbers.tolist()])
            return strategy.suffices(came.reshape(shape))

        came = self._evaluate([CENTER, *numbers.tolist()], enough)
        values = np.array([came.get(number, math.nan) for number in numbers.tolist()])
        strategy.tell(candidates, values.reshape(shape))
        self._n_lost = self._n_lost + 1 if not np.isfinite(values).any() else 0

    def _evaluate(
        self, numbers: list[int], enough: Callable[[dict[int, float]], bool]
    ) -> dict[int, float]:
        evaluations, center = self._evaluations, self._strategy.ask().center
        evaluations.run(self._shipped, center, numbers, end=self._end, enough=enough)
        self._nfev += len(evaluations.values)
        self._nfailed += evaluations.failures.total()
        if CENTER in evaluations.values:
            self._x, self._fun = center.x.copy(), evaluations.values[CENTER]
        return evaluations.values

    def _intermediate(self) -> OptimizeResult:
        from scipy.optimize import OptimizeResult

        found = OptimizeResult()
        found.update(
            x=self._x.copy(),
            fun=self._fun,
            nit=self._nit,
            nfev=self._nfev,
            nfailed=self._nfailed,
            step=self._strategy.last_step,
        )
        return found

    def result(self, status: int) -> OptimizeResult:
        """Evaluate the last point if there is time, and sum up."""
        first_error = self._evaluations.first_error
        if status in {0, 99}:
            for _ in range(_FINAL_ATTEMPTS):
                if CENTER in self._evaluate([CENTER], bool):
                    break
        found = self._intermediate()
        step = found.pop("step")
        found.update(
            noise_gain=math.nan if step is None else step.noise_gain,
            status=status,
            success=status == 0,
            message=_MESSAGES[status].format(first_error),
            strategy=self._strategy,
        )
        return found


def _caller(callback: Callable[..., Any] | None) -> Callable[[OptimizeResult], Any]:
    """Call a user's callback the way it wants, as `scipy.optimize.minimize` does."""
    if callback is None:
        return lambda _: None
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:
        return lambda result: callback(intermediate_result=result)
    return lambda result: callback(result.x)
