r"""Search directions of an evolution strategy: Gaussian, orthogonal, coded.

A direction is made from (seed, generation, index) alone, so a worker makes its own and none is
ever shipped.  All have length $\sqrt d$, the Gaussian ones in the root mean square, so that one
``sigma`` means the same for each kind.
"""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner.codes.base import Code

__all__ = [
    "CodedDirections",
    "Directions",
    "GaussianDirections",
    "OrthogonalDirections",
    "coefficients_of",
    "make_directions",
]

_ROUNDS = 3
"""Of a sign change and a transform: after three, a unit vector looks like a Gaussian one."""


class Directions(abc.ABC):
    """The directions of every generation; small, picklable, the same everywhere.

    Parameters
    ----------
    n
        Directions per generation.
    dimension
        Length d of each.
    seed
        What all of them are drawn from.
    """

    def __init__(self, n: int, dimension: int, seed: int) -> None:
        self.n = n
        self.dimension = dimension
        self.seed = seed

    @property
    def rank(self) -> int:
        """Independent derivatives that a whole generation gives."""
        return min(self.n, self.dimension)

    @abc.abstractmethod
    def one(self, generation: int, index: int) -> NDArray[np.float64]:
        """Make one direction.

        Parameters
        ----------
        generation
            Which generation, from 0.
        index
            Which of its directions, in ``0 … n-1``.

        Returns
        -------
        ndarray, shape (d,)
            The direction.
        """

    def all(self, generation: int) -> NDArray[np.float64]:
        """Make all directions of a generation.

        Parameters
        ----------
        generation
            Which generation.

        Returns
        -------
        ndarray, shape (n, d)
            What `one` makes, to rounding.
        """
        return np.array([self.one(generation, index) for index in range(self.n)])


class GaussianDirections(Directions):
    """Independent Gaussian directions: plain evolution strategies.

    Parameters
    ----------
    n, dimension, seed
        As for `Directions`.

    Examples
    --------
    >>> GaussianDirections(4, 3, seed=0).all(generation=2).shape
    (4, 3)
    """

    def one(self, generation: int, index: int) -> NDArray[np.float64]:
        """Make one direction.

        Parameters
        ----------
        generation, index
            Which one.

        Returns
        -------
        ndarray, shape (d,)
            The direction.
        """
        return np.random.default_rng([self.seed, generation, index]).standard_normal(self.dimension)


