from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sooner._types import Array

VARIANTS: tuple[str, ...]
"""Instruction sets that this processor has, the widest last."""

def run(
    heads: NDArray[np.int32],
    slots: NDArray[np.int32],
    coefs: NDArray[np.float64],
    n_inputs: int,
    n_slots: int,
    inputs: Array,
    out: Array,
    threads: int,
    stop: Callable[[], bool] | None,
    tile_bytes: int,
    poll_bytes: int,
    variant: int,
    /,
) -> bool:
    """Run a program on rows; False if `stop` said so before the end.

    Parameters
    ----------
    heads
        For each run (dense, slots in, slots out, count), shape (runs, 4).
    slots
        For each run what it reads and then what it writes.
    coefs
        For each run its factors, or its matrix.
    n_inputs
        Input slots; the inputs that are read must be among the rows of `inputs`.
    n_slots
        Inputs, results, and scratch.
    inputs, out
        Rows of float32 or float64, both the same, that do not overlap, with contiguous columns.
    threads
        Threads to use, this one included.
    stop
        Asked at the start, and about every `poll_bytes` of input and output; so are signals.
    tile_bytes
        Bytes of each row in a tile: a multiple of 128, at most 4096.
    poll_bytes
        See `stop`.
    variant
        Index into VARIANTS.

    Raises
    ------
    ValueError
        If the program or the arrays do not fit.
    """
