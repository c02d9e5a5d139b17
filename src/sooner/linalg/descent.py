"""Ways down: each gives the points at which it knows the gradient, one after the other."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner.linalg.normal_equations import dots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sooner._types import Array
    from sooner.linalg.anytime import Anytime
    from sooner.linalg.normal_equations import NormalEquations

__all__ = ["Point", "accelerated", "anytime_steps", "conjugate", "steps"]


@dataclass(frozen=True, slots=True)
class Point:
    """Where a descent is."""

    x: Array
    """Shape (n, r)."""
    gradient: Array
    """Shape (n, r)."""
    fun: float
    """The objective; where the gradient is estimated, that of the last exact one."""
    exact: bool = True
    """Whether the gradient is no estimate."""


def steps(equations: NormalEquations, x: Array, step: float) -> Iterator[Point]:
    """Plain gradient descent.

    Parameters
    ----------
    equations
        The problem.
    x
        Where to begin.
    step
        What the gradient is multiplied by.

    Yields
    ------
    Point
        The points, the first one `x`.
    """
    while True:
        gradient, fun = equations.gradient(x)
        yield Point(x, gradient, fun)
        x = _moved(x, gradient, -step)


def accelerated(equations: NormalEquations, x: Array, step: float) -> Iterator[Point]:
    """Nesterov's method, whose momentum begins again in a column where it leads uphill.

    Parameters
    ----------
    equations
        The problem.
    x
        Where to begin.
    step
        What the gradient is multiplied by.

    Yields
    ------
    Point
        The points, the first one `x`.
    """
    ahead, momentum = x, np.ones(x.shape[1], x.real.dtype)
    while True:
        gradient, fun = equations.gradient(ahead)
        yield Point(ahead, gradient, fun)
        following = _moved(ahead, gradient, -step)
        momentum[dots(gradient, following - x) > 0] = 1
        increased = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / increased * (following - x)
        x, momentum = following, increased


def conjugate(equations: NormalEquations, x: Array) -> Iterator[Point]:
    """Conjugate gradients, each column for itself.

    Parameters
    ----------
    equations
        The problem.
    x
        Where to begin.

    Yields
    ------
    Point
        The points, the first one `x`.
    """
    gradient, fun = equations.gradient(x)
    yield Point(x, gradient, fun)
    direction, square = -gradient, dots(gradient, gradient)
    while True:
        product = equations.times(direction)
        curvature = dots(direction, product)
        # A column that is finished, or in the null space, moves no more.
        length = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        x, gradient = _moved(x, direction, length), _moved(gradient, product, length)
        fun -= 0.5 * float(length @ square)
        yield Point(x, gradient, fun)
        before, square = square, dots(gradient, gradient)
        kept = np.divide(square, before, out=np.zeros_like(square), where=before > 0)
        direction = kept * direction - gradient


def anytime_steps(
    equations: NormalEquations,
    estimated: NormalEquations,
    x: Array,
    step: float,
    anytime: Anytime,
) -> Iterator[Point]:
    """Gradient descent with estimated products.

    Parameters
    ----------
    equations
        The problem, by exact products.
    estimated
        The same, by estimates.
    x
        Where to begin.
    step
        What the gradient is multiplied by.
    anytime
        When to estimate, and of what.

    Yields
    ------
    Point
        The points, the first one `x`.
    """
    reference, exact_gradient, fun = x, x, np.inf
    for count in itertools.count():
        if not anytime.increments:
            gradient, fun = estimated.gradient(x)
        elif count % anytime.refresh == 0:
            reference = x
            exact_gradient, fun = equations.gradient(x)
            gradient = exact_gradient
        else:
            gradient = exact_gradient + estimated.times(x - reference)
        yield Point(x, gradient, fun, exact=reference is x and anytime.increments)
        x = _moved(x, gradient, -step)


def _moved(point: Array, direction: Array, length: float | Array) -> Array:
    """Give another point, since whoever was given the last one may keep it."""
    return point + length * direction
