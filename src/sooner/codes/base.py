"""The protocols that every code, anytime code and decoder follows."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from sooner.errors import NotDecodableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sooner._types import Array, Indices, Mask, Stop
    from sooner.codes.estimate import BlockEstimate

__all__ = [
    "AnytimeCode",
    "Code",
    "Decoder",
    "OrderedCode",
    "Plan",
    "TwoOperandCode",
    "check_index",
    "check_shapes",
    "launch_order",
    "not_decodable",
]


def check_index(index: int, n: int) -> int:
    """Return `index` as an int in ``0 … n-1``, or say what must hold.

    Parameters
    ----------
    index
        Index of an output.
    n
        Number of outputs.

    Returns
    -------
    int
        The index.

    Raises
    ------
    IndexError
        If there is no such output.

    Examples
    --------
    >>> check_index(3, 4)
    3
    """
    number = operator.index(index)
    if not 0 <= number < n:
        raise IndexError(f"an output's index must lie in 0 … {n - 1}, got {number}.")
    return number


def check_shapes(
    blocks: Array, length: int, name: str, out: Array | None, out_length: int
) -> Array:
    """Check blocks that go in, and return the array for those that come out.

    Parameters
    ----------
    blocks
        What goes in, shape ``(length, ...)``, floats or complex numbers.
    length
        How many blocks go in.
    name
        Name of `blocks` in messages.
    out
        Where the caller wants the result, or None.
    out_length
        How many blocks come out.

    Returns
    -------
    ndarray, shape (out_length, ...)
        `out`, or a new array of the dtype of `blocks`.

    Raises
    ------
    TypeError
        If `blocks` holds neither floats nor complex numbers, or `out` another dtype.
    ValueError
        If a shape is another.

    Examples
    --------
    >>> check_shapes(np.ones((2, 5)), 2, "blocks", None, 3).shape
    (3, 5)
    """
    if blocks.dtype.char not in "fdFD":
        raise TypeError(
            f"{name} must be float32, float64, complex64 or complex128, got {blocks.dtype}. "
            "Convert first: a sum of small integers can overflow."
        )
    if blocks.ndim < 1 or blocks.shape[0] != length:
        raise ValueError(f"{name} must have shape ({length}, ...), got {blocks.shape}.")
    shape = (out_length, *blocks.shape[1:])
    if out is None:
        return np.empty(shape, dtype=blocks.dtype)
    if out.shape != shape or out.dtype != blocks.dtype:
        raise ValueError(
            f"out must have shape {shape} and dtype {blocks.dtype}, "
            f"got {out.shape} and {out.dtype}."
        )
    return out


def not_decodable(decoder: Decoder) -> NotDecodableError:
    """Say what is missing; to be raised by the caller.

    Parameters
    ----------
    decoder
        A decoder that is not decodable.

    Returns
    -------
    NotDecodableError
        The exception.
    """
    available = decoder.available
    n_available = int(np.count_nonzero(available))
    open_blocks = int(np.count_nonzero(~decoder.determined))
    return NotDecodableError(
        f"{n_available} of {available.size} outputs are available and they do not determine all "
        f"{decoder.determined.size} data blocks ({open_blocks} are open). Wait for at least "
        f"{decoder.n_missing} more, or use the estimate.",
        n_available=n_available,
        missing=np.flatnonzero(~available).tolist(),
        n_needed=decoder.n_missing,
    )


def launch_order(code: Code) -> list[int]:
    """Which outputs to ask for first: those that together are worth most.

    Parameters
    ----------
    code
        The code.

    Returns
    -------
    list of int
        All tasks, each once; a systematic code's data blocks come first.

    Examples
    --------
    >>> from sooner.codes import PolarCode, SideBySide
    >>> launch_order(SideBySide([PolarCode(4, 2), PolarCode(2, 1)]))
    [0, 4, 1, 2, 5, 3]
    """
    return list(code.launch_order if isinstance(code, OrderedCode) else range(code.n))


class Plan(Protocol):
    """How to undo the sums in hand: a value made from the set of available outputs alone."""

    @property
    def reads(self) -> Indices:
        """Indices of the outputs that decoding will read, ascending."""

    @property
    def n_operations(self) -> int:
        """Block operations that decoding takes."""


class Decoder(Protocol):
    """Told indices, answers yes or no: it never sees a number, a clock or a process."""

    def add(self, index: int) -> bool:
        """Take note that output `index` is available.

        Adding one twice changes nothing.

        Parameters
        ----------
        index
            Which output, in ``0 … n-1``.

        Returns
        -------
        bool
            Whether the set is decodable now.
        """

    @property
    def decodable(self) -> bool:
        """Whether this decoder can finish with the outputs it was told of."""

    @property
    def determined(self) -> Mask:
        """Which data blocks those outputs fix already, shape (k,)."""

    @property
    def available(self) -> Mask:
        """The outputs it was told of, shape (n,)."""

    @property
    def n_missing(self) -> int:
        """A lower bound on how many more outputs are needed; 0 exactly when decodable."""

    def plan(self) -> Plan:
        """How to decode.

        Returns
        -------
        Plan
            The plan, equal for equal sets whatever the order of arrival.

        Raises
        ------
        NotDecodableError
            If the set is not decodable.
        """


@runtime_checkable
class Code(Protocol):
    """k data blocks become n coded blocks; some sets of them give the data blocks back."""

    @property
    def n(self) -> int:
        """Number of coded blocks, so of tasks and outputs."""

    @property
    def k(self) -> int:
        """Number of data blocks."""

    @property
    def operands(self) -> int:
        """Number of coded matrices in a product: 1, or 2 for A @ B."""

    def task_operands(self, index: int) -> tuple[int, ...]:
        """Which block of each operand a task multiplies.

        Parameters
        ----------
        index
            Which task, in ``0 … n-1``.

        Returns
        -------
        tuple of int
            One block index per operand.
        """

    def encode(
        self, blocks: Array, *, out: Array | None = None, threads: int = 1, stop: Stop = None
    ) -> Array:
        """Outputs of the tasks from data blocks; of one operand these are its coded blocks.

        Parameters
        ----------
        blocks
            Data blocks, shape ``(k, ...)``, of floats or complex numbers.
        out
            Where to write, shape ``(n, ...)``.
        threads
            Threads to use.
        stop
            Asked between tiles; True raises ``InterruptedError``.

        Returns
        -------
        ndarray, shape (n, ...)
            `out`, or a new array.
        """

    def decoder(self) -> Decoder:
        """Give a new decoder that knows of no output yet.

        Returns
        -------
        Decoder
            The decoder.
        """

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
            Shape ``(n, ...)``; what is not available may hold anything and is not read.
        available
            Boolean mask, shape (n,).
        out
            Where to write, shape ``(k, ...)``.
        threads
            Threads to use.
        stop
            Asked between tiles; True raises ``InterruptedError``.

        Returns
        -------
        ndarray, shape (k, ...)
            `out`, or a new array.

        Raises
        ------
        NotDecodableError
            If the available outputs do not suffice.
        """

    def with_scales(self, exponents: Indices) -> Code:
        """Give the same code with blocks divided by powers of two before they are added.

        For data blocks of very different size: a large one would hide the digits of the others.
        Exact in floating point.

        Parameters
        ----------
        exponents
            Data block j is divided by ``2**exponents[j]``, shape (k,).

        Returns
        -------
        Code
            The code; this one if it never adds blocks.
        """

    def spec(self) -> dict[str, Any]:
        """All that rebuilds this code, as JSON values; `sooner.codes.from_spec` reads it.

        Returns
        -------
        dict
            With the key ``"kind"``.
        """


