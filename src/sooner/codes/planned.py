"""What codes have in common whose decoders make plans that can run: decoding, and kept plans."""

from __future__ import annotations

import abc
import functools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes import transform
from sooner.codes.base import check_index, check_shapes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sooner._types import Array, Indices, Mask, Stop

__all__ = ["PlannedCode", "factor_exponents", "in_double", "scales_of"]

_CACHED_PLANS = 8
"""Plans kept per code: a job decodes with one, a solver meets the same set again and again."""

_CHUNK = 1 << 24
"""Bytes of outputs that are converted to double precision at a time."""


class PlannedCode(abc.ABC):
    """A code whose decoders make plans that can run; the last few are kept."""

    n: int
    k: int

    @functools.cached_property
    def _plans(self) -> OrderedDict[bytes, Any]:
        return OrderedDict()

    @abc.abstractmethod
    def decoder(self) -> Any:
        """Give a decoder that knows of no output yet."""

    def told(self, available: Mask) -> Any:
        """Give a decoder that knows of a set of outputs.

        Parameters
        ----------
        available
            Boolean mask, shape (n,).

        Returns
        -------
        Decoder
            The decoder.
        """
        decoder = self.decoder()
        for index in np.flatnonzero(_checks.mask(available, "available", self.n)).tolist():
            decoder.add(index)
        return decoder

    def plan(self, available: Mask) -> Any:
        """How to decode from a set of outputs; the last few plans are kept.

        Parameters
        ----------
        available
            Boolean mask, shape (n,).

        Returns
        -------
        Plan
            The plan.  `NotDecodableError` is raised if the set is not decodable.
        """
        key = _checks.mask(available, "available", self.n).tobytes()
        plan = self._plans.pop(key, None)
        if plan is None:
            plan = self.told(available).plan()
        self._plans[key] = plan
        if len(self._plans) > _CACHED_PLANS:
            self._plans.popitem(last=False)
        return plan

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
        decoded: Array = self.plan(available).run(outputs, out=out, threads=threads, stop=stop)
        return decoded

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


def in_double(
    work: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    outputs: Array,
    reads: Indices,
    out: Array,
    stop: Stop,
) -> Array:
    """Decode in real double precision whatever the outputs are, some columns at a time.

    Parameters
    ----------
    work
        From what is read, shape ``(reads, columns)``, to data blocks, shape ``(k, columns)``; a
        complex number is a pair of columns.
    outputs
        Shape ``(n, ...)``.
    reads
        Outputs that are read.
    out
        Where to write, shape ``(k, ...)``.
    stop
        Asked between pieces; True raises `InterruptedError`.

    Returns
    -------
    ndarray
        `out`.

    Raises
    ------
    InterruptedError
        If `stop` said so.
    """
    rows, results = transform.as_rows(outputs), transform.as_rows(out)
    double = np.result_type(outputs.dtype, np.float64)
    width = max(1, _CHUNK // (len(rows) * double.itemsize))
    for first in range(0, rows.shape[1], width):
        if stop is not None and stop():
            raise InterruptedError("decoding was stopped.")
        columns = slice(first, first + width)
        some = np.ascontiguousarray(rows[reads, columns], dtype=double)
        results[:, columns] = work(some.view(np.float64)).view(double)
    if not np.shares_memory(results, out):  # `out` had no view as rows
        out[...] = results.reshape(out.shape)
    return out


def scales_of(exponents: Indices, k: int) -> NDArray[np.float64]:
    """Factors of data blocks from exponents.

    Parameters
    ----------
    exponents
        Data block j is divided by ``2**exponents[j]``, |exponent| below 500.
    k
        Number of data blocks.

    Returns
    -------
    ndarray, shape (k,)
        Powers of two.

    Raises
    ------
    ValueError
        If the shape is another or an exponent too large.

    Examples
    --------
    >>> scales_of(np.array([0, 1]), 2)
    array([1. , 0.5])
    """
    powers = np.asarray(exponents)
    if powers.shape != (k,) or (np.abs(powers) >= 500).any():
        raise ValueError(
            f"exponents must be {k} integers between -500 and 500, got {powers.tolist()}."
        )
    return np.ldexp(1.0, -powers)


def factor_exponents(exponents: Indices, k_a: int, k_b: int) -> tuple[Indices, Indices]:
    """Take exponents of a product's blocks apart into those of the two operands.

    Parameters
    ----------
    exponents
        One for each block of the product, row by row, shape (k_a * k_b,).
    k_a, k_b
        Blocks of the two operands.

    Returns
    -------
    of_a, of_b
        Shapes (k_a,) and (k_b,), with ``of_a[a] + of_b[b]`` the exponent of block (a, b).

    Raises
    ------
    ValueError
        If the shape is another, or the exponents are no such sums.

    Examples
    --------
    >>> factor_exponents(np.array([5, 6, 2, 3]), 2, 2)
    (array([5, 2]), array([0, 1]))
    """
    powers = np.asarray(exponents)
    if powers.shape != (k_a * k_b,):
        raise ValueError(f"exponents must have shape ({k_a * k_b},), got {powers.shape}.")
    grid = powers.reshape(k_a, k_b)
    of_a, of_b = grid[:, 0], grid[0] - grid[0, 0]
    if not np.array_equal(of_a[:, None] + of_b, grid):
        raise ValueError(
            "exponents of a product must be sums of one for each block of A and one for each block "
            "of B. Give them to the two factors."
        )
    return of_a, of_b
