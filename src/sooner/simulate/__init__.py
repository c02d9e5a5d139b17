"""What run times do to a job: decodability, polarization, policies, and a design from them.

Nothing in here runs a job: run times are measured or drawn, and arithmetic does the rest.
"""

from __future__ import annotations

from sooner.simulate.comparison import Comparison, Interval
from sooner.simulate.decodability import any_k_of_n, decodability_times, needed_outputs
from sooner.simulate.polarization import polarization_levels
from sooner.simulate.prices import PRICES, Bill, Prices
from sooner.simulate.reading import read_rounds, rounds_of_trace
from sooner.simulate.recommendation import Design, Expected, design
from sooner.simulate.replaying import Replay, replay
from sooner.simulate.rounds import Rounds
from sooner.simulate.schemes import Scheme
from sooner.simulate.sizes import Sizes, sizes_of

__all__ = [
    "PRICES",
    "Bill",
    "Comparison",
    "Design",
    "Expected",
    "Interval",
    "Prices",
    "Replay",
    "Rounds",
    "Scheme",
    "Sizes",
    "any_k_of_n",
    "decodability_times",
    "design",
    "needed_outputs",
    "polarization_levels",
    "read_rounds",
    "replay",
    "rounds_of_trace",
    "sizes_of",
]
