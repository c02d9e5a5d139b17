"""Polynomial codes for A @ B: a task multiplies one combination of A by one of B; any k decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.polynomial import chebyshev

from sooner import _checks
from sooner.codes.base import check_index
from sooner.codes.dense import DenseCode
from sooner.codes.planned import factor_exponents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Indices, RNGLike

__all__ = ["PolynomialCode"]


class PolynomialCode(DenseCode):
    r"""A code for A @ B of which any ``k_a * k_b`` of n tasks decode.

    Task i multiplies :math:`\sum_a p_a(x_i) A_a` by :math:`\sum_b q_b(x_i) B_b`, so what it gives
    is the value at :math:`x_i` of a function with the blocks of the product as coefficients.

    Parameters
    ----------
    n
        Number of tasks.
    k_a
        Number of blocks of rows of A.
    k_b
        Number of blocks of columns of B, with ``k_a * k_b <= n``.
    basis
        ``"gaussian"``: values of the functions are independent standard normal numbers (random
        Khatri-Rao product codes); ``"chebyshev"``: Chebyshev polynomials of degrees a and
        ``k_a * b`` at Chebyshev points, which is a polynomial code.
    rng
        Seed or generator (SPEC 7).

    Raises
    ------
    ValueError
        If the numbers do not fit each other.

    Notes
    -----
    Yu, Maddah-Ali, Avestimehr, "Polynomial codes", NeurIPS 2017; Chebyshev: Fahim and Cadambe,
    arXiv 1903.08326; Gaussian: Subramaniam, Heidarzadeh, Narayanan, arXiv 1907.05965.

    The condition number of 9 n / 16 random rows limits n; measured, median and largest:

    ========= =========== ============ =============
    basis     n = 16      n = 64       n = 256
    ========= =========== ============ =============
    Gaussian  7e1, 3e3    2e2, 2e4     7e2, 7e4
    Chebyshev 6e1, 1e5    7e4, 9e13    5e13, 1e18
    ========= =========== ============ =============

    With the Chebyshev basis use at most 16 tasks, or lose few of them.  There are no estimates
    before k tasks have come.

    Examples
    --------
    >>> code = PolynomialCode(8, 2, 3)
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.standard_normal((2, 5, 7)), rng.standard_normal((3, 7, 4))
    >>> coded_A, coded_B = (f.encode(X) for f, X in zip(code.factors, (A, B), strict=True))
    >>> decoded = code.decode(coded_A @ coded_B, np.arange(8) != 4)
    >>> bool(np.allclose(decoded.reshape(2, 3, 5, 4), A[:, None] @ B))
    True
    """

    operands = 2
    is_mds = True

    def __init__(
        self,
        n: int,
        k_a: int,
        k_b: int,
        *,
        basis: Literal["gaussian", "chebyshev"] = "gaussian",
        rng: RNGLike = 0,
    ) -> None:
        n = _checks.integer(n, "n", at_least=1)
        k_a = _checks.integer(k_a, "k_a", at_least=1)
        k_b = _checks.integer(k_b, "k_b", at_least=1)
        if k_a * k_b > n:
            raise ValueError(f"k_a * k_b must not exceed n, got k_a={k_a}, k_b={k_b}, n={n}.")
        _checks.one_of(basis, "basis", ("gaussian", "chebyshev"))
        if basis == "gaussian":
            values = np.random.default_rng(rng).standard_normal((n, k_a + k_b))
            of_a, of_b = values[:, :k_a], values[:, k_a:]
        else:
            points = chebyshev.chebpts1(n)
            values = np.asarray(chebyshev.chebvander(points, k_a * max(k_b - 1, 1)), np.float64)
            of_a, of_b = values[:, :k_a], values[:, : k_a * (k_b - 1) + 1 : k_a]
        self._set_factors(basis, DenseCode(of_a), DenseCode(of_b))

    def _set_factors(self, basis: str, of_a: DenseCode, of_b: DenseCode) -> None:
        self.basis = basis
        self.factors = of_a, of_b
        scales = np.outer(of_a.scales, of_b.scales).ravel()
        self._set(_products(of_a.matrix, of_b.matrix), scales)

    def __repr__(self) -> str:
        sizes = ", ".join(str(code.k) for code in self.factors)
        option = "" if self.basis == "gaussian" else ', basis="chebyshev"'
        return f"PolynomialCode({self.n}, {sizes}{option})"

    def task_operands(self, index: int) -> tuple[int, ...]:
        """Which coded blocks of A and of B a task multiplies.

        Parameters
        ----------
        index
            Which task.

        Returns
        -------
        tuple of int
            The task's index twice.
        """
        return (check_index(index, self.n),) * 2

    def with_scales(self, exponents: Indices) -> PolynomialCode:
        """Give the same code with blocks divided by powers of two before they are added.

        Parameters
        ----------
        exponents
            Block (a, b) of the product is divided by ``2**exponents[a * k_b + b]``: sums of one
            exponent for each block of A and one for each block of B, shape (k,).

        Returns
        -------
        PolynomialCode
            The code.  `ValueError` is raised if the exponents are no such sums.
        """
        of_a, of_b = self.factors
        parts = factor_exponents(exponents, of_a.k, of_b.k)
        scaled = of_a.with_scales(parts[0]), of_b.with_scales(parts[1])
        return self.from_spec({"basis": self.basis, "factors": [code.spec() for code in scaled]})

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code, its matrices included.

        Returns
        -------
        dict
            JSON values.
        """
        return {
            "kind": "polynomial",
            "basis": self.basis,
            "factors": [code.spec() for code in self.factors],
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> PolynomialCode:
        """Rebuild a code from its `spec`.

        Parameters
        ----------
        spec
            What `spec` returned.

        Returns
        -------
        PolynomialCode
            The same code, bit for bit.
        """
        code = cls.__new__(cls)
        of_a, of_b = (DenseCode.from_spec(factor) for factor in spec["factors"])
        code._set_factors(spec["basis"], of_a, of_b)
        return code


def _products(of_a: NDArray[np.float64], of_b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row Kronecker products, shape (n, k_a * k_b)."""
    products: NDArray[np.float64] = of_a[:, :, None] * of_b[:, None, :]
    return products.reshape(len(of_a), -1)
