"""Decodability times: arithmetic on run times against the decoders themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sooner.codes import ARIKAN, HADAMARD, Kernel, PolarCode, Replication, SideBySide, Uncoded
from sooner.codes.mds import MDSCode
from sooner.runtimes import ShiftedExponential
from sooner.simulate import (
    any_k_of_n,
    decodability_times,
    needed_outputs,
    polarization_levels,
)


def told_in_order(code, times):
    """When the code's own decoder says yes."""
    decoder = code.decoder()
    for index in np.argsort(times).tolist():
        if np.isfinite(times[index]) and decoder.add(index):
            return times[index]
    return np.inf


KINDS = ("sequential", "arikan", "inactivation", "copies", "side by side", "mds", "large kernels")


@st.composite
def codes(draw):
    n = draw(st.integers(1, 40))
    k = draw(st.integers(1, n))
    kind = draw(st.sampled_from(KINDS))
    if kind == "mds":
        return MDSCode(n, k)
    if kind == "large kernels":
        return PolarCode(60, k, kernel=[Kernel.dct(3), Kernel.dct(4), Kernel.dct(5)])
    if kind == "copies":
        return Replication(n, k)
    if kind == "side by side":
        return SideBySide([PolarCode(n, k, decoder="sequential"), Replication(5, 2), Uncoded(1)])
    kernel = ARIKAN if kind == "arikan" else HADAMARD
    decoder = "inactivation" if kind == "inactivation" else "sequential"
    return PolarCode(n, k, kernel=kernel, decoder=decoder, rng=draw(st.integers(0, 9)))


@given(code=codes(), seed=st.integers(0, 999), lost=st.floats(0, 0.5))
@settings(max_examples=60, deadline=None)
def test_the_times_are_those_at_which_the_decoder_says_yes(code, seed, lost):
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(4, code.n))
    times[rng.random(times.shape) < lost] = np.inf
    found = decodability_times(code, times)
    assert found.tolist() == [told_in_order(code, trial) for trial in times]
    enough = np.isfinite(found)
    assert (found[enough] >= any_k_of_n(times, code.k)[enough]).all()
    assert (needed_outputs(code, times)[enough] >= code.k).all()


def test_many_trials_are_worked_off_in_batches(monkeypatch):
    code = PolarCode(32, 20, decoder="sequential")
    times = np.random.default_rng(0).exponential(size=(50, 32))
    at_once = decodability_times(code, times)
    monkeypatch.setattr("sooner.simulate.decodability._BATCH", 7 * 32)
    assert decodability_times(code, times).tolist() == at_once.tolist()


def test_sequential_decoding_needs_the_outputs_that_the_findings_say():
    code = PolarCode(256, 192, erasure_prob=0.25, late_parities=0, decoder="sequential")
    times = np.random.default_rng(1).random((2000, 256))
    assert needed_outputs(code, times).mean() / 192 == pytest.approx(1.106, abs=0.01)


def test_run_times_of_another_shape_are_refused():
    with pytest.raises(
        ValueError, match=r"run_times must have shape \(trials, n=4\), got shape \(4,\)"
    ):
        decodability_times(Uncoded(4), np.ones(4))


@given(sizes=st.lists(st.integers(2, 4), min_size=1, max_size=4))
@settings(max_examples=15, deadline=None)
def test_a_level_moves_time_between_channels_and_none_is_lost(sizes):
    model = ShiftedExponential(1.0, 1.0)
    levels = polarization_levels(model, sizes, trials=2000)
    assert [level.shape[1] for level in levels] == [
        int(np.prod(sizes[:depth])) for depth in range(len(sizes) + 1)
    ]
    for level in levels:
        assert (np.diff(level, axis=0) >= 0).all()  # a distribution function
        assert level.mean() == pytest.approx(model.mean, abs=0.15)
        assert level[:, 0].mean() >= level[:, -1].mean()  # the first channel waits for most
    spreads = [level.mean(axis=0).max() - level.mean(axis=0).min() for level in levels]
    assert (np.diff(spreads) > 0).all()


def test_one_stage_is_the_slower_and_the_faster_of_two():
    levels = polarization_levels(ShiftedExponential(0.0, 1.0), [2], trials=20_000)
    slower, faster = levels[1].mean(axis=0)
    assert slower == pytest.approx(1.5, rel=0.03)
    assert faster == pytest.approx(0.5, rel=0.03)
