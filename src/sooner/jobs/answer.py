"""The outputs of a job and the answer that they give: none, estimated or exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes.base import AnytimeCode
from sooner.jobs.estimate import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sooner._types import Array, Mask
    from sooner.codes.base import Code
    from sooner.jobs.task import TaskOutput

__all__ = ["Answer", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """What the tasks of a job compute, and what to make of their outputs."""

    fn: Callable[..., TaskOutput]
    """What every task runs."""
    args: Sequence[tuple[Any, ...]]
    """Its arguments, one tuple per task; empty when there is nothing to compute."""
    shape: tuple[int, ...]
    """Shape of one output."""
    dtype: np.dtype[Any]
    """Dtype of the outputs and of the answer."""
    assemble: Callable[[Array], Array]
    """The answer from the data blocks' products, shape ``(k, *shape)``."""


class Answer:
    """Outputs as they come, the decoder that is told of them, and what they amount to.

    Parameters
    ----------
    code
        The code.
    work
        What the tasks compute.
    """

    def __init__(self, code: Code, work: Work) -> None:
        self._code = code
        self._work = work
        self.decoder = code.decoder()
        # One array for all outputs; rows that never come cost no memory.
        self._outputs = np.empty((code.n, *work.shape), dtype=work.dtype)
        self._exact: Array | None = None
        self.n_available = 0
        if not work.args:  # an empty product: nothing to wait for
            self._exact = work.assemble(np.zeros((code.k, *work.shape), dtype=work.dtype))

    @property
    def is_exact(self) -> bool:
        """Whether the outputs in hand determine the answer."""
        return self._exact is not None or self.decoder.decodable

    def add(self, task: int, value: Array) -> None:
        """Take in a task's output; a second one of the same task changes nothing.

        Parameters
        ----------
        task
            Which task.
        value
            Its output.
        """
        if not self.decoder.available[task]:
            self._outputs[task] = value
            self.n_available += 1
            self.decoder.add(task)

    def check(self, value: object) -> None:
        """Refuse what is no output of this job.

        Parameters
        ----------
        value
            What a task returned.

        Raises
        ------
        TypeError
            If it has another shape or is no array.
        """
        if not isinstance(value, np.ndarray) or value.shape != self._work.shape:
            raise TypeError(
                f"a task must return an array of shape {self._work.shape}, got "
                f"{getattr(value, 'shape', type(value).__name__)}."
            )

    def exact(self) -> Array:
        """Decode, the first time.

        Returns
        -------
        ndarray
            The exact answer.
        """
        if self._exact is None:
            blocks = self._code.decode(self._outputs, self.decoder.available)
            self._exact = self._work.assemble(blocks)
        return self._exact

    def snapshot(self, elapsed: float, exact: Callable[[], Array]) -> Estimate:
        """What is known now.

        Parameters
        ----------
        elapsed
            Seconds since the job began.
        exact
            Gives the exact answer once there is one.

        Returns
        -------
        Estimate
            From the outputs of this moment, whenever its value is asked for.
        """
        # Rows of the outputs never change once written, so they need no copy.
        available = self.decoder.available.copy()
        return Estimate(
            exact if self.is_exact else lambda: self._estimated(available),
            exact=self.is_exact,
            n_available=self.n_available,
            elapsed=elapsed,
            relative_error=0.0 if self.is_exact else self._relative_error(),
            determined=lambda: self._determined(available),
        )

    def _estimated(self, available: Mask) -> Array:
        if not isinstance(self._code, AnytimeCode):
            raise TypeError(
                f"{self._code!r} has no estimates before it is decodable. Wait for the result, "
                "or use a PolarCode."
            )
        return self._work.assemble(self._code.estimate(self._outputs, available).value)

    def _relative_error(self) -> float:
        try:
            return self._code.relative_error(self.n_available)  # type: ignore[attr-defined,no-any-return]
        except (AttributeError, ValueError):  # a code without estimates, or with another kernel
            return math.nan

    def _determined(self, available: Mask) -> Mask:
        if self._exact is not None:
            return np.ones(self._code.k, dtype=np.bool_)
        decoder = self._code.decoder()
        for index in np.flatnonzero(available).tolist():
            decoder.add(index)
        return decoder.determined
