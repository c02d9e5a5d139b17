"""What a polar transform does to erasures and to times: channels that are good, and bad ones.

A stage acts on the groups of outputs along one radix of the transform, stage after stage; on
arrays of erasure probabilities or of the times at which outputs arrive.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["erasure_probabilities", "polarized_run_times"]


def erasure_probabilities(
    n: int, erasure_prob: ArrayLike, *, sizes: Sequence[int] | None = None
) -> NDArray[np.float64]:
    r"""Erasure probability of each channel of a polar transform.

    One 2 x 2 stage maps two channels of erasure probabilities a and b to a worse one,
    :math:`1 - (1 - a)(1 - b)` (any erasure hides it), and a better one, :math:`a b` (one of
    two outputs suffices once the first input is known).  Of the l inputs of a larger kernel
    input i is erased when more than i of the l outputs are.

    Parameters
    ----------
    n
        Transform size.
    erasure_prob
        Probability in [0, 1] that an output is not available: one for all, or shape (n,).
    sizes
        Sizes of the kernels, the slowest radix first, which multiply to `n`; 2 x 2 kernels
        unless given.

    Returns
    -------
    ndarray, shape (n,)
        Erasure probability of each channel, in decoding order.  Their mean is that of
        `erasure_prob`: a stage moves erasures between channels, it removes none.

    Raises
    ------
    ValueError
        If the sizes do not multiply to `n` (without sizes, if it is no power of two), or
        `erasure_prob` has another shape or leaves [0, 1].

    Notes
    -----
    Exact for independent erasures and all kernels that polarize at the best rate.  Section II-B
    of "Straggler resilient serverless computing based on polar codes" (arXiv 1901.06811); for
    larger kernels [B23] (arXiv 2309.00682).

    Examples
    --------
    The first paper's worked example: the last two of four channels get the data.

    >>> erasure_probabilities(4, 0.5)
    array([0.9375, 0.5625, 0.4375, 0.0625])
    >>> erasure_probabilities(3, 0.5, sizes=[3])  # one, two, three of three outputs are erased
    array([0.875, 0.5  , 0.125])
    """
    sizes = _sizes_of(n, sizes)
    given = np.asarray(erasure_prob, dtype=np.float64)
    if given.shape not in {(), (n,)}:
        raise ValueError(
            f"erasure_prob must be one number or have shape ({n},), got {given.shape}."
        )
    if not ((given >= 0) & (given <= 1)).all():  # also false for NaN
        raise ValueError(f"erasure_prob must lie between 0 and 1, got {given.tolist()}.")
    return _along_radices(np.broadcast_to(given, (n,)), sizes, _erasure_stage)


def polarized_run_times(
    run_times: ArrayLike, *, sizes: Sequence[int] | None = None
) -> NDArray[np.float64]:
    """When each channel of a polar transform is known, from when its outputs arrive.

    One stage sorts each group of l outputs in descending order: the first input waits for the
    last of them, the next one for all but one, the last one for the first that arrives.

    Parameters
    ----------
    run_times
        When each row of the transform arrives, shape ``(..., n)``, for as many trials as the
        other axes hold; infinity for never, as of a punctured row.  The output of task i is row
        ``code.layout.positions[i]``.
    sizes
        Sizes of the kernels, the slowest radix first, which multiply to n; 2 x 2 kernels unless
        given.

    Returns
    -------
    ndarray, shape (..., n)
        When the channels are known, in decoding order, the earlier ones being known.  A
        sequential decoder can finish at the largest of the times of its data channels.

    Raises
    ------
    ValueError
        If the sizes do not multiply to n (without sizes, if it is no power of two).

    Examples
    --------
    >>> polarized_run_times([1.0, 3.0, 2.0, 9.0])
    array([9., 2., 3., 1.])
    >>> polarized_run_times([1.0, 3.0, 2.0], sizes=[3])
    array([3., 2., 1.])
    """
    times = np.asarray(run_times, dtype=np.float64)
    sizes = _sizes_of(times.shape[-1], sizes)
    return _along_radices(times, sizes, _descending)


def _sizes_of(n: int, sizes: Sequence[int] | None) -> Sequence[int]:
    """Check sizes of kernels, or give those of 2 x 2 kernels."""
    if sizes is None:
        return [2] * (_checks.power_of_two(n, "n").bit_length() - 1)
    if math.prod(sizes) != n or any(size < 2 for size in sizes):
        raise ValueError(
            "sizes must hold the sizes of the kernels, which multiply to n, got "
            f"sizes={list(sizes)}, n={n}."
        )
    return sizes


def _along_radices(
    values: NDArray[np.float64],
    sizes: Sequence[int],
    stage: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Apply a stage to the groups along each radix, which are the last axis but one there."""
    stride = values.shape[-1]
    result = values.copy()
    for size in sizes:
        stride //= size
        groups = result.reshape(*values.shape[:-1], -1, size, stride)
        result = stage(groups).reshape(values.shape)
    return result


def _descending(groups: NDArray[np.float64]) -> NDArray[np.float64]:
    if groups.shape[-2] == 2:  # ten times faster than sorting
        a, b = groups[..., 0, :], groups[..., 1, :]
        return np.stack([np.maximum(a, b), np.minimum(a, b)], axis=-2)
    return -np.sort(-groups, axis=-2)


def _erasure_stage(groups: NDArray[np.float64]) -> NDArray[np.float64]:
    """Erasure probabilities of the inputs of groups: that more than i of the outputs are erased."""
    size = groups.shape[-2]
    if size == 2:
        a, b = groups[..., 0, :], groups[..., 1, :]
        return np.stack([a + b - a * b, a * b], axis=-2)
    # The distribution of the number of erasures, output by output.
    counts = np.zeros((*groups.shape[:-2], size + 1, groups.shape[-1]))
    counts[..., 0, :] = 1
    for output in range(size):
        erased = groups[..., output : output + 1, :]
        counts[..., 1:, :] = counts[..., 1:, :] * (1 - erased) + counts[..., :-1, :] * erased
        counts[..., :1, :] *= 1 - erased
    more: NDArray[np.float64] = np.cumsum(counts[..., :0:-1, :], axis=-2)[..., ::-1, :]
    return np.minimum(more, 1.0)
