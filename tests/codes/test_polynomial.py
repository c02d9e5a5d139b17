"""Polynomial codes: any k_a * k_b tasks give the product."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import PolynomialCode, TwoOperandCode, from_spec
from sooner.testing.codes import check_code


@pytest.mark.parametrize(
    "code",
    [
        PolynomialCode(1, 1, 1),
        PolynomialCode(24, 3, 4),
        PolynomialCode(16, 3, 3, basis="chebyshev"),
        PolynomialCode(7, 1, 5, basis="chebyshev"),
        PolynomialCode(7, 5, 1, basis="chebyshev"),
    ],
    ids=repr,
)
def test_the_public_check(code):
    check_code(code)
    for factor in code.factors:
        check_code(factor)


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_any_k_tasks_give_the_product(k_a, k_b, data):
    n = k_a * k_b + data.draw(st.integers(0, 6))
    basis = data.draw(st.sampled_from(["gaussian", "chebyshev"]))
    code = PolynomialCode(n, k_a, k_b, basis=basis)
    assert isinstance(code, TwoOperandCode)
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((k_a, 2, 5)), rng.standard_normal((k_b, 5, 3))
    coded_A, coded_B = code.factors[0].encode(A), code.factors[1].encode(B)
    chosen = data.draw(st.permutations(range(n)))[: k_a * k_b]
    outputs = np.full((n, 2, 3), np.nan)
    for i in chosen:
        a, b = code.task_operands(i)
        outputs[i] = coded_A[a] @ coded_B[b]
    decoded = code.decode(outputs, np.isin(np.arange(n), chosen))
    np.testing.assert_allclose(decoded.reshape(k_a, k_b, 2, 3), A[:, None] @ B, atol=1e-5)


def test_the_gaussian_basis_is_the_well_conditioned_one():
    rng = np.random.default_rng(0)
    conditions = {}
    for basis in ("gaussian", "chebyshev"):
        code = PolynomialCode(64, 6, 6, basis=basis)
        sets = [np.isin(np.arange(64), rng.permutation(64)[:36]) for _ in range(20)]
        conditions[basis] = np.median([code.plan(available).condition for available in sets])
    assert conditions["gaussian"] < 1e3
    assert conditions["chebyshev"] > 1e3


def test_exponents_of_the_factors_are_those_of_the_product():
    plain = PolynomialCode(8, 2, 3)
    exponents = np.array([0, 20, -3, 30, 50, 27])
    code = plain.with_scales(exponents)
    assert [factor.scales.tolist() for factor in code.factors] == [
        [1, 2.0**-30],
        [1, 2.0**-20, 8],
    ]
    blocks = np.ldexp(np.random.default_rng(0).standard_normal((6, 2)), exponents[:, None])
    outputs = code.encode(blocks)
    np.testing.assert_array_equal(outputs, plain.encode(np.ldexp(blocks, -exponents[:, None])))
    np.testing.assert_array_equal(from_spec(code.spec()).encode(blocks), outputs)
    np.testing.assert_allclose(code.decode(outputs, np.arange(8) > 1), blocks, rtol=1e-9)
    with pytest.raises(ValueError, match="must be sums of one for each block of A"):
        plain.with_scales(np.array([0, 0, 0, 0, 0, 1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PolynomialCode(8, 3, 3), r"k_a \* k_b must not exceed n, got k_a=3, k_b=3, n=8"),
        (lambda: PolynomialCode(8, 0, 3), r"k_a must be at least 1"),
        (lambda: PolynomialCode(8, 2, 3, basis="monomial"), r"basis must be one of 'gaussian'"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
