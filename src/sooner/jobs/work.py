"""What the tasks of a job compute, and what to make of their outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sooner._types import Array
    from sooner.jobs.task import TaskOutput

__all__ = ["Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """What the tasks of a job compute, and what to make of their outputs."""

    fn: Callable[..., TaskOutput]
    """What every task runs."""
    shape: tuple[int, ...]
    """Shape of one output."""
    dtype: np.dtype[Any]
    """Dtype of the outputs and of the answer."""
    answer_shape: tuple[int, ...]
    """Shape of the answer: the data blocks' products one below the other, trimmed."""
    args: Sequence[tuple[Any, ...]] = ()
    """Arguments of `fn`, one tuple per task; empty when there is nothing to compute."""
    block_columns: int = 1
    """How many of them stand side by side before the next row of them begins."""

    @property
    def nbytes(self) -> int:
        """Bytes of one output."""
        return math.prod(self.shape) * self.dtype.itemsize

    def assemble(self, blocks: Array) -> Array:
        """Make the answer of the data blocks' products.

        Parameters
        ----------
        blocks
            Shape ``(k, *shape)``.

        Returns
        -------
        ndarray, shape answer_shape
            The answer; a view of `blocks` if they stand one below the other.
        """
        if self.block_columns == 1:
            rows = blocks.shape[0] * self.shape[0]
            return blocks.reshape(rows, *self.shape[1:])[: self.answer_shape[0]]
        answer = np.empty(self.answer_shape, dtype=self.dtype)
        self.place(blocks, answer)
        return answer

    def place(self, blocks: Array, answer: Array) -> None:
        """Write each data block's product where it belongs, trimmed.

        Parameters
        ----------
        blocks
            Shape ``(k, *shape)``.
        answer
            Where to write, shape answer_shape.
        """
        for index, block in enumerate(blocks):
            part = answer[self._slices(index)]
            part[...] = block[tuple(map(slice, part.shape))]

    def take_apart(self, answer: Array, k: int) -> Array:
        """Do the reverse: blocks of something of the answer's shape, with zeros around.

        Parameters
        ----------
        answer
            Of the answer's shape.
        k
            Number of data blocks.

        Returns
        -------
        ndarray, shape (k, *shape)
            The blocks.

        Raises
        ------
        ValueError
            If the shape is another.
        """
        if answer.shape != self.answer_shape:
            raise ValueError(
                f"c must have the shape of the answer, {self.answer_shape}, got {answer.shape}."
            )
        blocks = np.zeros((k, *self.shape), dtype=self.dtype)
        for index, block in enumerate(blocks):
            part = answer[self._slices(index)]
            block[tuple(map(slice, part.shape))] = part
        return blocks

    def _slices(self, index: int) -> tuple[slice, ...]:
        """Where in the answer a data block's product is."""
        corner = divmod(index, self.block_columns)
        return tuple(
            slice(place * length, (place + 1) * length)
            for place, length in zip(corner, self.shape, strict=False)
        )
