"""Pictures of what happened: every function draws on ``ax`` and gives it back.

Matplotlib is needed: ``pip install "sooner[plots]"``.  Nothing here touches pyplot or changes
Matplotlib's settings, so it is safe in servers, threads and notebooks.
"""

from sooner.plots.pictures import picture_strip
from sooner.plots.timeline import timeline

__all__ = ["picture_strip", "timeline"]
