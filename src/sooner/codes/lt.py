"""LT codes: each coded block is the sum of a few data blocks."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sooner import _checks
from sooner.codes import transform
from sooner.codes.base import check_shapes
from sooner.codes.linear_estimates import AnytimeLinear
from sooner.codes.peeling import LTDecoder, Sums
from sooner.codes.planned import scales_of
from sooner.codes.program import ProgramBuilder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array, Indices, RNGLike, Stop
    from sooner.codes.program import Program

__all__ = ["LTCode", "robust_soliton"]

_DRAWS = 50
"""Attempts at sums under which all n outputs decode."""


def robust_soliton(k: int, c: float, delta: float) -> NDArray[np.float64]:
    """Probabilities of the degrees 1 … k.

    Parameters
    ----------
    k
        Number of data blocks.
    c
        Larger for more sums of few blocks.
    delta
        Bound of the failure probability that the distribution is designed for.

    Returns
    -------
    ndarray, shape (k,)
        The probabilities.

    Notes
    -----
    Luby, "LT codes", FOCS 2002, Definition 11.

    Examples
    --------
    >>> robust_soliton(4, 0.03, 0.5).round(3)
    array([0.266, 0.488, 0.167, 0.079])
    """
    degrees = np.arange(1, k + 1)
    ideal = 1 / np.maximum(degrees * (degrees - 1.0), 1.0)
    ideal[0] = 1 / k
    ripple = c * math.log(k / delta) * math.sqrt(k)
    spike = max(round(min(k / ripple, k)), 1)
    extra = np.where(degrees < spike, ripple / (degrees * k), 0.0)
    extra[spike - 1] = max(ripple * math.log(max(ripple / delta, 1.0)) / k, 0.0)
    weights = ideal + extra
    return np.asarray(weights / weights.sum(), dtype=np.float64)


class LTCode(AnytimeLinear):
    """Each coded block is the sum of a few data blocks with random signs: an LT code.

    Parameters
    ----------
    n
        Number of tasks.
    k
        Number of data blocks, ``1 <= k <= n``.
    c, delta
        Of the robust soliton distribution of the numbers of blocks in a sum.
    decoder
        ``"peeling"``: look for a sum with one unknown block, again and again, in a time
        proportional to the number of terms; it takes 1.28 k outputs in the mean at k = 192, 1.14 k
        at k = 768.  ``"inactivation"``: decodes exactly when the outputs determine the data, from
        1.02 k at k = 192, 1.004 k at k = 768 (``benchmarks/lt.py``).
    rng
        Seed or generator of sums and signs (SPEC 7).

    Raises
    ------
    ValueError
        If the numbers do not fit each other, or no sums are found that decode from all n outputs.

    Notes
    -----
    Luby, "LT codes", FOCS 2002; [B19] (arXiv 1901.06811), Figure 6.  With random signs the
    estimates' error has a law that holds for any data.

    Examples
    --------
    >>> code = LTCode(64, 32)
    >>> data = np.random.default_rng(0).standard_normal((32, 3))
    >>> available = np.arange(64) % 4 > 0
    >>> bool(np.allclose(code.decode(code.encode(data), available), data))
    True
    """

    operands = 1
    scales: NDArray[np.float64]

    def __init__(
        self,
        n: int,
        k: int,
        *,
        c: float = 0.03,
        delta: float = 0.5,
        decoder: Literal["peeling", "inactivation"] = "peeling",
        rng: RNGLike = 0,
    ) -> None:
        n = _checks.integer(n, "n", at_least=1)
        k = _checks.integer(k, "k", at_least=1)
        if k > n:
            raise ValueError(f"k must satisfy 0 < k <= n, got k={k}, n={n}.")
        _checks.positive(c, "c")
        if not math.isfinite(c):
            raise ValueError(f"c must be finite, got c={c}.")
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got delta={delta}.")
        _checks.one_of(decoder, "decoder", ("peeling", "inactivation"))
        generator = np.random.default_rng(rng)
        probabilities = robust_soliton(k, c, delta)
        for _ in range(_DRAWS):
            degrees = generator.choice(np.arange(1, k + 1), size=n, p=probabilities)
            sums = [
                np.sort(generator.choice(k, size=degree, replace=False)).tolist()
                for degree in degrees.tolist()
            ]
            signs = [generator.choice([-1.0, 1.0], size=len(terms)).tolist() for terms in sums]
            self._set(sums, signs, np.ones(k), decoder)
            if self.told(np.ones(n, dtype=np.bool_)).decodable:
                return
        raise ValueError(
            f"no LT code with n={n}, k={k}, c={c}, delta={delta} was found whose {n} outputs "
            f'decode by {decoder}. Use a smaller k, or decoder="inactivation".'
        )

    def _set(
        self,
        sums: list[list[int]],
        signs: list[list[float]],
        scales: NDArray[np.float64],
        decoder: str,
    ) -> None:
        self.n, self.k = len(sums), scales.size
        self.sums = Sums(self.k, sums, signs)
        self.scales = scales
        self.decoder_name = decoder

    def __repr__(self) -> str:
        option = ', decoder="inactivation"' if self.decoder_name == "inactivation" else ""
        return f"LTCode({self.n}, {self.k}{option})"

    @functools.cached_property
    def _encoder(self) -> Program:
        builder = ProgramBuilder(self.k)
        scales = self.scales.tolist()
        return builder.build([
            builder.dense(np.array([signs]), [(term, scales[term]) for term in terms])[0]
            for terms, signs in zip(self.sums.terms, self.sums.signs, strict=True)
        ])

    def encode(
        self, blocks: Array, *, out: Array | None = None, threads: int = 1, stop: Stop = None
    ) -> Array:
        """Coded blocks from data blocks: one addition for each term of a sum.

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
        out = check_shapes(blocks, self.k, "blocks", out, self.n)
        return transform.run(self._encoder, blocks, out=out, threads=threads, stop=stop)

    def decoder(self) -> LTDecoder:
        """Give a decoder that knows of no output yet.

        Returns
        -------
        Decoder
            The decoder.
        """
        inactivation = self.decoder_name == "inactivation"
        return LTDecoder(self.sums, self.scales, inactivation=inactivation)

    @functools.cached_property
    def matrix(self) -> NDArray[np.float64]:
        """What each output is of the data blocks times `scales`, shape (n, k)."""
        matrix = np.zeros((self.n, self.k))
        for row, terms, signs in zip(matrix, self.sums.terms, self.sums.signs, strict=True):
            row[terms] = signs
        return matrix

    @property
    def generator(self) -> NDArray[np.float64]:
        """What each output is of the data blocks, shape (n, k)."""
        return self.matrix * self.scales

    @property
    def correlator(self) -> NDArray[np.float64]:
        """What outputs are correlated with for the unbiased estimate, shape (k, n)."""
        # A sum of d blocks holds each with probability d / k.
        matrix = self.matrix
        return np.ascontiguousarray((matrix * (self.k / np.sum(matrix**2, axis=1)[:, None])).T)

    def _unbiased_square(self, m: int) -> float:
        return (self.k - 1) / m

    def with_scales(self, exponents: Indices) -> LTCode:
        """Give the same code with blocks divided by powers of two before they are added.

        Parameters
        ----------
        exponents
            Data block j is divided by ``2**exponents[j]``, shape (k,), |exponent| below 500.

        Returns
        -------
        LTCode
            The code.
        """
        return self.from_spec({**self.spec(), "scales": scales_of(exponents, self.k)})

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code, its random parts included.

        Returns
        -------
        dict
            JSON values.
        """
        return {
            "kind": "lt",
            "decoder": self.decoder_name,
            "terms": self.sums.terms,
            "signs": self.sums.signs,
            "scales": self.scales.tolist(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> LTCode:
        """Rebuild a code from its `spec`.

        Parameters
        ----------
        spec
            What `spec` returned.

        Returns
        -------
        LTCode
            The same code, bit for bit.
        """
        code = cls.__new__(cls)
        code._set(spec["terms"], spec["signs"], np.array(spec["scales"]), spec["decoder"])
        return code
