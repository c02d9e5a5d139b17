"""The decoder of polar codes as a state: told indices, it answers yes or no."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import modular, transform
from sooner.codes.base import check_index, not_decodable
from sooner.codes.encoding import encoding_program
from sooner.codes.kernel import is_binary
from sooner.codes.layout import DATA
from sooner.codes.mixed_radix import MixedRadixState
from sooner.codes.plan import DecodePlan, Walk
from sooner.codes.program import ZERO

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Mask
    from sooner.codes.layout import ChannelLayout
    from sooner.codes.program import Program, Value

__all__ = ["ErasureState", "PolarDecoder"]

_logger = logging.getLogger(__name__)

_ILL_CONDITIONED = 1e9
"""Condition of the unknowns beyond which the syndrome form is tried."""

_LOSSY = 1e3
"""Rounding errors, in units of one, from which the syndrome form is tried for larger kernels."""

_ALARMING = 1e5
"""Rounding errors that are worth a warning: 1e-2 in single precision, 1e-11 in double."""

_PROBES = 8
"""Columns of random numbers that measure them."""

_NEGLIGIBLE = 1e-13
"""Singular values below this share of the largest are zero to rounding."""


class ErasureState:
    """Which channels a set of outputs settles, level by level.

    A 2 x 2 stage maps what is known of two outputs, (a, b), to (a and b, a or b): the worse
    input needs both, the better one either, the worse being known.  So one new output flips
    exactly one value in each level and settles exactly one channel: O(log N) per arrival.

    Parameters
    ----------
    size
        Transform size N, a power of two.

    Examples
    --------
    >>> state = ErasureState(4)
    >>> [state.add(position) for position in (2, 1, 0, 3)]
    [3, 2, 1, 0]
    """

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._levels = [bytearray(size) for _ in range(size.bit_length())]

    def add(self, position: int) -> int:
        """Take note of an output that was not there before.

        Parameters
        ----------
        position
            Its row of the transform.

        Returns
        -------
        int
            The channel that it settles, the earlier channels being known.
        """
        half = self._half
        for level in self._levels:
            level[position] = 1
            if not half:
                break
            if level[position ^ half]:
                position &= ~half  # both are known now: the worse input
            else:
                position |= half
            half >>= 1
        return position

    @property
    def settled(self) -> bytearray:
        """For each channel 1 if it is settled, length N."""
        return self._levels[-1]


class PolarDecoder:
    """Sequential decoding, with inactivation unless that is switched off.

    Parameters
    ----------
    layout
        The code.
    inactivation
        Whether a data channel that is erased at its turn becomes an unknown instead of the end;
        for the kernels HADAMARD and ARIKAN, whose ranks can be proved.
    """

    def __init__(self, layout: ChannelLayout, *, inactivation: bool) -> None:
        self._layout = layout
        self._inactivation = inactivation
        self._state: ErasureState | MixedRadixState = (
            ErasureState(len(layout.kinds))
            if is_binary(layout.kernels)
            else MixedRadixState(layout.sizes)
        )
        self._positions: list[int] = layout.positions.tolist()
        self._n_available = 0
        self._n_erased_data = layout.k
        self._decodable = False
        self._rank_missing = 0
        self._walk: Walk | None = None
        self.available: Mask = np.zeros(layout.n, dtype=np.bool_)

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
            self._walk = None
            channel = self._state.add(self._positions[index])
            self._n_erased_data -= self._layout.kinds[channel] == DATA
            self._decodable = self._decodable or self._decide()
        return self._decodable

    def _decide(self) -> bool:
        """Whether the answer is determined; the rank is asked for only when it can suffice."""
        if self._n_erased_data == 0:
            return True
        k = self._layout.k
        if not self._inactivation or self._n_available < k:
            return False
        walk = self._written_down()
        rank = modular.rank(_homogeneous(walk, self.available.size))
        self._rank_missing = self.n_unknowns - rank
        return self._rank_missing == 0

    def _written_down(self) -> Walk:
        """The walk for the outputs that are available, made once for each set."""
        if self._walk is None:
            values: list[Value | None] = [None] * len(self._layout.kinds)
            for index in np.flatnonzero(self.available).tolist():
                values[self._positions[index]] = (index, 1.0)
            self._walk = Walk(self._layout, values, self.n_unknowns)
        return self._walk

    @property
    def n_unknowns(self) -> int:
        """Data channels that are erased at their turn; known without any arithmetic."""
        return self._n_erased_data

    @property
    def decodable(self) -> bool:
        """Whether this decoder can finish."""
        return self._decodable

    @property
    def n_missing(self) -> int:
        """A lower bound on how many more outputs are needed; 0 exactly when decodable."""
        if self._decodable:
            return 0
        return max(self._layout.k - self._n_available, self._rank_missing, 1)

    @property
    def determined(self) -> Mask:
        """Data blocks that the available outputs fix already, shape (k,).

        The sequential decoder alone fixes the data channels before the first that is erased.
        With inactivation it is exact, by rank modulo a prime.
        """
        k = self._layout.k
        if self._decodable:
            return np.ones(k, dtype=np.bool_)
        if not self._inactivation:
            settled = np.frombuffer(self._state.settled, np.uint8)[self._layout.data_channels]
            fixed: Mask = np.cumsum(settled == 0) == 0
            return fixed
        return modular.determined(*self._residual(None))

    def _residual(self, of_data: Program | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Coefficients of the unknowns in the equations, and in the data or a function of it."""
        walk = self._written_down()
        n = self.available.size
        data = modular.run(walk.builder.build(walk.blocks), modular.residues(_unknowns(walk, n)))
        return _homogeneous(walk, n), data if of_data is None else modular.run(of_data, data)

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
        plan = self.walk_plan()
        if not is_binary(self._layout.kernels):
            return self._better_plan(plan)
        if plan.condition > _ILL_CONDITIONED:
            other = self.syndrome_plan()
            return other if other.condition < plan.condition else plan
        return plan

    def _better_plan(self, plan: DecodePlan) -> DecodePlan:
        """The walk's plan or the syndrome form, for larger kernels: which errs less."""
        loss = self._loss(plan)
        if loss > _LOSSY:
            other = self.syndrome_plan()
            loss_of_other = self._loss(other)
            if loss_of_other < loss:
                plan, loss = other, loss_of_other
        if loss > _ALARMING:
            _logger.warning(
                "decoding these %d outputs multiplies rounding errors by %.0e: kernels as large as "
                "%s are ill conditioned. Use smaller ones, or double precision.",
                *(self._n_available, loss, max(self._layout.sizes)),
            )
        return plan

    def _loss(self, plan: DecodePlan) -> float:
        """Error of decoding by a plan, in units of one rounding; measured on random numbers."""
        # The small systems of larger kernels lie inside each other: the product of their
        # condition numbers says far too much.
        layout = self._layout
        sizes = np.abs(layout.scales)[:, None]  # of the numbers on the channels, about 1
        data = np.random.default_rng(0).standard_normal((layout.k, _PROBES)) / sizes
        encoder = encoding_program(layout, range(layout.n))
        outputs = transform.run(encoder, data, out=np.empty((layout.n, _PROBES)))
        error = (plan.run(outputs, out=np.empty_like(data)) - data) * sizes
        rounding = np.finfo(data.dtype).eps * np.linalg.norm(data * sizes)
        return float(np.linalg.norm(error) / rounding)

    def walk_plan(self) -> DecodePlan:
        """How to decode by the sequential decoder's walk and the unknowns that it met.

        Returns
        -------
        DecodePlan
            The plan; of the blocks that are not determined it gives something.
        """
        walk = self._written_down()
        return self._plan(walk, walk.blocks)

    def partial_plan(self) -> DecodePlan:
        """How to decode the blocks that are determined; it gives zero for the others.

        Returns
        -------
        DecodePlan
            The plan.
        """
        walk = self._written_down()
        fixed = self.determined.tolist()
        return self._plan(
            walk,
            [block if ok else ZERO for block, ok in zip(walk.blocks, fixed, strict=True)],
        )

    def _plan(self, walk: Walk, blocks: list[Value]) -> DecodePlan:
        """How to compute blocks: unknowns by the pseudo-inverse of the equations on them."""
        data = walk.builder.build(blocks)
        if not walk.n_unknowns or not walk.equations:
            return DecodePlan(data)  # what is computed depends on no unknown
        equations = walk.equations_program
        coefficients = np.empty((equations.n_results, walk.n_unknowns))
        transform.run(equations, _unknowns(walk, self.available.size), out=coefficients)
        left, singular, right = np.linalg.svd(coefficients, full_matrices=False)
        kept = singular > _NEGLIGIBLE * singular.max(initial=0.0)
        solve = -(right[kept].T / singular[kept]) @ left[:, kept].T
        condition = float(singular[kept][0] / singular[kept][-1]) if kept.any() else 1.0
        return DecodePlan(data, equations, solve, condition)

    def syndrome_plan(self) -> DecodePlan:
        """How to decode by way of the missing outputs, which are the unknowns here.

        The transform's missing rows are found from the frozen and parity channels; then every
        row is known and one inverse transform gives the data.  The dense system is larger than
        that of inactivation, and better conditioned.

        Returns
        -------
        DecodePlan
            The plan.
        """
        n = self.available.size
        values: list[Value] = [(-1, 0.0)] * len(self._layout.kinds)
        missing = 0
        known = {self._positions[i]: i for i in np.flatnonzero(self.available).tolist()}
        for position in range(len(values)):
            if position in known:
                values[position] = (known[position], 1.0)
            else:
                values[position] = (n + missing, 1.0)
                missing += 1
        walk = Walk(self._layout, values, missing, unknown_outputs=True)
        return self._plan(walk, walk.blocks)


def _unknowns(walk: Walk, n: int) -> NDArray[np.float64]:
    """Inputs of a walk's programs for each unknown alone: outputs zero, unknowns the identity."""
    return np.eye(n + walk.n_unknowns, walk.n_unknowns, -n)


def _homogeneous(walk: Walk, n: int) -> NDArray[np.int64]:
    """Coefficients of the unknowns in the equations modulo a prime, (equations, unknowns)."""
    return modular.run(walk.equations_program, modular.residues(_unknowns(walk, n)))
