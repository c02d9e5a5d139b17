"""The protocol of distributions of run times, and what their arguments must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["RunTimes", "check_finite_from_zero", "seconds", "shares"]


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


def shares(q: ArrayLike) -> NDArray[np.float64]:
    """Return probabilities as an array, or say what must hold.

    Parameters
    ----------
    q
        What the caller passed.

    Returns
    -------
    ndarray of float
        The probabilities.

    Raises
    ------
    ValueError
        If one lies outside [0, 1] or is NaN.
    """
    probabilities = np.asarray(q, dtype=np.float64)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():  # also for NaN
        raise ValueError(f"probabilities must lie between 0 and 1, got {q!r}.")
    return probabilities


def seconds(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return run times as an array, or say what must hold.

    Parameters
    ----------
    values
        What the caller passed.
    name
        The argument's name.

    Returns
    -------
    ndarray of float
        The run times.

    Raises
    ------
    ValueError
        If there are none, or one is negative or not finite.
    """
    times = np.asarray(values, dtype=np.float64)
    if times.size == 0:
        raise ValueError(f"{name} must have at least one run time, got none.")
    wrong = times[~((times >= 0) & np.isfinite(times))]
    if wrong.size:
        raise ValueError(f"{name} must be finite seconds of at least 0, got {wrong[0]}.")
    return times


def check_finite_from_zero(value: float, name: str) -> None:
    """Say what must hold unless a number is finite and at least zero.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.

    Raises
    ------
    ValueError
        If it is negative, infinite or NaN.
    """
    if not 0 <= value < np.inf:  # also for NaN
        raise ValueError(f"{name} must be finite and at least 0, got {name}={value}.")
