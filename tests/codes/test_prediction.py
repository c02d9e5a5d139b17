"""Estimates by linear prediction: what they give, and whether their error bars are honest."""

import numpy as np
import pytest

from sooner.codes import Kernel, PolarCode
from sooner.codes.estimate import conjugate_gradients
from sooner.codes.prediction import common_mean, least_squares

PAPERS = {"late_parities": 0, "decoder": "sequential"}
SIZES = [(256, 192, PAPERS), (256, 192, {}), (300, 200, {})]  # the last is punctured: N is 512


def near_equal_blocks(k, columns, rng):
    """Blocks as of a photograph: a common mean and deviations from it."""
    return 5 * rng.standard_normal(columns) + rng.standard_normal((k, columns))


def random_set(n, m, rng):
    available = np.zeros(n, dtype=bool)
    available[rng.permutation(n)[:m]] = True
    return available


def relative(value, data):
    return np.linalg.norm(value - data) / np.linalg.norm(data)


@pytest.mark.parametrize(("n", "k", "options"), SIZES)
@pytest.mark.parametrize("kind", ["independent", "near equal"])
@pytest.mark.parametrize("method", ["least_squares", "common_mean"])
def test_error_bars_are_honest(n, k, options, kind, method):
    rng = np.random.default_rng(3)
    code = PolarCode(n, k, **options)
    ratios = []
    for share in np.repeat([0.2, 0.5, 0.7, 0.9], 4):
        data = (
            rng.standard_normal((k, 40)) if kind == "independent" else near_equal_blocks(k, 40, rng)
        )
        available = random_set(n, round(share * k), rng)
        outputs = np.where(available[:, None], code.encode(data), np.nan)
        estimate = code.estimate(outputs, available, method=method)
        ratios.append(estimate.relative_error / relative(estimate.value, data))
    assert 0.8 < np.median(ratios) < 1.25
    assert np.quantile(ratios, 0.1) > 0.6
    assert np.quantile(ratios, 0.9) < 1.6


def test_least_squares_has_its_law_for_independent_blocks():
    rng = np.random.default_rng(0)
    code = PolarCode(256, 192)
    for m in (26, 64, 128, 150):
        errors = []
        for _ in range(6):
            data = rng.standard_normal((192, 30))
            available = random_set(256, m, rng)
            estimate = code.estimate(code.encode(data), available, method="least_squares")
            errors.append(relative(estimate.value, data))
        assert np.mean(errors) == pytest.approx(
            code.relative_error(m, method="least_squares"), rel=0.05
        )


def test_a_model_of_the_blocks_beats_least_squares_where_it_holds_and_costs_nothing_elsewhere():
    rng = np.random.default_rng(0)
    code = PolarCode(128, 96)
    available = random_set(128, 48, rng)
    errors = {}
    for kind in ("near equal", "independent"):
        data = (
            near_equal_blocks(96, 60, rng)
            if kind == "near equal"
            else rng.standard_normal((96, 60))
        )
        outputs = code.encode(data)
        inner = data @ data.T
        for method in ("least_squares", "common_mean", "gram", "unbiased", "scaled"):
            estimate = code.estimate(outputs, available, method=method, gram=inner)
            errors[kind, method] = relative(estimate.value, data)
    assert errors["near equal", "common_mean"] < 0.3 * errors["near equal", "least_squares"]
    assert errors["near equal", "gram"] < errors["near equal", "common_mean"]
    assert errors["independent", "common_mean"] < 1.03 * errors["independent", "least_squares"]
    assert errors["independent", "least_squares"] < errors["independent", "scaled"]
    assert errors["independent", "scaled"] < errors["independent", "unbiased"]


def test_blocks_that_are_determined_are_exact_and_flagged():
    code = PolarCode(16, 12, systematic=True)
    data = np.random.default_rng(0).standard_normal((12, 3))
    available = np.arange(16) < 7
    estimate = code.estimate(code.encode(data), available)
    np.testing.assert_array_equal(estimate.determined, np.arange(12) < 7)
    np.testing.assert_array_equal(estimate.value[:7], data[:7])
    assert 0 < estimate.relative_error <= 1
    sequential = PolarCode(16, 6, decoder="sequential")
    rng = np.random.default_rng(5)
    outputs = sequential.encode(data[:6])
    seen = 0
    for _ in range(50):
        available = random_set(16, 8, rng)
        estimate = sequential.estimate(outputs, available)
        fixed = estimate.determined
        seen += fixed.any() and not fixed.all()
        np.testing.assert_allclose(estimate.value[fixed], data[:6][fixed], atol=1e-12)
    assert seen > 5
    assert sequential.estimate(outputs, np.ones(16, bool)).relative_error == 0


