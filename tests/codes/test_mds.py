"""MDS codes: any k outputs decode, and estimates keep their laws."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import MDSCode, from_spec
from sooner.codes.dense import DenseCode
from sooner.errors import NotDecodableError
from sooner.testing.codes import check_code


@pytest.mark.parametrize(
    "code",
    [
        MDSCode(1, 1),
        MDSCode(5, 5),
        MDSCode(20, 12),
        MDSCode(24, 13, generator="gaussian", rng=3),
        DenseCode(np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 2.0]])),
    ],
    ids=repr,
)
def test_the_public_check(code):
    check_code(code)


@given(st.integers(1, 30), st.data())
def test_any_k_outputs_decode(n, data):
    k = data.draw(st.integers(1, n))
    generator = data.draw(st.sampled_from(["orthogonal", "gaussian"]))
    code = MDSCode(n, k, generator=generator, rng=data.draw(st.integers(0, 9)))
    chosen = data.draw(st.permutations(range(n)))[:k]
    blocks = np.random.default_rng(0).standard_normal((k, 3)) + 1j
    available = np.isin(np.arange(n), chosen)
    np.testing.assert_allclose(code.decode(code.encode(blocks), available), blocks, atol=1e-6)
    available[chosen[0]] = False
    assert not code.told(available).determined.any()
    with pytest.raises(NotDecodableError, match="Wait for at least 1 more"):
        code.decode(code.encode(blocks), available)


def test_columns_of_the_orthogonal_generator_are_orthogonal():
    code = MDSCode(40, 30)
    np.testing.assert_allclose(code.generator.T @ code.generator, 40 * np.eye(30), atol=1e-10)


def test_single_precision_is_solved_in_double():
    code = MDSCode(200, 150)
    rng = np.random.default_rng(0)
    blocks = rng.standard_normal((150, 20)).astype(np.float32)
    available = np.isin(np.arange(200), rng.permutation(200)[:150])
    decoded = code.decode(code.encode(blocks), available)
    assert decoded.dtype == np.float32
    # What is left is the rounding of the outputs, which the condition number amplifies.
    limit = 2**-23 * np.linalg.cond(code.generator[available])
    assert np.linalg.norm(decoded - blocks) < limit * np.linalg.norm(blocks)


def test_decoding_into_any_array_and_stopping():
    code = MDSCode(6, 4)
    blocks = np.random.default_rng(0).standard_normal((4, 3, 5))
    outputs = code.encode(blocks)
    every = np.ones(6, dtype=bool)
    out = np.empty((4, 5, 3)).transpose(0, 2, 1)
    assert code.decode(outputs, every, out=out) is out
    np.testing.assert_allclose(out, blocks)
    with pytest.raises(InterruptedError, match="stopped"):
        code.decode(outputs, every, stop=lambda: True)


@pytest.mark.parametrize("generator", ["orthogonal", "gaussian"])
def test_the_unbiased_estimate_has_the_error_of_its_law(generator):
    rng = np.random.default_rng(1)
    blocks = rng.standard_normal((9, 2)) * [[9.0]] + np.arange(9.0)[:, None]  # any blocks
    n, m = 14, 6
    squares, total = [], np.zeros_like(blocks)
    for seed in range(1500):
        code = MDSCode(n, 9, generator=generator, rng=seed)
        available = np.isin(np.arange(n), rng.permutation(n)[:m])
        estimate = code.estimate(code.encode(blocks), available, method="unbiased")
        squares.append(np.sum((estimate.value - blocks) ** 2) / np.sum(blocks**2))
        total += estimate.value
    law = code.relative_error(m)
    assert estimate.relative_error == law
    assert np.sqrt(np.mean(squares)) == pytest.approx(law, rel=0.04)
    bias = np.linalg.norm(total / 1500 - blocks) / np.linalg.norm(blocks)
    assert bias < 3 * law / np.sqrt(1500)


def test_all_outputs_of_an_orthogonal_generator_are_exact_without_decoding():
    code, blocks = MDSCode(14, 9), np.arange(9.0)[:, None]
    every = np.ones(14, dtype=bool)
    estimate = code.estimate(code.encode(blocks), every, method="unbiased")
    np.testing.assert_allclose(estimate.value, blocks, atol=1e-12)
    assert estimate.relative_error == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("generator", ["orthogonal", "gaussian"])
def test_the_error_bar_of_least_squares_is_honest(generator):
    rng = np.random.default_rng(2)
    code = MDSCode(128, 96, generator=generator)
    ratios = []
    for _ in range(20):
        blocks = rng.standard_normal((96, 30))
        available = np.isin(np.arange(128), rng.permutation(128)[:50])
        estimate = code.estimate(code.encode(blocks), available, method="least_squares")
        error = np.linalg.norm(estimate.value - blocks) / np.linalg.norm(blocks)
        assert error == pytest.approx(code.relative_error(50, method="least_squares"), rel=0.1)
        ratios.append(estimate.relative_error / error)
    assert np.median(ratios) == pytest.approx(1, abs=0.07)


def test_exponents_keep_the_digits_of_small_blocks():
    exponents = np.array([0, 30, 0, -20])
    code = MDSCode(8, 4).with_scales(exponents)
    blocks = np.ldexp(np.random.default_rng(0).standard_normal((4, 6)), exponents[:, None])
    available = np.arange(8) % 2 > 0
    outputs = code.encode(blocks)
    np.testing.assert_allclose(code.decode(outputs, available), blocks, rtol=1e-9)
    rebuilt = from_spec(json.loads(json.dumps(code.spec())))
    np.testing.assert_array_equal(rebuilt.encode(blocks), outputs)
    with pytest.raises(ValueError, match="without exponents only"):
        code.estimate(outputs, available, method="unbiased")
    estimate = code.estimate(outputs, np.arange(8) > 4, method="least_squares")
    sizes = np.linalg.norm(estimate.value / blocks, axis=1)
    assert sizes.max() < 10  # each block is estimated in its own size


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MDSCode(3, 4), r"k must satisfy 0 < k <= n, got k=4, n=3"),
        (lambda: MDSCode(3, 2, generator="best"), r"generator must be one of 'orthogonal'"),
        (lambda: MDSCode(3, 2).with_scales(np.zeros(3)), r"exponents must be 2 integers"),
        (lambda: MDSCode(3, 2).estimate(np.ones((3, 1)), np.ones(3, bool), method="x"), "method"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
