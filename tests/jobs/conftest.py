import numpy as np
import pytest

import sooner


@pytest.fixture(scope="session")
def problem():
    """A small coded matrix in memory, with its plain twin and a vector."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 7))
    return sooner.encode(A, sooner.PolarCode(16, 12, rng=0)), A, rng.standard_normal(7)
