"""The main job: one coded product on real photographs that does not wait for stragglers.

`run` does it, ``sooner demo`` shows it.  Needs scikit-learn, Pillow and Matplotlib:
``pip install "sooner[demo]"``.
"""

from sooner.demo.comparison import Outcome
from sooner.demo.run import Report, run

__all__ = ["Outcome", "Report", "run"]
