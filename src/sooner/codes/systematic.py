"""The systematic form: the first k coded blocks are the data blocks themselves.

A polar code's first k outputs determine its k *sources*.  Encoding decodes the data blocks, taken
for those outputs, into sources and encodes these; so the first k coded blocks are the data again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import modular, transform
from sooner.codes.decoder import PolarDecoder
from sooner.codes.encoding import encoding_program

if TYPE_CHECKING:
    from sooner._types import Array, Indices, Mask, Stop
    from sooner.codes.plan import DecodePlan
    from sooner.codes.program import Program

__all__ = ["SystematicDecoder", "SystematicPlan"]


@dataclass(frozen=True, slots=True)
class SystematicPlan:
    """Copy the data blocks that came as they are, and compute the others from the sources."""

    copied: Indices
    """Data blocks that came, ascending."""
    computed: Indices
    """Data blocks that did not, ascending."""
    sources: DecodePlan | None
    """How to decode the sources; None when every data block came."""
    restore: Program | None
    """The computed data blocks from the sources; None likewise."""

    @property
    def reads(self) -> Indices:
        """Outputs that decoding reads, ascending."""
        return self.copied if self.sources is None else np.union1d(self.copied, self.sources.reads)

    @property
    def n_operations(self) -> int:
        """Operations on blocks; copies are not counted."""
        if self.sources is None or self.restore is None:
            return 0
        return self.sources.n_operations + self.restore.n_operations

    @property
    def n_unknowns(self) -> int:
        """Blocks that a dense system gives."""
        return 0 if self.sources is None else self.sources.n_unknowns

    @property
    def condition(self) -> float:
        """Condition number of that dense system."""
        return 1.0 if self.sources is None else self.sources.condition

    def run(self, outputs: Array, *, out: Array, threads: int = 1, stop: Stop = None) -> Array:
        """Decode.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``.
        out
            Where to write, shape ``(k, ...)``.
        threads
            Threads to use.
        stop
            Asked between tiles.

        Returns
        -------
        ndarray
            `out`.
        """
        out[self.copied] = outputs[self.copied]
        if self.sources is not None and self.restore is not None:
            sources = np.empty(out.shape, dtype=out.dtype)
            self.sources.run(outputs, out=sources, threads=threads, stop=stop)
            restored = np.empty((self.computed.size, *out.shape[1:]), dtype=out.dtype)
            out[self.computed] = transform.run(
                self.restore, sources, out=restored, threads=threads, stop=stop
            )
        return out


class SystematicDecoder(PolarDecoder):
    """A polar decoder of the sources that knows that the first k outputs are the data blocks."""

    @property
    def determined(self) -> Mask:
        """Data blocks that the available outputs fix already, shape (k,)."""
        k = self._layout.k
        if self._decodable:
            return np.ones(k, dtype=np.bool_)
        fixed = self.available[:k].copy()
        if self._inactivation:
            fixed |= modular.determined(*self._residual(encoding_program(self._layout, range(k))))
        return fixed

    def plan(self) -> SystematicPlan:  # type: ignore[override]
        """How to decode.

        Returns
        -------
        SystematicPlan
            The plan.
        """
        came = self.available[: self._layout.k]
        copied, computed = np.flatnonzero(came), np.flatnonzero(~came)
        if not computed.size:
            return SystematicPlan(copied, computed, None, None)
        restore = encoding_program(self._layout, computed.tolist())
        return SystematicPlan(copied, computed, super().plan(), restore)

    def partial_plan(self) -> SystematicPlan:  # type: ignore[override]
        """How to give the blocks that came as they are, and nothing else.

        Returns
        -------
        SystematicPlan
            The plan.
        """
        copied = np.flatnonzero(self.available[: self._layout.k])
        return SystematicPlan(copied, copied[:0], None, None)
