"""Spare outputs check the answer: detect a wrong output, locate it, so that it can be dropped.

With more received outputs than data blocks, some combinations of the outputs are zero whatever the
data: the left null space of the received rows of the generator.  A wrong output makes its column of
that space show.  One spare equation detects it, two locate it; with none to spare a wrong output
cannot be found by anybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sooner._types import Array, Indices

__all__ = ["Verdict", "judge"]

_ROUNDING = 64.0
"""Rounding of outputs in units of eps times their size: sums of products, then of blocks."""

_VISIBLE = 1e-6
"""Share of an output in the null space below which the equations do not see it."""

_PRECISION = 1e-7
"""Of what is left of a large violation: the square root of the rounding of a difference."""

_TILE_ENTRIES = 1 << 19
"""Entries of the outputs that are looked at at a time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the spare outputs say."""

    n_spare: int
    """Independent equations that were checked; 0 means that nothing was."""
    residual: float
    """Largest violation, in units of what rounding explains: above 1 something is wrong."""
    suspect: int | None
    """Place among the received outputs of the one that explains it alone; None if none does."""

    @property
    def clean(self) -> bool:
        """Whether rounding explains what is there."""
        return self.residual <= 1


def judge(
    generator: NDArray[np.float64],
    outputs: Array,
    *,
    received: Indices | None = None,
    size: float = 0.0,
) -> Verdict:
    """Check received outputs against each other.

    Parameters
    ----------
    generator
        Received rows of the generator, shape (m, k), of rank k.
    outputs
        Outputs, shape (n, columns); a tile of columns is looked at at a time.
    received
        Which of them were received, shape (m,); None for all.
    size
        Of the products that each entry of an output is the sum of: where these cancel, as in a
        gradient near its zero, outputs consist of rounding and are no measure of it.

    Returns
    -------
    Verdict
        Whether they agree, and which one to drop if they do not.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    >>> good = rows @ np.array([[3.0], [4.0]])
    >>> judge(rows, good).clean
    True
    >>> good[2] += 1e-3
    >>> judge(rows, good).suspect
    2
    """
    m, k = generator.shape
    received = np.arange(m) if received is None else received
    if m <= k or outputs.shape[1] == 0:
        return Verdict(0, 0.0, None)
    # The last columns of a complete QR decomposition span the left null space.
    null = np.linalg.qr(generator, mode="complete")[0][:, k:]
    tiles = _Tiles(outputs, received)
    infinite = np.flatnonzero(tiles.infinite)
    if infinite.size:
        # If it is only one and the others, which are finite, determine it, then it is wrong.
        told = infinite.size == 1 and np.linalg.norm(null[infinite[0]]) >= _VISIBLE
        return Verdict(m - k, math.inf, int(infinite[0]) if told else None)
    limits = _limits(tiles, size)
    residual = max(
        float(np.linalg.norm(weighted, axis=0).max())
        for weighted in _violations(null, tiles, limits)
    )
    if residual <= 1 or m - k < 2:
        return Verdict(m - k, residual, None)
    return Verdict(m - k, residual, _locate(null, _violations(null, tiles, limits)))


class _Tiles:
    """Received outputs a few columns at a time: all of them may not fit into memory twice.

    They are scaled by a power of two, since squares of very small or large ones are 0 or infinite.
    """

    def __init__(self, outputs: Array, received: Indices) -> None:
        self.n_received, self.n_columns, self.dtype = received.size, outputs.shape[1], outputs.dtype
        self._outputs, self._received = outputs, received
        self.scale, self._has_blind_columns = 1.0, False
        self.infinite = np.zeros(received.size, dtype=np.bool_)
        """Which received outputs hold infinities or NaN where others are finite."""
        largest = float(np.max([self._look(tile) for _, tile in self]))
        if largest:
            # Both the scale and its reciprocal are normal numbers.
            most = np.finfo(outputs.dtype).maxexp - 2
            self.scale = math.ldexp(1.0, min(max(-math.frexp(largest)[1], -most), most))

    def _look(self, tile: Array) -> float:
        """Give the size of the largest finite number."""
        sizes = np.abs(tile)
        largest = float(sizes.max())
        if math.isfinite(largest):
            return largest
        finite = np.isfinite(sizes)
        self.infinite |= (~finite & finite.any(axis=0)).any(axis=1)
        self._has_blind_columns |= not finite.any(axis=0).all()
        return float(sizes.max(where=finite, initial=0))

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        width = max(1, _TILE_ENTRIES // self.n_received)
        for first in range(0, self.n_columns, width):
            columns = slice(first, first + width)
            tile = self._outputs[self._received, columns]  # a copy
            tile *= self.scale
            if self._has_blind_columns:
                tile[:, ~np.isfinite(tile).any(axis=0)] = 0  # there is nothing to compare
            yield columns, tile


def _violations(
    null: NDArray[np.float64], tiles: _Tiles, limits: NDArray[np.float64]
) -> Iterator[Array]:
    """How far the equations are from zero, in units of what rounding explains."""
    null = null.T.astype(np.empty(0, tiles.dtype).real.dtype)
    for columns, tile in tiles:
        yield null @ tile / limits[columns]


def _limits(tiles: _Tiles, size: float) -> NDArray[np.float64]:
    """What rounding explains in each column."""
    sizes = np.empty(tiles.n_columns)
    for columns, tile in tiles:
        sizes[columns] = np.linalg.norm(tile, axis=0)
    # A column may be small because large products cancelled: its rounding is that of the others.
    typical = float(np.linalg.norm(sizes)) / np.sqrt(sizes.size)
    precision = np.finfo(tiles.dtype)
    least = max(typical, np.sqrt(tiles.n_received) * size * tiles.scale)
    limits: NDArray[np.float64] = _ROUNDING * float(precision.eps) * np.maximum(sizes, least)
    return np.maximum(limits, max(float(precision.tiny) * tiles.scale, np.finfo(np.float64).tiny))


def _locate(null: NDArray[np.float64], violations: Iterator[Array]) -> int | None:
    """The one output whose column of the null space explains the violation, if there is one."""
    lengths = np.linalg.norm(null, axis=1)
    directions = null / np.maximum(lengths, _VISIBLE)[:, None]
    total, n_columns, explained = 0.0, 0, np.zeros(len(null))
    for weighted in violations:
        total += float(np.sum(np.abs(weighted) ** 2))
        explained += np.sum(np.abs(directions @ weighted) ** 2, axis=1)
        n_columns += weighted.shape[1]
    # What is left of the violation when output i may be anything.
    left = total - explained
    left[lengths < _VISIBLE] = total
    explaining = np.flatnonzero(left <= n_columns + _PRECISION**2 * total)
    return int(explaining[0]) if explaining.size == 1 else None
