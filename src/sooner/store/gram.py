"""Inner products of the data blocks, as the manifest keeps them: for the best of the estimates."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["packed", "unpacked"]


def packed(gram: NDArray[np.float64]) -> str:
    """Write a symmetric matrix as text: base64 of the float32 numbers on and above the diagonal.

    Parameters
    ----------
    gram
        Shape (k, k).

    Returns
    -------
    str
        About 2.7 k (k + 1) characters; the numbers over the largest of them, which comes first.

    Examples
    --------
    >>> unpacked(packed(np.array([[4.0, 1.0], [1.0, 2.0]])), 2)
    array([[1.  , 0.25],
           [0.25, 0.5 ]])
    """
    largest = max(float(np.abs(gram).max(initial=0.0)), np.finfo(np.float64).tiny)
    numbers = (gram / largest)[np.triu_indices(len(gram))]
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode("ascii")


def unpacked(text: str, k: int) -> NDArray[np.float64]:
    """Read what `packed` wrote; the common factor is gone, which nothing depends on.

    Parameters
    ----------
    text
        From `packed`.
    k
        Number of data blocks.

    Returns
    -------
    ndarray, shape (k, k)
        The matrix, its largest entry 1.
    """
    gram = np.zeros((k, k))
    gram[np.triu_indices(k)] = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    return gram + np.triu(gram, 1).T
