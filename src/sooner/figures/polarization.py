"""Polarized run times: how a transform makes fast and slow channels of equal tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.figures.panels import new_axes
from sooner.simulate import polarization_levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sooner._types import RNGLike
    from sooner.plots._matplotlib import Axes
    from sooner.runtimes import RunTimes

__all__ = ["PolarizationTable", "draw_polarization", "polarization_table"]


@dataclass(frozen=True, slots=True)
class PolarizationTable:
    """Distributions of when the tasks, and when the channels, are known."""

    sizes: tuple[int, ...]
    """Sizes of the kernels, one per level."""
    tasks: NDArray[np.float64]
    """Run times of a task, ascending, shape (trials,)."""
    channels: NDArray[np.float64]
    """Times of the channels, each column ascending, shape (trials, channels)."""

    def rows(self) -> list[dict[str, Any]]:
        """Give the times per channel.

        Returns
        -------
        list of dict
            One per channel, in decoding order.
        """
        name = "x".join(map(str, self.sizes))
        quantiles = np.quantile(self.channels, (0.1, 0.5, 0.9), axis=0).T.tolist()
        return [
            {"kernels": name, "channel": channel, "p10": low, "median": middle, "p90": high}
            for channel, (low, middle, high) in enumerate(quantiles)
        ]


def polarization_table(
    run_times: RunTimes, sizes: Sequence[int], *, trials: int = 1000, rng: RNGLike = 0
) -> PolarizationTable:
    """Draw run times, and see when each channel of a transform is known.

    Parameters
    ----------
    run_times
        Of independent tasks.
    sizes
        Sizes of the kernels, one per level.
    trials
        Draws of all tasks.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    PolarizationTable
        Empirical distribution functions.

    Notes
    -----
    Figure 5 of [B19] (arXiv 1901.06811) for 2 x 2 kernels.

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> table = polarization_table(ShiftedExponential(1.0, 0.5), [3, 3], trials=100)
    >>> table.channels.shape
    (100, 9)
    """
    levels = polarization_levels(run_times, sizes, trials=trials, rng=rng)
    return PolarizationTable(tuple(sizes), levels[0][:, 0], levels[-1])


def draw_polarization(table: PolarizationTable, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution function of each channel over that of a task.

    Parameters
    ----------
    table
        From `polarization_table`.
    ax
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.
    """
    ax = new_axes() if ax is None else ax
    trials, n = table.channels.shape
    # A curve needs no more points than the picture has pixels.
    places = np.unique(np.linspace(0, trials - 1, min(trials, 200)).astype(int))
    shares = (places + 1) / trials
    for times in table.channels.T:
        ax.plot(times[places], shares, color="C0", linewidth=0.7, alpha=0.6)
    ax.plot([], [], color="C0", label=f"{n} channels")
    ax.plot(table.tasks[places], shares, color="black", linewidth=2, label="one task")
    size, levels = table.sizes[0], len(table.sizes)
    same = all(each == size for each in table.sizes)
    kernels = f"{levels} levels of size {size}" if same else "x".join(map(str, table.sizes))
    ax.set_title(f"{kernels}: n = {math.prod(table.sizes)}", fontsize="medium")
    ax.set_xlim(table.tasks[0], np.quantile(table.channels, 0.995))
    ax.set(xlabel="seconds", ylabel="share of the trials", ylim=(0, 1))
    ax.legend(fontsize="small", loc="lower right", frameon=False)
    return ax
