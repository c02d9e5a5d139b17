"""Polar codes over the reals, randomized: the codes that this library is about."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sooner import _checks
from sooner.codes import construction, transform
from sooner.codes.anytime import AnytimePolar
from sooner.codes.base import check_index, check_shapes
from sooner.codes.decoder import PolarDecoder
from sooner.codes.encoding import encoding_program
from sooner.codes.kernel import HADAMARD, kernels_of
from sooner.codes.layout import ChannelLayout
from sooner.codes.systematic import SystematicDecoder, SystematicPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from sooner._types import Array, Indices, Mask, RNGLike, Stop
    from sooner.codes.kernel import Kernel
    from sooner.codes.plan import DecodePlan

__all__ = ["PolarCode"]

_DRAWS = 50
"""Attempts at a puncturing and a parity matrix under which all n outputs decode."""

_CACHED_PLANS = 8
"""Plans kept per code: a job decodes with one, a solver meets the same set again and again."""


class PolarCode(AnytimePolar):
    r"""A randomized polar code over the reals: k data blocks become n coded blocks.

    A coded block is a row of the polar transform, :math:`G = F \otimes \dots \otimes F`, times
    the channels: k of them carry data blocks, multiplied by random signs, a few late ones carry
    random combinations of the data, and the others are frozen to zero.  Any k outputs determine
    the data, or very nearly any: at n = 256 and rate 3/4 it takes 1.002 k in the mean.

    Parameters
    ----------
    n
        Number of tasks: coded blocks, outputs.  Any number; what is no power of the kernel's
        size is punctured from the next one at random.
    k
        Number of data blocks, ``1 <= k <= n``.
    kernel
        HADAMARD, or ARIKAN, which the first paper uses: less accurate, and without estimates.
        Or a larger one, such as ``Kernel.dct(4)``; or one for each radix, slowest first, whose
        sizes multiply to `n`.  These are decoded sequentially; one kernel of size `n` makes an
        MDS code.
    erasure_prob
        Erasure probability that the choice of data channels assumes, for all outputs or one
        for each, shape (n,).  Smaller than ``1 - k / n`` by default, which suits inactivation
        and larger kernels.
    late_parities
        Number of channels, the last in decoding order, that carry random combinations of the
        data.  They cost nothing in redundancy and resolve what was left open before them.
        At most N - k, N the transform size.
    systematic
        Whether the first k coded blocks are the data blocks themselves.  A job without
        stragglers then decodes nothing.  The price is accuracy with stragglers: a factor of 10
        to 40 up to n = 1024, of 200 at n = 4096 (``benchmarks/accuracy.py``).
    decoder
        ``"inactivation"``, or ``"sequential"``: the papers', which needs 10 to 22 % more
        outputs and is exact for integers; the only one, and so the default, for kernels other
        than HADAMARD and ARIKAN.
    rng
        Seed or generator of signs, map and parities (SPEC 7).

    Raises
    ------
    ValueError
        If the numbers do not fit each other.

    Notes
    -----
    ``PolarCode(n, k, erasure_prob=1 - k / n, late_parities=0, decoder="sequential")`` is the
    code of both papers (arXiv 1901.06811, Section II; arXiv 2309.00682, Section II-C).  The
    rows of the transform go to the tasks in random order, so that workers that fail together
    do not meet a structured set.

    Examples
    --------
    >>> code = PolarCode(64, 48, rng=0)
    >>> data = np.random.default_rng(0).standard_normal((48, 10))
    >>> outputs = code.encode(data)
    >>> available = np.arange(64) % 8 != 3  # eight of the tasks did not answer
    >>> bool(np.allclose(code.decode(outputs, available), data))
    True
    >>> from sooner.codes import Kernel
    >>> PolarCode(20, 15, kernel=[Kernel.dct(4), Kernel.dct(5)]).transform_size
    20
    """

    operands = 1

    def __init__(
        self,
        n: int,
        k: int,
        *,
        kernel: Kernel | Sequence[Kernel] = HADAMARD,
        erasure_prob: ArrayLike | None = None,
        late_parities: int | None = None,
        systematic: bool = False,
        decoder: Literal["inactivation", "sequential"] | None = None,
        rng: RNGLike = 0,
    ) -> None:
        n = _checks.integer(n, "n", at_least=1)
        k = _checks.integer(k, "k", at_least=1)
        if k > n:
            raise ValueError(f"k must satisfy 0 < k <= n, got k={k}, n={n}.")
        kernels = kernels_of(n, kernel)
        chosen = construction.chosen_decoder(kernels, decoder)
        size = math.prod(one.size for one in kernels)
        if late_parities is None:
            late_parities = construction.default_late_parities(n, k, chosen)
        late_parities = _checks.integer(late_parities, "late_parities", at_least=0)
        if k + late_parities > size:
            raise ValueError(
                f"k + late_parities must not exceed the transform size {size}, "
                f"got k={k}, late_parities={late_parities}. Use at most {size - k}."
            )
        if late_parities and chosen == "sequential":
            raise ValueError(
                "late_parities must be 0 for the sequential decoder, which cannot use them, "
                f'got {late_parities}. Use decoder="inactivation".'
            )
        if erasure_prob is None:
            erasure_prob = construction.default_erasure_prob(n, k, chosen, kernels)
        generator = np.random.default_rng(rng)
        for _ in range(_DRAWS):
            layout = construction.draw_layout(
                n,
                k,
                erasure_prob=erasure_prob,
                late_parities=late_parities,
                systematic=systematic,
                kernels=kernels,
                rng=generator,
            )
            self._set(layout, chosen, systematic=systematic)
            if self._all_decode():
                return
        raise ValueError(
            f"no code with n={n}, k={k}, late_parities={late_parities}, erasure_prob="
            f"{erasure_prob} was found that decodes from all {n} outputs. "
            "Use a smaller k, or another number of late parities."
        )

    def _set(self, layout: ChannelLayout, decoder: str, *, systematic: bool) -> None:
        self.n = layout.n
        self.k = layout.k
        self.layout = layout
        self.kernels = layout.kernels
        self.decoder_name = decoder
        self.systematic = systematic
        self._encoder = encoding_program(layout, range(layout.n))
        self._plans: OrderedDict[bytes, Any] = OrderedDict()

    def _all_decode(self) -> bool:
        """Whether all outputs decode, and for a systematic code the first k alone."""
        decoder = PolarDecoder(self.layout, inactivation=self.decoder_name == "inactivation")
        for index in range(self.n):
            decoder.add(index)
            if self.systematic and index == self.k - 1 and not decoder.decodable:
                return False
        return decoder.decodable

    def __repr__(self) -> str:
        one = len(set(self.kernels)) == 1
        kernel = self.kernels[0] if one else list(self.kernels)
        options = f", kernel={kernel!r}" if kernel not in ([], HADAMARD) else ""
        options += f", late_parities={self.late_parities}" if self.late_parities else ""
        options += ", systematic=True" if self.systematic else ""
        options += ', decoder="sequential"' if self.decoder_name == "sequential" else ""
        return f"PolarCode({self.n}, {self.k}{options})"

    @property
    def transform_size(self) -> int:
        """Size N of the transform, at least n: the product of the sizes of its kernels."""
        return len(self.layout.kinds)

    @property
    def late_parities(self) -> int:
        """Number of channels that carry random combinations of the data."""
        return len(self.layout.parity)

    def task_operands(self, index: int) -> tuple[int, ...]:
        """Block that a task multiplies: its own.

        Parameters
        ----------
        index
            Which task.

        Returns
        -------
        tuple of int
            The task's index alone.
        """
        return (check_index(index, self.n),)

    def encode(
        self, blocks: Array, *, out: Array | None = None, threads: int = 1, stop: Stop = None
    ) -> Array:
        """Coded blocks from data blocks, in O(n log n) additions of blocks.

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
        sources = blocks
        if self.systematic:
            sources = np.empty(blocks.shape, dtype=blocks.dtype)
            self._sources_of_data.run(blocks, out=sources, threads=threads, stop=stop)
        transform.run(self._encoder, sources, out=out, threads=threads, stop=stop)
        if self.systematic:
            out[: self.k] = blocks  # bit for bit, rather than to rounding
        return out

    def decoder(self) -> PolarDecoder:
        """Give a decoder that knows of no output yet.

        Returns
        -------
        Decoder
            The decoder.
        """
        kind = SystematicDecoder if self.systematic else PolarDecoder
        return kind(self.layout, inactivation=self.decoder_name == "inactivation")

    def decode(
        self,
        outputs: Array,
        available: Mask,
        *,
        out: Array | None = None,
        threads: int = 1,
        stop: Stop = None,
    ) -> Array:
        """Data blocks from available outputs.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``; what is not available is not read.
        available
            Boolean mask, shape (n,).
        out
            Where to write, shape ``(k, ...)``.
        threads
            Threads to use.
        stop
            Asked between tiles; True raises `InterruptedError`.

        Returns
        -------
        ndarray, shape (k, ...)
            The data blocks.  `NotDecodableError` is raised if they are not determined.
        """
        out = check_shapes(outputs, self.n, "outputs", out, self.k)
        return self.plan(available).run(outputs, out=out, threads=threads, stop=stop)

    def plan(self, available: Mask) -> DecodePlan | SystematicPlan:
        """How to decode from a set of outputs; the last few plans are kept.

        Parameters
        ----------
        available
            Boolean mask, shape (n,).

        Returns
        -------
        DecodePlan or SystematicPlan
            The plan.
        """
        key = _checks.mask(available, "available", self.n).tobytes()
        plan: DecodePlan | SystematicPlan | None = self._plans.pop(key, None)
        if plan is None:
            decoder = self.decoder()
            for index in np.flatnonzero(available).tolist():
                decoder.add(index)
            plan = decoder.plan()
        self._plans[key] = plan
        if len(self._plans) > _CACHED_PLANS:
            self._plans.popitem(last=False)
        return plan

    @functools.cached_property
    def _sources_of_data(self) -> DecodePlan:
        """How the sources follow from the data blocks, taken for the first k outputs."""
        decoder = PolarDecoder(self.layout, inactivation=self.decoder_name == "inactivation")
        for index in range(self.k):
            decoder.add(index)
        return decoder.plan()

    def with_scales(self, exponents: Indices) -> PolarCode:
        """Give the same code with blocks divided by powers of two before they are added.

        Parameters
        ----------
        exponents
            Data block j is divided by ``2**exponents[j]``, shape (k,), |exponent| below 500.

        Returns
        -------
        PolarCode
            The code.  It has no unbiased estimate any more, since its error law is void.

        Raises
        ------
        ValueError
            If the shape is another or an exponent too large, or the code is systematic.

        Examples
        --------
        >>> code = PolarCode(8, 4).with_scales(np.array([0, 26, 0, 0]))
        >>> data = np.array([[1.0], [2.0**26], [3.0], [4.0]], dtype=np.float32)
        >>> decoded = code.decode(code.encode(data), np.arange(8) > 1)
        >>> bool(np.allclose(decoded, data, rtol=1e-5))
        True
        """
        powers = np.asarray(exponents)
        if powers.shape != (self.k,) or (np.abs(powers) >= 500).any():
            raise ValueError(
                f"exponents must be {self.k} integers between -500 and 500, got {powers.tolist()}."
            )
        if self.systematic:
            raise ValueError(
                "a systematic code's first k outputs are the data blocks as they are, without "
                "exponents. Use systematic=False."
            )
        scales = np.ldexp(np.sign(self.layout.scales), -powers)
        code = type(self).__new__(type(self))
        layout = dataclasses.replace(self.layout, scales=scales)
        code._set(layout, self.decoder_name, systematic=False)
        return code

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code, random parts included.

        Returns
        -------
        dict
            JSON values.
        """
        return {
            "kind": "polar",
            "decoder": self.decoder_name,
            "systematic": self.systematic,
            **self.layout.to_json(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> PolarCode:
        """Rebuild a code from its `spec`.

        Parameters
        ----------
        spec
            What `spec` returned.

        Returns
        -------
        PolarCode
            The same code, bit for bit.
        """
        code = cls.__new__(cls)
        layout = ChannelLayout.from_json(spec)
        code._set(layout, spec["decoder"], systematic=spec["systematic"])
        return code
