r"""A gradient from whatever evaluations came.

A pair of evaluations, one step along a direction and one against it, gives the derivative along
that direction; all even terms of the objective cancel.  What came of a generation is a system of
linear equations for the gradient.  Its solution of minimum norm is exact in the span of the
directions to the extent that the objective is linear at that scale, whichever they are.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Mask

__all__ = ["Derivatives", "Solution", "derivatives", "least_squares", "noise_gain"]


_LARGE = 1e3
"""A noise gain beyond which the squares of singular values are too inaccurate."""


@dataclass(frozen=True, slots=True)
class Derivatives:
    """Derivatives along the directions of a generation."""

    values: NDArray[np.float64]
    """Shape (n,); NaN where nothing came."""
    signs: NDArray[np.float64]
    """0 for a pair; +1 or -1 for a direction of which only that half came."""

    @property
    def available(self) -> Mask:
        """Directions with a derivative, shape (n,)."""
        return np.isfinite(self.values)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Of the equations, shape (n,): a half is twice as noisy, in variance, as a pair."""
        return np.where(self.signs == 0, 1.0, np.sqrt(0.5))


def derivatives(
    values: NDArray[np.float64], sigma: float, alone: Mask | None = None
) -> Derivatives:
    """Derivatives from the values of antithetic pairs.

    Of a pair with one half missing the other is compared with the mean over the complete pairs.
    Over random directions, which are as likely as their opposites, this has no bias, but the
    curvature does not cancel; so it is shrunk by the share of it that is signal, which the spread
    of the pairs' means tells.  When the objective is linear at this scale, nothing is shrunk.

    Parameters
    ----------
    values
        Values forwards and backwards, shape (n, 2); NaN for what did not come.
    sigma
        The step.
    alone
        Directions whose halves may be used alone, shape (n,); None for all.

    Returns
    -------
    Derivatives
        One per direction as far as it is known.

    Examples
    --------
    >>> nan = float("nan")
    >>> found = derivatives(np.array([[3.0, 1.0], [1.5, 2.5], [nan, 0.0], [nan, nan]]), 1.0)
    >>> found.values.tolist(), found.signs.tolist()
    ([1.0, -0.5, 2.0, nan], [0.0, 0.0, -1.0, 0.0])
    """
    came = np.isfinite(values)
    with np.errstate(over="ignore", invalid="ignore"):
        found = (values[:, 0] - values[:, 1]) / (2 * sigma)
        means = values[:, 0] / 2 + values[:, 1] / 2
    found[~np.isfinite(found)] = np.nan
    signs = np.zeros(len(values))
    whole = came.all(axis=1) if alone is None else came.all(axis=1) & alone
    halves = came.any(axis=1) & ~came.all(axis=1)
    if alone is not None:
        halves &= alone
    if halves.any() and np.count_nonzero(whole) > 1:
        signs[halves] = np.where(came[halves, 0], 1.0, -1.0)
        present = np.where(came[halves, 0], values[halves, 0], values[halves, 1])
        baseline = means[whole].mean()
        signal = np.mean(found[whole] ** 2)
        even = means[whole].var(ddof=1) / sigma**2
        share = signal / (signal + even) if signal else 0.0
        found[halves] = share * signs[halves] * (present - baseline) / sigma
    return Derivatives(found, signs)


@dataclass(frozen=True, slots=True)
class Solution:
    """What a set of equations says of the gradient."""

    value: NDArray[np.float64]
    """Solution of minimum norm, shape (columns,)."""
    rank: int
    """Independent equations."""
    noise_gain: float
    """Noise of the solution per dimension over that of one equation, in the root mean square."""


def _gains(singular: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noise gain when only the first so many singular values are used."""
    return np.sqrt(np.cumsum(1 / singular**2) / np.arange(1, singular.size + 1))


def _significant(singular: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    cutoff = singular[:1] * max(shape) * np.finfo(np.float64).eps
    return singular[singular > cutoff]


def noise_gain(rows: NDArray[np.float64]) -> float:
    """How much solving amplifies the noise of evaluations.

    Parameters
    ----------
    rows
        Equations, of length 1 each; shape (m, columns).

    Returns
    -------
    float
        Noise of the solution per dimension over that of one equation, in the root mean square: 1
        for orthogonal rows, 7 to 33 for a set of coded ones that just decodes; infinite without
        equations.

    Examples
    --------
    >>> noise_gain(np.eye(3)), round(noise_gain(np.array([[1.0, 0.0], [0.6, 0.8]])), 2)
    (1.0, 1.25)
    """
    if rows.shape[0] >= rows.shape[1]:
        with contextlib.suppress(np.linalg.LinAlgError):
            # Ten times faster, and accurate where the gain is one that anybody would accept.
            mean_square = float(np.trace(np.linalg.inv(rows.T @ rows))) / rows.shape[1]
            if 0 < mean_square < _LARGE**2:
                return math.sqrt(mean_square)
    values = np.asarray(np.linalg.svd(rows, compute_uv=False), dtype=np.float64)
    singular = _significant(values, rows.shape)
    return float(_gains(singular)[-1]) if singular.size else np.inf


def least_squares(
    rows: NDArray[np.float64], right: NDArray[np.float64], max_gain: float | None = None
) -> Solution:
    """Solve by least squares, with minimum norm.

    Parameters
    ----------
    rows
        Equations, shape (m, columns).
    right
        Right-hand sides, shape (m,).
    max_gain
        Leave out what would amplify noise the most until the noise gain is at most this.

    Returns
    -------
    Solution
        The solution.

    Examples
    --------
    >>> least_squares(np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([2.0, 2.0])).value.round(6)
    array([2., 1.])
    """
    left, singular, right_vectors = np.linalg.svd(rows, full_matrices=False)
    singular = _significant(singular, rows.shape)
    rank = kept = singular.size
    if not rank:
        return Solution(np.zeros(rows.shape[1]), 0, np.inf)
    gains = _gains(singular)
    if max_gain is not None:
        kept = max(1, int(np.count_nonzero(gains <= max_gain)))
    value = right_vectors[:kept].T @ ((left[:, :kept].T @ right) / singular[:kept])
    return Solution(value, rank, float(gains[kept - 1]))
