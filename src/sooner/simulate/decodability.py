"""When a job can be decoded, from when its outputs arrive: for any code, over many trials."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import PolarCode, Replication, SideBySide, polarized_run_times
from sooner.codes.layout import DATA

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sooner.codes import Code

__all__ = ["any_k_of_n", "decodability_times", "needed_outputs"]

_BATCH = 1 << 20
"""Run times that are polarized at once: 8 MB, whatever the number of trials."""


def decodability_times(code: Code, run_times: ArrayLike) -> NDArray[np.float64]:
    """When each trial's outputs first determine the answer.

    The sequential decoder of a polar code needs no decoder here: along each radix the run times
    are sorted, and the slowest data channel decides.  Copies take a minimum and a maximum, MDS
    codes the k-th arrival; every other code is told its outputs in order of arrival.

    Parameters
    ----------
    code
        The code.
    run_times
        When each output arrives, shape (trials, n); infinity for never.

    Returns
    -------
    ndarray, shape (trials,)
        The times; infinity where the outputs that arrive do not suffice.

    Raises
    ------
    ValueError
        If the run times have another shape.

    Notes
    -----
    Histograms of these times are Figures 6 and 7 of [B19] (arXiv 1901.06811).

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> run_times = ShiftedExponential(1.0, 1.0).sample(np.random.default_rng(0), (100, 64))
    >>> for decoder in ("sequential", "inactivation"):
    ...     code = PolarCode(64, 48, decoder=decoder)
    ...     print(round(float(decodability_times(code, run_times).mean()), 2))
    2.66
    2.35
    """
    times = np.asarray(run_times, dtype=np.float64)
    if times.ndim != 2 or times.shape[1] != code.n:
        raise ValueError(
            f"run_times must have shape (trials, n={code.n}), got shape {times.shape}."
        )
    return _times(code, times)


def any_k_of_n(run_times: ArrayLike, k: int) -> NDArray[np.float64]:
    """When the k fastest of each trial's outputs have arrived: an ideal code.

    Parameters
    ----------
    run_times
        When each output arrives, shape (trials, n); infinity for never.
    k
        How many suffice, whichever they are.

    Returns
    -------
    ndarray, shape (trials,)
        The times.

    Examples
    --------
    >>> any_k_of_n([[3.0, 1.0, 2.0]], 2)
    array([2.])
    """
    times: NDArray[np.float64] = np.partition(np.asarray(run_times), k - 1, axis=-1)[..., k - 1]
    return times


def needed_outputs(code: Code, run_times: ArrayLike) -> NDArray[np.intp]:
    """How many outputs have arrived when each trial can be decoded.

    Parameters
    ----------
    code
        The code.
    run_times
        When each output arrives, shape (trials, n).

    Returns
    -------
    ndarray of int, shape (trials,)
        The numbers, between k and n.

    Examples
    --------
    >>> from sooner.codes import Uncoded
    >>> needed_outputs(Uncoded(3), [[3.0, 1.0, 2.0]])
    array([3])
    """
    enough = decodability_times(code, run_times)
    came: NDArray[np.intp] = np.count_nonzero(np.asarray(run_times) <= enough[:, None], axis=1)
    return came


@singledispatch
def _times(code: Code, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Tell the code's own decoder of the outputs in order of arrival."""
    if getattr(code, "is_mds", False):
        return any_k_of_n(times, code.k)
    return np.array([_time_by_decoder(code, trial) for trial in times])


def _time_by_decoder(code: Code, times: NDArray[np.float64]) -> float:
    decoder = code.decoder()
    for index in np.argsort(times, kind="stable").tolist():
        if not np.isfinite(times[index]):
            break
        if decoder.add(index):
            return float(times[index])
    return float("inf")


@_times.register(PolarCode)
def _polar_times(code: PolarCode, times: NDArray[np.float64]) -> NDArray[np.float64]:
    if code.decoder_name == "inactivation":
        return np.array([_time_by_decoder(code, trial) for trial in times])
    carries_data = np.frombuffer(code.layout.kinds, np.uint8) == DATA
    found = np.empty(len(times))
    step = max(1, _BATCH // code.transform_size)
    for first in range(0, len(times), step):
        part = times[first : first + step]
        rows = np.full((len(part), code.transform_size), np.inf)  # punctured rows never arrive
        rows[:, code.layout.positions] = part
        channels = polarized_run_times(rows, sizes=code.layout.sizes)
        found[first : first + step] = channels[:, carries_data].max(axis=1)
    return found


@_times.register(Replication)
def _copies_times(code: Replication, times: NDArray[np.float64]) -> NDArray[np.float64]:
    copies = -(-code.n // code.k)
    padded = np.full((len(times), copies * code.k), np.inf)
    padded[:, : code.n] = times  # task i multiplies block i modulo k
    slowest: NDArray[np.float64] = padded.reshape(-1, copies, code.k).min(axis=1).max(axis=1)
    return slowest


@_times.register(SideBySide)
def _joint_times(code: SideBySide, times: NDArray[np.float64]) -> NDArray[np.float64]:
    parts = np.split(times, np.cumsum([part.n for part in code.codes])[:-1], axis=1)
    times_of_parts = [_times(part, share) for part, share in zip(code.codes, parts, strict=True)]
    slowest: NDArray[np.float64] = np.max(times_of_parts, axis=0)
    return slowest
