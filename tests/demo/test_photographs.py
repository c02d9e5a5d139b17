"""Photographs as a matrix of patches, and back."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sooner.demo.photographs import components, load_photographs, patch_matrix
from sooner.errors import MissingExtraError


@pytest.fixture(scope="module")
def photographs():
    return load_photographs()


def test_the_matrix_of_the_demo_is_as_large_as_the_issue_asks(photographs):
    patches = patch_matrix(photographs)
    assert patches.matrix.shape == (133_140, 192)
    assert patches.matrix.dtype == np.float32
    np.testing.assert_allclose(patches.matrix.mean(axis=0, dtype=float), 0, atol=1e-6)


@pytest.mark.parametrize("stride", [1, 3, 8])
@pytest.mark.parametrize("photograph", [0, 1])
def test_all_directions_give_the_photograph_back(photographs, stride, photograph):
    part = photographs[:, 100:140, 200:250]
    patches = patch_matrix(part, stride=stride, dtype=np.float64, rng=3)
    directions = components(patches.matrix, 192)
    rebuilt = patches.rebuild(patches.matrix @ directions, directions, photograph=photograph)
    height, width = rebuilt.shape[:2]
    assert 40 - stride < height <= 40
    assert 50 - stride < width <= 50
    np.testing.assert_allclose(rebuilt, part[photograph, :height, :width], atol=1e-12)


def test_components_are_orthonormal_and_keep_most_of_the_picture(photographs):
    A = patch_matrix(photographs, stride=8).matrix
    X = components(A, 24)
    assert (X.shape, X.dtype) == ((192, 24), np.float32)
    np.testing.assert_allclose(X.T @ X, np.eye(24), atol=1e-5)
    kept = np.linalg.norm(A @ X) ** 2 / np.linalg.norm(A) ** 2
    assert 0.95 < kept < 1
    variances = np.var(A @ X, axis=0)
    assert (np.diff(variances) <= 1e-4 * variances[0]).all()  # largest first


def test_the_order_of_the_rows_is_drawn(photographs):
    part = photographs[:, :32, :32]
    first, again, other = (patch_matrix(part, rng=rng).matrix for rng in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(np.sort(first, axis=0), np.sort(other, axis=0))


def test_photographs_must_hold_a_patch():
    with pytest.raises(ValueError, match="at least 8 x 8 pixels, got 7 x 20"):
        patch_matrix(np.zeros((1, 7, 20, 3)))


def test_a_stride_must_not_leave_gaps():
    with pytest.raises(ValueError, match="stride must be at most 8, got stride=9"):
        patch_matrix(np.zeros((1, 20, 20, 3)), stride=9)


@pytest.mark.parametrize("r", [0, 4])
def test_there_are_no_more_directions_than_columns(r):
    with pytest.raises(ValueError, match=f"between 1 and the 3 columns of A, got r={r}"):
        components(np.eye(3), r)


@pytest.mark.parametrize("package", ["sklearn.datasets", "PIL"])
def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    if package == "PIL":  # scikit-learn keeps the reader it found at first
        monkeypatch.delitem(sys.modules, "sklearn.externals._pilutil", raising=False)
    with pytest.raises(MissingExtraError, match=r'pip install "sooner\[demo\]"'):
        load_photographs()
