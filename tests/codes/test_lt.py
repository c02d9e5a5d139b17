"""LT codes: peeling, inactivation, and how many outputs they need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import LTCode
from sooner.codes.lt import robust_soliton
from sooner.testing.codes import check_code


@pytest.mark.parametrize(
    "code",
    [
        LTCode(1, 1),
        LTCode(12, 2, rng=1),
        LTCode(60, 30),
        LTCode(60, 40, decoder="inactivation"),
        LTCode(64, 24, c=0.1, delta=0.1, rng=5),
    ],
    ids=repr,
)
def test_the_public_check(code):
    check_code(code, orders=3)


def test_the_robust_soliton_distribution():
    k, c, delta = 1000, 0.1, 0.5
    probabilities = robust_soliton(k, c, delta)
    assert probabilities.sum() == pytest.approx(1)
    ripple = c * np.log(k / delta) * np.sqrt(k)
    spike = round(k / ripple)
    beta = probabilities[spike + 5] ** -1 / ((spike + 6) * (spike + 5))  # beyond: ideal alone
    assert probabilities[0] * beta == pytest.approx(1 / k + ripple / k)
    assert probabilities[1] * beta == pytest.approx(1 / 2 + ripple / (2 * k))
    extra = ripple * np.log(ripple / delta) / k
    assert probabilities[spike - 1] * beta == pytest.approx(1 / (spike * (spike - 1)) + extra)


def rank_of(code, available):
    return np.linalg.matrix_rank(code.generator[available]) if available.any() else 0


@given(st.integers(1, 14), st.data())
def test_inactivation_decodes_exactly_what_is_determined(k, data):
    code = LTCode(3 * k + 4, k, decoder="inactivation", rng=data.draw(st.integers(0, 50)))
    available = np.array(data.draw(st.lists(st.booleans(), min_size=code.n, max_size=code.n)))
    decoder = code.told(available)
    rank = rank_of(code, available)
    assert decoder.decodable == (rank == k)
    assert decoder.n_missing <= k - rank
    rows = code.generator[available]
    for block, fixed in enumerate(decoder.determined):
        more = np.vstack([rows, np.eye(k)[block]])
        assert fixed == (np.linalg.matrix_rank(more) == rank)
    blocks = np.random.default_rng(0).standard_normal((k, 2))
    estimate = code.estimate(code.encode(blocks), available)
    known = decoder.determined
    np.testing.assert_allclose(estimate.value[known], blocks[known], rtol=1e-9, atol=1e-9)


@given(st.integers(1, 20), st.integers(0, 1000))
def test_peeling_finds_what_one_sum_after_the_other_gives(k, seed):
    code = LTCode(4 * k + 6, k, rng=seed)
    available = np.random.default_rng(seed).random(code.n) < 0.4
    known = np.zeros(k, dtype=bool)
    for _ in range(k):
        for terms in np.asarray(code.generator != 0)[available]:
            if np.count_nonzero(terms & ~known) == 1:
                known |= terms
    decoder = code.told(available)
    np.testing.assert_array_equal(decoder.determined, known)
    assert decoder.decodable == known.all()


def test_integers_are_exact():
    code = LTCode(80, 40)
    blocks = np.random.default_rng(0).integers(-1000, 1000, (40, 5)).astype(float)
    available = np.arange(80) % 10 != 0
    np.testing.assert_array_equal(code.decode(code.encode(blocks), available), blocks)


def needed(code, trials, rng):
    """Outputs over k until decodable, in random orders."""
    counts = []
    for _ in range(trials):
        decoder = code.decoder()
        order = rng.permutation(code.n).tolist()
        counts.append(next(m for m, i in enumerate(order, 1) if decoder.add(i)) / code.k)
    return np.array(counts)


@pytest.mark.parametrize(("k", "mean"), [(192, 1.28), (384, 1.20), (768, 1.14)])
def test_peeling_needs_what_was_measured_before(k, mean):
    rng = np.random.default_rng(0)
    counts = [needed(LTCode(4 * k, k, rng=seed), 12, rng) for seed in range(4)]
    assert np.mean(counts) == pytest.approx(mean, abs=0.05)


def test_inactivation_needs_little_more_than_k():
    rng = np.random.default_rng(0)
    counts = needed(LTCode(768, 192, decoder="inactivation"), 12, rng)
    assert 1 <= np.mean(counts) < 1.06
    assert np.median(counts) < 1.02


def test_the_unbiased_estimate_has_the_error_of_its_law():
    rng = np.random.default_rng(1)
    blocks = np.arange(1.0, 11.0)[:, None]  # equal or not: any blocks
    squares = []
    for seed in range(300):
        code = LTCode(30, 10, decoder="inactivation", rng=seed)
        available = np.isin(np.arange(30), rng.permutation(30)[:7])
        estimate = code.estimate(code.encode(blocks), available, method="unbiased")
        squares.append(np.sum((estimate.value - blocks) ** 2) / np.sum(blocks**2))
    assert np.sqrt(np.mean(squares)) == pytest.approx(code.relative_error(7), rel=0.12)


def test_the_error_bar_of_least_squares_is_honest():
    rng = np.random.default_rng(2)
    code = LTCode(400, 192)
    ratios = []
    for _ in range(8):
        blocks = rng.standard_normal((192, 30))
        available = np.isin(np.arange(400), rng.permutation(400)[:100])
        estimate = code.estimate(code.encode(blocks), available, method="least_squares")
        error = np.linalg.norm(estimate.value - blocks) / np.linalg.norm(blocks)
        ratios.append(estimate.relative_error / error)
    assert np.median(ratios) == pytest.approx(1, abs=0.08)


def test_exponents_keep_the_digits_of_small_blocks():
    exponents = np.arange(20) * 4 - 40
    code = LTCode(60, 20).with_scales(exponents)
    blocks = np.ldexp(np.random.default_rng(0).standard_normal((20, 6)), exponents[:, None])
    decoded = code.decode(code.encode(blocks), np.arange(60) % 6 > 0)
    np.testing.assert_allclose(decoded, blocks, rtol=1e-9)


def test_a_c_that_is_hardly_there_gives_the_ideal_distribution():
    ideal = [1 / 4, 1 / 2, 1 / 6, 1 / 12]
    np.testing.assert_allclose(robust_soliton(4, 1e-320, 0.5), ideal)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LTCode(3, 4), r"k must satisfy 0 < k <= n, got k=4, n=3"),
        (lambda: LTCode(8, 4, decoder="sequential"), r"decoder must be one of 'peeling'"),
        (lambda: LTCode(8, 4, c=0), r"c must be positive"),
        (lambda: LTCode(8, 4, c=np.inf), r"c must be finite"),
        (lambda: LTCode(8, 4, delta=1), r"delta must lie strictly between 0 and 1"),
        (lambda: LTCode(100, 100), r"no LT code with n=100, k=100, .* Use a smaller k"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
