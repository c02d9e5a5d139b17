"""A @ B with both operands coded: product codes, decoded on a grid."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sooner import _checks
from sooner.codes.base import Code, check_index, check_shapes, launch_order
from sooner.codes.grid import LineCode
from sooner.codes.grid_decoder import CompletedDecoder, GridDecoder, PeelingDecoder
from sooner.codes.kernel import HADAMARD
from sooner.codes.linear_estimates import AnytimeLinear
from sooner.codes.planned import factor_exponents
from sooner.codes.polar import PolarCode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array, Indices, Stop

__all__ = ["ProductCode"]


class ProductCode(AnytimeLinear):
    """A code for A @ B: A coded by rows, B by columns, one task for each pair of coded blocks.

    The product's blocks form a grid of ``rows.n`` by ``columns.n`` tasks; task i multiplies coded
    block ``i // columns.n`` of A and coded block ``i % columns.n`` of B.  About
    ``rows.k * columns.k`` of the tasks determine the product.

    Parameters
    ----------
    rows
        Code of the blocks of rows of A.
    columns
        Code of the blocks of columns of B.
    decoder
        ``"inactivation"``: decodes exactly when the outputs determine the product;
        ``"peeling"``: [B19] Alg. 3 alone, which decodes each row and each column of the grid whose
        known cells suffice until the grid is full, and stalls otherwise: it takes 8 % more than
        the minimum at 16 x 16 tasks and rate 9/16, and 27 % with the papers' codes of the operands.

    Raises
    ------
    TypeError
        If `rows` or `columns` is no code.
    ValueError
        If one of them is for two operands itself.

    Notes
    -----
    [B19]: arXiv 1901.06811, Alg. 3.  Where it stalls an unknown cell is declared
    inactive and the decoding goes on; what is redundant in the end determines these few unknowns
    (3 to 8 at 16 x 16 tasks, rate 9/16).  With few tasks all of this gains little: a set of k
    outputs of a small grid often holds more of one line than can be used.

    To know when the outputs suffice costs O(k²) for each that comes: a second in all at 32 x 32
    tasks.  Where that is too much, peel.

    The law of the unbiased estimate is that of two polar codes with kernel HADAMARD, punctured or
    not, late parities included: for any product, in the mean over signs and sets of tasks.

    Examples
    --------
    >>> from sooner.codes import PolarCode
    >>> rows, columns = PolarCode(4, 3), PolarCode(4, 2)
    >>> code = ProductCode(rows, columns)
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.standard_normal((3, 5, 7)), rng.standard_normal((2, 7, 6))
    >>> coded_A, coded_B = rows.encode(A), columns.encode(B)
    >>> tasks = [coded_A[a] @ coded_B[b] for a, b in map(code.task_operands, range(code.n))]
    >>> decoded = code.decode(np.array(tasks), np.arange(16) % 5 > 0)
    >>> bool(np.allclose(decoded.reshape(3, 2, 5, 6), A[:, None] @ B))
    True
    """

    operands = 2

    def __init__(
        self,
        rows: Code,
        columns: Code,
        *,
        decoder: Literal["inactivation", "peeling"] = "inactivation",
    ) -> None:
        for name, code in (("rows", rows), ("columns", columns)):
            if not isinstance(code, Code):
                raise TypeError(f"{name} must be a code such as PolarCode(16, 12), got {code!r}.")
            if code.operands != 1:
                raise ValueError(f"{name} must be a code for one operand, got {code!r}.")
        _checks.one_of(decoder, "decoder", ("inactivation", "peeling"))
        self.rows = rows
        self.columns = columns
        self.decoder_name = decoder
        self.n = rows.n * columns.n
        self.k = rows.k * columns.k

    def __repr__(self) -> str:
        option = ', decoder="peeling"' if self.decoder_name == "peeling" else ""
        return f"ProductCode({self.rows!r}, {self.columns!r}{option})"

    @property
    def factors(self) -> tuple[Code, Code]:
        """The codes that A and B are encoded by."""
        return self.rows, self.columns

    @property
    def launch_order(self) -> list[int]:
        """A grid of ``rows.k`` by ``columns.k`` tasks first, then around it."""
        ranks = [np.argsort(launch_order(code)) / code.k for code in (self.rows, self.columns)]
        share = np.maximum(ranks[0][:, None], ranks[1]).ravel()
        order: list[int] = np.argsort(share, kind="stable").tolist()
        return order

    def task_operands(self, index: int) -> tuple[int, ...]:
        """Which coded blocks of A and of B a task multiplies.

        Parameters
        ----------
        index
            Which task.

        Returns
        -------
        tuple of int
            Row and column of the grid.
        """
        return divmod(check_index(index, self.n), self.columns.n)

    def encode(
        self, blocks: Array, *, out: Array | None = None, threads: int = 1, stop: Stop = None
    ) -> Array:
        """What the tasks give, from the blocks of the product.

        Parameters
        ----------
        blocks
            Blocks of A @ B row by row, shape ``(k, ...)``, floats or complex numbers.
        out
            Where to write, shape ``(n, ...)``, of the dtype of `blocks`.
        threads
            Threads to use.
        stop
            Asked between tiles; True raises `InterruptedError`.

        Returns
        -------
        ndarray, shape (n, ...)
            The outputs of all tasks.  (A and B themselves are encoded by the two `factors`.)
        """
        out = check_shapes(blocks, self.k, "blocks", out, self.n)
        grid = blocks.reshape(self.rows.k, self.columns.k, *blocks.shape[1:])
        half = self.rows.encode(grid, threads=threads, stop=stop)
        for row, line in enumerate(half):
            outputs = out[row * self.columns.n : (row + 1) * self.columns.n]
            self.columns.encode(line, out=outputs, threads=threads, stop=stop)
        return out

    def decoder(self) -> GridDecoder:
        """Give a decoder that knows of no output yet.

        Returns
        -------
        Decoder
            The decoder.
        """
        return PeelingDecoder(self) if self.decoder_name == "peeling" else CompletedDecoder(self)

    @functools.cached_property
    def line_codes(self) -> tuple[LineCode, LineCode]:
        """The codes of the two operands as matrices."""
        return LineCode(self.rows), LineCode(self.columns)

    @functools.cached_property
    def matrix(self) -> NDArray[np.float64]:
        """What each output is of the product's blocks times `scales`, shape (n, k)."""
        rows, columns = self.line_codes
        return _kron(rows.generator, columns.generator)

    @functools.cached_property
    def scales(self) -> NDArray[np.float64]:
        """What the product's blocks are multiplied by, powers of two, shape (k,)."""
        rows, columns = self.line_codes
        return np.outer(rows.scales, columns.scales).ravel()

    @functools.cached_property
    def generator(self) -> NDArray[np.float64]:
        """What each output is of the product's blocks, shape (n, k)."""
        return self.matrix * self.scales

    def _polar_factors(self) -> list[PolarCode]:
        factors = [
            code
            for code in self.factors
            if isinstance(code, PolarCode)
            and all(kernel == HADAMARD for kernel in code.layout.kernels)
        ]
        if len(factors) < 2:
            raise ValueError(
                "the unbiased estimate of a product needs two polar codes with kernel HADAMARD, "
                f"got {self.rows!r} and {self.columns!r}. "
                'Use another method, such as "least_squares".'
            )
        return factors

    @functools.cached_property
    def correlator(self) -> NDArray[np.float64]:
        """What outputs are correlated with for the unbiased estimate: data columns, (k, n)."""
        halves = []
        for code in self._polar_factors():
            every = np.ones(code.n, dtype=np.bool_)
            mean = code.estimate(np.eye(code.n), every, method="unbiased").value
            halves.append(mean * code.n)
        return _kron(*halves)

    def _unbiased_square(self, m: int) -> float:
        # The outputs of a column of the transform are signs that sum to zero.  What channel (a, b)
        # leaves in the estimate of (c, d) is a mean of m of them, of the product of both columns;
        # its variance is (1 + (m - 1) * mean of the product of two different ones) / m, which
        # depends on whether a = c, b = d or neither.  The outputs are a grid within the whole
        # transform if the factors are punctured, so that two of them share a row more often.
        factors = self._polar_factors()
        others = [code.relative_error(1) ** 2 for code in factors]  # channels beside one's own
        same = [-1 / max(code.transform_size - 1, 1) for code in factors]
        pairs = max(self.n - 1, 1)
        in_row, in_column = (self.columns.n - 1) / pairs, (self.rows.n - 1) / pairs
        elsewhere = 1 - in_row - in_column
        means = (
            (others[0], in_row + (in_column + elsewhere) * same[0]),
            (others[1], in_column + (in_row + elsewhere) * same[1]),
            (
                others[0] * others[1],
                in_row * same[1] + in_column * same[0] + elsewhere * same[0] * same[1],
            ),
        )
        return max(0.0, sum(count * (1 + (m - 1) * mean) for count, mean in means) / m)

    def with_scales(self, exponents: Indices) -> ProductCode:
        """Give the same code with blocks divided by powers of two before they are added.

        Parameters
        ----------
        exponents
            Block (a, b) of the product is divided by ``2**exponents[a * columns.k + b]``: sums of
            one exponent for each block of rows and one for each block of columns, shape (k,).

        Returns
        -------
        ProductCode
            The code.  `ValueError` is raised if the exponents are no such sums.
        """
        of_rows, of_columns = factor_exponents(exponents, self.rows.k, self.columns.k)
        return ProductCode(
            self.rows.with_scales(of_rows),
            self.columns.with_scales(of_columns),
            decoder=self.decoder_name,
        )

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code.

        Returns
        -------
        dict
            JSON values.
        """
        return {
            "kind": "product",
            "decoder": self.decoder_name,
            "rows": self.rows.spec(),
            "columns": self.columns.spec(),
        }


def _kron(rows: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.kron(rows, columns), dtype=np.float64)
