"""MDS codes over the reals: any k outputs decode; what other codes are measured against."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sooner import _checks
from sooner.codes.dense import DenseCode
from sooner.codes.linear_estimates import AnytimeLinear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import RNGLike

__all__ = ["MDSCode"]


class MDSCode(DenseCode, AnytimeLinear):
    r"""A random dense matrix as code: any k of n outputs decode, with probability one.

    Encoding takes n k multiplications of a block instead of n log n additions, and decoding k²
    after a factorization in O(k³): for comparison, and for few tasks.

    Parameters
    ----------
    n
        Number of tasks.
    k
        Number of data blocks, ``1 <= k <= n``.
    generator
        ``"orthogonal"``: k columns of a uniformly random orthogonal matrix, times
        :math:`\sqrt n`; ``"gaussian"``: independent standard normal numbers.
    rng
        Seed or generator (SPEC 7).

    Raises
    ------
    ValueError
        If the numbers do not fit each other.

    Examples
    --------
    >>> code = MDSCode(6, 4)
    >>> data = np.arange(8.0).reshape(4, 2)
    >>> available = np.array([False, True, True, False, True, True])
    >>> bool(np.allclose(code.decode(code.encode(data), available), data))
    True
    """

    is_mds = True

    def __init__(
        self,
        n: int,
        k: int,
        *,
        generator: Literal["orthogonal", "gaussian"] = "orthogonal",
        rng: RNGLike = 0,
    ) -> None:
        n = _checks.integer(n, "n", at_least=1)
        k = _checks.integer(k, "k", at_least=1)
        if k > n:
            raise ValueError(f"k must satisfy 0 < k <= n, got k={k}, n={n}.")
        _checks.one_of(generator, "generator", ("orthogonal", "gaussian"))
        matrix = np.random.default_rng(rng).standard_normal((n, k))
        if generator == "orthogonal":
            q, r = np.linalg.qr(matrix)
            matrix = q * np.copysign(math.sqrt(n), np.diag(r))  # these signs make it uniform
        super().__init__(matrix)
        self.generator_name: str = generator

    def __repr__(self) -> str:
        option = "" if self.generator_name == "orthogonal" else ', generator="gaussian"'
        return f"MDSCode({self.n}, {self.k}{option})"

    @property
    def correlator(self) -> NDArray[np.float64]:
        """What outputs are correlated with for the unbiased estimate, shape (k, n)."""
        if self.generator_name == "orthogonal":
            return self.matrix.T
        # The direction of a Gaussian row is uniform and independent of its length.
        matrix = self.matrix
        return np.ascontiguousarray((matrix * (self.k / np.sum(matrix**2, axis=1)[:, None])).T)

    def _unbiased_square(self, m: int) -> float:
        n, k = self.n, self.k
        if self.generator_name == "gaussian":
            return (k - 1) / m
        if n == 1:
            return 0.0
        # Q projects on k random dimensions of n: E[Q_ab Q_cd] is even + mixed * (the two other
        # pairings); the error is (n/m)² E[tr(P Q P Q)] / k - 1, P a projection of rank m.
        mixed = k * (n - k) / (n * (n - 1) * (n + 2))
        even = k / n - mixed * (n + 1)
        return max(0.0, (n / m) ** 2 * (even * m + mixed * m * (m + 1)) / k - 1)

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code, its matrix included.

        Returns
        -------
        dict
            JSON values.
        """
        return {**super().spec(), "kind": "mds", "generator": self.generator_name}

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> MDSCode:
        """Rebuild a code from its `spec`.

        Parameters
        ----------
        spec
            What `spec` returned.

        Returns
        -------
        MDSCode
            The same code, bit for bit.
        """
        code = super().from_spec(spec)
        code.generator_name = spec["generator"]
        return code
