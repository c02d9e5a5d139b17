import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.optimize.directions import (
    CodedDirections,
    GaussianDirections,
    OrthogonalDirections,
    coefficients_of,
    make_directions,
)


def kinds(d):
    return [
        GaussianDirections(5, d, seed=3),
        OrthogonalDirections(d + 2, d, seed=3),
        CodedDirections(coefficients_of(sooner.PolarCode(8, 4, rng=0)), d, seed=3),
    ]


@given(d=st.integers(4, 40), generation=st.integers(0, 2**40))
def test_each_is_made_from_seed_generation_and_index_alone(d, generation):
    for directions in kinds(d):
        rows = directions.all(generation)
        elsewhere = pickle.loads(pickle.dumps(directions))
        for index in range(directions.n - 1, -1, -2):
            made = elsewhere.one(generation, index)
            np.testing.assert_array_equal(made, directions.one(generation, index))
            np.testing.assert_allclose(made, rows[index], rtol=0, atol=1e-12 * d)
        assert not np.array_equal(rows, directions.all(generation + 1))


@given(d=st.integers(1, 60), n=st.integers(1, 130))
def test_orthogonal_ones_are_orthogonal_within_a_block_and_of_length_sqrt_d(d, n):
    rows = OrthogonalDirections(n, d, seed=0).all(7)
    for first in range(0, n, d):
        block = rows[first : first + d]
        np.testing.assert_allclose(block @ block.T, d * np.eye(len(block)), atol=1e-9 * d)


@pytest.mark.parametrize("place", range(3))
def test_no_direction_of_space_is_preferred(place):
    d = 12
    directions = kinds(d)[place]
    generations = 400
    energy = np.zeros((d, d))
    mean = np.zeros(d)
    for generation in range(generations):
        rows = directions.all(generation)
        energy += rows.T @ rows / (directions.n * generations)
        mean += rows.mean(axis=0) / generations
    np.testing.assert_allclose(energy, np.eye(d), atol=0.25)
    np.testing.assert_allclose(mean, 0, atol=0.25)


def test_coded_ones_are_the_code_s_sums_of_the_base():
    code = sooner.PolarCode(16, 10, rng=1)
    directions = CodedDirections(coefficients_of(code), 20, seed=5)
    base = directions.base(generation=2)
    np.testing.assert_allclose(base @ base.T, np.eye(10), atol=1e-12)
    encoded = code.encode(base)
    scale = np.linalg.norm(encoded) / np.linalg.norm(directions.all(2))
    np.testing.assert_allclose(directions.all(2) * scale, encoded, atol=1e-12)
    assert np.mean(directions.all(2) ** 2) == pytest.approx(1.0)


def test_a_code_with_more_blocks_than_variables_is_refused():
    with pytest.raises(ValueError, match=r"code.k must not exceed the number 3 of variables"):
        CodedDirections(coefficients_of(sooner.PolarCode(8, 4)), 3, seed=0)


def test_what_contradicts_a_code_is_refused():
    code = sooner.PolarCode(8, 4)
    with pytest.raises(ValueError, match='must be "orthogonal" with a code'):
        make_directions("gaussian", None, 9, code, 0)
    with pytest.raises(ValueError, match="n must be the code's, 8"):
        make_directions("orthogonal", 9, 9, code, 0)
    assert make_directions("orthogonal", 8, 9, code, 0).n == 8
