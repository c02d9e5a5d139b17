"""Kernels of any size: which inputs of a group are known, and how they follow from its outputs.

A stage of an l x l kernel F has groups of l outputs, y = F u.  Of a group with m known outputs
input i is known if l-i <= m, the earlier inputs being known.  What a 2 x 2 stage does with one
addition is a small dense product here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sooner._types import Indices
    from sooner.codes.kernel import Kernel

__all__ = ["MixedRadixState", "inputs_from_outputs"]


class MixedRadixState:
    """Which channels a set of outputs settles; `decoder.ErasureState` for kernels of any size.

    With m outputs of a group the last m inputs are known: the next output flips the one before
    them.  So a new output still flips exactly one value in each stage and settles exactly one
    channel, and all that a group has to remember is a count.

    Parameters
    ----------
    sizes
        Sizes of the kernels, the slowest radix first.

    Examples
    --------
    >>> state = MixedRadixState([2, 2])
    >>> [state.add(position) for position in (2, 1, 0, 3)]
    [3, 2, 1, 0]
    >>> state = MixedRadixState([3])  # an MDS code: the last channels first
    >>> [state.add(position) for position in (1, 0, 2)]
    [2, 1, 0]
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        stride = math.prod(sizes)
        self.settled = bytearray(stride)
        """For each channel 1 if it is settled, length N."""
        self._stages: list[tuple[int, int, list[int]]] = []
        for size in sizes:
            counts = [0] * len(self.settled)  # of each group, where its first output is
            stride //= size
            self._stages.append((size, stride, counts))

    def add(self, position: int) -> int:
        """Take note of an output that was not there before.

        Parameters
        ----------
        position
            Its row of the transform.

        Returns
        -------
        int
            The channel that it settles, the earlier channels being known.
        """
        for size, stride, counts in self._stages:
            first = position - position // stride % size * stride
            counts[first] += 1
            position = first + (size - counts[first]) * stride
        self.settled[position] = 1
        return position


def inputs_from_outputs(kernel: Kernel, known: Indices, first: int) -> NDArray[np.float64]:
    """How the inputs of a group from some index on follow from what is known.

    Parameters
    ----------
    kernel
        The kernel, of size l.
    known
        Which outputs are known, shape (m,).
    first
        The first input that is wanted, ``l - m <= first < l``; those before it are known.

    Returns
    -------
    ndarray, shape (l - first, m + first)
        What to multiply the known outputs and then the earlier inputs by; by least squares
        where there are more outputs than unknown inputs.

    Examples
    --------
    >>> from sooner.codes import HADAMARD
    >>> inputs_from_outputs(HADAMARD, np.array([0]), 1)
    array([[ 1., -1.]])
    """
    rows = kernel.matrix[known]
    from_outputs = np.linalg.pinv(rows[:, first:])
    return np.hstack([from_outputs, -from_outputs @ rows[:, :first]])
