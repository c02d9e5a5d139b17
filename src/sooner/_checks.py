"""Argument checks; the only place that phrases "must be"."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def integer(value: object, name: str, *, at_least: int | None = None) -> int:
    """Return `value` as an int, or say what must hold.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.
    at_least
        Smallest value allowed.

    Returns
    -------
    int
        The value.

    Raises
    ------
    TypeError
        If `value` is no integer.
    ValueError
        If `value` is too small.

    Examples
    --------
    >>> integer(np.int64(3), "n", at_least=1)
    3
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{name} must be an integer, got {value!r} of type {type(value).__name__}."
        ) from None
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {name}={number}.")
    return number


def power_of_two(value: object, name: str) -> int:
    """Return `value` as an int that is a power of two, or say which ones are near.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.

    Returns
    -------
    int
        The value.

    Raises
    ------
    ValueError
        If `value` is no power of two.

    Examples
    --------
    >>> power_of_two(64, "n")
    64
    """
    number = integer(value, name, at_least=1)
    if number & (number - 1):
        below = 1 << (number.bit_length() - 1)
        raise ValueError(
            f"{name} must be a power of two, got {name}={number}. "
            f"Use {name}={below} or {name}={2 * below}."
        )
    return number


def probability(value: float, name: str) -> float:
    """Return `value` as a float in [0, 1], or say what must hold.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.

    Returns
    -------
    float
        The value.

    Raises
    ------
    ValueError
        If `value` lies outside [0, 1] or is NaN.

    Examples
    --------
    >>> probability(0.25, "erasure_prob")
    0.25
    """
    number = _float(value, name)
    if not 0 <= number <= 1:  # also false for NaN
        raise ValueError(f"{name} must lie between 0 and 1, got {name}={value}.")
    return number


def positive(value: float, name: str) -> float:
    """Return `value` as a positive float, or say what must hold.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.

    Returns
    -------
    float
        The value.

    Raises
    ------
    ValueError
        If `value` is not above zero or is NaN.

    Examples
    --------
    >>> positive(2, "timeout")
    2.0
    """
    number = _float(value, name)
    if not number > 0:  # also true for NaN
        raise ValueError(f"{name} must be positive, got {name}={value}.")
    return number


def not_negative(value: float, name: str) -> float:
    """Return `value` as a float of at least zero, or say what must hold.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.

    Returns
    -------
    float
        The value.

    Raises
    ------
    ValueError
        If `value` is below zero or NaN.

    Examples
    --------
    >>> not_negative(0, "deadline")
    0.0
    """
    number = _float(value, name)
    if not number >= 0:  # also true for NaN
        raise ValueError(f"{name} must not be negative, got {name}={value}.")
    return number


def one_of(value: Any, name: str, allowed: tuple[Any, ...]) -> Any:
    """Return `value` if it is one of `allowed`, or list them.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.
    allowed
        The values that may be given.

    Returns
    -------
    object
        The value.

    Raises
    ------
    ValueError
        If `value` is none of them.

    Examples
    --------
    >>> one_of("raise", "nonfinite", ("raise", "allow"))
    'raise'
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def mask(value: object, name: str, length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return `value` as a boolean array of shape (length,), or say what must hold.

    Parameters
    ----------
    value
        What the caller passed.
    name
        The argument's name.
    length
        The length it must have.

    Returns
    -------
    ndarray of bool, shape (length,)
        The mask.

    Raises
    ------
    ValueError
        If it is not boolean or has another shape.

    Examples
    --------
    >>> mask([True, False], "available", 2)
    array([ True, False])
    """
    array = np.asarray(value)
    if array.dtype != np.bool_ or array.shape != (length,):
        raise ValueError(
            f"{name} must be a boolean array of shape ({length},), "
            f"got dtype {array.dtype} and shape {array.shape}."
        )
    return array


def _float(value: object, name: str) -> float:
    try:
        if not isinstance(value, str):
            return float(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}.")
