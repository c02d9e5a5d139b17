"""Real data without a download: patches of the photographs that come with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.errors import MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from sooner._types import Array, Indices, RNGLike

__all__ = ["PatchMatrix", "components", "load_photographs", "patch_matrix"]

_SIDE = 8  # pixels; a patch is 8 x 8 x 3 = 192 numbers


def load_photographs() -> Array:
    """Give the two photographs that come with scikit-learn.

    Returns
    -------
    ndarray of float64, shape (2, 427, 640, 3)
        A Chinese temple and a flower; red, green and blue from 0 to 1.

    Raises
    ------
    MissingExtraError
        If scikit-learn or Pillow is not installed.

    Notes
    -----
    Released under CC BY 2.0: china.jpg by danielbuechele, flower.jpg by vultilion.

    Examples
    --------
    >>> load_photographs().shape
    (2, 427, 640, 3)
    """
    try:
        from sklearn.datasets import load_sample_images

        images = load_sample_images().images  # imports Pillow
    except ImportError as error:
        raise MissingExtraError(
            'the demo needs scikit-learn and Pillow: pip install "sooner[demo]"'
        ) from error
    return np.stack(images) / 255.0


@dataclass(frozen=True, slots=True)
class PatchMatrix:
    """A matrix with one patch of a photograph in each row, and the way back to photographs.

    Examples
    --------
    >>> patches = patch_matrix(load_photographs()[:, :64, :64], stride=4)
    >>> patches.matrix.shape, patches.photographs
    ((450, 192), (2, 64, 64, 3))
    """

    matrix: Array
    """The patches less their mean, in random order, shape (m, 192)."""
    mean: Array
    """The mean patch, shape (192,)."""
    order: Indices
    """Which patch is in which row, shape (m,)."""
    photographs: tuple[int, int, int, int]
    """Shape of the photographs: how many, height, width, 3."""
    stride: int
    """Pixels from one patch to the next."""

    def rebuild(self, projected: Array, directions: Array, *, photograph: int = 0) -> Array:
        """Rebuild a photograph from its patches' coordinates: each pixel the mean over its patches.

        Parameters
        ----------
        projected
            ``matrix @ directions``, exactly or estimated, shape (m, r).
        directions
            Orthonormal columns, shape (192, r).
        photograph
            Which one.

        Returns
        -------
        ndarray of float64, shape (height, width, 3)
            The photograph, less the pixels at its lower and right edge that no patch covers.

        Examples
        --------
        With all 192 directions nothing is lost.

        >>> images = load_photographs()[:, :64, :64]
        >>> patches = patch_matrix(images, stride=4, dtype=np.float64)
        >>> directions = components(patches.matrix, 192)
        >>> rebuilt = patches.rebuild(patches.matrix @ directions, directions)
        >>> bool(np.allclose(rebuilt, images[0]))
        True
        """
        count, height, width, channels = self.photographs
        down, across = _grid(height, width, self.stride)
        in_place = np.empty_like(self.order)
        in_place[self.order] = np.arange(self.order.size)  # the row of each patch
        rows = in_place.reshape(count, down * across)[photograph]
        patches = np.asarray(projected, dtype=np.float64)[rows] @ directions.T + self.mean
        patches = patches.reshape(down, across, _SIDE, _SIDE, channels)
        total = np.zeros((
            (down - 1) * self.stride + _SIDE,
            (across - 1) * self.stride + _SIDE,
            channels,
        ))
        covered = np.zeros((*total.shape[:2], 1))
        for y in range(_SIDE):
            for x in range(_SIDE):
                # The pixel (y, x) of every patch at once: a grid with steps of the stride.
                place = (
                    slice(y, y + down * self.stride, self.stride),
                    slice(x, x + across * self.stride, self.stride),
                )
                total[place] += patches[:, :, y, x]
                covered[place] += 1
        return total / covered


def patch_matrix(
    photographs: Array, *, stride: int = 2, dtype: DTypeLike = np.float32, rng: RNGLike = 0
) -> PatchMatrix:
    """Cut photographs into patches of 8 x 8 pixels, one in each row of a matrix.

    The rows are in random order, so that what an estimate mixes into a patch comes from all
    over the photographs and looks like noise, which overlapping patches average away.

    Parameters
    ----------
    photographs
        Shape (count, height, width, 3).
    stride
        Pixels from one patch to the next, at most 8, so that every pixel is in some patch; 2
        gives 133 140 patches of scikit-learn's photographs.
    dtype
        Of the matrix.
    rng
        Draws the order of the rows.

    Returns
    -------
    PatchMatrix
        The matrix, with the way back.

    Raises
    ------
    ValueError
        If a photograph is smaller than a patch, or the stride larger.

    Examples
    --------
    >>> patch_matrix(np.zeros((1, 10, 12, 3)), stride=2).matrix.shape
    (6, 192)
    """
    stride = _checks.integer(stride, "stride", at_least=1)
    if stride > _SIDE:
        raise ValueError(f"stride must be at most {_SIDE}, got stride={stride}.")
    count, height, width, channels = photographs.shape
    if min(height, width) < _SIDE:
        raise ValueError(
            f"photographs must be at least {_SIDE} x {_SIDE} pixels, got {height} x {width}."
        )
    windows = np.lib.stride_tricks.sliding_window_view(photographs, (_SIDE, _SIDE), axis=(1, 2))
    patches = np.moveaxis(windows[:, ::stride, ::stride], 3, -1)  # channels last, as in images
    matrix = patches.reshape(-1, _SIDE * _SIDE * channels).astype(dtype)
    mean = matrix.mean(axis=0, dtype=np.float64)
    order = np.random.default_rng(rng).permutation(matrix.shape[0])
    centred = (matrix[order] - mean).astype(dtype)
    return PatchMatrix(centred, mean, order, (count, height, width, channels), stride)


def components(A: Array, r: int) -> Array:
    """Give the r leading principal directions of the rows of A.

    Parameters
    ----------
    A
        Centred rows, shape (m, columns).
    r
        How many directions.

    Returns
    -------
    ndarray, shape (columns, r)
        Orthonormal columns, of A's dtype, the one with the largest variance first.

    Raises
    ------
    ValueError
        If `r` is not in 1 … columns.

    Examples
    --------
    >>> A = np.array([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    >>> np.abs(components(A, 2)).T
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    columns = A.shape[1]
    if not 1 <= _checks.integer(r, "r") <= columns:
        raise ValueError(f"r must lie between 1 and the {columns} columns of A, got r={r}.")
    # The small eigenproblem, in double precision: A may have a hundred thousand rows.
    gram = np.zeros((columns, columns))
    for start in range(0, A.shape[0], 8192):
        panel = A[start : start + 8192].astype(np.float64)
        gram += panel.T @ panel
    _, directions = np.linalg.eigh(gram)
    return directions[:, ::-1][:, :r].astype(A.dtype)


def _grid(height: int, width: int, stride: int) -> tuple[int, int]:
    return (height - _SIDE) // stride + 1, (width - _SIDE) // stride + 1
