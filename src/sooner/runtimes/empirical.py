"""Run times as they were measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.runtimes.base import seconds, shares

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Empirical"]


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
        ordered = np.sort(seconds(values, "values"), axis=None)
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
        points = shares(probabilities)
        times = seconds(quantiles, "quantiles")
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
        wanted = shares(q)
        points, times = self._probabilities, self._quantiles
        after = np.clip(np.searchsorted(points, wanted), 1, points.size - 1)
        width = points[after] - points[after - 1]
        # np.interp would take the upper end of a step where a share falls on it
        weight = np.where(
            width > 0, (wanted - points[after - 1]) / np.where(width > 0, width, 1), 1
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
