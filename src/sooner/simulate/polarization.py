"""Polarization of run times, level by level: how a transform makes fast and slow channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import polarized_run_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sooner._types import RNGLike
    from sooner.runtimes import RunTimes

__all__ = ["polarization_levels"]


def polarization_levels(
    run_times: RunTimes, sizes: Sequence[int], *, trials: int = 1000, rng: RNGLike = 0
) -> list[NDArray[np.float64]]:
    """Sorted run times of the different channels after each level of a transform.

    After r levels there are as many kinds of channels as the product of the first r sizes; a
    column of sorted times is the empirical distribution function of one of them.

    Parameters
    ----------
    run_times
        Of independent tasks.
    sizes
        Sizes of the kernels, one per level; ``[2, 2, 2]`` is the 8 x 8 transform.
    trials
        Draws of all tasks.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    list of ndarray, shape (trials, channels)
        One array per level, beginning with the run times themselves (one channel); each column
        ascending, columns in decoding order.

    Notes
    -----
    Figure 5 of [B19] (arXiv 1901.06811) shows the columns for 2 x 2 kernels.

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> levels = polarization_levels(ShiftedExponential(1.0, 1.0), [2, 2], trials=4000)
    >>> [level.mean(axis=0).round(1).tolist() for level in levels]
    [[2.0], [2.5, 1.5], [3.1, 1.9, 1.7, 1.2]]
    """
    generator = np.random.default_rng(rng)
    levels = []
    for depth in range(len(sizes) + 1):
        used = list(sizes[:depth])
        channels = int(np.prod(used, dtype=int))
        drawn = run_times.sample(generator, (trials, channels))
        known = polarized_run_times(drawn, sizes=used) if used else drawn
        levels.append(np.sort(known, axis=0))
    return levels
