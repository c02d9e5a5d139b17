"""From the values of a generation to an estimate of the gradient."""

from __future__ import annotations

import logging
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.optimize.directions import CodedDirections, OrthogonalDirections
from sooner.optimize.gradient import derivatives, least_squares
from sooner.optimize.updates import OPTIMIZERS
from sooner.optimize.values import centered_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Mask
    from sooner.optimize.candidates import Center
    from sooner.optimize.directions import Directions

__all__ = ["Options", "Step", "estimate", "warn_of_standstill"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How values become a step, checked; `EvolutionStrategy` explains each."""

    learning_rate: float
    gradient: str = "least_squares"
    noise_gain: float | None = None
    optimizer: str = "plain"
    shaping: str | None = None
    share: float = 1.0
    maximize: bool = False

    def __post_init__(self) -> None:
        _checks.positive(self.learning_rate, "learning_rate")
        _checks.one_of(self.gradient, "gradient", ("least_squares", "average"))
        if self.noise_gain is not None:
            _checks.positive(self.noise_gain, "noise_gain")
        _checks.one_of(self.optimizer, "optimizer", OPTIMIZERS)
        _checks.one_of(self.shaping, "shaping", (None, "ranks"))
        _checks.probability(self.share, "share")


@dataclass(frozen=True, slots=True)
class Step:
    """What the evaluations of a generation amounted to."""

    generation: int
    """Which generation, from 0."""
    n_values: int
    """Evaluations that came and were finite."""
    n_directions: int
    """Directions with a derivative."""
    rank: int
    """Independent derivatives among these."""
    determined: bool
    """Whether they give all that the directions can tell."""
    noise_gain: float
    """Noise of the gradient, per dimension, over that of one derivative; NaN for the average."""
    gradient: NDArray[np.float64]
    """Estimate of the gradient of what is minimized, shape (d,); zero for a flat generation."""


def estimate(
    directions: Directions, center: Center, values: NDArray[np.float64], options: Options
) -> Step:
    """Estimate the gradient from the values that came.

    Parameters
    ----------
    directions
        Of all generations.
    center
        What this one started from.
    values
        Shape (n, 2); NaN for what did not come.
    options
        How.

    Returns
    -------
    Step
        The estimate, and what it rests on.
    """
    n_values = int(np.count_nonzero(np.isfinite(values)))
    values = -values if options.maximize else values
    if options.shaping == "ranks":
        values = centered_ranks(values)
    rows, base, alone = _equations(directions, center)
    found = derivatives(values, center.sigma, alone)
    rows, right = rows[found.available], found.values[found.available]
    scale = math.sqrt(directions.dimension)  # rows are of length 1, directions of length sqrt(d)
    if options.gradient == "average":
        gradient = scale * (right @ rows) / max(right.size, 1)
        rank, gain = right.size, math.nan
    else:
        weights = found.weights[found.available]
        solution = least_squares(
            weights[:, None] * rows, weights * right / scale, options.noise_gain
        )
        gradient = solution.value * (directions.dimension / directions.rank)
        rank, gain = solution.rank, solution.noise_gain
    if base is not None:
        gradient = np.asarray(gradient @ base)
    if not np.isfinite(gradient).all():  # values so large that sums of them overflow
        gradient = np.zeros_like(gradient)
    determined = rank >= directions.rank
    return Step(center.generation, n_values, right.size, rank, determined, gain, gradient)


def _equations(
    directions: Directions, center: Center
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, Mask | None]:
    """Directions over sqrt(d); the base that they refer to, if any; which are not clipped."""
    if center.lower is None and (
        isinstance(directions, CodedDirections)
        or (isinstance(directions, OrthogonalDirections) and directions.n <= directions.rank)
    ):
        return directions.coefficients, directions.base(center.generation), None
    steps = directions.all(center.generation)
    scale = math.sqrt(directions.dimension)
    if center.lower is None:
        return steps / scale, None, None
    ends = center.x + center.sigma * steps, center.x - center.sigma * steps
    forwards, backwards = map(center.clipped, ends)
    whole = (forwards == ends[0]).all(axis=1) & (backwards == ends[1]).all(axis=1)
    # What was cut off at a bound is no part of the step, so the equations stay exact.
    return (forwards - backwards) / (2 * center.sigma * scale), None, whole


def warn_of_standstill(step: Step, n_asked: int, *, again: bool) -> None:
    """Say that a generation was flat or lost, so that the point stays where it is.

    Parameters
    ----------
    step
        What its evaluations amounted to.
    n_asked
        How many were asked for.
    again
        Whether this is not the first one; it goes to the log then.
    """
    kind = "flat" if step.n_directions else "lost"
    message = (
        f"generation {step.generation} was {kind}, and the point stays where it is: "
        f"{step.n_values} of {n_asked} values came, {step.n_directions} derivatives."
    )
    if again:
        _log.warning("%s", message)
        return
    from scipy.optimize import OptimizeWarning

    warnings.warn(message, OptimizeWarning, stacklevel=4)  # where the user asked
