"""Several codes beside each other, each for its share of the blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes.base import check_index, check_shapes, launch_order, not_decodable
from sooner.codes.estimate import BlockEstimate
from sooner.errors import NotDecodableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sooner._types import Array, Indices, Mask, Stop
    from sooner.codes.base import Code, Decoder, Plan

__all__ = ["SideBySide"]


@dataclass(frozen=True, slots=True)
class _JointPlan:
    """The plans of all parts."""

    parts: tuple[Plan, ...]
    offsets: tuple[int, ...]

    @property
    def reads(self) -> Indices:
        return np.concatenate([
            plan.reads + offset for plan, offset in zip(self.parts, self.offsets, strict=True)
        ])

    @property
    def n_operations(self) -> int:
        return sum(plan.n_operations for plan in self.parts)


class _JointDecoder:
    """One decoder per part; all must be decodable."""

    def __init__(self, code: SideBySide) -> None:
        self._code = code
        self._parts: list[Decoder] = [part.decoder() for part in code.codes]

    def add(self, index: int) -> bool:
        index = check_index(index, self._code.n)
        part = int(np.searchsorted(self._code.output_offsets, index, side="right")) - 1
        self._parts[part].add(index - self._code.output_offsets[part])
        return self.decodable

    @property
    def decodable(self) -> bool:
        return all(part.decodable for part in self._parts)

    @property
    def n_missing(self) -> int:
        return sum(part.n_missing for part in self._parts)

    @property
    def determined(self) -> Mask:
        return np.concatenate([part.determined for part in self._parts])

    @property
    def available(self) -> Mask:
        return np.concatenate([part.available for part in self._parts])

    def plan(self) -> _JointPlan:
        return _JointPlan(
            tuple(part.plan() for part in self._parts), tuple(self._code.output_offsets)
        )


class SideBySide:
    """Several codes, each for its share of the data blocks.

    How the first paper makes codes of a length that is no power of two (20 = 16 + 4), and how
    encoding stays inside a worker's memory: parts of at most 16 blocks.

    Parameters
    ----------
    codes
        The parts, in order; each takes as many data blocks as its k.

    Raises
    ------
    ValueError
        If there is none.

    Notes
    -----
    Section III of "Straggler resilient serverless computing based on polar codes".

    Examples
    --------
    >>> from sooner.codes import PolarCode
    >>> code = SideBySide([PolarCode(16, 12), PolarCode(4, 3)])
    >>> code.n, code.k
    (20, 15)
    """

    operands = 1

    def __init__(self, codes: Sequence[Code]) -> None:
        if not codes:
            raise ValueError("codes must hold at least one code, got none.")
        self.codes = tuple(codes)
        self.output_offsets = [0, *np.cumsum([code.n for code in codes]).tolist()]
        self.data_offsets = [0, *np.cumsum([code.k for code in codes]).tolist()]
        self.n: int = self.output_offsets.pop()
        self.k: int = self.data_offsets.pop()

    def __repr__(self) -> str:
        return f"SideBySide([{', '.join(map(repr, self.codes))}])"

    def _parts(self) -> list[tuple[Code, slice, slice]]:
        """Each code with the slices of its data blocks and of its outputs."""
        return [
            (code, slice(data, data + code.k), slice(output, output + code.n))
            for code, data, output in zip(
                self.codes, self.data_offsets, self.output_offsets, strict=True
            )
        ]

    @property
    def launch_order(self) -> list[int]:
        """The parts' outputs in turn: each part needs its own share of them."""
        orders = [launch_order(code) for code in self.codes]
        shares = np.concatenate([
            np.argsort(o) / c.k for o, c in zip(orders, self.codes, strict=True)
        ])
        order: list[int] = np.argsort(shares, kind="stable").tolist()
        return order

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
        """Coded blocks of all parts.

        Parameters
        ----------
        blocks
            Data blocks, shape ``(k, ...)``.
        out
            Where to write, shape ``(n, ...)``.
        threads
            Threads to use.
        stop
            Asked between tiles.

        Returns
        -------
        ndarray, shape (n, ...)
            The coded blocks.
        """
        out = check_shapes(blocks, self.k, "blocks", out, self.n)
        for code, data, outputs in self._parts():
            code.encode(blocks[data], out=out[outputs], threads=threads, stop=stop)
        return out

    def decoder(self) -> _JointDecoder:
        """Give a decoder that waits for all parts.

        Returns
        -------
        Decoder
            The decoder.
        """
        return _JointDecoder(self)

    def decode(
        self,
        outputs: Array,
        available: Mask,
        *,
        out: Array | None = None,
        threads: int = 1,
        stop: Stop = None,
    ) -> Array:
        """Data blocks of all parts.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``.
        available
            Boolean mask, shape (n,).
        out
            Where to write, shape ``(k, ...)``.
        threads
            Threads to use.
        stop
            Asked between tiles.

        Returns
        -------
        ndarray, shape (k, ...)
            The data blocks.

        Raises
        ------
        NotDecodableError
            If one of the parts is not decodable.
        """
        out = check_shapes(outputs, self.n, "outputs", out, self.k)
        available = _checks.mask(available, "available", self.n)
        try:
            for code, data, part in self._parts():
                code.decode(
                    outputs[part], available[part], out=out[data], threads=threads, stop=stop
                )
        except NotDecodableError:  # say what all parts together need
            decoder = self.decoder()
            for index in np.flatnonzero(available).tolist():
                decoder.add(index)
            error = not_decodable(decoder)
            raise error from None
        return out

    def with_scales(self, exponents: Indices) -> SideBySide:
        """Give the same codes with blocks divided by powers of two before they are added.

        Parameters
        ----------
        exponents
            Data block j is divided by ``2**exponents[j]``, shape (k,).

        Returns
        -------
        SideBySide
            The code.
        """
        return SideBySide([code.with_scales(exponents[data]) for code, data, _ in self._parts()])

    def estimate(
        self,
        outputs: Array,
        available: Mask,
        *,
        method: str = "common_mean",
        gram: Array | None = None,
    ) -> BlockEstimate:
        """Estimate the data blocks of each part from its own outputs.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``; what is not available is not read.
        available
            Boolean mask, shape (n,).
        method
            As the parts take it.
        gram
            Inner products of the data blocks, shape (k, k); each part takes its own.

        Returns
        -------
        BlockEstimate
            The estimate; the errors of the parts joined as if all blocks were of equal energy.
        """
        available = _checks.mask(available, "available", self.n)
        estimates = []
        for code, data, part in self._parts():
            inner = None if gram is None else gram[data, data]
            estimate: BlockEstimate = code.estimate(  # type: ignore[attr-defined]
                outputs[part], available[part], method=method, gram=inner
            )
            estimates.append((code.k, estimate))
        square = sum(k * estimate.relative_error**2 for k, estimate in estimates) / self.k
        return BlockEstimate(
            np.concatenate([estimate.value for _, estimate in estimates]), math.sqrt(square)
        )

    def relative_error(self, m: int) -> float:
        """Relative root mean square error when each part has its share of m outputs.

        Parameters
        ----------
        m
            Number of available outputs.

        Returns
        -------
        float
            The error, as if all blocks were of equal energy.
        """
        square = sum(
            code.k * code.relative_error(round(m * code.n / self.n)) ** 2  # type: ignore[attr-defined]
            for code in self.codes
        )
        return math.sqrt(square / self.k)

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code.

        Returns
        -------
        dict
            JSON values.
        """
        return {"kind": "side-by-side", "codes": [code.spec() for code in self.codes]}
