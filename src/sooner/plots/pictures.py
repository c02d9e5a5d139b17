"""Images side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sooner.plots._matplotlib import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sooner._types import Array
    from sooner.plots._matplotlib import Axes

__all__ = ["picture_strip"]


def picture_strip(
    images: Sequence[Array],
    titles: Sequence[str],
    *,
    columns: int | None = None,
    ax: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Draw images side by side, each with a title.

    Parameters
    ----------
    images
        Each of shape (height, width) or (height, width, 3), values from 0 to 1; what lies
        outside is drawn as 0 or 1.
    titles
        One per image.
    columns
        Images in a row; None puts all of them in one.
    ax
        One Axes per image; None makes a new figure.

    Returns
    -------
    list of Axes
        One per image; ``axes[0].figure.savefig("picture.png")`` writes them.

    Raises
    ------
    ValueError
        If there is no image, or not one title (and one Axes, when given) per image.

    Examples
    --------
    >>> axes = picture_strip([np.zeros((4, 6)), np.ones((4, 6))], ["black", "white"])
    >>> [ax.get_title() for ax in axes]
    ['black', 'white']
    """
    if not images or len(titles) != len(images):
        raise ValueError(
            f"there must be one title per image and at least one image, "
            f"got {len(images)} images and {len(titles)} titles."
        )
    if ax is None:
        columns = min(columns or len(images), len(images))
        rows = -(-len(images) // columns)
        height, width = images[0].shape[:2]
        figure = Figure(figsize=(4.6 * columns, rows * (4.6 * height / width + 0.45)), dpi=130)
        figure.set_layout_engine("constrained")
        ax = [figure.add_subplot(rows, columns, 1 + place) for place in range(len(images))]
    elif len(ax) != len(images):
        raise ValueError(
            f"there must be one Axes per image, got {len(ax)} for {len(images)} images."
        )
    for axes, image, title in zip(ax, images, titles, strict=True):
        axes.imshow(np.clip(image, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="antialiased")
        axes.set_title(title, fontsize="medium")
        axes.set_axis_off()
    return list(ax)
