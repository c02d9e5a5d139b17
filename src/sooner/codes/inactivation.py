"""Sums in hand, some blocks of which are unknowns for a while: what a stalled decoder goes on with.

A decoder that can find no further block from one sum alone declares a block *inactive*: an
unknown that the rest is expressed in.  What is redundant in the end gives equations on the
unknowns, few and dense.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import transform
from sooner.codes.plan import DecodePlan
from sooner.codes.program import ZERO

if TYPE_CHECKING:
    from sooner._types import Mask
    from sooner.codes.program import ProgramBuilder, Value

__all__ = ["InactivatedSums"]

_NEGLIGIBLE = 1e-13
"""Coefficients and singular values below this share of the largest are zero to rounding."""


@dataclass(frozen=True, slots=True)
class InactivatedSums:
    """Data blocks and equations as operations on outputs and unknowns."""

    builder: ProgramBuilder
    """Its inputs are the outputs and after them the unknowns."""
    n_outputs: int
    n_unknowns: int
    blocks: list[Value]
    """The data blocks."""
    equations: list[Value]
    """What the unknowns should make zero."""

    def plan(self, wanted: Mask) -> DecodePlan:
        """How to compute data blocks: the unknowns by the pseudo-inverse of the equations on them.

        Parameters
        ----------
        wanted
            Which blocks, shape (k,); the others come out as zero.

        Returns
        -------
        DecodePlan
            The plan.
        """
        data = self.builder.build([
            block if want else ZERO
            for block, want in zip(self.blocks, wanted.tolist(), strict=True)
        ])
        if not self.n_unknowns:
            return DecodePlan(data)
        coefficients = np.empty((len(self.equations), self.n_unknowns))
        unknowns = np.eye(self.n_outputs + self.n_unknowns, self.n_unknowns, -self.n_outputs)
        transform.run(self.builder.build(self.equations), unknowns, out=coefficients)
        sizes = np.abs(coefficients).max(axis=1)
        kept = np.flatnonzero(sizes > _NEGLIGIBLE * sizes.max(initial=0.0))
        if not kept.size:  # nothing that is wanted depends on an unknown: they are taken for zero
            solve = np.zeros((self.n_unknowns, 1))
            return DecodePlan(data, self.builder.build([ZERO]), solve)
        left, singular, right = np.linalg.svd(coefficients[kept], full_matrices=False)
        large = singular > _NEGLIGIBLE * singular[0]
        solve = -(right[large].T / singular[large]) @ left[:, large].T
        # Unknowns that grow on their way to the equations cost as much as a bad condition.
        condition = max(singular[0], 1.0) / min(singular[large][-1], 1.0)
        equations = self.builder.build([self.equations[row] for row in kept])
        return DecodePlan(data, equations, solve, float(condition))
