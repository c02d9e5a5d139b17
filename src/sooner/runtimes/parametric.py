"""Distributions of run times with a few parameters: exponential, Pareto and log-normal tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.runtimes.base import check_finite_from_zero, shares

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["LogNormal", "Pareto", "ShiftedExponential"]


@dataclass(frozen=True, slots=True)
class ShiftedExponential:
    """A fixed time that every task takes, plus an exponential one: the usual straggler model.

    Parameters
    ----------
    shift
        Seconds that every task takes, at least zero.
    scale
        Mean of the exponential part, above zero.

    Raises
    ------
    ValueError
        If either is out of range.

    Examples
    --------
    >>> run_times = ShiftedExponential(shift=2.0, scale=1.0)
    >>> run_times.mean
    3.0
    >>> float(round(run_times.quantile(0.99), 2))
    6.61
    """

    shift: float
    """Seconds that every task takes."""
    scale: float
    """Mean of the rest."""

    def __post_init__(self) -> None:
        check_finite_from_zero(self.shift, "shift")
        _checks.positive(self.scale, "scale")
        check_finite_from_zero(self.scale, "scale")

    @property
    def mean(self) -> float:
        """Expected run time, in seconds."""
        return self.shift + self.scale

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Draw independent run times.

        Parameters
        ----------
        rng
            Where the randomness comes from.
        size
            Shape of the draws.

        Returns
        -------
        ndarray of float, shape `size`
            Seconds.
        """
        return self.shift + rng.exponential(self.scale, size)

    def quantile(self, q: ArrayLike) -> Any:
        r"""Give the run times that a share `q` of tasks does not exceed.

        They are $s - \sigma \log(1 - q)$ for shift $s$ and scale $\sigma$.

        Parameters
        ----------
        q
            Between 0 and 1; for 1 it is infinite.

        Returns
        -------
        float or ndarray of float, shape of `q`
            Seconds.
        """
        with np.errstate(divide="ignore"):
            return self.shift - self.scale * np.log1p(-shares(q))

    def scaled(self, factor: float) -> ShiftedExponential:
        """Give the distribution of run times `factor` times as long.

        Parameters
        ----------
        factor
            Above zero.

        Returns
        -------
        ShiftedExponential
            With both parts longer.
        """
        factor = _checks.positive(factor, "factor")
        return ShiftedExponential(self.shift * factor, self.scale * factor)


@dataclass(frozen=True, slots=True)
class Pareto:
    r"""A heavy tail: no task is faster than the shortest, and slow ones are slow without bound.

    The share of tasks that take longer than t is :math:`(shortest / t)^{shape}`.

    Parameters
    ----------
    shortest
        Seconds of the fastest task, above zero.
    shape
        Above zero; the smaller, the heavier the tail.  The mean is infinite up to 1.

    Raises
    ------
    ValueError
        If either is out of range.

    Examples
    --------
    >>> run_times = Pareto(shortest=2.0, shape=2.0)
    >>> run_times.mean, round(float(run_times.quantile(0.99)), 6)
    (4.0, 20.0)
    """

    shortest: float
    """Seconds of the fastest task."""
    shape: float
    """Weight of the tail."""

    def __post_init__(self) -> None:
        for name in ("shortest", "shape"):
            _checks.positive(getattr(self, name), name)
            check_finite_from_zero(getattr(self, name), name)

    @property
    def mean(self) -> float:
        """Expected run time, in seconds; infinite for a shape up to 1."""
        return self.shortest * self.shape / (self.shape - 1) if self.shape > 1 else math.inf

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Draw independent run times; see `RunTimes.sample`."""
        return self.shortest * (1 + rng.pareto(self.shape, size))

    def quantile(self, q: ArrayLike) -> Any:
        """Give the run times that a share `q` of tasks does not exceed; see `RunTimes.quantile`."""
        with np.errstate(divide="ignore"):
            return self.shortest * (1 - shares(q)) ** (-1 / self.shape)

    def scaled(self, factor: float) -> Pareto:
        """Give the distribution of run times `factor` times as long; see `RunTimes.scaled`."""
        return Pareto(self.shortest * _checks.positive(factor, "factor"), self.shape)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Many small causes that multiply: the logarithm of the run time is normal.

    Parameters
    ----------
    median
        Seconds that half of the tasks do not exceed, above zero.
    sigma
        Standard deviation of the logarithm, at least zero; .1 is calm, 1 a heavy tail.

    Raises
    ------
    ValueError
        If either is out of range.

    Examples
    --------
    >>> run_times = LogNormal(median=2.0, sigma=0.5)
    >>> round(run_times.mean, 3), float(round(run_times.quantile(0.5), 3))
    (2.266, 2.0)
    """

    median: float
    """Seconds that half of the tasks do not exceed."""
    sigma: float
    """Standard deviation of the logarithm."""

    def __post_init__(self) -> None:
        _checks.positive(self.median, "median")
        for name in ("median", "sigma"):
            check_finite_from_zero(getattr(self, name), name)

    @property
    def mean(self) -> float:
        """Expected run time, in seconds."""
        return self.median * math.exp(self.sigma**2 / 2)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Draw independent run times; see `RunTimes.sample`."""
        return self.median * rng.lognormal(0.0, self.sigma, size)

    def quantile(self, q: ArrayLike) -> Any:
        """Give the run times that a share `q` of tasks does not exceed; see `RunTimes.quantile`."""
        from scipy.special import ndtri

        with np.errstate(invalid="ignore"):  # sigma 0 at the ends of [0, 1]
            power = np.nan_to_num(self.sigma * ndtri(shares(q)), posinf=math.inf, neginf=-math.inf)
            return self.median * np.exp(power)

    def scaled(self, factor: float) -> LogNormal:
        """Give the distribution of run times `factor` times as long; see `RunTimes.scaled`."""
        return LogNormal(self.median * _checks.positive(factor, "factor"), self.sigma)