@runtime_checkable
class OrderedCode(Code, Protocol):
    """A code whose first outputs, in their own order, are not the ones to ask for first."""

    @property
    def launch_order(self) -> Sequence[int]:
        """All outputs, those first that together are worth most."""


@runtime_checkable
class TwoOperandCode(Code, Protocol):
    """A code for A @ B: its data blocks are those of the product, its outputs those of the tasks.

    ``encode`` maps blocks of the product to outputs, as for any code; but nobody has those blocks
    before the tasks have run.  A and B are encoded, each once, by the two `factors`; task i
    multiplies coded block ``task_operands(i)[0]`` of A by coded block ``task_operands(i)[1]`` of
    B.  Data block ``a * factors[1].k + b`` is that of block a of rows of A and block b of columns
    of B.
    """

    @property
    def factors(self) -> tuple[Code, Code]:
        """The codes, of one operand each, that blocks of A and of B are encoded by."""


@runtime_checkable
class AnytimeCode(Code, Protocol):
    """A code that has an answer, with an error bar, before it is decodable."""

    def estimate(
        self,
        outputs: Array,
        available: Mask,
        *,
        method: str = "common_mean",
        gram: Array | None = None,
    ) -> BlockEstimate:
        """Estimate the data blocks from any set of outputs.

        Parameters
        ----------
        outputs
            Shape ``(n, ...)``; what is not available is not read.
        available
            Boolean mask, shape (n,).
        method
            Which estimate.
        gram
            Inner products of the data blocks, shape (k, k), for the methods that use them.

        Returns
        -------
        BlockEstimate
            ``value`` of shape ``(k, ...)`` and ``relative_error``.
        """

    def relative_error(self, m: int) -> float:
        """Relative root mean square error of the estimate from m outputs.

        Parameters
        ----------
        m
            Number of available outputs, a uniformly random set of them.

        Returns
        -------
        float
            The error by the closed form.
        """
