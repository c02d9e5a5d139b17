"""New axes for pictures that were not told where to draw, and several side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sooner.plots._matplotlib import Figure

if TYPE_CHECKING:
    from sooner.plots._matplotlib import Axes

__all__ = ["new_axes", "side_by_side"]


def side_by_side(
    count: int, *, columns: int | None = None, width: float = 4.2, height: float = 3.4
) -> list[Axes]:
    """Make axes side by side in one new figure.

    Parameters
    ----------
    count
        How many.
    columns
        How many in a row; None puts all in one.
    width, height
        Of each, in inches.

    Returns
    -------
    list of Axes
        Row by row.

    Examples
    --------
    >>> len(side_by_side(3))
    3
    """
    columns = columns or count
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), dpi=100)
    figure.set_layout_engine("constrained")
    axes = [figure.add_subplot(rows, columns, 1 + place) for place in range(count)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return axes


def new_axes() -> Axes:
    """Make axes in a new figure of their own.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> len(new_axes().figure.axes)
    1
    """
    return side_by_side(1, width=5.6)[0]