def test_strided_sets_do_no_harm():
    rng = np.random.default_rng(1)
    code = PolarCode(256, 192)
    data = rng.standard_normal((192, 30))
    estimate = code.estimate(code.encode(data), np.arange(256) % 2 == 0)
    assert estimate.relative_error == pytest.approx(relative(estimate.value, data), rel=0.15)
    assert relative(estimate.value, data) < 0.65


def test_conjugate_gradients_agree_with_dense_matrices():
    rng = np.random.default_rng(0)
    code = PolarCode(256, 192)
    data = rng.standard_normal((192, 20))
    outputs = code.encode(data)
    for m in (64, 128):
        available = random_set(256, m, rng)
        few = conjugate_gradients(
            code._encoder, code._adjoint, outputs, available, size=code.transform_size
        )
        dense = code.estimate(outputs, available, method="least_squares")
        assert relative(few.value, dense.value) < 0.02
        assert few.relative_error == pytest.approx(dense.relative_error, rel=0.1)
    nothing = conjugate_gradients(
        code._encoder, code._adjoint, outputs, np.zeros(256, bool), size=256
    )
    np.testing.assert_array_equal(nothing.value, np.zeros_like(data))


def test_the_adjoint_is_the_transpose():
    from sooner.codes import transform

    larger = PolarCode(20, 13, kernel=[Kernel.dct(4), Kernel.dct(5)])
    for code in (PolarCode(16, 12), PolarCode(20, 13), larger):
        transpose = np.empty((code.k, code.n))
        transform.run(code._adjoint, np.eye(code.n), out=transpose)
        np.testing.assert_allclose(transpose, code.generator.T, atol=1e-12)


def test_a_functional_is_unbiased_and_its_error_does_not_grow_with_k():
    rng = np.random.default_rng(0)
    errors, bars = {}, {}
    for n, k in ((64, 48), (512, 384)):
        data = rng.standard_normal((k, 1)) / np.sqrt(k)
        c = rng.standard_normal((k, 1)) / np.sqrt(k)
        exact = float(np.sum(c * data))
        z = []
        codes = [PolarCode(n, k, rng=seed) for seed in range(10)]
        for seed in range(150):
            code = codes[seed % len(codes)]
            estimate = code.functional(code.encode(data), random_set(n, n // 2, rng), c)
            z.append((estimate.value - exact, estimate.standard_error))
        deviations, standard_errors = np.array(z).T
        assert abs(deviations.mean()) < 4 * deviations.std() / np.sqrt(150)
        assert deviations.std() == pytest.approx(np.mean(standard_errors), rel=0.3)
        errors[k], bars[k] = deviations.std(), np.mean(standard_errors)
    # |c| and |data| are 1 in both: the error falls with the number of outputs, whatever k is.
    assert errors[384] < 0.6 * errors[48]
    assert bars[384] < 0.6 * bars[48]


def test_what_cannot_be_asked_for_is_refused():
    code = PolarCode(16, 12, systematic=True)
    available = np.ones(16, bool)
    with pytest.raises(ValueError, match="needs random signs on every output"):
        code.estimate(np.ones((16, 2)), available, method="unbiased")
    plain = PolarCode(16, 12)
    with pytest.raises(ValueError, match="method must be one of 'unbiased'"):
        plain.estimate(np.ones((16, 2)), available, method="magic")
    with pytest.raises(ValueError, match="encode with gram=True"):
        plain.estimate(np.ones((16, 2)), np.arange(16) < 5, method="gram")


def test_leave_one_out_is_what_its_name_says():
    rng = np.random.default_rng(0)
    rows, outputs = rng.standard_normal((6, 10)), rng.standard_normal((6, 3))
    errors = []
    for left_out in range(6):
        rest = np.arange(6) != left_out
        weights = least_squares(rows[rest]).weights
        errors.append(outputs[left_out] - rows[left_out] @ weights @ outputs[rest])
    expected = np.mean(np.square(errors))
    assert least_squares(rows).leave_one_out(outputs) == pytest.approx(expected, rel=1e-6)
    assert common_mean(rows, outputs).leave_one_out(outputs) <= expected * (1 + 1e-6)


def test_a_photograph_at_half_of_the_blocks():
    from sklearn.datasets import load_sample_image

    photo = load_sample_image("china.jpg").astype(float)
    data = photo[:384].reshape(192, -1)[:, ::11]
    rng = np.random.default_rng(0)
    code = PolarCode(256, 192)
    errors, ratios = {}, []
    for method in ("least_squares", "common_mean", "gram"):
        found = []
        for _ in range(4):
            available = random_set(256, 96, rng)
            estimate = code.estimate(
                code.encode(data), available, method=method, gram=data @ data.T
            )
            found.append(relative(estimate.value, data))
            ratios.append(estimate.relative_error / found[-1])
        errors[method] = np.median(found)
    assert errors["gram"] <= 0.15
    assert errors["common_mean"] <= 0.45
    assert 0.6 < errors["least_squares"] < 0.8
    assert 0.8 < np.median(ratios) < 1.25
