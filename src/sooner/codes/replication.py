"""What one compares with: no coding at all, and every block sent more than once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes.base import check_index, check_shapes, not_decodable
from sooner.codes.estimate import BlockEstimate

if TYPE_CHECKING:
    from sooner._types import Array, Indices, Mask, Stop

__all__ = ["Replication", "Uncoded"]


@dataclass(frozen=True, slots=True)
class _CopyPlan:
    """For each data block, the output that holds it."""

    sources: Indices

    @property
    def reads(self) -> Indices:
        return np.sort(self.sources)

    @property
    def n_operations(self) -> int:
        return self.sources.size


class _CopyDecoder:
    """Waits for one copy of every data block; output i holds data block i modulo k."""

    def __init__(self, n: int, k: int) -> None:
        self.available: Mask = np.zeros(n, dtype=np.bool_)
        self.determined: Mask = np.zeros(k, dtype=np.bool_)
        self.n_missing = k

    def add(self, index: int) -> bool:
        index = check_index(index, self.available.size)
        self.available[index] = True
        block = index % self.determined.size
        if not self.determined[block]:
            self.determined[block] = True
            self.n_missing -= 1
        return self.decodable

    @property
    def decodable(self) -> bool:
        return self.n_missing == 0

    def plan(self) -> _CopyPlan:
        if not self.decodable:
            raise not_decodable(self)
        # Of several copies the first in order of index, whatever the order of arrival.
        blocks = np.flatnonzero(self.available) % self.determined.size
        _, first = np.unique(blocks, return_index=True)
        return _CopyPlan(np.flatnonzero(self.available)[first])


class Replication:
    """Every data block in n / k tasks, or nearly: task i multiplies data block i modulo k.

    Parameters
    ----------
    n
        Number of tasks.
    k
        Number of data blocks, ``1 <= k <= n``.

    Examples
    --------
    >>> code = Replication(6, 3)
    >>> decoder = code.decoder()
    >>> [decoder.add(i) for i in (0, 3, 1, 5)]
    [False, False, False, True]
    """

    operands = 1

    def __init__(self, n: int, k: int) -> None:
        self.k = _checks.integer(k, "k", at_least=1)
        self.n = _checks.integer(n, "n", at_least=1)
        if self.k > self.n:
            raise ValueError(f"k must satisfy 0 < k <= n, got k={k}, n={n}.")

    def __repr__(self) -> str:
        return f"Replication({self.n}, {self.k})"

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
        self,
        blocks: Array,
        *,
        out: Array | None = None,
        threads: int = 1,
        stop: Stop = None,
    ) -> Array:
        """Copies of the data blocks.

        Parameters
        ----------
        blocks
            Data blocks, shape ``(k, ...)``.
        out
            Where to write, shape ``(n, ...)``.
        threads, stop
            Not used.

        Returns
        -------
        ndarray, shape (n, ...)
            The coded blocks.
        """
        out = check_shapes(blocks, self.k, "blocks", out, self.n)
        return np.take(blocks, np.arange(self.n) % self.k, axis=0, out=out)

    def decoder(self) -> _CopyDecoder:
        """Give a decoder that waits for one copy of every data block.

        Returns
        -------
        Decoder
            The decoder.
        """
        return _CopyDecoder(self.n, self.k)

    def decode(
        self,
        outputs: Array,
        available: Mask,
        *,
        out: Array | None = None,
        threads: int = 1,
        stop: Stop = None,
    ) -> Array:
        """Data blocks from the copies that are available.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``.
        available
            Boolean mask, shape (n,).
        out
            Where to write, shape ``(k, ...)``.
        threads, stop
            Not used.

        Returns
        -------
        ndarray, shape (k, ...)
            The data blocks, bit for bit.
        """
        out = check_shapes(outputs, self.n, "outputs", out, self.k)
        decoder = self.decoder()
        for index in np.flatnonzero(_checks.mask(available, "available", self.n)).tolist():
            decoder.add(index)
        return np.take(outputs, decoder.plan().sources, axis=0, out=out)

    def with_scales(self, exponents: Indices) -> Replication:
        """Give this code: blocks are never added, so they need no common scale.

        Parameters
        ----------
        exponents
            Shape (k,).

        Returns
        -------
        Replication
            This code.
        """
        del exponents
        return self

    def estimate(
        self,
        outputs: Array,
        available: Mask,
        *,
        method: str = "common_mean",
        gram: Array | None = None,
    ) -> BlockEstimate:
        """The data blocks that came, and zeros for the others.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``; what is not available is not read.
        available
            Boolean mask, shape (n,).
        method
            There is one only, whatever it is called.
        gram
            Not used.

        Returns
        -------
        BlockEstimate
            The estimate; its error as if all blocks were of equal energy.
        """
        available = _checks.mask(available, "available", self.n)
        value = np.zeros((self.k, *outputs.shape[1:]), dtype=outputs.dtype)
        came = np.flatnonzero(available)
        value[came % self.k] = outputs[came]
        n_came = np.unique(came % self.k).size
        return BlockEstimate(value, math.sqrt(1 - n_came / self.k))

    def relative_error(self, m: int) -> float:
        """Relative root mean square error from m outputs, a uniformly random set of them.

        Parameters
        ----------
        m
            Number of available outputs.

        Returns
        -------
        float
            The error as if all blocks were of equal energy.
        """
        # A block with c copies is missing with probability C(n-c, m) / C(n, m).
        copies = np.bincount(np.arange(self.n) % self.k)
        missing = [math.comb(self.n - int(c), m) / math.comb(self.n, m) for c in copies]
        return math.sqrt(sum(missing) / self.k)

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code.

        Returns
        -------
        dict
            JSON values.
        """
        return {"kind": "replication", "n": self.n, "k": self.k}


class Uncoded(Replication):
    """No coding: task i multiplies data block i, and the slowest task decides.

    Parameters
    ----------
    n
        Number of tasks and of data blocks.

    Examples
    --------
    >>> Uncoded(64).k
    64
    """

    def __init__(self, n: int) -> None:
        super().__init__(n, n)

    def __repr__(self) -> str:
        return f"Uncoded({self.n})"

    def spec(self) -> dict[str, Any]:
        """All that rebuilds the code.

        Returns
        -------
        dict
            JSON values.
        """
        return {"kind": "uncoded", "n": self.n}
