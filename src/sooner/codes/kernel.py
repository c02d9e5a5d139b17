"""The small matrices whose Kronecker products are the codes."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from sooner._types import Indices

__all__ = ["ARIKAN", "HADAMARD", "Kernel", "is_binary", "kernels_of"]

_LARGEST_CHECKED_WHOLE = 12
"""Size up to which all 2**l - 1 sets of rows are looked at."""

_SAMPLED = 200
"""Random sets of rows that are looked at beyond."""

_SINGULAR = 1e13
"""Condition number from which a matrix counts as singular."""


class Kernel:
    r"""An l x l matrix F; a code's transform is a Kronecker product of kernels.

    Parameters
    ----------
    matrix
        Shape ``(l, l)``, real, invertible, l >= 2.

    Raises
    ------
    ValueError
        If the matrix is not square, not finite or singular.

    Notes
    -----
    Inputs are decoded in the order 0 … l-1.  F is *polarizing at the best rate* when for every i
    any l-i rows of its last l-i columns are non-singular: input i is then known as soon as l-i
    outputs are, the earlier inputs being known.  Larger kernels ([B23], "kernels of arbitrary
    size") polarize faster; the small systems that decode them cost accuracy.

    Examples
    --------
    >>> Kernel([[1, 1], [1, -1]]) == HADAMARD
    True
    >>> ARIKAN.is_polarizing, ARIKAN.is_orthogonal
    (True, False)
    """

    matrix: NDArray[np.float64]
    """The matrix, read-only."""

    def __init__(self, matrix: ArrayLike) -> None:
        values = np.array(matrix, dtype=np.float64) + 0.0  # no -0.0, which has other bytes
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.shape[0] < 2:
            raise ValueError(
                f"a kernel must be a square matrix of size 2 or more, got shape {values.shape}."
            )
        if not np.isfinite(values).all() or np.linalg.matrix_rank(values) < values.shape[0]:
            raise ValueError(f"a kernel must be finite and invertible, got {values.tolist()}.")
        values.setflags(write=False)
        self.matrix = values

    @classmethod
    def dct(cls, size: int) -> Kernel:
        r"""Kernel of any size: the discrete cosine transform, orthogonal and polarizing.

        Parameters
        ----------
        size
            Its size l, 2 or more.

        Returns
        -------
        Kernel
            Entries :math:`\sqrt 2 \cos(\pi (2r + 1) c / (2l))`, and 1 for c = 0, so that
            columns have the squared length l; HADAMARD for l = 2.

        Notes
        -----
        Of the orthogonal kernels tried the best conditioned one.  Its last m columns are, but
        for one factor per row, polynomials of degree 0 … m-1 at l distinct points: any m rows
        of them are a Vandermonde matrix, which is non-singular.

        Examples
        --------
        >>> kernel = Kernel.dct(5)
        >>> kernel.is_polarizing, kernel.is_orthogonal, round(kernel.condition, 1)
        (True, True, 12.3)
        """
        size = _checks.integer(size, "size", at_least=2)
        if size == 2:
            return HADAMARD
        places = np.arange(size)
        turns = np.outer(2 * places + 1, places) % (4 * size)  # in parts of 1 / (4l)
        matrix = np.sqrt(2) * np.cos(np.pi / (2 * size) * turns)
        matrix[:, 0] = 1
        return cls(matrix)

    @property
    def size(self) -> int:
        """Number of rows, l."""
        return len(self.matrix)

    @property
    def is_orthogonal(self) -> bool:
        """Whether the columns are orthogonal and of equal length, as anytime estimates need."""
        gram = self.matrix.T @ self.matrix
        return bool(np.allclose(gram, gram[0, 0] * np.eye(self.size), rtol=1e-12, atol=1e-12))

    @functools.cached_property
    def condition(self) -> float:
        """Norm of F over the least singular value of any l-i rows of its last l-i columns.

        By how much an error can grow where one group of l outputs is decoded, at worst; infinite
        if one of these matrices is singular.  Beyond l = 12, where there are too many sets of
        rows, the worst of 200 random ones.
        """
        norm, least = float(np.linalg.norm(self.matrix, 2)), math.inf
        for rows in self._sets_of_rows():
            minors = self.matrix[rows][..., self.size - rows.shape[-1] :]
            least = min(least, float(np.linalg.svd(minors, compute_uv=False).min()))
        return norm / least if least > 0 else math.inf

    def _sets_of_rows(self) -> Iterator[Indices]:
        """Sets of rows to look at, those of one size together: shape (sets, size)."""
        if self.size <= _LARGEST_CHECKED_WHOLE:
            for count in range(1, self.size + 1):
                yield np.array(list(itertools.combinations(range(self.size), count)))
        else:
            rng = np.random.default_rng(0)
            for count in rng.integers(1, self.size + 1, size=_SAMPLED):
                yield rng.permutation(self.size)[None, :count]

    @functools.cached_property
    def is_polarizing(self) -> bool:
        """Whether any l-i rows of the last l-i columns are non-singular, for every i.

        Proved for columns that are polynomials of rising degree (`dct`, Vandermonde matrices),
        whatever their size; else by the condition numbers that `condition` looks at, of at most
        1e13: of all sets of rows up to l = 12, of random ones beyond.
        """
        return self._has_rising_degrees() or self.condition < _SINGULAR

    def _has_rising_degrees(self) -> bool:
        """Whether the last m columns are polynomials of degree below m, weighted, for every m."""
        # They are if multiplying by the variable x takes column c to columns c-1 … l-1.
        last = self.matrix[:, -1]
        if (last == 0).any():
            return False
        x = self.matrix[:, -2] / last
        if np.diff(np.sort(x)).min() <= 1e-9 * np.abs(x).max():
            return False
        image = np.linalg.solve(self.matrix, x[:, None] * self.matrix)
        rounding = 1e-12 * self.size * np.abs(image).max()
        further = np.abs(np.diagonal(image, 1))
        return bool((np.abs(np.triu(image, 2)) <= rounding).all() and (further > 1e-6).all())

    @functools.cached_property
    def inverse(self) -> NDArray[np.float64]:
        """The inverse matrix."""
        return np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)

    @property
    def transposed(self) -> Kernel:
        """The transposed matrix; this very kernel if it is symmetric."""
        symmetric = np.array_equal(self.matrix, self.matrix.T)
        return self if symmetric else Kernel(self.matrix.T)

    @property
    def n_operations(self) -> tuple[int, int]:
        """Additions and multiplications (other than by ±1) of one product with a vector."""
        nonzero = self.matrix != 0
        additions = int(np.maximum(np.count_nonzero(nonzero, axis=1) - 1, 0).sum())
        return additions, int(np.count_nonzero(nonzero & (np.abs(self.matrix) != 1)))

    def to_json(self) -> str | list[list[float]]:
        """Give the kernel as JSON values.

        Returns
        -------
        str or list
            A name, or the matrix.
        """
        return next((name for name, known in _NAMED.items() if known == self), self.matrix.tolist())

    @classmethod
    def from_json(cls, values: str | list[list[float]]) -> Kernel:
        """Rebuild what `to_json` gave.

        Parameters
        ----------
        values
            The name or the matrix.

        Returns
        -------
        Kernel
            The same kernel, bit for bit.
        """
        return _NAMED[values] if isinstance(values, str) else cls(values)

    def __reduce__(self) -> tuple[Any, ...]:
        # HADAMARD and ARIKAN stay themselves in another process: they are told by identity.
        # By a function of this module: cloudpickle sends a method along, without what it refers to.
        return _rebuilt, (self.to_json(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel):
            return NotImplemented
        return np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash(self.matrix.tobytes())

    def __repr__(self) -> str:
        name = self.to_json()
        if isinstance(name, str):
            return name.upper()
        if self == Kernel.dct(self.size):
            return f"Kernel.dct({self.size})"
        return f"Kernel({name})"


HADAMARD = Kernel([[1, 1], [1, -1]])
"""The default: orthogonal, so it gives anytime estimates, and the most accurate one."""

ARIKAN = Kernel([[1, 1], [0, 1]])
"""The first paper's kernel: of all that polarize, the one with the fewest operations."""

_NAMED = {"hadamard": HADAMARD, "arikan": ARIKAN}


def _rebuilt(values: str | list[list[float]]) -> Kernel:
    return Kernel.from_json(values)


def is_binary(kernels: Iterable[Kernel]) -> bool:
    """Whether every kernel is HADAMARD or ARIKAN: signs alone, so exact modulo a prime.

    Parameters
    ----------
    kernels
        What `kernels_of` gave.

    Returns
    -------
    bool
        The answer.
    """
    return all(kernel is HADAMARD or kernel is ARIKAN for kernel in kernels)


def kernels_of(n: int, kernel: Kernel | Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Kernels of the transform of a code with n tasks, the slowest radix first.

    Parameters
    ----------
    n
        Number of tasks.
    kernel
        One kernel, whose powers are taken until the transform has n rows or more; or one for
        each radix, whose sizes multiply to n.

    Returns
    -------
    tuple of Kernel
        The kernels.

    Raises
    ------
    TypeError
        If there is something else than kernels.
    ValueError
        If a kernel does not polarize, or the sizes do not multiply to n.

    Examples
    --------
    >>> kernels_of(20, [Kernel.dct(4), Kernel.dct(5)])
    (Kernel.dct(4), Kernel.dct(5))
    >>> kernels_of(9, Kernel.dct(3))
    (Kernel.dct(3), Kernel.dct(3))
    """
    given: Any = [kernel] if isinstance(kernel, Kernel) else kernel
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, Kernel) for one in given):
        raise TypeError(
            "kernel must be a Kernel, such as HADAMARD, ARIKAN or Kernel.dct(4), or a list of "
            f"them, got {kernel!r}."
        )
    for one in given:
        if not one.is_polarizing:
            raise ValueError(
                f"a code's kernel must polarize, and {one!r} does not: some l-i rows of its last "
                "l-i columns are singular. Use Kernel.dct(l)."
            )
    if isinstance(kernel, Kernel):
        given, size = [], 1
        while size < n:
            given.append(kernel)
            size *= kernel.size
    else:
        size = math.prod(one.size for one in given)
        if size != n:
            sizes = " x ".join(str(one.size) for one in given)
            raise ValueError(
                f"the sizes of the kernels must multiply to n, got n={n} and {sizes or 'none'}. "
                f"Use n={size}, or one kernel, whose next power is punctured."
            )
    return tuple(next((known for known in _NAMED.values() if known == one), one) for one in given)
