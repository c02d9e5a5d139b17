"""From a gradient to a step: plain, with momentum, Adam."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["OPTIMIZERS", "next_step"]

OPTIMIZERS = ("plain", "momentum", "adam")
"""What turns a gradient into a step."""

_MOMENTUM = 0.9
_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


def next_step(
    optimizer: str, gradient: NDArray[np.float64], state: Mapping[str, NDArray[np.float64]]
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Turn a gradient into a step.

    Parameters
    ----------
    optimizer
        One of `OPTIMIZERS`.
    gradient
        Shape (d,).
    state
        What the last call gave; empty at first.

    Returns
    -------
    ndarray, shape (d,)
        The step, to be multiplied by the learning rate and subtracted.
    dict of str to ndarray
        The new state.

    Notes
    -----
    Momentum is the heavy ball with factor 0.9; Adam has its usual constants (arXiv 1412.6980).

    Examples
    --------
    >>> step, state = next_step("momentum", np.array([1.0]), {})
    >>> next_step("momentum", np.array([1.0]), state)[0]
    array([1.9])
    """
    if optimizer == "plain":
        return gradient, {}
    zeros = np.zeros_like(gradient)
    if optimizer == "momentum":
        velocity = _MOMENTUM * state.get("velocity", zeros) + gradient
        return velocity, {"velocity": velocity}
    count = state.get("count", np.zeros(())) + 1
    first = _BETAS[0] * state.get("first", zeros) + (1 - _BETAS[0]) * gradient
    second = _BETAS[1] * state.get("second", zeros) + (1 - _BETAS[1]) * gradient**2
    mean, square = first / (1 - _BETAS[0] ** count), second / (1 - _BETAS[1] ** count)
    step = mean / (np.sqrt(square) + _EPSILON)
    return step, {"count": np.asarray(count), "first": first, "second": second}
