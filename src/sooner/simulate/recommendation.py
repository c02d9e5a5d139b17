"""From measured run times to a code: whether to code at all, at what rate, and at what cost."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sooner import _checks
from sooner.codes import PolarCode, Uncoded
from sooner.codes.mds import MDSCode
from sooner.simulate.comparison import Comparison, Interval
from sooner.simulate.decodability import any_k_of_n
from sooner.simulate.prices import PRICES, Bill, Prices
from sooner.simulate.reading import read_rounds, rounds_of_trace
from sooner.simulate.rounds import Rounds
from sooner.simulate.schemes import Scheme
from sooner.simulate.sizes import Sizes, sizes_of
from sooner.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from sooner._types import RNGLike
    from sooner.codes import Code

__all__ = ["Design", "Expected", "design"]

RunTimesLike: TypeAlias = "str | os.PathLike[str] | Trace | Rounds | ArrayLike"

_RATES = (
    *(0.995, 0.99, 0.98, 0.97, 0.96, 0.95, 0.935, 0.92, 0.9, 0.875),
    *(0.85, 0.83, 0.8, 0.77, 0.75, 0.7, 0.65, 0.6, 0.5),
)

_AS_GOOD = 0.01
"""Of the schemes whose mean is within this share of the best, the most redundant is taken: a few
measured rounds show rarely how bad it can get."""

_WORTH_CODING = 0.005
"""Share of the mean that the best code must gain over no code."""

_FEW = 16

_ERRORS = (0.5, 0.2, 0.1)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a scheme is expected to take.

    Each interval is where another measurement, as large as this one, finds the figure in 95 % of
    the cases.
    """

    mean: Interval
    """Seconds to the exact answer."""
    p95: Interval
    """Seconds that 95 % of the products do not exceed."""
    p99: Interval
    """Seconds that 99 % of the products do not exceed."""
    cost: Interval
    """Worker-seconds over those of uncoded."""
    speedup: Interval
    """How many times as long uncoded takes, in the mean."""
    wasted: float
    """Share of the worker-seconds that goes into outputs which are not used."""


@dataclass(frozen=True, slots=True)
class Design:
    """A recommendation, with what it rests on."""

    scheme: Scheme
    """What to run."""
    reason: str
    """Why."""
    expected: Expected
    """What it takes."""
    alternatives: dict[Scheme, Expected]
    """What others take on the same workers, the recommendation among them."""
    candidates: list[Scheme]
    """All that was compared."""
    time_to_error: dict[float, float]
    """Relative error of the estimate to the mean seconds until then, for blocks of equal energy
    without structure, which are the hardest."""
    sizes: Sizes | None
    """Sizes of blocks, store and tasks, if the shape was given."""
    bill: Bill | None
    """Prices, if shape and memory were given."""

    @property
    def n(self) -> int:
        """Number of tasks."""
        return self.scheme.n

    @property
    def k(self) -> int:
        """Number of data blocks; equal to `n` when nothing is to be coded."""
        return self.scheme.k

    @property
    def policy(self) -> str:
        """When tasks are launched: the ``policy=`` of `sooner.matvec`."""
        return self.scheme.policy

    def code(self, *, rng: RNGLike = 0) -> Code:
        """Make the code to encode with.

        Parameters
        ----------
        rng
            Seed or generator (SPEC 7).

        Returns
        -------
        Code
            `PolarCode`; for fewer than 16 tasks `MDSCode`; or `Uncoded`.
        """
        if self.k == self.n:
            return Uncoded(self.n)
        # Few tasks: a polar code may need one more than k of them, and a dense code is cheap.
        kind = MDSCode if self.n < _FEW else PolarCode
        return kind(self.n, self.k, rng=rng)


def design(
    run_times: RunTimesLike,
    *,
    workers: int,
    column: str | None = None,
    shape: tuple[int, int] | None = None,
    dtype: DTypeLike = "float64",
    worker_memory: int | None = None,
    prices: Prices | str = "aws-lambda-x86",
    rng: RNGLike = 0,
) -> Design:
    """Recommend a code from measured run times.

    Replays uncoded tasks, backup tasks and codes of many rates on the measured run times, each
    with the same number of workers.  Of those that are as good as the best to within 1 % in the
    mean it recommends the most redundant, and no code when coding gains less than 0.5 %.

    Parameters
    ----------
    run_times
        Of tasks that hold one part of as many as `workers`: a file (see
        `sooner.simulate.read_rounds`), a trace, `Rounds`, or an array of seconds, (tasks,) or
        (rounds, workers).
    workers
        Number of workers.
    column
        Which column of a table holds seconds, when its name does not tell.
    shape
        Rows and columns of the matrix, for sizes and prices.
    dtype
        Of the matrix.
    worker_memory
        Bytes per worker, for prices and to see whether a task fits.
    prices
        `Prices`, or the name of some: ``"aws-lambda-x86"``, ``"aws-lambda-arm"``.
    rng
        Seed or generator of draws and resamples (SPEC 7).

    Returns
    -------
    Design
        The recommendation.

    Raises
    ------
    ValueError
        If the run times cannot be read, or a task does not fit into a worker.

    Examples
    --------
    One task in fifty takes ten times as long, in each round others:

    >>> draws = np.random.default_rng(0).random((40, 64))
    >>> found = design(np.where(draws < 0.02, 10.0, 1.0) + draws, workers=64)
    >>> found.n, found.k, found.policy, found.expected.speedup.low > 3
    (64, 59, 'at_once', True)

    Nobody is late, so redundancy is work for nothing:

    >>> print(design(1.0 + 0.001 * draws, workers=64).reason)
    do not code this: the best code gains less than 0.5 % in the mean over waiting for all
    """
    measured = _rounds(run_times, column)
    if not np.quantile(measured.run_times(), 0.25) > 0:
        raise ValueError(
            "run times must be long enough to be told from zero, and a quarter of them are zero. "
            "Measure larger tasks."
        )
    workers = _checks.integer(workers, "workers", at_least=1)
    comparison = Comparison(measured, _candidates(workers), workers=workers, another=True, rng=rng)
    chosen, reason = _choose(comparison)
    expected = {scheme: _expected(comparison, scheme) for scheme in _shown(comparison, chosen)}
    sizes = None if shape is None else sizes_of(shape, chosen, dtype)
    bill = None
    if sizes is not None and worker_memory is not None:
        _check_fits(sizes, worker_memory)
        bill = _bill(comparison, chosen, sizes, worker_memory, _prices(prices))
    return Design(
        chosen,
        reason,
        expected[chosen],
        expected,
        comparison.schemes,
        {error: _seconds_to_error(comparison, chosen, error) for error in _ERRORS},
        sizes,
        bill,
    )


