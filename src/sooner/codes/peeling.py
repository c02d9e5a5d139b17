"""Decoding of sums of a few blocks: peeling, and inactivation where it stalls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import modular
from sooner.codes.base import check_index, not_decodable
from sooner.codes.inactivation import InactivatedSums
from sooner.codes.program import ZERO, ProgramBuilder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Mask
    from sooner.codes.plan import DecodePlan
    from sooner.codes.program import Value

__all__ = ["LTDecoder", "PeelingState", "Sums"]

_INACTIVE = -1
"""In place of an output: the block was declared unknown."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What each output is the sum of."""

    k: int
    """Number of data blocks."""
    terms: list[list[int]]
    """For each output the data blocks in it, ascending."""
    signs: list[list[float]]
    """Their signs."""

    def solved_for(self, output: int, block: int | None) -> tuple[float, list[int], list[float]]:
        """Solve an output's sum for a block.

        Parameters
        ----------
        output
            Which output.
        block
            One of its blocks; None: for zero.

        Returns
        -------
        sign, others, factors
            The block, or zero, is ``sign`` times the output plus the other blocks times factors.
        """
        terms, signs = self.terms[output], self.signs[output]
        sign = 1.0 if block is None else signs[terms.index(block)]
        others = [(t, -s * sign) for t, s in zip(terms, signs, strict=True) if t != block]
        return sign, [term for term, _ in others], [factor for _, factor in others]


class PeelingState:
    """Which blocks are known, and from which output each: O(1) for each term of a sum.

    Parameters
    ----------
    sums
        What the outputs are.
    """

    def __init__(self, sums: Sums) -> None:
        self._sums = sums
        # Of an output that came: how many of its blocks are open, and the sum of their indices,
        # which is the index of the last one when one is left.
        self._n_open: dict[int, int] = {}
        self._open_sum: dict[int, int] = {}
        self._outputs_of: list[list[int]] = [[] for _ in range(sums.k)]
        self.known: Mask = np.zeros(sums.k, dtype=np.bool_)
        self.steps: list[tuple[int, int]] = []
        """Blocks in the order in which they became known, each with its output or -1."""

    def add(self, output: int) -> None:
        """Take an output in.

        Parameters
        ----------
        output
            One that was not there before.
        """
        still = [block for block in self._sums.terms[output] if not self.known[block]]
        for block in still:
            self._outputs_of[block].append(output)
        self._n_open[output] = len(still)
        self._open_sum[output] = sum(still)
        if len(still) == 1:
            self._peel([(still[0], output)])

    def _peel(self, found: list[tuple[int, int]]) -> None:
        while found:
            block, output = found.pop()
            if self.known[block]:
                continue
            self.known[block] = True
            self.steps.append((block, output))
            for other in self._outputs_of[block]:
                self._n_open[other] -= 1
                self._open_sum[other] -= block
                if self._n_open[other] == 1:
                    found.append((self._open_sum[other], other))

    def inactivate(self) -> None:
        """Declare an open block unknown: the one in most sums of the fewest open blocks."""
        fewest = min((count for count in self._n_open.values() if count), default=0)
        counts = Counter(
            block
            for output, count in self._n_open.items()
            if count == fewest
            for block in self._sums.terms[output]
            if not self.known[block]
        )
        # A block in no sum at all comes last.
        block = counts.most_common(1)[0][0] if counts else int(np.argmin(self.known))
        self._peel([(block, _INACTIVE)])


