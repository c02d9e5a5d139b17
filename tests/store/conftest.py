"""A matrix in a folder, in several slabs, for everything that can happen to it there."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from sooner.codes import PolarCode
from sooner.jobs.encoding import encode
from sooner.store import slabs


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A coded matrix whose blocks have 7 rows in slabs of 2, and its blocks in memory."""
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 48)
    monkeypatch.setattr(slabs, "_intact", {})
    A = np.random.default_rng(0).standard_normal((20, 3))
    code = PolarCode(4, 3, rng=0)
    coded = encode(A, code, tmp_path / "A.coded")
    in_memory = encode(A, code)
    return SimpleNamespace(
        A=A,
        code=code,
        coded=coded,
        folder=tmp_path / "A.coded",
        path=lambda i: tmp_path / "A.coded" / coded.manifest.blocks[i].name,
        expected=[in_memory.block(i) for i in range(4)],
    )
