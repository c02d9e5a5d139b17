"""Codes given by a generator matrix: dense encoding, and decoding by least squares with LAPACK."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sooner.codes import transform
from sooner.codes.base import check_index, check_shapes, not_decodable
from sooner.codes.planned import PlannedCode, in_double, scales_of
from sooner.codes.program import ProgramBuilder
from sooner.codes.row_space import RoundedRowSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array, Indices, Mask, Stop
    from sooner.codes.program import Program

__all__ = ["DenseCode", "LeastSquaresPlan"]


@dataclass(frozen=True, slots=True)
class LeastSquaresPlan:
    """Solve ``q @ r @ data = outputs[reads]``, in double precision."""

    reads: Indices
    """Outputs that are read, ascending."""
    q: NDArray[np.float64]
    """Shape ``(reads, k)``, orthonormal columns."""
    r: NDArray[np.float64]
    """Upper triangular, shape ``(k, k)``."""
    scales: NDArray[np.float64]
    """What the data blocks were multiplied by, shape (k,)."""

    @classmethod
    def of(
        cls, matrix: NDArray[np.float64], scales: NDArray[np.float64], reads: Indices
    ) -> LeastSquaresPlan:
        """Factor the rows that are read.

        Parameters
        ----------
        matrix
            What each output is of the data blocks times `scales`, shape (n, k).
        scales
            Shape (k,).
        reads
            Outputs to read, ascending.

        Returns
        -------
        LeastSquaresPlan
            The plan.
        """
        q, r = np.linalg.qr(matrix[reads])
        return cls(reads, q, r, scales)

    @property
    def n_operations(self) -> int:
        """Multiplications of a block by a number."""
        return int(self.q.size + self.r.size)

    @property
    def condition(self) -> float:
        """Condition number of the rows that are read."""
        return float(np.linalg.cond(self.r))

    def run(self, outputs: Array, *, out: Array, threads: int = 1, stop: Stop = None) -> Array:
        """Decode.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``.
        out
            Where to write, shape ``(k, ...)``.
        threads
            Not used: BLAS has its own.
        stop
            Asked between pieces; True raises `InterruptedError`.

        Returns
        -------
        ndarray
            `out`.
        """
        del threads
        from scipy.linalg import solve_triangular  # takes long to import

        def solve(some: NDArray[np.float64]) -> NDArray[np.float64]:
            right = self.q.T @ some
            solved = solve_triangular(self.r, right, check_finite=False)
            return np.ascontiguousarray(solved / self.scales[:, None])

        return in_double(solve, outputs, self.reads, out, stop)


class _DenseDecoder:
    """Counts outputs, if any k of them decode; else looks at the rank of their rows."""

    def __init__(self, code: DenseCode) -> None:
        self._code = code
        self._space = RoundedRowSpace(code.k)
        self.available: Mask = np.zeros(code.n, dtype=np.bool_)

    def add(self, index: int) -> bool:
        index = check_index(index, self._code.n)
        if not self.available[index]:
            self.available[index] = True
            self._space.add(self._code.matrix[index])
        return self.decodable

    @property
    def n_missing(self) -> int:
        fewer = self._code.k - int(np.count_nonzero(self.available))
        if fewer > 0 or self._code.is_mds:
            return max(fewer, 0)
        return self._code.k - self._space.rank

    @property
    def decodable(self) -> bool:
        return self.n_missing == 0

    @property
    def determined(self) -> Mask:
        if self._code.is_mds or self.decodable:
            return np.full(self._code.k, self.decodable)
        return self._space.fixed

    def plan(self) -> LeastSquaresPlan:
        if not self.decodable:
            error = not_decodable(self)
            raise error
        reads = np.flatnonzero(self.available)
        return LeastSquaresPlan.of(self._code.matrix, self._code.scales, reads)


class DenseCode(PlannedCode):
    """A code given by its generator matrix.

    Parameters
    ----------
    matrix
        What each output is of the data blocks times `scales`, shape (n, k), of rank k.
    scales
        What data blocks are multiplied by before they are added, powers of two, shape (k,).
    """

    operands = 1
    is_mds = False
    """Whether any k rows of the matrix are regular."""

    def __init__(
        self, matrix: NDArray[np.float64], scales: NDArray[np.float64] | None = None
    ) -> None:
        self._set(matrix, np.ones(matrix.shape[1]) if scales is None else scales)

    def _set(self, matrix: NDArray[np.float64], scales: NDArray[np.float64]) -> None:
        self.n, self.k = matrix.shape
        self.matrix = matrix
        self.scales = scales

    def __repr__(self) -> str:
        return f"DenseCode({self.n} x {self.k} matrix)"

    @functools.cached_property
    def generator(self) -> NDArray[np.float64]:
        """What each output is of the data blocks, shape (n, k)."""
        return self.matrix * self.scales

    @functools.cached_property
    def _encoder(self) -> Program:
        builder = ProgramBuilder(self.k)
        return builder.build(builder.dense(self.generator, [(j, 1.0) for j in range(self.k)]))

    def encode(
        self, blocks: Array, *, out: Array | None = None, threads: int = 1, stop: Stop = None
    ) -> Array:
        """Coded blocks from data blocks, in n k multiplications of a block.

        Parameters
        ----------
        blocks
            Data blocks, shape ``(k, ...)``, floats or complex numbers.
        out
            Where to write, shape ``(n, ...)``, of the dtype of `blocks`.
        threads
            Threads to use.
        stop
            Asked between tiles; True raises `InterruptedError`.

        Returns
        -------
        ndarray, shape (n, ...)
            The coded blocks.
        """
        # Not by BLAS: what it gives for a column depends on how many there are.
        out = check_shapes(blocks, self.k, "blocks", out, self.n)
        return transform.run(self._encoder, blocks, out=out, threads=threads, stop=stop)

    def decoder(self) -> _DenseDecoder:
        """Give a decoder that knows of no output yet.

        Returns
        -------
        Decoder
            The decoder.
        """
        return _DenseDecoder(self)

    def with_scales(self, exponents: Indices) -> Self:
        """Give the same code with blocks divided by powers of two before they are added.

        Parameters
        ----------
        exponents
            Data block j is divided by ``2**exponents[j]``, shape (k,), |exponent| below 500.

        Returns
        -------
        DenseCode
            The code.
        """
        return self.from_spec({**self.spec(), "scales": scales_of(exponents, self.k)})

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code, its matrix included.

        Returns
        -------
        dict
            JSON values.
        """
        return {
            "kind": "dense",
            "matrix": self.matrix.tolist(),
            "scales": self.scales.tolist(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Self:
        """Rebuild a code from its `spec`.

        Parameters
        ----------
        spec
            What `spec` returned.

        Returns
        -------
        DenseCode
            The same code, bit for bit.
        """
        code = cls.__new__(cls)
        code._set(np.array(spec["matrix"]), np.array(spec["scales"]))
        return code