class OrthogonalDirections(Directions):
    r"""Structured directions, orthogonal in blocks of d: rows of $\sqrt d\,HD_3HD_2HD_1$.

    Each D is a diagonal of random signs; H is the orthonormal cosine transform, which there is for
    every d, while a Hadamard matrix is for powers of two.  One row costs O(d log d).

    Parameters
    ----------
    n, dimension, seed
        As for `Directions`.  Beyond d directions a new block begins.

    Examples
    --------
    >>> rows = OrthogonalDirections(3, 5, seed=0).all(generation=0)
    >>> bool(np.allclose(rows @ rows.T, 5 * np.eye(3)))
    True
    """

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Directions over sqrt(d) in terms of the base, shape (n, n)."""
        return np.eye(self.n)

    def one(self, generation: int, index: int) -> NDArray[np.float64]:
        """Make one direction.

        Parameters
        ----------
        generation, index
            Which one.

        Returns
        -------
        ndarray, shape (d,)
            The direction.
        """
        block, row = divmod(index, self.dimension)
        unit = np.zeros(self.dimension)
        unit[row] = math.sqrt(self.dimension)
        return self.turned(unit, generation, block)

    def all(self, generation: int) -> NDArray[np.float64]:
        """Make all directions of a generation.

        Parameters
        ----------
        generation
            Which generation.

        Returns
        -------
        ndarray, shape (n, d)
            What `one` makes, to rounding.
        """
        units = math.sqrt(self.dimension) * np.eye(min(self.n, self.dimension), self.dimension)
        firsts = range(0, self.n, self.dimension)
        blocks = [
            self.turned(units[: self.n - first], generation, block)
            for block, first in enumerate(firsts)
        ]
        return np.concatenate(blocks)

    def base(self, generation: int) -> NDArray[np.float64]:
        """Make the directions with length 1.

        Parameters
        ----------
        generation
            Which generation.

        Returns
        -------
        ndarray, shape (n, d)
            Orthonormal rows, as long as there is one block.
        """
        return self.all(generation) / math.sqrt(self.dimension)

    def turned(
        self, vector: NDArray[np.float64], generation: int, block: int = 0
    ) -> NDArray[np.float64]:
        """Turn vectors by the random rotation of a block.

        Parameters
        ----------
        vector
            Shape (..., d).
        generation, block
            Which rotation.

        Returns
        -------
        ndarray, shape (..., d)
            As long as before.
        """
        rng = np.random.default_rng([self.seed, generation, block])
        signs = rng.integers(0, 2, size=(_ROUNDS, self.dimension)) * 2.0 - 1.0
        for row in signs:
            vector = row * dct(vector, norm="ortho")
        return vector


class CodedDirections(Directions):
    r"""Signed sums of k orthonormal directions; about any k of them tell the gradient in these.

    [B23]: the base directions are encoded like the blocks of a matrix.  To the extent that the
    objective is linear, so are its derivatives along them: what evaluations along coded directions
    give are coded derivatives, and any set of them that decodes gives those along the base.

    Parameters
    ----------
    coefficients
        Directions over sqrt(d) in terms of the base, from `coefficients_of`, shape (n, k).
    dimension
        Length d of each, at least k.
    seed
        What the base is drawn from.

    Raises
    ------
    ValueError
        If k exceeds d: there are no more than d independent derivatives.

    Examples
    --------
    >>> import sooner
    >>> directions = CodedDirections(coefficients_of(sooner.PolarCode(8, 4)), 4, seed=0)
    >>> base = directions.base(generation=0)
    >>> bool(np.allclose(directions.all(0), 2 * directions.coefficients @ base))
    True
    """

    def __init__(self, coefficients: NDArray[np.float64], dimension: int, seed: int) -> None:
        n, k = coefficients.shape
        if k > dimension:
            raise ValueError(
                f"code.k must not exceed the number {dimension} of variables, got k={k}: "
                f"there are no more independent derivatives. Use a code with k <= {dimension}."
            )
        super().__init__(n, dimension, seed)
        self.coefficients = coefficients
        self._base = OrthogonalDirections(k, dimension, seed)

    @property
    def rank(self) -> int:
        """Directions of the base."""
        return self._base.n

    def one(self, generation: int, index: int) -> NDArray[np.float64]:
        """Make one direction.

        Parameters
        ----------
        generation, index
            Which one.

        Returns
        -------
        ndarray, shape (d,)
            The direction.
        """
        vector = np.zeros(self.dimension)
        vector[: self.rank] = math.sqrt(self.dimension) * self.coefficients[index]
        return self._base.turned(vector, generation)

    def all(self, generation: int) -> NDArray[np.float64]:
        """Make all directions of a generation.

        Parameters
        ----------
        generation
            Which generation.

        Returns
        -------
        ndarray, shape (n, d)
            What `one` makes, to rounding.
        """
        return math.sqrt(self.dimension) * self.coefficients @ self.base(generation)

    def base(self, generation: int) -> NDArray[np.float64]:
        """Make the base.

        Parameters
        ----------
        generation
            Which generation.

        Returns
        -------
        ndarray, shape (k, d)
            Orthonormal rows.
        """
        return self._base.base(generation)


def coefficients_of(code: Code) -> NDArray[np.float64]:
    """Give the generator of a code, its rows of length 1 in the root mean square.

    Parameters
    ----------
    code
        The code.

    Returns
    -------
    ndarray, shape (n, k)
        The generator.

    Examples
    --------
    >>> from sooner.codes import Uncoded
    >>> coefficients_of(Uncoded(2))
    array([[1., 0.],
           [0., 1.]])
    """
    generator = code.encode(np.eye(code.k))
    return np.asarray(generator * math.sqrt(code.n / np.sum(generator**2)), dtype=np.float64)


def make_directions(
    kind: str, n: int | None, dimension: int, code: Code | None, seed: int
) -> Directions:
    """Make directions from what a user says of them.

    Parameters
    ----------
    kind
        ``"gaussian"`` or ``"orthogonal"``; with a code, the base is orthogonal.
    n
        Directions per generation; None for the code's n, else ``4 + 3 log(d)``, a usual choice.
    dimension
        Number of variables.
    code
        The code, if they are coded.
    seed
        What they are drawn from.

    Returns
    -------
    Directions
        The directions.

    Raises
    ------
    ValueError
        If these contradict each other.

    Examples
    --------
    >>> make_directions("orthogonal", None, 100, None, seed=0).n
    17
    """
    if code is None:
        made = GaussianDirections if kind == "gaussian" else OrthogonalDirections
        return made(4 + int(3 * math.log(dimension)) if n is None else n, dimension, seed)
    if kind != "orthogonal":
        raise ValueError(f'directions must be "orthogonal" with a code, got {kind!r}.')
    if n not in {None, code.n}:
        raise ValueError(f"n must be the code's, {code.n}, or not be given, got n={n}.")
    return CodedDirections(coefficients_of(code), dimension, seed)
