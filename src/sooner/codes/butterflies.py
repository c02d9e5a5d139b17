"""Whole transforms, and single stages of HADAMARD and ARIKAN, as operations of a program.

Everything that depends on which of these two a code has is in this module; stages of other
kernels are in `mixed_radix`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sooner.codes.kernel import ARIKAN, HADAMARD
from sooner.codes.program import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sooner.codes.kernel import Kernel
    from sooner.codes.program import ProgramBuilder, Value

__all__ = ["better_input", "combine", "inverse_transform", "split", "subtract", "transform"]

_MAX_RADIX = 3
"""Levels per operation: a block is loaded once for three levels of the transform."""


def transform(
    builder: ProgramBuilder, values: Sequence[Value], kernels: Sequence[Kernel]
) -> list[Value]:
    """All stages: the Kronecker product of the kernels times `values`.

    Parameters
    ----------
    builder
        Gets the operations.
    values
        As many as the sizes of the kernels multiply to.
    kernels
        The slowest radix first.

    Returns
    -------
    list of Value
        The transform.
    """
    if all(kernel is HADAMARD for kernel in kernels):
        return _hadamard_transform(builder, values)
    return _stage_by_stage(builder, values, kernels, _outputs)


def inverse_transform(
    builder: ProgramBuilder, values: Sequence[Value], kernels: Sequence[Kernel]
) -> list[Value]:
    """All stages of the inverse: channels from outputs when every output is known.

    Parameters
    ----------
    builder
        Gets the operations.
    values
        As many as the sizes of the kernels multiply to.
    kernels
        The slowest radix first.

    Returns
    -------
    list of Value
        The channels.
    """
    if all(kernel is HADAMARD for kernel in kernels):
        # The Hadamard matrix is its own inverse, but for its size.
        scale = 1 / len(values)
        return _hadamard_transform(builder, [(slot, coef * scale) for slot, coef in values])
    return _stage_by_stage(builder, values, kernels, _inputs)


def _hadamard_transform(builder: ProgramBuilder, values: Sequence[Value]) -> list[Value]:
    """The transform of HADAMARD, several levels at a time."""
    current = list(values)
    stride = len(current)
    while stride > 1:
        builder.barrier()
        levels = stride.bit_length() - 1
        n_stages = -(-levels // _MAX_RADIX)
        radix = -(-levels // n_stages)  # 10 levels are 3 + 3 + 2 + 2
        span, stride = stride, stride >> radix
        for block in range(0, len(current), span):
            for first in range(block, block + stride):
                members = slice(first, first + span, stride)
                current[members] = builder.butterfly(current[members])
    builder.barrier()
    return current


def _stage_by_stage(
    builder: ProgramBuilder,
    values: Sequence[Value],
    kernels: Sequence[Kernel],
    stage: Callable[[ProgramBuilder, Kernel, list[Value]], list[Value]],
) -> list[Value]:
    """One stage for each kernel, on the groups along its radix."""
    current = list(values)
    stride = len(current)
    for kernel in kernels:
        builder.barrier()
        span, stride = stride, stride // kernel.size
        for block in range(0, len(current), span):
            for first in range(block, block + stride):
                members = slice(first, first + span, stride)
                current[members] = stage(builder, kernel, current[members])
    builder.barrier()
    return current


def _outputs(builder: ProgramBuilder, kernel: Kernel, inputs: list[Value]) -> list[Value]:
    """The outputs of one group from its inputs."""
    if kernel is HADAMARD or kernel is ARIKAN:
        return combine(builder, *inputs, hadamard=kernel is HADAMARD)
    return builder.dense(kernel.matrix, inputs)


def _inputs(builder: ProgramBuilder, kernel: Kernel, outputs: list[Value]) -> list[Value]:
    """The inputs of one group from its outputs."""
    if kernel is HADAMARD or kernel is ARIKAN:
        return split(builder, *outputs, hadamard=kernel is HADAMARD)
    return builder.dense(kernel.inverse, outputs)


def subtract(builder: ProgramBuilder, a: Value, b: Value) -> Value:
    """``a - b``.

    Parameters
    ----------
    builder
        Gets the operation.
    a, b
        The values.

    Returns
    -------
    Value
        The difference.
    """
    return builder.butterfly([a, b])[1]


def combine(
    builder: ProgramBuilder,
    worse: Value,
    better: Value,
    *,
    hadamard: bool,
) -> list[Value]:
    """One stage upwards: the two outputs from the two inputs.

    Parameters
    ----------
    builder
        Gets the operation.
    worse, better
        The inputs, in the order of decoding.
    hadamard
        Whether the kernel is HADAMARD; ARIKAN otherwise.

    Returns
    -------
    list of Value
        The upper and the lower output.
    """
    outs = builder.butterfly([worse, better])
    return outs if hadamard else [outs[0], better]


def split(
    builder: ProgramBuilder,
    upper: Value,
    lower: Value,
    *,
    hadamard: bool,
) -> list[Value]:
    """One stage downwards when both outputs are known: the two inputs.

    Parameters
    ----------
    builder
        Gets the operation.
    upper, lower
        The outputs.
    hadamard
        Whether the kernel is HADAMARD; ARIKAN otherwise.

    Returns
    -------
    list of Value
        The worse and the better input.
    """
    if hadamard:
        return builder.butterfly([(upper[0], upper[1] / 2), (lower[0], lower[1] / 2)])
    return [subtract(builder, upper, lower), lower]


def better_input(
    builder: ProgramBuilder,
    upper: Value | None,
    lower: Value | None,
    worse: Value,
    *,
    hadamard: bool,
) -> Value:
    """One stage downwards when one output and the worse input are known: the better input.

    Parameters
    ----------
    builder
        Gets the operation.
    upper, lower
        The outputs, one of them None.
    worse
        The worse input.
    hadamard
        Whether the kernel is HADAMARD; ARIKAN otherwise.

    Returns
    -------
    Value
        The better input.
    """
    if upper is not None:
        return subtract(builder, upper, worse)
    if lower is None:
        return ZERO
    return subtract(builder, worse, lower) if hadamard else lower
