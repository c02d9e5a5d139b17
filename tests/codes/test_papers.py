"""Worked numbers and statements of the two papers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import (
    ARIKAN,
    HADAMARD,
    Kernel,
    PolarCode,
    SideBySide,
    best_channels,
    erasure_probabilities,
)


def test_worked_example_of_both_papers():
    np.testing.assert_array_equal(erasure_probabilities(4, 0.5), [0.9375, 0.5625, 0.4375, 0.0625])
    np.testing.assert_array_equal(best_channels(erasure_probabilities(4, 0.5), 2), [2, 3])


def test_twenty_tasks_are_sixteen_and_four():
    # Erasure probability 1/4: twelve of sixteen and three of four channels carry data.
    code = SideBySide([
        PolarCode(n, round(n * 3 / 4), erasure_prob=1 / 4, late_parities=0, decoder="sequential")
        for n in (16, 4)
    ])
    assert (code.n, code.k) == (20, 15)
    assert [part.k for part in code.codes] == [12, 3]


def test_arikan_needs_the_fewest_operations_of_all_kernels_that_polarize():
    # Theorem 1 of the first paper, over all kernels with entries from a small set.
    values = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
    polarizing = []
    for entries in itertools.product(values, repeat=4):
        if entries[0] * entries[3] == entries[1] * entries[2]:
            continue  # singular
        kernel = Kernel(np.reshape(entries, (2, 2)))
        if kernel.is_polarizing:
            polarizing.append(kernel)
    fewest = min(kernel.n_operations for kernel in polarizing)
    assert fewest == ARIKAN.n_operations == (1, 0)
    # Every kernel that is as cheap is ARIKAN but for signs and the order of its rows.
    for kernel in polarizing:
        if kernel.n_operations == fewest:
            rows = sorted(np.abs(kernel.matrix).tolist())
            assert rows == sorted(ARIKAN.matrix.tolist())
    assert HADAMARD.n_operations == (2, 0)


@pytest.mark.parametrize(
    ("matrix", "polarizes", "orthogonal"),
    [
        ([[1, 1], [1, -1]], True, True),
        ([[1, 1], [0, 1]], True, False),
        ([[1, 0], [1, 1]], False, False),  # the last input is known from one output only
        ([[1, 0], [0, 1]], False, True),
    ],
)
def test_which_kernels_polarize(matrix, polarizes, orthogonal):
    kernel = Kernel(matrix)
    assert kernel.is_polarizing is polarizes
    assert kernel.is_orthogonal is orthogonal


@pytest.mark.parametrize("matrix", [[[1, 2], [2, 4]], [[1, 2, 3]], [[1]], [[np.nan, 1], [1, 1]]])
def test_what_is_no_kernel_is_refused(matrix):
    with pytest.raises(ValueError, match=r"a kernel must be"):
        Kernel(matrix)


@given(st.integers(0, 8), st.data())
def test_a_stage_moves_erasures_and_removes_none(levels, data):
    n = 2**levels
    given_probabilities = np.array(
        data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)), dtype=float
    )
    transformed = erasure_probabilities(n, given_probabilities)
    assert math.isclose(transformed.mean(), given_probabilities.mean(), abs_tol=1e-9)


def test_channels_polarize():
    transformed = erasure_probabilities(2**16, 0.25)
    assert np.mean((transformed > 0.01) & (transformed < 0.99)) < 0.12
    assert abs(np.mean(transformed < 0.5) - 0.75) < 0.02


def test_the_papers_threshold():
    # findings: the sequential decoder needs 1.10 k outputs in the mean at n = 256, rate 3/4.
    code = PolarCode(256, 192, erasure_prob=0.25, late_parities=0, decoder="sequential")
    rng = np.random.default_rng(0)
    needed = []
    for _ in range(300):
        decoder = code.decoder()
        needed.append(next(m for m, i in enumerate(rng.permutation(256), 1) if decoder.add(i)))
    assert abs(np.mean(needed) / 192 - 1.106) < 0.015
