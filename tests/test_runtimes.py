"""Distributions of run times."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.runtimes import (
    Correlated,
    Empirical,
    LogNormal,
    Pareto,
    PerWorker,
    RunTimes,
    ShiftedExponential,
    WithStartup,
)

positive = st.floats(1e-3, 1e3)
values = st.lists(st.floats(0, 1e3), min_size=1, max_size=30)


@st.composite
def parametric(draw):
    kind = draw(st.sampled_from(["exponential", "pareto", "log-normal"]))
    if kind == "pareto":
        return Pareto(draw(positive), draw(st.floats(4, 20)))  # a lighter tail has a fourth moment
    if kind == "log-normal":
        return LogNormal(draw(positive), draw(st.floats(0, 0.5)))
    return ShiftedExponential(draw(st.floats(0, 1e3)), draw(positive))


@st.composite
def distributions(draw):
    if draw(st.booleans()):
        inner = draw(parametric())
        kind = draw(st.sampled_from(["alone", "start-up", "correlated"]))
        if kind == "start-up":
            return WithStartup(draw(st.floats(0, 10)), inner)
        return Correlated(inner, draw(st.floats(0, 0.3))) if kind == "correlated" else inner
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


@given(
    distribution=distributions().filter(lambda d: not isinstance(d, WithStartup)), factor=positive
)
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


def test_pareto_and_log_normal_have_their_closed_forms():
    pareto = Pareto(2.0, 3.0)
    assert pareto.mean == pytest.approx(3.0)
    assert pareto.quantile([0, 1 - 1 / 8, 1]).tolist() == pytest.approx([2, 4, math.inf])
    assert Pareto(1.0, 1.0).mean == math.inf
    log_normal = LogNormal(2.0, 0.5)
    assert log_normal.quantile([0, 0.5, 1]).tolist() == pytest.approx([0, 2, math.inf])
    assert log_normal.quantile(0.8413447) == pytest.approx(2 * math.exp(0.5), rel=1e-6)
    assert LogNormal(3.0, 0.0).quantile([0.0, 0.3, 1.0]).tolist() == [3, 3, 3]


def test_start_up_stays_when_work_grows():
    run_times = WithStartup(3.0, Empirical([1.0, 2.0])).scaled(10)
    assert set(run_times.sample(np.random.default_rng(0), 50)) == {13.0, 23.0}
    assert run_times.mean == pytest.approx(18)


def test_workers_of_a_class_stand_side_by_side():
    run_times = PerWorker([(3, Empirical([1.0])), (1, Empirical([5.0]))])
    assert isinstance(run_times, RunTimes)
    sample = run_times.sample(np.random.default_rng(0), (2, 4))
    assert sample.tolist() == [[1, 1, 1, 5]] * 2
    assert run_times.mean == 2
    assert run_times.quantile([0.5, 0.74, 0.76, 1.0]).tolist() == [1, 1, 5, 5]
    assert run_times.scaled(2).sample(np.random.default_rng(0), 4).tolist() == [2, 2, 2, 10]


@given(correlation=st.floats(0, 0.95))
def test_a_slow_worker_is_slow_again_as_often_as_the_correlation_says(correlation):
    run_times = Correlated(LogNormal(1.0, 0.1), correlation)
    rounds = np.log(run_times.sample(np.random.default_rng(6), (3, 20_000)))
    found = np.corrcoef(rounds)
    assert found[0, 1] == pytest.approx(correlation, abs=0.03)
    assert found[0, 2] == pytest.approx(correlation**2, abs=0.03)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pareto(0, 2), "shortest must be positive, got shortest=0"),
        (lambda: Pareto(1, math.inf), "shape must be finite"),
        (lambda: LogNormal(1, -1), "sigma must be finite and at least 0"),
        (lambda: WithStartup(-1, Empirical([1.0])), "startup must be finite and at least 0"),
        (lambda: PerWorker([]), "classes must have at least one class"),
        (lambda: PerWorker([(0, Empirical([1.0]))]), "number of workers must be at least 1"),
        (
            lambda: PerWorker([(2, Empirical([1.0]))]).sample(np.random.default_rng(0), 3),
            r"one entry for each of the 2 workers, got shape \(3,\)",
        ),
        (lambda: Correlated(Empirical([1.0]), 1.0), "correlation must be at least 0 and below 1"),
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
