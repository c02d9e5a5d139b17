"""Distributions of run times: how long a task takes, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from sooner import _checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Empirical", "RunTimes", "ShiftedExponential"]


@runtime_checkable
class RunTimes(Protocol):
    """A distribution of run times, in seconds."""

    @property
    def mean(self) -> float:
        """Expected run time."""

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

    def quantile(self, q: ArrayLike) -> Any:
        """Give the run times that a share `q` of tasks does not exceed.

        Parameters
        ----------
        q
            Between 0 and 1.

        Returns
        -------
        float or ndarray of float, shape of `q`
            Seconds.
        """

    def scaled(self, factor: float) -> RunTimes:
        """Give the distribution of run times `factor` times as long.

        Parameters
        ----------
        factor
            Above zero.

        Returns
        -------
        RunTimes
            Of the same kind.
        """


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
        _check_finite_from_zero(self.shift, "shift")
        _checks.positive(self.scale, "scale")
        _check_finite_from_zero(self.scale, "scale")

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
            return self.shift - self.scale * np.log1p(-_shares(q))

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


class Empirical:
    """Run times as they were measured: each of the given values is equally likely.

    Parameters
    ----------
    values
        Measured seconds, at least one, finite and at least zero.

    Raises
    ------
    ValueError
        If there are none, or one is negative or not finite.

    Notes
    -----
    Kept as points of the inverse of the distribution function, between which it is linear; for
    measured values these make steps, so that drawing from it is drawing one of the values.

    Examples
    --------
    >>> run_times = Empirical([1.0, 1.0, 4.0])
    >>> run_times.mean
    2.0
    >>> run_times.sample(np.random.default_rng(0), 5).tolist()
    [1.0, 1.0, 1.0, 1.0, 4.0]
    """

    __slots__ = ("_probabilities", "_quantiles")

    def __init__(self, values: ArrayLike) -> None:
        ordered = np.sort(_seconds(values, "values"), axis=None)
        edges = np.arange(ordered.size + 1) / ordered.size
        self._probabilities = np.repeat(edges, 2)[1:-1]
        self._quantiles = np.repeat(ordered, 2)

    @classmethod
    def from_quantiles(cls, probabilities: ArrayLike, quantiles: ArrayLike) -> Empirical:
        """Make a distribution from some of its quantiles, by linear interpolation.

        Below the first and above the last given probability it stays at their run times, so give
        0 and 1 if the shortest and longest are known.

        Parameters
        ----------
        probabilities
            Between 0 and 1, increasing.
        quantiles
            Seconds that this share of tasks does not exceed, never decreasing, shape like
            `probabilities`.

        Returns
        -------
        Empirical
            The distribution.

        Raises
        ------
        ValueError
            If the shapes differ or the order is another.

        Examples
        --------
        >>> run_times = Empirical.from_quantiles([0.0, 0.5, 1.0], [1.0, 2.0, 10.0])
        >>> run_times.quantile([0.25, 0.75]).tolist(), run_times.mean
        ([1.5, 6.0], 3.75)
        """
        points = _shares(probabilities)
        times = _seconds(quantiles, "quantiles")
        if points.ndim != 1 or points.shape != times.shape:
            raise ValueError(
                "probabilities and quantiles must be two sequences of one length, got shapes "
                f"{points.shape} and {times.shape}."
            )
        if (np.diff(points) <= 0).any():
            raise ValueError(f"probabilities must increase, got {points}.")
        if (np.diff(times) < 0).any():
            raise ValueError(f"quantiles must never decrease, got {times}.")
        return cls._from_points(
            np.concatenate([[0.0], points, [1.0]]),
            np.concatenate([times[:1], times, times[-1:]]),
        )

    @classmethod
    def _from_points(
        cls, probabilities: NDArray[np.float64], quantiles: NDArray[np.float64]
    ) -> Empirical:
        made = cls.__new__(cls)
        made._probabilities = probabilities
        made._quantiles = quantiles
        return made

    def __repr__(self) -> str:
        low, middle, high = self.quantile([0, 0.5, 1])
        return f"<Empirical: {low:g} to {high:g} s, median {middle:g} s>"

    @property
    def mean(self) -> float:
        """Expected run time, in seconds."""
        middles = (self._quantiles[1:] + self._quantiles[:-1]) / 2
        return float(middles @ np.diff(self._probabilities))

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
        return np.asarray(self.quantile(rng.random(size)), dtype=np.float64)

    def quantile(self, q: ArrayLike) -> Any:
        """Give the run times that a share `q` of tasks does not exceed.

        Parameters
        ----------
        q
            Between 0 and 1.

        Returns
        -------
        float or ndarray of float, shape of `q`
            Seconds.
        """
        shares = _shares(q)
        points, times = self._probabilities, self._quantiles
        after = np.clip(np.searchsorted(points, shares), 1, points.size - 1)
        width = points[after] - points[after - 1]
        # np.interp would take the upper end of a step where a share falls on it
        weight = np.where(
            width > 0, (shares - points[after - 1]) / np.where(width > 0, width, 1), 1
        )
        between = times[after - 1] + weight * (times[after] - times[after - 1])
        return np.minimum(between, times[after])  # rounding must not lead above the end

    def scaled(self, factor: float) -> Empirical:
        """Give the distribution of run times `factor` times as long.

        Parameters
        ----------
        factor
            Above zero.

        Returns
        -------
        Empirical
            With every run time longer.
        """
        factor = _checks.positive(factor, "factor")
        return self._from_points(self._probabilities, self._quantiles * factor)


def _shares(q: ArrayLike) -> NDArray[np.float64]:
    shares = np.asarray(q, dtype=np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():  # also for NaN
        raise ValueError(f"probabilities must lie between 0 and 1, got {q!r}.")
    return shares


def _seconds(values: ArrayLike, name: str) -> NDArray[np.float64]:
    seconds = np.asarray(values, dtype=np.float64)
    if seconds.size == 0:
        raise ValueError(f"{name} must have at least one run time, got none.")
    wrong = seconds[~((seconds >= 0) & np.isfinite(seconds))]
    if wrong.size:
        raise ValueError(f"{name} must be finite seconds of at least 0, got {wrong[0]}.")
    return seconds


def _check_finite_from_zero(value: float, name: str) -> None:
    if not 0 <= value < np.inf:  # also for NaN
        raise ValueError(f"{name} must be finite and at least 0, got {name}={value}.")
