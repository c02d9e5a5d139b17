"""Black-box optimization that does not wait for lost evaluations."""

from __future__ import annotations

from sooner.optimize.candidates import Candidates
from sooner.optimize.evaluation import evaluate
from sooner.optimize.minimizing import minimize
from sooner.optimize.strategy import EvolutionStrategy

__all__ = ["Candidates", "EvolutionStrategy", "evaluate", "minimize"]
