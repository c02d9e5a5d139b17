"""Polar codes with kernels of any size: decoding, accuracy, thresholds, estimates, jobs."""

import itertools
import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sooner
from sooner.codes import ARIKAN, HADAMARD, Kernel, PolarCode, from_spec, polarized_run_times
from sooner.codes.mixed_radix import inputs_from_outputs
from sooner.errors import StoreFormatError
from sooner.testing.codes import check_code

DCT = Kernel.dct

# Neither orthogonal nor polynomials, but every minor that decoding needs is non-singular.
UNLIKE = Kernel([[-2, 1, 1, -2], [-2, -1, 0, 2], [0, -2, -2, -1], [0, 2, -2, 1]])


def relative_error(value, data):
    return np.linalg.norm(value - data) / np.linalg.norm(data)


def first_decodable(code, rng):
    decoder = code.decoder()
    for index in rng.permutation(code.n).tolist():
        if decoder.add(index):
            return decoder
    raise AssertionError("all outputs decode")


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from([HADAMARD, ARIKAN, UNLIKE, DCT(3), DCT(4), DCT(5)]), max_size=3),
    st.booleans(),
    st.data(),
)
def test_any_radices_and_k(kernels, systematic, data):
    n = math.prod(kernel.size for kernel in kernels)
    k = data.draw(st.integers(1, n))
    seed = data.draw(st.integers(0, 99))
    code = PolarCode(n, k, kernel=kernels, systematic=systematic, decoder="sequential", rng=seed)
    check_code(code, orders=1, rng=seed)


@settings(max_examples=15)
@given(st.integers(1, 70), st.integers(3, 9), st.data())
def test_any_n_is_punctured_from_the_next_power(n, size, data):
    k = data.draw(st.integers(1, n))
    code = PolarCode(n, k, kernel=DCT(size), decoder="sequential", rng=data.draw(st.integers(0, 9)))
    assert code.transform_size == min(size**r for r in range(8) if size**r >= n)
    check_code(code, orders=1)


@pytest.mark.parametrize("k", [1, 3, 5, 6])
def test_one_kernel_of_size_n_is_an_mds_code(k):
    code = PolarCode(6, k, kernel=DCT(6))
    data = np.random.default_rng(0).standard_normal((k, 4))
    outputs = code.encode(data)
    for came in itertools.combinations(range(6), k):
        available = np.isin(np.arange(6), came)
        np.testing.assert_allclose(code.decode(outputs, available), data, atol=1e-12)
        decoder = code.decoder()
        assert [decoder.add(index) for index in came] == [False] * (k - 1) + [True]


@given(st.sampled_from([ARIKAN, UNLIKE, DCT(4), DCT(7)]), st.data())
def test_inputs_follow_from_outputs_and_earlier_inputs(kernel, data):
    size = kernel.size
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    known = np.sort(rng.permutation(size)[: data.draw(st.integers(1, size))])
    first = data.draw(st.integers(size - known.size, size - 1))
    inputs = rng.standard_normal(size)
    given_values = np.concatenate([(kernel.matrix @ inputs)[known], inputs[:first]])
    found = inputs_from_outputs(kernel, known, first) @ given_values
    np.testing.assert_allclose(found, inputs[first:], atol=1e-10)


