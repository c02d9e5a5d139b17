"""Polarization of erasures and of run times: arrays against enumeration and the real decoder."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from sooner.codes import (
    ARIKAN,
    HADAMARD,
    Kernel,
    PolarCode,
    erasure_probabilities,
    polarized_run_times,
)
from sooner.codes.decoder import ErasureState
from sooner.codes.mixed_radix import MixedRadixState

radices = st.lists(st.integers(2, 5), max_size=4).filter(lambda sizes: math.prod(sizes) <= 120)


@given(radices, st.integers(0, 2**32))
def test_a_stage_moves_erasures_and_removes_none(sizes, seed):
    n = math.prod(sizes)
    rng = np.random.default_rng(seed)
    probabilities = rng.choice([0, 0.1, 0.5, 1, rng.random()], size=n)
    transformed = erasure_probabilities(n, probabilities, sizes=sizes)
    assert math.isclose(transformed.mean(), probabilities.mean(), abs_tol=1e-12)
    assert transformed.min() >= 0
    assert transformed.max() <= 1


@pytest.mark.parametrize("sizes", [[2, 2], [3], [4], [2, 3], [3, 2], [5], [2, 2, 2]])
def test_erasure_probabilities_are_those_of_all_sets_of_erasures(sizes):
    n = math.prod(sizes)
    probabilities = np.random.default_rng(0).random(n)
    expected = np.zeros(n)
    for pattern in itertools.product([False, True], repeat=n):
        erased = np.array(pattern)
        times = polarized_run_times(np.where(erased, np.inf, 0), sizes=sizes)
        weight = np.prod(np.where(erased, probabilities, 1 - probabilities))
        expected += weight * np.isinf(times)
    np.testing.assert_allclose(erasure_probabilities(n, probabilities, sizes=sizes), expected)


def test_channels_of_one_kernel_are_a_binomial_distribution():
    expected = binom.sf(np.arange(40), 40, 0.1)  # more than i of 40 outputs are erased
    np.testing.assert_allclose(erasure_probabilities(40, 0.1, sizes=[40]), expected, rtol=1e-12)


@given(radices, st.integers(0, 2**32))
def test_every_run_time_becomes_the_time_of_one_channel(sizes, seed):
    times = np.random.default_rng(seed).random((2, 3, math.prod(sizes)))
    polarized = polarized_run_times(times, sizes=sizes)
    np.testing.assert_array_equal(np.sort(polarized), np.sort(times))
    for trial in np.ndindex(2, 3):
        np.testing.assert_array_equal(
            polarized[trial], polarized_run_times(times[trial], sizes=sizes)
        )


@given(st.integers(0, 7), st.integers(0, 2**32))
def test_counting_is_the_bit_by_bit_state_for_binary_kernels(levels, seed):
    order = np.random.default_rng(seed).permutation(2**levels).tolist()
    by_bits, by_counts = ErasureState(2**levels), MixedRadixState([2] * levels)
    assert [by_bits.add(i) for i in order] == [by_counts.add(i) for i in order]
    assert by_bits.settled == by_counts.settled


kernels = st.sampled_from([HADAMARD, ARIKAN, *map(Kernel.dct, range(3, 6))])


@given(st.lists(kernels, max_size=4), st.integers(0, 2**32), st.data())
def test_channels_are_known_when_the_recursion_says(chosen, seed, data):
    rng = np.random.default_rng(seed)
    n = math.prod(kernel.size for kernel in chosen)
    k = data.draw(st.integers(1, n))
    code = PolarCode(n, k, kernel=chosen, decoder="sequential", rng=rng)
    run_times = rng.exponential(size=n)  # of the tasks
    by_row = np.empty(n)
    by_row[code.layout.positions] = run_times
    expected = polarized_run_times(by_row, sizes=code.layout.sizes)
    decoder = code.decoder()
    for task in np.argsort(run_times):
        decodable = decoder.add(task)
        known = expected <= run_times[task]
        np.testing.assert_array_equal(np.frombuffer(decoder._state.settled, np.uint8) == 1, known)
        of_data = known[code.layout.data_channels]
        assert decodable == of_data.all()
        np.testing.assert_array_equal(decoder.determined, np.cumsum(~of_data) == 0)


@pytest.mark.parametrize(("size", "stages"), [(2, 8), (3, 5), (4, 4), (5, 3)])
def test_run_times_polarize_as_arrays_and_in_the_decoder(size, stages):
    # Shifted exponential run times: of each channel the probability to be known in time, by the
    # recursion on many trials, by density evolution, and by a real decoder on fewer trials.
    rng = np.random.default_rng(size)
    n, deadline = size**stages, 1.8
    kernel = Kernel.dct(size)
    sizes = [size] * stages
    run_times = 1 + rng.exponential(size=(2000, n))
    late = np.exp(-(deadline - 1))
    known = np.mean(polarized_run_times(run_times, sizes=sizes) <= deadline, axis=0)
    predicted = 1 - erasure_probabilities(n, late, sizes=sizes)
    assert np.abs(known - predicted).max() < 5 * 0.5 / np.sqrt(2000)
    code = PolarCode(n, 1, kernel=kernel, decoder="sequential")
    settled = np.zeros(n)
    for trial in run_times[:200, code.layout.positions]:  # of the tasks
        decoder = code.decoder()
        for task in np.flatnonzero(trial <= deadline).tolist():
            decoder.add(task)
        settled += np.frombuffer(decoder._state.settled, np.uint8)
    from_recursion = np.mean(polarized_run_times(run_times[:200], sizes=sizes) <= deadline, axis=0)
    np.testing.assert_array_equal(settled / 200, from_recursion)
    # Most channels are nearly always or nearly never in time; before the stages none was.
    assert np.mean((predicted > 0.05) & (predicted < 0.95)) < 0.35


def test_larger_kernels_polarize_faster():
    unpolarized = {}
    for sizes in ((2,) * 12, (4,) * 6, (8,) * 4, (16,) * 3, (64, 64)):
        erased = erasure_probabilities(4096, 0.25, sizes=sizes)
        unpolarized[sizes[0]] = np.mean((erased > 0.01) & (erased < 0.99))
    assert list(unpolarized.values()) == sorted(unpolarized.values(), reverse=True)
    assert unpolarized[64] < 0.6 * unpolarized[2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: erasure_probabilities(6, 0.5), r"n must be a power of two, got n=6"),
        (lambda: erasure_probabilities(6, 0.5, sizes=[2, 2]), r"sizes=\[2, 2\], n=6"),
        (lambda: erasure_probabilities(6, 0.5, sizes=[6, 1]), r"sizes must hold the sizes"),
        (lambda: erasure_probabilities(6, [0.5], sizes=[6]), r"have shape \(6,\), got \(1,\)"),
        (lambda: polarized_run_times([1.0] * 6), r"n must be a power of two, got n=6"),
        (lambda: polarized_run_times([1.0] * 6, sizes=[4]), r"multiply to n, got sizes=\[4\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_must_hold(call, message):
    with pytest.raises(ValueError, match=message):
        call()
