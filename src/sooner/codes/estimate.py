"""An answer before the exact one, with its error: the anytime estimates.

The unbiased estimate is [B23] eq. (3): correlate the available outputs with the data columns of
the transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import butterflies, transform
from sooner.codes.program import ZERO, ProgramBuilder

if TYPE_CHECKING:
    from sooner._types import Array, Mask
    from sooner.codes.layout import ChannelLayout
    from sooner.codes.program import Program, Value

__all__ = ["BlockEstimate", "correlation_program", "unbiased", "unbiased_relative_error"]


@dataclass(frozen=True, slots=True)
class BlockEstimate:
    """An estimate of the data blocks."""

    value: Array
    """Shape ``(k, ...)``."""
    relative_error: float
    """Root mean square of the error over that of the answer."""


def correlation_program(layout: ChannelLayout) -> Program:
    """Correlate outputs with the data columns of the transform, signs taken off.

    Parameters
    ----------
    layout
        The code; its kernel is HADAMARD.

    Returns
    -------
    Program
        From n outputs to k blocks.
    """
    builder = ProgramBuilder(layout.n)
    rows: list[Value] = [ZERO] * len(layout.kinds)
    for index, position in enumerate(layout.positions.tolist()):
        rows[position] = (index, 1.0)
    channels = butterflies.transform(builder, rows, hadamard=True)  # symmetric: its own adjoint
    return builder.build([
        (channels[channel][0], channels[channel][1] / scale)
        for channel, scale in zip(
            layout.data_channels.tolist(), layout.scales.tolist(), strict=True
        )
    ])


def unbiased(program: Program, outputs: Array, available: Mask) -> Array:
    """Estimate the data blocks without bias, [B23] eq. (3).

    Parameters
    ----------
    program
        From `correlation_program`.
    outputs
        Shape ``(n, ...)``; what is not available is not read.
    available
        Boolean mask, shape (n,).

    Returns
    -------
    ndarray, shape (k, ...)
        The estimate; zeros when nothing is available.
    """
    out = np.empty((program.n_results, *outputs.shape[1:]), dtype=outputs.dtype)
    count = int(np.count_nonzero(available))
    if count == 0:
        out[...] = 0
        return out
    rows = transform.as_rows(outputs)
    results = transform.as_rows(out)
    base = program.n_inputs + program.n_results

    def work(tile: slice, slots: Array) -> None:
        slots[: program.n_inputs] = 0
        slots[np.flatnonzero(available)] = rows[available, tile]
        transform.run_tile(program, slots)
        np.multiply(slots[program.n_inputs : base], 1 / count, out=results[:, tile])

    transform.for_each_tile(program.n_slots, rows.shape[1], out.dtype, work)
    return out


def unbiased_relative_error(m: int, *, k: int, size: int, parity_energy: float) -> float:
    """Relative root mean square error of the unbiased estimate.

    Exact for any data, over random signs and a uniformly random set of outputs.

    Parameters
    ----------
    m
        Available outputs.
    k
        Data blocks.
    size
        Transform size N, not the number of tasks: what was punctured is erased for good.
    parity_energy
        Energy of all late parities over that of one data block: about their number.

    Returns
    -------
    float
        The error; 1 when nothing is available, since the estimate is zero then.

    Notes
    -----
    An off-diagonal entry of ZᵀZ/m, Z the m available rows, is a mean of m signs drawn without
    replacement from N that sum to zero: its variance is (N - m) / (m (N - 1)).  The signs of
    the data take away the products of different entries.

    Examples
    --------
    >>> round(unbiased_relative_error(32, k=48, size=64, parity_energy=0), 2)
    0.86
    """
    if m == 0:
        return 1.0
    others = k + parity_energy - 1
    return math.sqrt(max(others, 0.0) * (size - m) / (m * max(size - 1, 1)))
