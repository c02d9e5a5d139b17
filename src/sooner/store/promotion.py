"""What numbers become before the first addition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from sooner.codes.base import Code

__all__ = ["coded_dtype", "little_endian"]

_CODED = tuple(np.dtype(name) for name in ("<f4", "<f8", "<c8", "<c16"))


def coded_dtype(source: DTypeLike, code: Code, dtype: DTypeLike | None = None) -> np.dtype[Any]:
    """Element type of the coded blocks, chosen before the first addition.

    The rule: float32, float64, complex64 and complex128 stay; float16 becomes float32; booleans
    and integers become float32 if that holds every coded sum exactly, and float64 otherwise.

    Parameters
    ----------
    source
        Element type of the matrix.
    code
        Which sums.
    dtype
        What to use instead of the rule.

    Returns
    -------
    dtype
        float32, float64, complex64 or complex128, little-endian.

    Raises
    ------
    ValueError
        If `dtype` is another one, or real for a complex matrix.

    Examples
    --------
    >>> from sooner import PolarCode
    >>> code = PolarCode(256, 192, rng=0)
    >>> [str(coded_dtype(name, code)) for name in ("bool", "uint8", "int16", "int64", "float16")]
    ['float32', 'float32', 'float64', 'float64', 'float32']
    >>> coded_dtype("int16", code, "float32")
    dtype('float32')
    """
    given = np.dtype(source)
    if dtype is not None:
        chosen = little_endian(np.dtype(dtype))
        if chosen not in _CODED:
            raise ValueError(
                f"dtype must be float32, float64, complex64 or complex128, got {np.dtype(dtype)}."
            )
        if given.kind == "c" and chosen.kind != "c":
            raise ValueError(
                f"dtype must be complex for a complex matrix ({given}), got {chosen}. "
                f"Pass A.real or A.imag if that is what you want."
            )
        return chosen
    if given.kind in "biu":
        # float32 has the integers up to 2**24, so not those of more than 16 bits.  Half of that is
        # for sums on the way: late parities can cancel what was added before, which by default
        # makes those less than twice the result.
        exact = given.itemsize <= 2 and _largest(given) * _growth(code) <= 1 << 23
        return np.dtype("<f4" if exact else "<f8")
    return np.dtype("<f4") if given.itemsize == 2 else little_endian(given)


def little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give an element type in the byte order of stores."""
    return np.dtype(dtype.newbyteorder("<").str)


def _largest(dtype: np.dtype[Any]) -> int:
    """Give the largest magnitude of a boolean or integer type."""
    return 1 if dtype.kind == "b" else max(-int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _growth(code: Code) -> float:
    """Give the largest coded sum of data within ±1, in units of the smallest step it can take."""
    total, step = np.zeros(code.n), 1.0
    identity = np.eye(code.k)
    for first in range(0, code.k, 64):
        coefs = code.encode(np.ascontiguousarray(identity[:, first : first + 64]))
        total += np.abs(coefs).sum(axis=1)
        mantissas, exponents = np.frexp(coefs[coefs != 0])
        digits = np.ldexp(mantissas, 53).astype(np.int64)
        step = min(step, np.ldexp(digits & -digits, exponents - 53).min(initial=1.0))
    return float(total.max() / step)
