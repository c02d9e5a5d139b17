r"""Estimates by linear prediction: least squares under a model of the blocks.

The data blocks b are taken for draws of one vector of length k per column, with covariance C; the
received outputs are y = G b, G the received rows of the generator.  The best linear estimate is
then C Gᵀ K⁻¹ y with K = G C Gᵀ.  C = I gives the solution of minimum norm.

How far off it is says leave-one-out, without knowing the truth: the error of predicting output i
from the others is [K⁻¹ y]_i / [K⁻¹]_ii.  An output that did not come would have been predicted
as badly; and since the N rows of the transform are orthogonal, the mean square of those errors over
the N - m rows that did not come is N / (N - m) times that of the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array

__all__ = [
    "LinearPrediction",
    "common_mean",
    "gram",
    "least_squares",
    "relative_error",
    "systematic_error",
]

_JITTER = 1e-9
"""Of the mean diagonal of K: keeps it invertible when received rows depend on each other."""

_RATIOS = 4.0 ** np.arange(-3, 9)
"""Of the variance of a common mean to that of the deviations from it, to choose from."""


@dataclass(frozen=True, slots=True)
class LinearPrediction:
    """Weights of the received outputs in each data block, and what predicts its error."""

    weights: NDArray[np.float64]
    """C Gᵀ K⁻¹, shape (k, m)."""
    inverse: NDArray[np.float64]
    """K⁻¹, shape (m, m)."""

    def leave_one_out(self, outputs: Array, first: int | None = None) -> float:
        """Mean square error of predicting each received output from the others.

        Parameters
        ----------
        outputs
            The received outputs, shape (m, columns).
        first
            Look at the first so many outputs only; None for all.

        Returns
        -------
        float
            Its mean over outputs and columns.
        """
        rows = self.inverse[:first]
        residuals = (rows @ outputs) / np.diag(self.inverse)[:first, None]
        return float(np.mean(np.abs(residuals) ** 2))


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of a covariance, kept away from singular."""
    size = len(matrix)
    jitter = _JITTER * max(float(np.trace(matrix)) / size, np.finfo(np.float64).tiny)
    inverse = np.linalg.inv(matrix + jitter * np.eye(size))
    return np.asarray((inverse + inverse.T) / 2, dtype=np.float64)


def least_squares(generator: NDArray[np.float64]) -> LinearPrediction:
    """The solution of minimum norm: nothing is known of the blocks.

    Parameters
    ----------
    generator
        Received rows of the generator, shape (m, k).

    Returns
    -------
    LinearPrediction
        The prediction.

    Examples
    --------
    >>> least_squares(np.eye(3)[:2]).weights.round(6)
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """
    inverse = _inverse(generator @ generator.T)
    return LinearPrediction(generator.T @ inverse, inverse)


def common_mean(generator: NDArray[np.float64], outputs: Array) -> LinearPrediction:
    """Blocks that are a common mean plus deviations, in a ratio chosen by leave-one-out.

    Parameters
    ----------
    generator
        Received rows of the generator, shape (m, k).
    outputs
        Received outputs, or some of their columns, shape (m, columns).

    Returns
    -------
    LinearPrediction
        The prediction; that of `least_squares` when no common mean helps.
    """
    plain = least_squares(generator)
    best, least = plain, plain.leave_one_out(outputs)
    total = generator.sum(axis=1)
    through = plain.inverse @ total
    for ratio in _RATIOS.tolist():
        # C = I + ratio 1 1ᵀ changes K by a matrix of rank one (Sherman and Morrison).
        shrink = ratio / (1 + ratio * float(total @ through))
        inverse = plain.inverse - shrink * np.outer(through, through)
        prediction = LinearPrediction(best.weights, inverse)
        error = prediction.leave_one_out(outputs)
        if error < least:
            weights = generator.T @ inverse + ratio * (total @ inverse)
            best, least = LinearPrediction(weights, inverse), error
    return best


def gram(generator: NDArray[np.float64], covariance: NDArray[np.float64]) -> LinearPrediction:
    """Blocks whose inner products are known, up to a common factor.

    Parameters
    ----------
    generator
        Received rows of the generator, shape (m, k).
    covariance
        Inner products of the data blocks, shape (k, k).

    Returns
    -------
    LinearPrediction
        The prediction.
    """
    spread = generator @ covariance
    inverse = _inverse(spread @ generator.T)
    return LinearPrediction(spread.T @ inverse, inverse)


def relative_error(prediction: LinearPrediction, outputs: Array, *, size: int) -> float:
    """Error bar of a prediction relative to the answer, by leave-one-out.

    Parameters
    ----------
    prediction
        The prediction.
    outputs
        Received outputs, or some of their columns, shape (m, columns).
    size
        Transform size N.

    Returns
    -------
    float
        Estimated root mean square of the error over that of the answer.
    """
    # Signs make every output's mean square the energy of all channels together, so the share of
    # the parities cancels.
    energy = float(np.mean(np.abs(outputs) ** 2))
    if energy == 0:
        return 0.0
    unseen = max(size - len(outputs), 0) / size
    return min(1.0, math.sqrt(prediction.leave_one_out(outputs) / energy * unseen))


def systematic_error(prediction: LinearPrediction, outputs: Array, *, came: int, k: int) -> float:
    """Error bar for a systematic code: data blocks that did not come are predicted like those.

    Parameters
    ----------
    prediction
        The prediction.
    outputs
        Received outputs, shape (m, columns), the data blocks among them first.
    came
        How many of them are data blocks.
    k
        Number of data blocks.

    Returns
    -------
    float
        Estimated root mean square of the error over that of the answer; 1 if no data block came.
    """
    energy = float(np.mean(np.abs(outputs[:came]) ** 2)) if came else 0.0
    if energy == 0:
        return 1.0
    return min(1.0, math.sqrt(prediction.leave_one_out(outputs, came) / energy * (k - came) / k))
