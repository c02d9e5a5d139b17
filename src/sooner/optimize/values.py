"""What an objective may return, and what is taken for an evaluation that never came."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_number", "as_values", "centered_ranks"]


def as_number(value: Any) -> float:
    """Read one value of an objective.

    Parameters
    ----------
    value
        A real number, or an array that holds one; None for none.

    Returns
    -------
    float
        The number; NaN for None.

    Raises
    ------
    TypeError
        If it is something else.

    Examples
    --------
    >>> as_number(2), as_number(np.array([1.5])), as_number(None)
    (2.0, 1.5, nan)
    """
    if value is None:
        return math.nan
    if isinstance(value, (int, float)):
        return float(value)
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(
            f"an objective must return a real number, got {value!r} of type {type(value).__name__}."
        )
    return float(array.reshape(()))


def as_values(values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Read the values of candidates; what is no finite number becomes NaN.

    Parameters
    ----------
    values
        An array or nested sequences of `shape`.
    shape
        Shape of the candidates' ids.

    Returns
    -------
    ndarray, shape `shape`
        Finite numbers and NaN.

    Raises
    ------
    ValueError
        If the shape is another.

    Examples
    --------
    >>> as_values([1.0, None, "broken", np.inf], (4,))
    array([ 1., nan, nan, nan])
    """
    numbers = np.array(_flat(values, shape)).reshape(shape)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def _flat(values: Any, shape: tuple[int, ...]) -> list[float]:
    if shape:
        listed = isinstance(values, Sized) and np.iterable(values) and not isinstance(values, str)
        length = len(values) if listed else None
        if length != shape[0]:
            raise ValueError(
                f"values must have the candidates' shape, {shape}, got "
                f"{repr(values) if length is None else f'{length} of them'}. "
                "Give NaN for what did not come, or tell a part: tell(candidates[3:5], values)."
            )
        return [number for part in values for number in _flat(part, shape[1:])]
    try:
        return [as_number(values)]
    except (TypeError, ValueError, OverflowError):
        return [math.nan]


def centered_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace values by their ranks, from -0.5 to 0.5; equal ones share theirs, NaN stays NaN.

    Parameters
    ----------
    values
        Any shape.

    Returns
    -------
    ndarray
        Of the same shape.

    Examples
    --------
    >>> centered_ranks(np.array([30.0, np.nan, 10.0, 20.0, 20.0]))
    array([ 0.5,  nan, -0.5,  0. ,  0. ])
    """
    from scipy.stats import rankdata

    ranks = np.full(values.shape, np.nan)
    came = np.isfinite(values)
    order = rankdata(values[came])  # from 1
    ranks[came] = (order - (order.size + 1) / 2) / max(order.size - 1, 1)
    return ranks
