"""Run times made of others: with start-up, workers that differ, rounds that are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.runtimes.base import check_finite_from_zero, shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from sooner.runtimes.base import RunTimes

__all__ = ["Correlated", "PerWorker", "WithStartup"]

_POINTS = 4096
"""Quantiles that stand for a class of workers when classes are mixed."""


@dataclass(frozen=True, slots=True)
class WithStartup:
    """A start-up part, which stays, and work, which grows with the size of the task.

    Parameters
    ----------
    startup
        Seconds before the work, at least zero.
    work
        Distribution of the rest.

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> run_times = WithStartup(3.0, ShiftedExponential(2.0, 1.0))
    >>> run_times.mean, run_times.scaled(2).mean
    (6.0, 9.0)
    """

    startup: float
    """Seconds before the work."""
    work: RunTimes
    """Distribution of the rest."""

    def __post_init__(self) -> None:
        check_finite_from_zero(self.startup, "startup")

    @property
    def mean(self) -> float:
        """Expected run time, in seconds."""
        return self.startup + self.work.mean

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Draw run times; see `RunTimes.sample`."""
        return self.startup + self.work.sample(rng, size)

    def quantile(self, q: ArrayLike) -> Any:
        """Give the run times that a share `q` of tasks does not exceed; see `RunTimes.quantile`."""
        return self.startup + self.work.quantile(q)

    def scaled(self, factor: float) -> WithStartup:
        """Give the run times of tasks with `factor` times the work and the same start-up."""
        return WithStartup(self.startup, self.work.scaled(factor))


class PerWorker:
    """Workers that differ: so many of one kind, so many of another.

    Parameters
    ----------
    classes
        Number of workers and their distribution, class by class.

    Raises
    ------
    ValueError
        If there is no class, or one without workers.

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> slow, fast = ShiftedExponential(2.0, 1.0), ShiftedExponential(1.0, 0.5)
    >>> run_times = PerWorker([(2, slow), (6, fast)])
    >>> run_times.mean, run_times.sample(np.random.default_rng(0), (100, 8)).shape
    (1.875, (100, 8))
    """

    def __init__(self, classes: Sequence[tuple[int, RunTimes]]) -> None:
        if not classes:
            raise ValueError("classes must have at least one class of workers, got none.")
        self.classes = tuple(
            (_checks.integer(count, "a class's number of workers", at_least=1), run_times)
            for count, run_times in classes
        )

    def __repr__(self) -> str:
        return f"PerWorker({list(self.classes)})"

    @property
    def workers(self) -> int:
        """Number of workers in all classes."""
        return sum(count for count, _ in self.classes)

    @property
    def mean(self) -> float:
        """Expected run time over all workers, in seconds."""
        return sum(count * each.mean for count, each in self.classes) / self.workers

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Draw run times, one per worker along the last axis.

        Parameters
        ----------
        rng
            Where the randomness comes from.
        size
            Shape of the draws; its last entry is the number of workers.

        Returns
        -------
        ndarray of float, shape `size`
            Seconds; the classes stand side by side, in their order.

        Raises
        ------
        ValueError
            If the last axis has another length.
        """
        shape = (size,) if isinstance(size, int) else tuple(size)
        if not shape or shape[-1] != self.workers:
            raise ValueError(
                f"the last axis must have one entry for each of the {self.workers} workers, got "
                f"shape {shape}."
            )
        return np.concatenate(
            [each.sample(rng, (*shape[:-1], count)) for count, each in self.classes], axis=-1
        )

    def quantile(self, q: ArrayLike) -> Any:
        """Give the run times that a share `q` of all tasks does not exceed, to about 1e-3."""
        places = (np.arange(_POINTS) + 0.5) / _POINTS
        times = np.concatenate([each.quantile(places) for _, each in self.classes])
        weights = np.repeat([count for count, _ in self.classes], _POINTS)
        order = np.argsort(times)
        reached = np.cumsum(weights[order]) / weights.sum()
        place = np.minimum(np.searchsorted(reached, shares(q)), times.size - 1)
        return times[order][place]

    def scaled(self, factor: float) -> PerWorker:
        """Give the distributions of run times `factor` times as long; see `RunTimes.scaled`."""
        return PerWorker([(count, each.scaled(factor)) for count, each in self.classes])


@dataclass(frozen=True, slots=True)
class Correlated:
    """Rounds that resemble each other: a worker that is slow now is likely to be slow again.

    Parameters
    ----------
    run_times
        Distribution in each round.
    correlation
        Of the same worker's normal scores in one round and the next, in [0, 1).

    Raises
    ------
    ValueError
        If the correlation is out of range.

    Notes
    -----
    Normal scores follow an autoregression of order one and are mapped to run times by their
    quantiles (a Gaussian copula), so that each round keeps the distribution.

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> run_times = Correlated(ShiftedExponential(1.0, 1.0), correlation=0.8)
    >>> rounds = run_times.sample(np.random.default_rng(0), (2, 5000))
    >>> round(float(np.corrcoef(rounds)[0, 1]), 1)
    0.8
    """

    run_times: RunTimes
    """Distribution in each round."""
    correlation: float
    """Of one round's normal scores with the next one's."""

    def __post_init__(self) -> None:
        if not 0 <= self.correlation < 1:
            raise ValueError(
                f"correlation must be at least 0 and below 1, got correlation={self.correlation}."
            )

    @property
    def mean(self) -> float:
        """Expected run time, in seconds."""
        return self.run_times.mean

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Draw run times of rounds.

        Parameters
        ----------
        rng
            Where the randomness comes from.
        size
            Shape of the draws, (..., rounds, workers); one axis is one round.

        Returns
        -------
        ndarray of float, shape `size`
            Seconds.
        """
        from scipy.special import ndtr

        scores = rng.standard_normal(size)
        innovation = np.sqrt(1 - self.correlation**2)
        if scores.ndim > 1:
            for now in range(1, scores.shape[-2]):
                scores[..., now, :] *= innovation
                scores[..., now, :] += self.correlation * scores[..., now - 1, :]
        return np.asarray(self.run_times.quantile(ndtr(scores)), dtype=np.float64)

    def quantile(self, q: ArrayLike) -> Any:
        """Give the run times that a share `q` of tasks does not exceed; see `RunTimes.quantile`."""
        return self.run_times.quantile(q)

    def scaled(self, factor: float) -> Correlated:
        """Give the distribution of run times `factor` times as long; see `RunTimes.scaled`."""
        return Correlated(self.run_times.scaled(factor), self.correlation)
