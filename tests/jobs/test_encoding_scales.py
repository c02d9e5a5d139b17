"""Blocks of very different size, and the inner products that the best estimate wants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.executors import VirtualExecutor
from sooner.jobs.encoding_scales import block_exponents
from sooner.store.panels import Panels


def multiply(coded, x, **options):
    return sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), **options)


def test_a_block_a_hundred_million_times_larger_leaves_the_others_their_digits():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((480, 30)).astype(np.float32)
    A[100:110] *= 1e8  # all of data block 10
    x = rng.standard_normal(30).astype(np.float32)
    expected = A.astype(float) @ x.astype(float)
    coded = sooner.encode(A, sooner.PolarCode(64, 48))
    errors = np.abs(multiply(coded, x).result() - expected).reshape(48, 10).max(axis=1)
    sizes = np.abs(expected).reshape(48, 10).max(axis=1)
    assert (errors / sizes).max() < 1e-5 * 5
    assert np.median(errors / sizes) < 1e-5


def test_the_exponents_are_in_the_store(tmp_path):
    A = np.ones((8, 3))
    A[2:4] *= 2.0**40
    coded = sooner.encode(A, sooner.PolarCode(8, 4, rng=0), store=tmp_path / "A.coded")
    again = sooner.open_coded(tmp_path / "A.coded")
    assert np.abs(again.code.layout.scales).tolist() == [1, 2.0**-40, 1, 1]
    np.testing.assert_allclose(multiply(again, np.ones(3)).result(), A @ np.ones(3), rtol=1e-9)
    assert coded.code.spec() == again.code.spec()


def test_estimates_work_with_exponents_and_the_law_is_refused():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((64, 5)) * np.repeat(2.0 ** np.arange(0, 32, 2), 4)[:, None]
    coded = sooner.encode(A, sooner.PolarCode(32, 16))
    times = list(map(float, range(1, 33)))
    job = sooner.matvec(coded, np.ones(5), executor=VirtualExecutor(times))
    for estimate in job:
        assert 0 <= estimate.relative_error <= 1
        assert np.isfinite(estimate.value).all()
    job = sooner.matvec(coded, np.ones(5), executor=VirtualExecutor(times), estimator="unbiased")
    first = next(iter(job))
    with pytest.raises(ValueError, match="blocks without exponents only"):
        _ = first.value


@given(st.lists(st.integers(-60, 60), min_size=4, max_size=4), st.sampled_from(["f4", "f8", "c8"]))
def test_exponents_bring_blocks_to_about_one_size(powers, dtype):
    A = np.repeat(2.0 ** np.array(powers), 3)[:, None] * np.ones((1, 5))
    A = A.astype(dtype)
    exponents = block_exponents(Panels(A), 4)
    spread = np.ptp(powers)
    if spread <= 10:
        assert exponents is None
    else:
        sizes = np.abs(A.reshape(4, -1)).max(axis=1) * 2.0 ** -exponents.astype(float)
        assert sizes.max() / sizes.min() <= 4


@pytest.mark.parametrize(
    "A",
    [
        np.ones((8, 3)),
        np.zeros((8, 3)),
        np.ones((0, 3)),
        np.array([[1, 10**9]] * 8),  # integers: their sums are exact
        np.array([[1.0, np.nan]] * 8),
    ],
)
def test_alike_blocks_get_none(A):
    assert block_exponents(Panels(A), 4) is None


def test_a_systematic_code_goes_without_and_says_so(caplog):
    A = np.ones((8, 3))
    A[:2] *= 1e9
    coded = sooner.encode(A, sooner.PolarCode(8, 4, systematic=True))
    assert "systematic" in caplog.text
    np.testing.assert_allclose(multiply(coded, np.ones(3)).result(), A @ np.ones(3), rtol=1e-6)


def test_inner_products_of_blocks_are_kept_and_used(tmp_path):
    rng = np.random.default_rng(0)
    smooth = np.cumsum(rng.standard_normal((384, 64)), axis=0)  # rows resemble their neighbours
    x = rng.standard_normal(64)
    coded = sooner.encode(
        smooth, sooner.PolarCode(128, 96), store=tmp_path / "A", gram=True, max_memory=1 << 18
    )
    blocks = smooth.reshape(96, -1)
    expected = blocks @ blocks.T
    np.testing.assert_allclose(coded.gram, expected / np.abs(expected).max(), atol=1e-6)
    np.testing.assert_array_equal(sooner.open_coded(tmp_path / "A").gram, coded.gram)
    errors = {}
    for estimator in ("gram", "least_squares"):
        job = sooner.matvec(
            coded, x, executor=VirtualExecutor(lambda i, _: 1.0 + i), estimator=estimator
        )
        half = next(e for e in job if e.n_available == 48)
        errors[estimator] = np.linalg.norm(half.value - smooth @ x) / np.linalg.norm(smooth @ x)
        assert 0.4 < half.relative_error / errors[estimator] < 2.5
    assert errors["gram"] < 0.3 * errors["least_squares"]
    assert sooner.encode(smooth, sooner.PolarCode(128, 96)).gram is None


def test_gram_is_for_dense_matrices():
    import scipy.sparse

    with pytest.raises(ValueError, match="gram=True is for dense matrices"):
        sooner.encode(scipy.sparse.eye(8, format="csr"), sooner.Uncoded(4), gram=True)


@pytest.mark.parametrize(
    "code",
    [
        sooner.SideBySide([sooner.PolarCode(16, 12), sooner.PolarCode(8, 6)]),
        sooner.Replication(12, 6),
    ],
    ids=repr,
)
@pytest.mark.parametrize("estimator", ["gram", "common_mean"])
def test_every_code_has_estimates_when_the_inner_products_were_kept(code, estimator):
    A = np.random.default_rng(0).standard_normal((72, 5))
    coded = sooner.encode(A, code, gram=True)
    executor = VirtualExecutor(lambda ordinal, _: 1.0 + ordinal)
    job = sooner.matvec(coded, np.ones(5), executor=executor, estimator=estimator)
    for estimate in job:
        assert estimate.value.shape == (72,)
        assert 0 <= estimate.relative_error <= 1
    np.testing.assert_allclose(estimate.value, A @ np.ones(5), atol=1e-9)
