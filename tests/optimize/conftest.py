import numpy as np
import pytest

import sooner


@pytest.fixture
def strategy_of():
    """Makes a strategy of d variables that starts at ones."""

    def make(d=6, **options):
        options = {"sigma": 1e-2, "learning_rate": 0.1, **options}
        return sooner.EvolutionStrategy(np.ones(d), **options)

    return make


@pytest.fixture
def values_of():
    """Values of an objective at candidates."""

    def evaluate(fun, candidates):
        points = np.asarray(candidates)
        return np.apply_along_axis(fun, -1, points)

    return evaluate
