"""Kernels of any size: what polarizes, the family for any size, what is refused."""

import copy
import itertools
import json
import pickle
import subprocess
import sys
from fractions import Fraction

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from sooner.codes import ARIKAN, HADAMARD, Kernel, PolarCode
from sooner.codes.kernel import kernels_of


def determinant(matrix):
    """Exact, by expansion along the first row."""
    if not matrix:
        return Fraction(1)
    minors = ([row[:j] + row[j + 1 :] for row in matrix[1:]] for j in range(len(matrix)))
    return sum(
        (-1) ** j * entry * determinant(minor)
        for j, (entry, minor) in enumerate(zip(matrix[0], minors, strict=True))
    )


def polarizes(matrix):
    """The definition, in exact arithmetic."""
    size = len(matrix)
    return all(
        determinant([[Fraction(value) for value in matrix[r][-count:]] for r in rows]) != 0
        for count in range(1, size + 1)
        for rows in itertools.combinations(range(size), count)
    )


@given(st.integers(2, 4), st.data())
def test_polarizing_is_what_the_definition_says(size, data):
    entries = st.lists(st.integers(-2, 2), min_size=size, max_size=size)
    matrix = data.draw(st.lists(entries, min_size=size, max_size=size))
    if determinant([[Fraction(value) for value in row] for row in matrix]) != 0:
        assert Kernel(matrix).is_polarizing is polarizes(matrix)


@given(st.sets(st.integers(-6, 6), min_size=2, max_size=6), st.booleans(), st.data())
def test_polynomials_of_rising_degree_polarize_at_once(points, chebyshev, data):
    # The short proof must never say more than the definition; here it says as much.
    basis = np.polynomial.chebyshev.chebvander if chebyshev else np.vander
    x = np.array(sorted(points)) / 4
    matrix = basis(x, len(x) - chebyshev)[:, :: -1 if chebyshev else 1]
    weights = np.array([data.draw(st.sampled_from([-2, 1, 3])) for _ in x])
    kernel = Kernel(weights[:, None] * matrix)
    assert kernel._has_rising_degrees()
    assert kernel.condition < 1e13


@given(st.integers(4, 6), st.integers(0, 2**32))
def test_no_other_matrix_is_taken_for_polynomials(size, seed):
    kernel = Kernel(np.random.default_rng(seed).standard_normal((size, size)))
    assert not kernel._has_rising_degrees()
    assert kernel.is_polarizing


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 10, 16, 20, 64, 200])
def test_there_is_a_kernel_of_any_size(size):
    kernel = Kernel.dct(size)
    assert kernel.size == size
    assert kernel.is_polarizing
    assert kernel.is_orthogonal
    np.testing.assert_allclose(kernel.matrix.T @ kernel.matrix, size * np.eye(size), atol=1e-11)


def test_large_matrices_that_do_not_polarize_are_found_by_a_sample():
    assert not Kernel(hadamard(16)).is_polarizing
    assert not Kernel(np.eye(20)).is_polarizing
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 16)))[0]
    assert Kernel(rotation).is_polarizing


def test_the_condition_is_the_worst_over_all_groups():
    assert np.isclose(HADAMARD.condition, np.sqrt(2))
    assert np.isclose(ARIKAN.condition, (3 + np.sqrt(5)) / 2)
    assert Kernel(np.eye(3)).condition == np.inf
    conditions = [Kernel.dct(size).condition for size in range(2, 13)]
    assert conditions == sorted(conditions)
    assert 5 < Kernel.dct(4).condition < 6
    # DCT beats a random orthogonal kernel (findings).
    rng = np.random.default_rng(0)
    rotations = [Kernel(np.linalg.qr(rng.standard_normal((8, 8)))[0]) for _ in range(20)]
    assert Kernel.dct(8).condition < np.median([kernel.condition for kernel in rotations])


@pytest.mark.parametrize("kernel", [HADAMARD, ARIKAN, Kernel.dct(3), Kernel([[0.1, 1], [-0.0, 3]])])
def test_json_and_repr_give_the_kernel_back(kernel):
    again = Kernel.from_json(json.loads(json.dumps(kernel.to_json())))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert eval(repr(kernel)) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel.transposed.transposed == kernel
    np.testing.assert_allclose(kernel.inverse @ kernel.matrix, np.eye(kernel.size), atol=1e-14)


def test_a_code_is_the_same_in_another_process():
    code = PolarCode(16, 12, kernel=[HADAMARD, ARIKAN, Kernel.dct(4)])
    again = pickle.loads(pickle.dumps(code))
    assert again.kernels[0] is HADAMARD
    assert again.kernels[1] is ARIKAN
    data = np.random.default_rng(0).standard_normal((12, 3))
    np.testing.assert_array_equal(again.encode(data), code.encode(data))
    assert copy.deepcopy(HADAMARD) is HADAMARD


def test_kernels_of_a_code():
    dct4, dct5 = Kernel.dct(4), Kernel.dct(5)
    assert kernels_of(20, [dct4, dct5]) == (dct4, dct5)
    assert kernels_of(60, dct4) == (dct4,) * 3
    assert kernels_of(5, dct5) == (dct5,)
    assert kernels_of(1, dct5) == ()
    assert kernels_of(4, Kernel([[1, 1], [1, -1]]))[0] is HADAMARD
    assert PolarCode(60, 40, kernel=dct4).transform_size == 64
    assert PolarCode(4, 2, kernel=[HADAMARD, HADAMARD]).decoder_name == "inactivation"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Kernel.dct(1), r"size must be at least 2"),
        (lambda: kernels_of(8, "hadamard"), r"kernel must be a Kernel, such as .* got 'hadamard'"),
        (lambda: kernels_of(8, [HADAMARD, 4]), r"kernel must be a Kernel"),
        (lambda: kernels_of(21, [Kernel.dct(4), Kernel.dct(5)]), r"n=21 and 4 x 5. Use n=20"),
        (lambda: kernels_of(2, []), r"must multiply to n, got n=2 and none"),
        (lambda: kernels_of(9, Kernel(np.eye(3))), r"must polarize, and Kernel\(.* does not"),
        (
            lambda: PolarCode(16, 8, kernel=Kernel.dct(4), decoder="inactivation"),
            r"decoder must be 'sequential' for kernels other than HADAMARD and ARIKAN",
        ),
        (
            lambda: PolarCode(16, 8, kernel=Kernel.dct(4), late_parities=2),
            r"late_parities must be 0 for the sequential decoder",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_what_must_hold(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_code_that_cloudpickle_sends_can_be_read_where_nothing_is_imported_yet():
    code = PolarCode(20, 15, kernel=[HADAMARD, Kernel.dct(10)])
    read = "import pickle, sys; print(pickle.load(sys.stdin.buffer).n)"
    result = subprocess.run(
        [sys.executable, "-c", read], input=cloudpickle.dumps(code), capture_output=True, check=True
    )
    assert result.stdout.strip() == b"20"
