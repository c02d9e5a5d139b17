"""What is used of Matplotlib: the one place that imports it, or says what to install."""

from __future__ import annotations

from sooner.errors import MissingExtraError

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import ScaledTranslation
except ModuleNotFoundError as error:
    raise MissingExtraError('drawing needs Matplotlib: pip install "sooner[plots]"') from error

__all__ = ["Axes", "Figure", "ScaledTranslation"]
