"""Anytime estimates of codes with a random generator matrix, by dense matrices."""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.codes import prediction, transform
from sooner.codes.estimate import METHODS, BlockEstimate, predicted
from sooner.codes.planned import PlannedCode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array, Mask

__all__ = ["AnytimeLinear"]

_UNBOUNDED = 1 << 62
"""Transform size of rows that are drawn one by one: what comes next is like what has come."""


class AnytimeLinear(PlannedCode):
    """What a code with a random generator says before it is decodable."""

    if TYPE_CHECKING:  # what the codes have beside these

        @property
        def matrix(self) -> NDArray[np.float64]:
            """What each output is of the data blocks times `scales`, shape (n, k)."""

        @property
        def scales(self) -> NDArray[np.float64]:
            """What data blocks are multiplied by before they are added, shape (k,)."""

    @property
    @abc.abstractmethod
    def correlator(self) -> NDArray[np.float64]:
        """What outputs are correlated with for the unbiased estimate, shape (k, n).

        The mean of column times output, over the available outputs, is unbiased.
        """

    @abc.abstractmethod
    def _unbiased_square(self, m: int) -> float:
        """Square of the relative error of the unbiased estimate from m > 0 outputs."""

    def estimate(
        self,
        outputs: Array,
        available: Mask,
        *,
        method: str = "common_mean",
        gram: NDArray[np.float64] | None = None,
    ) -> BlockEstimate:
        """Estimate the data blocks from any set of outputs.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``; what is not available is not read.
        available
            Boolean mask, shape (n,).
        method
            As for `PolarCode.estimate`.
        gram
            Inner products of the data blocks, shape (k, k), for ``"gram"``.

        Returns
        -------
        BlockEstimate
            The estimate, and its error: by the closed form for ``"unbiased"`` and ``"scaled"``,
            else by leave-one-out.  Blocks that are determined already are exact, but in the
            unbiased estimate.
        """
        _checks.one_of(method, "method", METHODS)
        available = _checks.mask(available, "available", self.n)
        received = np.flatnonzero(available)
        if method in {"unbiased", "scaled"}:
            return self._correlated(outputs[received], received, method)
        decoder = self.told(available)
        if decoder.decodable:
            return BlockEstimate(self.decode(outputs, available), 0.0, decoder.determined)
        estimate = predicted(
            method,
            self.matrix[received],
            outputs[received],
            size=_UNBOUNDED,
            # Blocks with exponents are alike only after their division.
            covariance=None if gram is None else gram * np.outer(self.scales, self.scales),
        )
        estimate.value[...] /= self.scales.reshape(-1, *[1] * (outputs.ndim - 1))
        determined = decoder.determined
        if determined.any():  # the prediction agrees with these, but to its jitter only
            blocks = np.empty_like(estimate.value)
            decoder.partial_plan().run(outputs, out=blocks)
            estimate.value[determined] = blocks[determined]
        error = estimate.relative_error * _calibration(self.matrix[received])
        return BlockEstimate(estimate.value, min(1.0, error), determined)

    def _correlated(self, outputs: Array, received: Array, method: str) -> BlockEstimate:
        error = self.relative_error(received.size, method=method)
        weights = self.correlator[:, received].astype(outputs.dtype) / max(received.size, 1)
        value = (weights @ transform.as_rows(outputs)).reshape(self.k, *outputs.shape[1:])
        if method == "scaled" and received.size:
            value *= 1 - error**2  # 1 / (1 + v), and the error is sqrt(v / (1 + v))
        return BlockEstimate(value, error)

    def relative_error(self, m: int, *, method: str = "unbiased") -> float:
        """Relative root mean square error of an estimate from m outputs, where there is a law.

        Parameters
        ----------
        m
            Number of available outputs, a uniformly random set of them.
        method
            ``"unbiased"`` or ``"scaled"``: for any data, in the mean over codes and sets.
            Others: of least squares for independent blocks of equal energy.

        Returns
        -------
        float
            The error; 1 when nothing is available, since the estimate is zero then.

        Raises
        ------
        ValueError
            If blocks have exponents and the method is ``"unbiased"`` or ``"scaled"``.
        """
        _checks.one_of(method, "method", METHODS)
        if method not in {"unbiased", "scaled"}:
            return math.sqrt(max(0.0, 1 - m / self.k))
        if (self.scales != self.scales[0]).any():
            raise ValueError(
                "the law of the unbiased estimate holds for blocks without exponents only. "
                'Use another method, such as "least_squares".'
            )
        if m == 0:
            return 1.0
        square = self._unbiased_square(m)
        return math.sqrt(square / (1 + square) if method == "scaled" else square)


def _calibration(rows: NDArray[np.float64]) -> float:
    """Factor of the error by leave-one-out that makes it right for any set of rows.

    For independent blocks of equal energy both are known: the error by leave-one-out, and that of
    the least squares estimate.  Their ratio depends on how the outputs that are missing relate to
    those that came, and hardly on the blocks.

    Parameters
    ----------
    rows
        Received rows of the generator, shape (m, k).

    Returns
    -------
    float
        The ratio.
    """
    m, k = rows.shape
    if m == 0:
        return 1.0
    products = rows @ rows.T
    inverse = prediction.least_squares(rows).inverse
    left_out = m / float(np.sum(1 / np.diag(inverse)))
    unseen = max(0.0, 1 - float(np.sum(inverse * products)) / k)
    return math.sqrt(unseen * left_out * float(np.trace(products)) / m)