@pytest.mark.parametrize(
    ("n", "kernel"), [(64, DCT(4)), (60, [DCT(3), DCT(4), DCT(5)]), (64, UNLIKE), (81, DCT(9))]
)
def test_both_plans_decode_and_the_better_one_is_taken(n, kernel):
    rng = np.random.default_rng(0)
    code = PolarCode(n, 3 * n // 4, kernel=kernel)
    data = rng.standard_normal((code.k, 3))
    outputs = code.encode(data)
    errors = {"walk": [], "syndrome": [], "chosen": []}
    for _ in range(10):
        decoder = first_decodable(code, rng)
        plans = decoder.walk_plan(), decoder.syndrome_plan(), decoder.plan()
        for plan, found in zip(plans, errors.values(), strict=True):
            assert decoder.available[plan.reads].all()
            found.append(relative_error(plan.run(outputs, out=np.empty_like(data)), data))
    assert max(errors["walk"]) < 1e-9
    assert max(errors["syndrome"]) < 1e-11
    assert max(errors["chosen"]) < 1e-12


def test_an_ill_conditioned_set_is_decoded_with_a_warning(caplog):
    code = PolarCode(32, 16, kernel=DCT(32), rng=0)
    data = np.random.default_rng(0).standard_normal((16, 3))
    rows = np.argsort(code.layout.positions)  # neighbours are nearly alike in half the columns
    scattered, together = np.isin(np.arange(32), rows[::2]), np.isin(np.arange(32), rows[:16])
    assert relative_error(code.decode(code.encode(data), scattered), data) < 1e-12
    assert not caplog.records
    code.decode(code.encode(data), together)
    assert "32 are ill conditioned. Use smaller ones, or double precision." in caplog.text


@pytest.mark.parametrize(
    ("n", "kernel", "walk", "chosen", "single"),
    [
        # findings, section 2: the sequential decoder loses 3e-15 at 4x4x4 and 1e-12 at 16x16.
        (64, DCT(4), 1e-14, 1e-14, 3e-6),
        (256, DCT(16), 2e-11, 1e-12, 2e-4),
        (1000, DCT(10), 2e-10, 1e-13, 3e-5),
    ],
)
def test_median_accuracy_at_the_threshold(n, kernel, walk, chosen, single):
    rng = np.random.default_rng(1)
    code = PolarCode(n, 3 * n // 4, kernel=kernel)
    data = rng.standard_normal((code.k, 4))
    given_data = data.astype(np.float32)
    outputs, of_single = code.encode(data), code.encode(given_data)
    errors = []
    for _ in range(2 if n == 1000 else 5):
        decoder = first_decodable(code, rng)
        by_walk = decoder.walk_plan().run(outputs, out=np.empty_like(data))
        errors.append([
            relative_error(by_walk, data),
            relative_error(code.decode(outputs, decoder.available), data),
            relative_error(code.decode(of_single, decoder.available), given_data),
        ])
    assert (np.median(errors, axis=0) < [walk, chosen, single]).all()


@pytest.mark.parametrize(
    ("n", "kernel", "expected"),
    [
        # The table of the findings, section 1, rate 3/4; 0.8 (1 - k / n) is about the best design.
        (256, DCT(4), 1.078),
        (256, DCT(16), 1.039),
        (512, DCT(8), 1.054),
        (1000, DCT(10), 1.048),
        (20, [DCT(4), DCT(5)], 1.044),
        (60, [DCT(3), DCT(4), DCT(5)], 1.076),
        (64, DCT(64), 1.0),
    ],
)
def test_thresholds_of_larger_kernels(n, kernel, expected):
    rng = np.random.default_rng(0)
    code = PolarCode(n, 3 * n // 4, kernel=kernel)
    arrivals = rng.permuted(np.tile(np.arange(1.0, n + 1), (600, 1)), axis=1)
    rows = np.empty_like(arrivals)
    rows[:, code.layout.positions] = arrivals
    of_channels = polarized_run_times(rows, sizes=code.layout.sizes)
    needed = of_channels[:, code.layout.data_channels].max(axis=1)
    assert needed.mean() / code.k == pytest.approx(expected, abs=0.006)


def test_codes_of_other_matrices_are_rebuilt_bit_for_bit():
    code = PolarCode(12, 8, kernel=[UNLIKE, DCT(3)], rng=3)
    again = from_spec(json.loads(json.dumps(code.spec())))
    assert again.kernels == code.kernels == (UNLIKE, DCT(3))
    assert repr(again) == repr(code)
    data = np.random.default_rng(0).standard_normal((8, 5))
    available = np.arange(12) != 4
    outputs = code.encode(data)
    np.testing.assert_array_equal(again.encode(data), outputs)
    np.testing.assert_array_equal(again.decode(outputs, available), code.decode(outputs, available))


@pytest.mark.parametrize("kernel", ["hadamard", ["hadamard"], ["magic"], [[[1, 2], [2, 4]]], 3])
def test_a_damaged_spec_of_kernels_is_refused(kernel):
    spec = PolarCode(12, 8, kernel=[UNLIKE, DCT(3)]).spec()
    with pytest.raises(StoreFormatError, match="the spec of a code is damaged"):
        from_spec(spec | {"kernel": kernel})


def test_exponents_protect_small_blocks():
    code = PolarCode(20, 12, kernel=[DCT(4), DCT(5)]).with_scales(np.r_[30, np.zeros(11, int)])
    data = np.random.default_rng(0).standard_normal((12, 3)) * np.r_[2.0**30, np.ones(11)][:, None]
    data = data.astype(np.float32)
    decoded = code.decode(code.encode(data), np.arange(20) != 7)
    np.testing.assert_allclose(decoded, data, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("n", "kernel", "m"), [(16, DCT(4), 8), (20, [DCT(4), DCT(5)], 12)])
def test_the_unbiased_estimate_follows_its_law(n, kernel, m):
    rng = np.random.default_rng(0)
    code = PolarCode(n, 3 * n // 4, kernel=kernel)
    of_signs = np.sqrt((code.k - 1) * (n - m) / (m * (n - 1)))
    assert of_signs < code.relative_error(m) < 1.2 * of_signs
    squares, total = [], np.zeros(code.k)
    trials = 3000
    data = rng.standard_normal((code.k, trials))
    outputs = code.encode(data)
    for trial in range(trials):
        available = np.isin(np.arange(n), rng.permutation(n)[:m])
        column = slice(trial, trial + 1)
        estimate = code.estimate(outputs[:, column], available, method="unbiased")
        error = (estimate.value - data[:, column])[:, 0]
        squares.append(error @ error)
        total += error
    mean = np.mean(squares) / code.k
    spread = np.std(squares) / code.k / np.sqrt(trials)
    assert abs(mean - code.relative_error(m) ** 2) < 4 * spread
    assert np.linalg.norm(total / trials) < 4 * np.sqrt(mean * code.k / trials)
    everything = code.estimate(outputs, np.ones(n, bool), method="unbiased")
    np.testing.assert_allclose(everything.value, data, atol=1e-12)


def test_least_squares_has_an_honest_error_bar():
    rng = np.random.default_rng(0)
    code = PolarCode(256, 192, kernel=DCT(4))
    data = rng.standard_normal((192, 20))
    outputs = code.encode(data)
    for method in ("least_squares", "common_mean"):
        available = np.isin(np.arange(256), rng.permutation(256)[:128])
        estimate = code.estimate(outputs, available, method=method)
        true = relative_error(estimate.value, data)
        assert true < 0.65
        assert estimate.relative_error == pytest.approx(true, rel=0.15)


def test_blocks_that_are_determined_early_are_exact():
    rng = np.random.default_rng(0)
    code = PolarCode(64, 24, kernel=DCT(4))
    data = rng.standard_normal((24, 3))
    outputs = code.encode(data)
    seen = 0
    for _ in range(20):
        estimate = code.estimate(outputs, np.isin(np.arange(64), rng.permutation(64)[:24]))
        fixed = estimate.determined
        seen += fixed.any() and not fixed.all()
        np.testing.assert_allclose(estimate.value[fixed], data[fixed], atol=1e-10)
    assert seen > 3


def test_a_functional_is_unbiased():
    rng = np.random.default_rng(0)
    code = PolarCode(64, 48, kernel=DCT(4))
    data, c = rng.standard_normal((2, 48, 1))
    outputs = code.encode(data)
    found = [
        code.functional(outputs, np.isin(np.arange(64), rng.permutation(64)[:32]), c)
        for _ in range(400)
    ]
    values = np.array([estimate.value for estimate in found])
    assert abs(values.mean() - np.sum(c * data)) < 4 * values.std() / 20
    assert values.std() == pytest.approx(np.mean([f.standard_error for f in found]), rel=0.2)


@pytest.mark.parametrize("kernel", [UNLIKE, Kernel(DCT(3).matrix * 2)])
def test_other_kernels_have_no_estimates_and_say_why(kernel):
    code = PolarCode(kernel.size**2, 6, kernel=kernel)
    with pytest.raises(ValueError, match=r"entries of mean square 1, and Kernel\(.* is none. Use"):
        code.estimate(np.ones((code.n, 2)), np.arange(code.n) < 4)


@pytest.mark.parametrize("kernel", [DCT(4), [DCT(4), HADAMARD, ARIKAN]])
def test_a_job_on_threads_from_a_store_that_is_opened_again(kernel, tmp_path):
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((101, 30)), rng.standard_normal(30)
    code = PolarCode(16, 10, kernel=kernel)
    sooner.encode(A, code, store=tmp_path / "A.coded")
    coded = sooner.open_coded(tmp_path / "A.coded")
    assert coded.code.kernels == code.kernels
    with ThreadPoolExecutor(4) as pool:
        y = sooner.matvec(coded, x, executor=pool).result(timeout=60)
    np.testing.assert_allclose(y, A @ x, rtol=1e-10, atol=1e-10)
