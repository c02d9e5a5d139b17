"""The decoders of product codes as states: told tasks, they answer yes or no."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes.base import check_index, not_decodable
from sooner.codes.grid import GridPlan, GridState, write_down
from sooner.codes.row_space import row_space

if TYPE_CHECKING:
    from sooner._types import Mask
    from sooner.codes.product import ProductCode
    from sooner.codes.row_space import ModularRowSpace, RoundedRowSpace

__all__ = ["CompletedDecoder", "GridDecoder", "PeelingDecoder"]


class GridDecoder(abc.ABC):
    """What both decoders of a product code have in common.

    Parameters
    ----------
    code
        The code.
    """

    def __init__(self, code: ProductCode) -> None:
        self._code = code
        self.available: Mask = np.zeros(code.n, dtype=np.bool_)
        self.decodable = False

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
            self.decodable = self.decodable or self._take(index)
        return self.decodable

    @abc.abstractmethod
    def _take(self, index: int) -> bool:
        """Take in a new output while the set is not decodable; say whether it is now."""

    @property
    def n_missing(self) -> int:
        """A lower bound on how many more outputs are needed; 0 exactly when decodable."""
        if self.decodable:
            return 0
        return max(self._code.k - self._rank(), 1)

    @abc.abstractmethod
    def _rank(self) -> int:
        """An upper bound on the rank of the available outputs."""

    @property
    def determined(self) -> Mask:
        """Data blocks that the available outputs fix already, shape (k,)."""
        return np.ones(self._code.k, dtype=np.bool_) if self.decodable else self._fixed()

    @abc.abstractmethod
    def _fixed(self) -> Mask:
        """Data blocks that a set that is not decodable fixes, shape (k,)."""

    def plan(self) -> GridPlan:
        """How to decode, equal for equal sets whatever the order of arrival.

        Returns
        -------
        GridPlan
            The plan.

        Raises
        ------
        NotDecodableError
            If the set is not decodable.
        """
        if not self.decodable:
            error = not_decodable(self)
            raise error
        return self.partial_plan()

    def partial_plan(self) -> GridPlan:
        """How to decode the blocks that are determined; it gives zero for the others.

        Returns
        -------
        GridPlan
            The plan.
        """
        available = self.available.reshape(self._code.rows.n, self._code.columns.n)
        sums = write_down(*self._code.line_codes, available)
        return GridPlan(sums.plan(self.determined))


class PeelingDecoder(GridDecoder):
    """[B19] Alg. 3 alone: decode lines until the grid is full or nothing moves.

    Parameters
    ----------
    code
        The code.
    """

    def __init__(self, code: ProductCode) -> None:
        super().__init__(code)
        self._state = GridState(code.rows, code.columns)

    def _take(self, index: int) -> bool:
        self._state.add(*divmod(index, self._code.columns.n))
        for _ in self._state.sweep():
            pass
        return self._state.full

    def _rank(self) -> int:
        return int(np.count_nonzero(self.available))

    def _fixed(self) -> Mask:
        fixed = []
        for axis, code in enumerate(self._code.factors):
            decoder = code.decoder()
            for index in self._state.filled(axis):
                decoder.add(index)
            fixed.append(decoder.determined)
        return (fixed[0][:, None] | fixed[1]).ravel()


class CompletedDecoder(GridDecoder):
    """Alg. 3 with unknown cells where it stalls: decodes exactly when the data is determined.

    Parameters
    ----------
    code
        The code.
    """

    def __init__(self, code: ProductCode) -> None:
        super().__init__(code)
        self._space = row_space(*(line.generator for line in code.line_codes))
        self._waiting: list[int] = []  # outputs that the row space was not told of yet

    def _take(self, index: int) -> bool:
        self._waiting.append(index)
        enough = np.count_nonzero(self.available) >= self._code.k
        return bool(enough) and self._told().rank == self._code.k

    def _told(self) -> ModularRowSpace | RoundedRowSpace:
        for index in self._waiting:
            self._space.add(self._code.matrix[index])
        self._waiting.clear()
        return self._space

    def _rank(self) -> int:
        return self._told().rank

    def _fixed(self) -> Mask:
        return self._told().fixed
