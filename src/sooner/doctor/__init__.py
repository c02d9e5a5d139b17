"""What is wrong with this set-up: versions, optional packages, a store, an engine, a product.

Each check is bounded in time and says in one line what it found, and what to do if that is bad.
"""

from sooner.doctor.examination import ENGINES, examine
from sooner.doctor.finding import Finding
from sooner.doctor.packages import EXTRAS

__all__ = ["ENGINES", "EXTRAS", "Finding", "examine"]
