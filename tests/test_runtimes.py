"""Distributions of run times."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.runtimes import Empirical, RunTimes, ShiftedExponential

positive = st.floats(1e-3, 1e3)
values = st.lists(st.floats(0, 1e3), min_size=1, max_size=30)


@st.composite
def distributions(draw):
    if draw(st.booleans()):
        return ShiftedExponential(draw(st.floats(0, 1e3)), draw(positive))
    if draw(st.booleans()):
        return Empirical(draw(values))
    quantiles = sorted(draw(values))
    shares = np.linspace(draw(st.floats(0, 0.4)), draw(st.floats(0.6, 1)), len(quantiles))
    return Empirical.from_quantiles(shares, quantiles)


@given(distribution=distributions())
def test_quantiles_never_decrease_and_bound_the_samples(distribution):
    assert isinstance(distribution, RunTimes)
    quantiles = distribution.quantile(np.linspace(0, 1, 101))
    assert (np.diff(quantiles) >= 0).all()
    sample = distribution.sample(np.random.default_rng(1), (5, 8))
    assert sample.shape == (5, 8)
    assert sample.dtype == np.float64
    assert (sample >= quantiles[0]).all()
    assert (sample <= quantiles[-1]).all()


@given(distribution=distributions(), q=st.floats(0, 0.99))
def test_the_share_of_samples_below_a_quantile_is_that_share(distribution, q):
    sample = distribution.sample(np.random.default_rng(2), 4000)
    below = (sample <= distribution.quantile(q) + 1e-9).mean()
    assert below >= q - 4 * math.sqrt(q * (1 - q) / 4000) - 1e-3


@given(distribution=distributions())
def test_the_mean_is_the_mean_of_samples(distribution):
    sample = distribution.sample(np.random.default_rng(3), 20_000)
    assert abs(sample.mean() - distribution.mean) <= 5 * sample.std() / math.sqrt(20_000) + 1e-6


@given(distribution=distributions(), factor=positive)
def test_scaling_scales_mean_quantiles_and_samples(distribution, factor):
    scaled = distribution.scaled(factor)
    assert scaled.mean == pytest.approx(distribution.mean * factor)
    assert scaled.quantile([0.1, 0.9]) == pytest.approx(distribution.quantile([0.1, 0.9]) * factor)
    draws = [d.sample(np.random.default_rng(4), 7) for d in (distribution, scaled)]
    assert draws[1] == pytest.approx(draws[0] * factor)


@given(values=values)
def test_empirical_draws_the_values_and_has_their_mean(values):
    distribution = Empirical(values)
    assert distribution.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert set(distribution.sample(np.random.default_rng(5), 200)) <= set(values)
    shares = np.linspace(0, 1, 17)
    assert distribution.quantile(shares).tolist() == pytest.approx(
        np.quantile(values, shares, method="inverted_cdf").tolist()
    )


def test_from_quantiles_interpolates_and_stays_at_its_ends():
    distribution = Empirical.from_quantiles([0.5, 0.9], [1.0, 5.0])
    assert distribution.quantile([0, 0.5, 0.7, 0.9, 1]) == pytest.approx([1, 1, 3, 5, 5])
    assert distribution.mean == pytest.approx(0.5 * 1 + 0.4 * 3 + 0.1 * 5)
    assert repr(distribution) == "<Empirical: 1 to 5 s, median 1 s>"


def test_shifted_exponential_has_its_closed_form():
    distribution = ShiftedExponential(2.0, 3.0)
    assert distribution.mean == pytest.approx(5.0)
    assert distribution.quantile(1 - math.exp(-1)) == pytest.approx(5.0)
    assert distribution.quantile(1) == math.inf
    assert np.ndim(distribution.quantile(0.5)) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShiftedExponential(-1, 1), "shift must be finite and at least 0, got shift=-1"),
        (lambda: ShiftedExponential(1, 0), "scale must be positive, got scale=0"),
        (lambda: ShiftedExponential(1, math.inf), "scale must be finite"),
        (lambda: ShiftedExponential(1, 1).scaled(0), "factor must be positive"),
        (lambda: ShiftedExponential(1, 1).quantile(1.5), "probabilities must lie between 0 and 1"),
        (lambda: Empirical([]), "values must have at least one run time"),
        (lambda: Empirical([1.0, math.nan]), r"values must be finite seconds .*, got nan"),
        (lambda: Empirical([1.0, -2.0]), r"at least 0, got -2\.0"),
        (lambda: Empirical([1.0]).scaled(-1), "factor must be positive"),
        (lambda: Empirical.from_quantiles([0, 1], [1]), r"got shapes \(2,\) and \(1,\)"),
        (lambda: Empirical.from_quantiles([0.5, 0.5], [1, 2]), "probabilities must increase"),
        (lambda: Empirical.from_quantiles([0, 1], [2, 1]), "quantiles must never decrease"),
        (lambda: Empirical.from_quantiles([0, 2], [1, 2]), "between 0 and 1"),
    ],
)
def test_what_is_no_distribution_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
