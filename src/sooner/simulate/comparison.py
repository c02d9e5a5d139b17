"""Schemes side by side on the same run times, with bootstrap intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from sooner import _checks
from sooner.simulate.replaying import Replay, replay
from sooner.simulate.rounds import Rounds
from sooner.simulate.schemes import Scheme

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sooner._types import RNGLike

__all__ = ["Comparison", "Interval"]

_ROUNDS_TO_RESAMPLE = 5
"""With fewer measured rounds their tasks are resampled instead, as if tasks were independent."""

_NORMAL = 1.959964
"""Student's 97.5 % quantile for many units."""

_ROUNDS = 50
"""Rounds that are drawn at least where the measured ones cannot be taken as they are."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its bootstrap interval."""

    value: float
    """From the measured run times."""
    low: float
    """In 2.5 % of the cases it is less."""
    high: float
    """In 2.5 % of the cases it is more."""

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


class Comparison:
    """Schemes replayed over the same rounds with the same number of workers.

    Parameters
    ----------
    rounds
        Measured run times of tasks that hold one part of as many as `workers`.
    schemes
        What to compare; uncoded is always among them.
    workers
        Number of workers; that of the measured rounds unless given.
    resamples
        Bootstrap samples: of the rounds, or of the tasks if there are fewer than five rounds.
    another
        Whether intervals are for another measurement, as large as this one, instead of for the
        long run: a resample is resampled once more then.
    rng
        Seed or generator (SPEC 7).

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> from sooner.simulate import Rounds
    >>> rounds = Rounds.from_model(ShiftedExponential(1.0, 1.0), workers=64, rounds=200)
    >>> coded, uncoded = Scheme.at_once(64, 48), Scheme.uncoded(64)
    >>> comparison = Comparison(rounds, [coded])
    >>> print(comparison.seconds(uncoded), comparison.ratio(uncoded, coded), sep=", ")
    5.72 (5.56 to 5.89), 1.84 (1.78 to 1.89)
    """

    def __init__(
        self,
        rounds: Rounds,
        schemes: Iterable[Scheme],
        *,
        workers: int | None = None,
        resamples: int = 200,
        another: bool = False,
        rng: RNGLike = 0,
    ) -> None:
        generator = np.random.default_rng(rng)
        self.workers = _checks.integer(workers or rounds.n_workers, "workers", at_least=1)
        self.uncoded = Scheme.uncoded(self.workers)
        self.schemes = list(dict.fromkeys([self.uncoded, *schemes]))
        by_round = rounds.n_rounds >= _ROUNDS_TO_RESAMPLE
        self._units = rounds.n_rounds if by_round else rounds.n_workers
        chosen = _resamples(self._units, resamples, 2 if another else 1, generator)
        resampled = _resampled_rounds if by_round else _resampled_tasks
        self.rounds, self._rows = resampled(rounds, self.workers, chosen, generator)
        seed = int(generator.integers(2**32))  # the same luck for all schemes
        self._replays = {scheme: replay(self.rounds, scheme, rng=seed) for scheme in self.schemes}

    def replay(self, scheme: Scheme) -> Replay:
        """What a scheme took, round by round.

        Parameters
        ----------
        scheme
            One of `schemes`.

        Returns
        -------
        Replay
            Over `rounds`; of these `measured` are for the figures and the rest for intervals.
        """
        return self._replays[scheme]

    @property
    def measured(self) -> NDArray[np.intp]:
        """Indices of the rounds that the figures themselves are from."""
        measured: NDArray[np.intp] = self._rows[0]
        return measured

    def seconds(self, scheme: Scheme, share: float | None = None) -> Interval:
        """Time to the answer.

        Parameters
        ----------
        scheme
            One of `schemes`.
        share
            Of the rounds that are faster, such as 0.95; None for the mean.

        Returns
        -------
        Interval
            Seconds.
        """
        return self._interval(self._resampled_seconds(scheme, share))

    def ratio(self, scheme: Scheme, other: Scheme, share: float | None = None) -> Interval:
        """How many times as long a scheme takes as another one, on the same rounds.

        Parameters
        ----------
        scheme, other
            Of `schemes`.
        share
            Of the rounds that are faster, such as 0.95; None for the mean.

        Returns
        -------
        Interval
            Seconds over seconds.
        """
        mine, others = (self._resampled_seconds(one, share) for one in (scheme, other))
        return self._interval(mine / others)

    def cost(self, scheme: Scheme) -> Interval:
        """Worker-seconds over those of uncoded, which waits for all of its tasks.

        Parameters
        ----------
        scheme
            One of `schemes`.

        Returns
        -------
        Interval
            The ratio.
        """
        mine, uncoded = (
            self._replays[one].worker_seconds[self._rows].sum(axis=1)
            for one in (scheme, self.uncoded)
        )
        return self._interval(mine / uncoded)

    def wasted(self, scheme: Scheme) -> float:
        """Share of the worker-seconds that went into outputs which were not used.

        Parameters
        ----------
        scheme
            One of `schemes`.

        Returns
        -------
        float
            The share.
        """
        replayed, rows = self._replays[scheme], self.measured
        return float(replayed.wasted[rows].sum() / replayed.worker_seconds[rows].sum())

    def _interval(self, values: NDArray[np.float64]) -> Interval:
        """Quantiles of the resampled figures."""
        # Few units vary less among themselves than what they are drawn from: Student's correction.
        value = float(values[0])
        spare = max(1, self._units - 1)
        few = stdtrit(spare, 0.975) / _NORMAL * math.sqrt(1 + 1 / spare)
        low, high = np.quantile(values[1:], [0.025, 0.975]) / value
        return Interval(value, value * float(low**few), value * float(high**few))

    def _resampled_seconds(self, scheme: Scheme, share: float | None) -> NDArray[np.float64]:
        """Statistic of each resample, that of the measured rounds first."""
        seconds = self._replays[scheme].seconds[self._rows]
        statistic: NDArray[np.float64] = (
            seconds.mean(axis=1) if share is None else np.quantile(seconds, share, axis=1)
        )
        return statistic


def _resamples(
    count: int, resamples: int, times: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Indices of bootstrap samples, all of them in their order first, (1 + resamples, count)."""
    chosen = np.tile(np.arange(count), (1 + resamples, 1))
    for _ in range(times):
        again = rng.integers(count, size=(resamples, count))
        chosen[1:] = np.take_along_axis(chosen[1:], again, axis=1)
    return chosen


def _resampled_rounds(
    rounds: Rounds, workers: int, chosen: NDArray[np.intp], rng: np.random.Generator
) -> tuple[Rounds, NDArray[np.intp]]:
    """Rounds to replay, and which of them make up each resample."""
    count = rounds.n_rounds
    draws = 1
    if workers != rounds.n_workers:
        draws = -(-_ROUNDS // count)
        rounds = rounds.drawn(workers, draws * count, rng=rng)
    rows = chosen[:, None, :] + count * np.arange(draws)[None, :, None]
    return rounds, rows.reshape(len(chosen), -1)


def _resampled_tasks(
    rounds: Rounds, workers: int, chosen: NDArray[np.intp], rng: np.random.Generator
) -> tuple[Rounds, NDArray[np.intp]]:
    """The same from rounds of resampled tasks."""
    drawn = [
        Rounds(rounds.work[:, columns], rounds.startup[:, columns]).drawn(workers, _ROUNDS, rng=rng)
        for columns in chosen
    ]
    together = Rounds(
        np.vstack([one.work for one in drawn]), np.vstack([one.startup for one in drawn])
    )
    return together, np.arange(together.n_rounds).reshape(len(chosen), _ROUNDS)
