"""The encoder of a polar code as a program: signs, late parities, transform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sooner.codes import butterflies
from sooner.codes.program import ZERO, ProgramBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sooner.codes.layout import ChannelLayout
    from sooner.codes.program import Program, Value

__all__ = ["encoding_program"]


def encoding_program(layout: ChannelLayout, outputs: Sequence[int]) -> Program:
    """Some outputs from the blocks on the data channels: signs, parities, transform.

    Parameters
    ----------
    layout
        The code.
    outputs
        Which outputs, in order.

    Returns
    -------
    Program
        From k blocks to as many as there are `outputs`.
    """
    builder = ProgramBuilder(layout.k)
    data: list[Value] = list(enumerate(layout.scales.tolist()))
    channels = [ZERO] * len(layout.kinds)
    for channel, value in zip(layout.data_channels.tolist(), data, strict=True):
        channels[channel] = value
    parities = builder.dense(layout.parity, data)
    for channel, value in zip(layout.parity_channels.tolist(), parities, strict=True):
        channels[channel] = value
    rows = butterflies.transform(builder, channels, layout.kernels)
    return builder.build([rows[layout.positions[output]] for output in outputs])
