import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.optimize.directions import coefficients_of
from sooner.optimize.gradient import derivatives, least_squares, noise_gain

NAN = float("nan")


def test_a_half_counts_only_with_pairs_to_compare_it_with():
    found = derivatives(np.array([[1.0, NAN], [NAN, 3.0], [2.0, 1.0]]), 0.5)
    assert found.available.tolist() == [False, False, True]


def test_a_half_is_shrunk_by_what_the_curvature_hides():
    pairs = np.array([[10.0, 9.0], [30.0, 31.0], [25.0, NAN]])  # means differ, slopes hardly
    found = derivatives(pairs, 1.0)
    assert 0 < found.values[2] < 0.01
    assert found.signs.tolist() == [0, 0, 1]


def test_without_a_slope_there_is_nothing_to_add_to():
    assert derivatives(np.array([[1.0, 1.0], [2.0, 2.0], [5.0, NAN]]), 1.0).values[2] == 0


def test_values_whose_difference_overflows_are_erasures():
    found = derivatives(np.array([[1e308, -1e308], [2.0, 1.0]]), 1e-3)
    assert found.available.tolist() == [False, True]


@given(m=st.integers(1, 12), columns=st.integers(1, 12), seed=st.integers(0, 99))
def test_least_squares_is_numpy_s(m, columns, seed):
    rng = np.random.default_rng(seed)
    rows, right = rng.standard_normal((m, columns)), rng.standard_normal(m)
    found = least_squares(rows, right)
    expected, _, rank, singular = np.linalg.lstsq(rows, right)
    assert found.rank == rank
    np.testing.assert_allclose(found.value, expected, rtol=1e-6, atol=1e-9)
    assert found.noise_gain == pytest.approx(np.sqrt(np.mean(singular[:rank] ** -2.0)), rel=1e-6)


def test_noise_gain_is_what_noise_is_amplified_by():
    rng = np.random.default_rng(0)
    rows = coefficients_of(sooner.PolarCode(64, 48, rng=0))[:52]
    noise = rng.standard_normal((52, 4000))
    measured = np.sqrt(np.mean((np.linalg.pinv(rows) @ noise) ** 2))
    assert noise_gain(rows) == pytest.approx(measured, rel=0.02)


def test_a_limit_leaves_out_what_would_exceed_it():
    rng = np.random.default_rng(1)
    rows = np.linalg.qr(rng.standard_normal((6, 6)))[0] * [[1], [1], [1], [1], [1], [1e-3]]
    truth = rng.standard_normal(6)
    free = least_squares(rows, rows @ truth)
    limited = least_squares(rows, rows @ truth, max_gain=2.0)
    assert free.noise_gain > 100
    np.testing.assert_allclose(free.value, truth, atol=1e-9)
    assert limited.noise_gain == pytest.approx(1.0)
    assert limited.rank == 6  # nothing was missing, it was left out
    np.testing.assert_allclose(rows[:5] @ limited.value, rows[:5] @ truth, atol=1e-9)
    assert abs(rows[5] @ limited.value) < 1e-12


def test_equations_without_content_say_nothing():
    found = least_squares(np.zeros((0, 3)), np.zeros(0))
    assert (found.rank, found.noise_gain) == (0, np.inf)
    assert not found.value.any()
    assert noise_gain(np.zeros((0, 3))) == np.inf
