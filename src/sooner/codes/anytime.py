"""The anytime part of polar codes: estimates from any set of outputs, with their errors."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.codes import transform
from sooner.codes.encoding import encoding_program
from sooner.codes.estimate import (
    METHODS,
    BlockEstimate,
    Functional,
    adjoint_program,
    conjugate_gradients,
    correlation_program,
    functional,
    predicted,
    unbiased,
    unbiased_relative_error,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Array, Mask
    from sooner.codes.decoder import PolarDecoder
    from sooner.codes.kernel import Kernel
    from sooner.codes.layout import ChannelLayout
    from sooner.codes.program import Program

__all__ = ["AnytimePolar"]

_DENSE = 2048
"""Tasks up to which estimates use dense matrices; they take seconds to invert beyond."""


class AnytimePolar:
    """What a polar code with an orthogonal kernel says before it is decodable."""

    n: int
    k: int
    layout: ChannelLayout
    systematic: bool
    _encoder: Program

    if TYPE_CHECKING:  # what PolarCode has beside these

        @property
        def transform_size(self) -> int:
            """Size N of the transform."""

        def encode(self, blocks: Array) -> Array:
            """Coded blocks."""

        def decoder(self) -> PolarDecoder:
            """A new decoder."""

        def decode(self, outputs: Array, available: Mask) -> Array:
            """Data blocks."""

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
            ``"common_mean"`` (least squares for blocks that are a common mean plus deviations,
            in a ratio chosen by leave-one-out), ``"least_squares"``, ``"gram"``, ``"unbiased"``
            ([B23] eq. (3)) or ``"scaled"``.  Beyond 2048 tasks the first three are a few steps
            of conjugate gradients without a model.
        gram
            Inner products of the data blocks, shape (k, k), for ``"gram"``.

        Returns
        -------
        BlockEstimate
            The estimate, and its error: by the closed form for ``"unbiased"`` and ``"scaled"``,
            else by leave-one-out.  Blocks that are determined already are exact, but in the
            unbiased estimate.

        Raises
        ------
        ValueError
            If the kernel is not orthogonal, or ``"gram"`` has no `gram`.
        """
        self._check_anytime(method)
        _checks.one_of(method, "method", METHODS)
        available = _checks.mask(available, "available", self.n)
        if method in {"unbiased", "scaled"}:
            return self._correlated(outputs, available, method)
        decoder = self.decoder()
        for index in np.flatnonzero(available).tolist():
            decoder.add(index)
        if decoder.decodable:
            return BlockEstimate(self.decode(outputs, available), 0.0, decoder.determined)
        estimate = self._predicted(outputs, available, method, gram)
        determined = decoder.determined
        if determined.any():
            # The prediction agrees with what is determined, but to its jitter only.
            blocks = np.empty_like(estimate.value)
            decoder.partial_plan().run(outputs, out=blocks)
            exact = available[: self.k] if self.systematic else determined
            estimate.value[exact] = blocks[exact]
        return BlockEstimate(estimate.value, estimate.relative_error, determined)

    def _correlated(self, outputs: Array, available: Mask, method: str) -> BlockEstimate:
        value = unbiased(self._correlator, outputs, available)
        error = self.relative_error(int(np.count_nonzero(available)), method=method)
        if method == "scaled" and available.any():
            value *= 1 - error**2  # 1 / (1 + v), and the error is sqrt(v / (1 + v))
        return BlockEstimate(value, error)

    def _predicted(
        self, outputs: Array, available: Mask, method: str, gram: NDArray[np.float64] | None
    ) -> BlockEstimate:
        if self.n > _DENSE and not self.systematic:
            return conjugate_gradients(
                self._encoder, self._adjoint, outputs, available, size=self.transform_size
            )
        received = np.flatnonzero(available)
        # Blocks with exponents are alike only after their division.
        sizes = np.abs(self.layout.scales)
        estimate = predicted(
            method,
            self.generator[received] / sizes,
            outputs[received],
            size=self.transform_size,
            covariance=None if gram is None else gram * np.outer(sizes, sizes),
            systematic=int(np.count_nonzero(received < self.k)) if self.systematic else None,
        )
        if (sizes != 1).any():
            estimate.value[...] /= sizes.reshape(-1, *[1] * (outputs.ndim - 1))
        return estimate

    def functional(self, outputs: Array, available: Mask, coefficients: Array) -> Functional:
        """Estimate one number, ``sum(coefficients * data blocks)``, without bias.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``; what is not available is not read.
        available
            Boolean mask, shape (n,), a uniformly random set.
        coefficients
            Shape ``(k, ...)``.

        Returns
        -------
        Functional
            The number and its standard error, which does not grow with k; [B23] eq. (5).
        """
        self._check_anytime("unbiased")
        coded = transform.run(
            self._data_columns,
            np.ascontiguousarray(coefficients),
            out=np.empty((self.n, *coefficients.shape[1:]), dtype=coefficients.dtype),
        )
        available = _checks.mask(available, "available", self.n)
        return functional(coded, outputs, available, size=self.transform_size)

    def relative_error(self, m: int, *, method: str = "unbiased") -> float:
        """Relative root mean square error of an estimate from m outputs, where there is a law.

        Parameters
        ----------
        m
            Number of available outputs, a uniformly random set of them.
        method
            ``"unbiased"`` or ``"scaled"``: for any data, in the mean over signs and sets; for
            larger kernels if the blocks have equal energy.  Others: of least squares for
            independent blocks of equal energy.

        Returns
        -------
        float
            The error.

        Examples
        --------
        >>> from sooner.codes import PolarCode
        >>> code = PolarCode(64, 48, erasure_prob=0.25, late_parities=0, decoder="sequential")
        >>> round(code.relative_error(32), 2), round(code.relative_error(32, method="scaled"), 2)
        (0.86, 0.65)
        >>> round(code.relative_error(32, method="least_squares"), 2)
        0.58
        """
        self._check_anytime(method)
        _checks.one_of(method, "method", METHODS)
        if method not in {"unbiased", "scaled"}:
            return math.sqrt(max(0.0, 1 - m / self.k))
        error = unbiased_relative_error(m, energy=self._energy, size=self.transform_size)
        if method == "scaled" and m:
            return math.sqrt(error**2 / (1 + error**2))
        return error

    def _check_anytime(self, method: str) -> None:
        if self.systematic and method in {"unbiased", "scaled"}:
            raise ValueError(
                "the unbiased estimate needs random signs on every output, and the first k outputs "
                "of a systematic code are the data blocks. Use another method, or "
                "systematic=False."
            )
        if method in {"unbiased", "scaled"} and (np.abs(self.layout.scales) != 1).any():
            raise ValueError(
                "the law of the unbiased estimate holds for blocks without exponents only. "
                'Use another method, such as "least_squares".'
            )
        if self._unfit_kernels:
            raise ValueError(
                "anytime estimates need orthogonal kernels with entries of mean square 1, and "
                f"{self._unfit_kernels[0]!r} is none. Use HADAMARD or Kernel.dct(l)."
            )

    @functools.cached_property
    def _unfit_kernels(self) -> list[Kernel]:
        """Kernels that do not give the columns of the transform the length N and right angles."""
        return [
            kernel
            for kernel in dict.fromkeys(self.layout.kernels)
            if not kernel.is_orthogonal
            or not math.isclose(np.square(kernel.matrix).mean(), 1, rel_tol=1e-9)
        ]

    @functools.cached_property
    def _energy(self) -> float:
        """Energy of an output over that of one data block, in the mean weighted by its energy.

        The number of blocks and of late parities if all entries of the transform are signs; more
        for other kernels, whose rows have more energy in the data columns than others have.
        """
        rows = np.zeros(self.layout.sizes)
        rows.flat[self.layout.data_channels] = 1
        for axis, kernel in enumerate(self.layout.kernels):
            squares = kernel.matrix**2 / kernel.size
            rows = np.moveaxis(np.tensordot(squares, rows, axes=(1, axis)), 0, axis)
        data = float(np.square(rows).sum()) * self.transform_size / self.k
        return data + float(np.square(self.layout.parity).sum())

    @functools.cached_property
    def generator(self) -> NDArray[np.float64]:
        """What each output is of the data blocks, shape (n, k)."""
        return self.encode(np.eye(self.k))

    @functools.cached_property
    def _data_columns(self) -> Program:
        """The encoder without the late parities."""
        silent = dataclasses.replace(self.layout, parity=np.zeros_like(self.layout.parity))
        return encoding_program(silent, range(self.n))

    @functools.cached_property
    def _adjoint(self) -> Program:
        return adjoint_program(self.layout)

    @functools.cached_property
    def _correlator(self) -> Program:
        return correlation_program(self.layout)