class LTDecoder:
    """Peeling, with inactivation if that is switched on.

    Parameters
    ----------
    sums
        What the outputs are.
    scales
        What data blocks are multiplied by, shape (k,).
    inactivation
        Whether a block becomes an unknown where peeling stalls.
    """

    def __init__(self, sums: Sums, scales: NDArray[np.float64], *, inactivation: bool) -> None:
        self._sums = sums
        self._scales = scales
        self._inactivation = inactivation
        self._state = PeelingState(sums)
        self._peeled: list[tuple[int, int]] | None = None
        self._decodable = False
        self._n_available = 0
        self._n_open = 0
        self.available: Mask = np.zeros(len(sums.terms), dtype=np.bool_)

    def add(self, index: int) -> bool:
        """Take note that output `index` is available.

        Parameters
        ----------
        index
            Which output, in ``0 … n-1``.

        Returns
        -------
        bool
            Whether the set is decodable now.
        """
        index = check_index(index, self.available.size)
        if not self.available[index]:
            self.available[index] = True
            self._n_available += 1
            self._peeled = None
            self._state.add(index)
            self._decodable = self._decodable or self._decide()
        return self._decodable

    def _decide(self) -> bool:
        if len(self._state.steps) == self._sums.k:
            return True
        if not self._inactivation or self._n_available < self._sums.k:
            return False
        equations, blocks = self._coefficients()
        self._n_open = blocks.shape[1] - modular.rank(equations)
        return self._n_open == 0

    @property
    def decodable(self) -> bool:
        """Whether this decoder can finish."""
        return self._decodable

    @property
    def n_missing(self) -> int:
        """A lower bound on how many more outputs are needed; 0 exactly when decodable."""
        if self._decodable:
            return 0
        return max(self._sums.k - self._n_available, self._n_open, 1)

    @property
    def determined(self) -> Mask:
        """Data blocks that are known; with inactivation, all that the outputs fix."""
        if self._decodable:
            return np.ones(self._sums.k, dtype=np.bool_)
        if not self._inactivation:
            return self._state.known.copy()
        return modular.determined(*self._coefficients())

    def plan(self) -> DecodePlan:
        """How to decode, equal for equal sets whatever the order of arrival.

        Returns
        -------
        DecodePlan
            The plan.

        Raises
        ------
        NotDecodableError
            If the set is not decodable.
        """
        if not self._decodable:
            error = not_decodable(self)
            raise error
        return self._written_down().plan(self.determined)

    def partial_plan(self) -> DecodePlan:
        """How to decode the blocks that are determined; it gives zero for the others.

        Returns
        -------
        DecodePlan
            The plan.
        """
        return self._written_down().plan(self.determined)

    @property
    def _steps(self) -> list[tuple[int, int]]:
        """Blocks as they become known, with inactivation, the outputs taken in order of index."""
        if self._peeled is None:
            state = PeelingState(self._sums)
            for output in np.flatnonzero(self.available).tolist():
                state.add(output)
            while len(state.steps) < self._sums.k:
                state.inactivate()
            self._peeled = state.steps
        return self._peeled

    def _spare(self) -> list[int]:
        """Outputs that no block is taken from."""
        used = self.available.copy()
        used[[output for _, output in self._steps if output != _INACTIVE]] = False
        return np.flatnonzero(used).tolist()

    def _coefficients(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What the unknowns are multiplied by in the equations and in the blocks: residues."""
        inactive = [block for block, output in self._steps if output == _INACTIVE]
        blocks = np.zeros((self._sums.k, len(inactive)), dtype=np.int64)
        blocks[inactive, range(len(inactive))] = 1
        for block, output in self._steps:
            if output != _INACTIVE:
                _, others, factors = self._sums.solved_for(output, block)
                blocks[block] = np.array(factors, dtype=np.int64) @ blocks[others] % modular.PRIME
        equations = np.zeros((0, len(inactive)), dtype=np.int64)
        spare = [self._sums.solved_for(output, None) for output in self._spare()]
        if spare:
            equations = np.array([
                np.array(factors, dtype=np.int64) @ blocks[others] % modular.PRIME
                for _, others, factors in spare
            ])
        return equations, blocks

    def _written_down(self) -> InactivatedSums:
        n = self.available.size
        n_unknowns = sum(output == _INACTIVE for _, output in self._steps)
        builder = ProgramBuilder(n + n_unknowns)
        values: list[Value] = [ZERO] * self._sums.k

        def rest(output: int, block: int | None) -> Value:
            sign, others, factors = self._sums.solved_for(output, block)
            if not others:
                return (output, sign)
            given = [(output, 1.0), *(values[other] for other in others)]
            return builder.dense(np.array([[sign, *factors]]), given)[0]

        unknowns = iter(range(n, n + n_unknowns))
        for block, output in self._steps:
            known = output != _INACTIVE
            values[block] = rest(output, block) if known else (next(unknowns), 1.0)
        equations = [rest(output, None) for output in self._spare()]
        blocks = [
            (slot, coef / scale)
            for (slot, coef), scale in zip(values, self._scales.tolist(), strict=True)
        ]
        return InactivatedSums(builder, n, n_unknowns, blocks, equations)