def _rounds(run_times: RunTimesLike, column: str | None) -> Rounds:
    if isinstance(run_times, Rounds):
        return run_times
    if isinstance(run_times, Trace):
        return rounds_of_trace(run_times)
    if isinstance(run_times, str | os.PathLike):
        return read_rounds(run_times, column=column)
    return Rounds(np.atleast_2d(np.asarray(run_times, dtype=np.float64)))


def _candidates(workers: int) -> list[Scheme]:
    """Schemes that a job can run, and what one compares with."""
    data_blocks = sorted({max(1, round(workers * rate)) for rate in _RATES}, reverse=True)
    return [
        Scheme.uncoded(workers),
        Scheme.backup(workers),
        Scheme.on_lag(workers + math.ceil(workers / 8), workers),
        *(Scheme.at_once(workers, k) for k in data_blocks if k < workers),
    ]


def _choose(comparison: Comparison) -> tuple[Scheme, str]:
    """The scheme to recommend, and why."""
    means = {
        scheme: comparison.seconds(scheme).value
        for scheme in comparison.schemes
        if scheme.kind != "backup"  # a job repeats nothing that only lags
    }
    uncoded = means.pop(comparison.uncoded)
    best = min(means.values(), default=uncoded)
    if uncoded <= best * (1 + _WORTH_CODING):
        return comparison.uncoded, (
            f"do not code this: the best code gains less than {100 * _WORTH_CODING:g} % in the "
            "mean over waiting for all"
        )
    near = [s for s, mean in means.items() if mean <= min(best * (1 + _AS_GOOD), uncoded)]
    chosen = min(near, key=lambda scheme: (scheme.k, scheme.n))
    return chosen, (
        f"of the schemes whose mean is within {100 * _AS_GOOD:g} % of the best, it is the one "
        "with the most redundancy"
    )


def _shown(comparison: Comparison, chosen: Scheme) -> list[Scheme]:
    """The recommendation, what is no code, and some rates."""
    workers = comparison.workers
    rates = {max(1, round(workers * rate)) for rate in (0.97, 0.875, 0.75)}
    return [
        scheme
        for scheme in comparison.schemes
        if scheme == chosen or scheme.policy == "on_lag" or scheme.k in {*rates, workers}
    ]


def _expected(comparison: Comparison, scheme: Scheme) -> Expected:
    return Expected(
        comparison.seconds(scheme),
        comparison.seconds(scheme, 0.95),
        comparison.seconds(scheme, 0.99),
        comparison.cost(scheme),
        comparison.ratio(comparison.uncoded, scheme),
        comparison.wasted(scheme),
    )


def _seconds_to_error(comparison: Comparison, scheme: Scheme, error: float) -> float:
    """Mean time until the least-squares estimate is this good: error² = 1 - m / k."""
    needed = math.ceil(scheme.k * (1 - error**2))
    rounds = comparison.rounds[comparison.measured]
    arrivals = rounds.run_times(comparison.workers / scheme.blocks)[:, : scheme.first]
    exact = comparison.replay(scheme).seconds[comparison.measured]  # by tasks launched later, too
    return float(np.minimum(any_k_of_n(arrivals, needed), exact).mean())


def _check_fits(sizes: Sizes, worker_memory: int) -> None:
    if sizes.task > worker_memory:
        raise ValueError(
            f"worker_memory must hold a task's {sizes.task / 1e9:.3g} GB: {sizes.panel_rows} rows "
            f"of its block, a vector and the product, got {worker_memory / 1e9:.3g} GB. "
            "Use larger workers, or cut the columns."
        )


def _prices(prices: Prices | str) -> Prices:
    if isinstance(prices, Prices):
        return prices
    return PRICES[_checks.one_of(prices, "prices", tuple(PRICES))]


def _bill(
    comparison: Comparison, scheme: Scheme, sizes: Sizes, memory: int, prices: Prices
) -> Bill:
    replayed, rows = comparison.replay(scheme), comparison.measured
    calls = float(replayed.launched[rows].mean())
    return Bill(
        prices.functions(float(replayed.unstopped[rows].mean()), memory=memory, calls=calls),
        # A task reads its panels and the vector; the driver reads k products.
        prices.requests(puts=calls + 1, gets=calls * (sizes.panels + 1) + scheme.k),
        prices.month(sizes.store),
        prices.as_of,
    )
