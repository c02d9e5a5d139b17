"""An answer before the exact one, with its error: the anytime estimates of a polar code.

* ``"unbiased"`` is [B23] eq. (3): correlate the available outputs with the data columns of the
  transform.  Its error has a closed form and is large; it serves averages.
* ``"scaled"`` is the same shrunk by 1 / (1 + v), v its squared error.
* ``"least_squares"`` is the solution of minimum norm.
* ``"common_mean"`` and ``"gram"`` are least squares under a model of the blocks (`prediction`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import butterflies, prediction, transform
from sooner.codes.program import ZERO, ProgramBuilder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array, Indices, Mask
    from sooner.codes.layout import ChannelLayout
    from sooner.codes.program import Program, Value

__all__ = [
    "METHODS",
    "BlockEstimate",
    "Functional",
    "adjoint_program",
    "conjugate_gradients",
    "correlation_program",
    "functional",
    "predicted",
    "unbiased",
    "unbiased_relative_error",
]

METHODS = ("unbiased", "scaled", "least_squares", "common_mean", "gram")

_COLUMNS = 128
"""Columns that error bars and the choice of a model look at; more change neither."""

_CG_STEPS = 12


@dataclass(frozen=True, slots=True)
class BlockEstimate:
    """An estimate of the data blocks."""

    value: Array
    """Shape ``(k, ...)``."""
    relative_error: float
    """Root mean square of the error over that of the answer: a law, or an estimate of it."""
    determined: Mask | None = None
    """Blocks that the outputs fix already and that are exact, shape (k,); None for none."""


@dataclass(frozen=True, slots=True)
class Functional:
    """An unbiased estimate of one number ``c @ answer``."""

    value: complex
    """The estimate; real for real data."""
    standard_error: float
    """Its standard deviation over random sets of outputs, from the spread of the outputs."""


def _on_rows(layout: ChannelLayout) -> list[Value]:
    """The outputs at their rows of the transform; zero where there is none."""
    rows: list[Value] = [ZERO] * len(layout.kinds)
    for index, position in enumerate(layout.positions.tolist()):
        rows[position] = (index, 1.0)
    return rows


def correlation_program(layout: ChannelLayout) -> Program:
    """Correlate outputs with the data columns of the transform, signs taken off.

    Parameters
    ----------
    layout
        The code.

    Returns
    -------
    Program
        From n outputs to k blocks.
    """
    builder = ProgramBuilder(layout.n)
    channels = butterflies.transform(builder, _on_rows(layout), layout.transposed)
    return builder.build([
        (channels[channel][0], channels[channel][1] / scale)
        for channel, scale in zip(
            layout.data_channels.tolist(), layout.scales.tolist(), strict=True
        )
    ])


def adjoint_program(layout: ChannelLayout) -> Program:
    """The transpose of the generator, late parities included.

    Parameters
    ----------
    layout
        The code.

    Returns
    -------
    Program
        From n outputs to k blocks.
    """
    builder = ProgramBuilder(layout.n)
    channels = butterflies.transform(builder, _on_rows(layout), layout.transposed)
    data = [channels[channel] for channel in layout.data_channels.tolist()]
    parities = [channels[channel] for channel in layout.parity_channels.tolist()]
    through = builder.dense(np.ascontiguousarray(layout.parity.T), parities)
    builder.barrier()
    sums = [
        builder.butterfly([value, other])[0] for value, other in zip(data, through, strict=True)
    ]
    return builder.build([
        (slot, coef * scale)
        for (slot, coef), scale in zip(sums, layout.scales.tolist(), strict=True)
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
    out = np.zeros((program.n_results, *outputs.shape[1:]), dtype=outputs.dtype)
    count = int(np.count_nonzero(available))
    if count:
        transform.run(program, _zero_filled(outputs, available), out=out)
        out *= 1 / count
    return out


def _zero_filled(outputs: Array, available: Mask) -> Array:
    filled = np.zeros(outputs.shape, dtype=outputs.dtype)
    filled[available] = outputs[available]
    return filled


def unbiased_relative_error(m: int, *, energy: float, size: int) -> float:
    """Relative root mean square error of the unbiased estimate.

    Exact for any data, over random signs and a uniformly random set of outputs.

    Parameters
    ----------
    m
        Available outputs.
    energy
        Energy of an output over that of one data block: k, and that of the late parities.
    size
        Transform size N, not the number of tasks: what was punctured is erased for good.

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
    >>> round(unbiased_relative_error(32, energy=48, size=64), 2)
    0.86
    """
    if m == 0:
        return 1.0
    return math.sqrt(max(energy - 1, 0.0) * (size - m) / (m * max(size - 1, 1)))


def predicted(
    method: str,
    generator: NDArray[np.float64],
    outputs: Array,
    *,
    size: int,
    covariance: NDArray[np.float64] | None = None,
    systematic: int | None = None,
) -> BlockEstimate:
    """Estimate the data blocks by linear prediction, with dense matrices.

    Parameters
    ----------
    method
        ``"least_squares"``, ``"common_mean"`` or ``"gram"``.
    generator
        Received rows of the generator, shape (m, k).
    outputs
        Received outputs, shape ``(m, ...)``.
    size
        Transform size N.
    covariance
        Inner products of the data blocks, shape (k, k), for ``"gram"``.
    systematic
        For a systematic code, how many of the received outputs, the first ones, are data blocks.

    Returns
    -------
    BlockEstimate
        The estimate, its error by leave-one-out.

    Raises
    ------
    ValueError
        If ``"gram"`` is asked for without a covariance.
    """
    m, k = generator.shape
    if m == 0:
        return BlockEstimate(np.zeros((k, *outputs.shape[1:]), dtype=outputs.dtype), 1.0)
    rows = transform.as_rows(outputs)
    some = rows[:, _spread(rows.shape[1])].astype(np.result_type(rows.dtype, np.float64))
    if method == "gram":
        if covariance is None:
            raise ValueError(
                'method="gram" needs the inner products of the data blocks: encode with gram=True.'
            )
        found = prediction.gram(generator, covariance)
    elif method == "common_mean":
        found = prediction.common_mean(generator, some)
    else:
        found = prediction.least_squares(generator)
    weights = found.weights.astype(outputs.dtype)
    value = (weights @ rows).reshape(k, *outputs.shape[1:])
    if systematic is None:
        error = prediction.relative_error(found, some, size=size)
    else:
        error = prediction.systematic_error(found, some, came=systematic, k=k)
    return BlockEstimate(value, error)


def _spread(columns: int) -> Indices:
    """Some columns, evenly spread."""
    return np.unique(np.linspace(0, columns - 1, min(columns, _COLUMNS)).astype(np.intp))


def conjugate_gradients(
    encoder: Program, adjoint: Program, outputs: Array, available: Mask, *, size: int
) -> BlockEstimate:
    """Least squares for a code that is too large for dense matrices: a few steps, fast transforms.

    Parameters
    ----------
    encoder, adjoint
        The generator and its transpose.
    outputs
        Shape ``(n, ...)``; what is not available is not read.
    available
        Boolean mask, shape (n,).
    size
        Transform size N.

    Returns
    -------
    BlockEstimate
        The estimate; its error by leave-one-out, with the mean of the diagonal of K⁻¹ from a
        few random probes.
    """
    m = int(np.count_nonzero(available))
    if m == 0:
        return BlockEstimate(np.zeros((adjoint.n_results, *outputs.shape[1:]), outputs.dtype), 1.0)
    rows = _zero_filled(transform.as_rows(outputs), available)
    columns = rows.shape[1]
    probe = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(rows), 8)) * available[:, None]
    solved = _solve(encoder, adjoint, np.hstack([rows, probe.astype(rows.dtype)]), available)
    value = np.empty((adjoint.n_results, columns), dtype=rows.dtype)
    multipliers = np.ascontiguousarray(solved[:, :columns])
    transform.run(adjoint, multipliers, out=value)
    diagonal = float(np.sum(probe * solved[:, columns:].real)) / (8 * m)
    energy = float(np.sum(np.abs(rows) ** 2))
    left_out = float(np.sum(np.abs(multipliers) ** 2)) / diagonal**2
    error = math.sqrt(left_out / energy * (size - m) / size) if energy else 0.0
    return BlockEstimate(value.reshape(-1, *outputs.shape[1:]), min(1.0, error))


def _solve(encoder: Program, adjoint: Program, right: Array, available: Mask) -> Array:
    """A few steps of conjugate gradients for ``G Gᵀ x = right``, column by column."""
    x = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    blocks = np.empty((adjoint.n_results, right.shape[1]), dtype=right.dtype)
    product = np.empty_like(right)
    squared = np.sum(np.abs(residual) ** 2, axis=0)
    for _ in range(_CG_STEPS):
        transform.run(adjoint, direction, out=blocks)
        transform.run(encoder, blocks, out=product)
        product[~available] = 0
        curvature = np.sum(direction.conj() * product, axis=0).real
        step = np.divide(squared, curvature, out=np.zeros_like(squared), where=curvature > 0)
        x += step * direction
        residual -= step * product
        last, squared = squared, np.sum(np.abs(residual) ** 2, axis=0)
        factor = np.divide(squared, last, out=np.zeros_like(squared), where=last > 0)
        direction = residual + factor * direction
    return x


def functional(coded: Array, outputs: Array, available: Mask, *, size: int) -> Functional:
    """Estimate one number, linear in the answer, without bias; [B23] eq. (5).

    Parameters
    ----------
    coded
        The coefficients encoded by the data columns of the code, shape ``(n, ...)``.
    outputs
        Shape ``(n, ...)``; what is not available is not read.
    available
        Boolean mask, shape (n,).
    size
        Transform size N.

    Returns
    -------
    Functional
        The mean over the available outputs of one number each; those of all N rows of the
        transform have the exact value as their mean.  The standard error follows from their
        spread, sampled without replacement; it does not grow with k.
    """
    samples = np.array([
        np.vdot(coded[index].conj(), outputs[index]) for index in np.flatnonzero(available)
    ])
    m = samples.size
    if m == 0:
        return Functional(0.0, math.inf)
    mean = samples.mean()
    if m == 1:
        return Functional(mean.item(), 0.0 if size == 1 else math.inf)
    variance = float(np.sum(np.abs(samples - mean) ** 2)) / (m - 1)
    return Functional(mean.item(), math.sqrt(variance / m * (size - m) / size))
