"""Whole transforms and single 2 x 2 stages, as operations of a program.

Everything that depends on which of the two 2 x 2 kernels a code has is in this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sooner.codes.program import ZERO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sooner.codes.program import ProgramBuilder, Value

__all__ = ["better_input", "combine", "inverse_transform", "split", "subtract", "transform"]

_MAX_RADIX = 3
"""Levels per operation: a block is loaded once for three levels of the transform."""


def transform(builder: ProgramBuilder, values: Sequence[Value], *, hadamard: bool) -> list[Value]:
    """All levels: the Kronecker power of the kernel times `values`.

    Parameters
    ----------
    builder
        Gets the operations.
    values
        As many as a power of two.
    hadamard
        Whether the kernel is HADAMARD; ARIKAN otherwise.

    Returns
    -------
    list of Value
        The transform.
    """
    current = list(values)
    stride = len(current)
    while stride > 1:
        builder.barrier()
        levels = stride.bit_length() - 1
        n_stages = -(-levels // _MAX_RADIX)
        radix = -(-levels // n_stages) if hadamard else 1  # 10 levels are 3 + 3 + 2 + 2
        span, stride = stride, stride >> radix
        for block in range(0, len(current), span):
            for first in range(block, block + stride):
                members = range(first, first + span, stride)
                group = [current[j] for j in members]
                if hadamard:
                    outs = builder.butterfly(group)
                else:
                    outs = combine(builder, group[0], group[1], hadamard=False)
                for j, out in zip(members, outs, strict=True):
                    current[j] = out
    builder.barrier()
    return current


def inverse_transform(
    builder: ProgramBuilder, values: Sequence[Value], *, hadamard: bool
) -> list[Value]:
    """All levels of the inverse: channels from outputs when every output is known.

    Parameters
    ----------
    builder
        Gets the operations.
    values
        As many as a power of two.
    hadamard
        Whether the kernel is HADAMARD; ARIKAN otherwise.

    Returns
    -------
    list of Value
        The channels.
    """
    if hadamard:  # the Hadamard matrix is its own inverse, but for its size
        scale = 1 / len(values)
        scaled = [(slot, coef * scale) for slot, coef in values]
        return transform(builder, scaled, hadamard=True)
    current = list(values)
    half = len(current) // 2
    while half:
        builder.barrier()
        for block in range(0, len(current), 2 * half):
            for j in range(block, block + half):
                current[j] = subtract(builder, current[j], current[j + half])
        half //= 2
    builder.barrier()
    return current


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
