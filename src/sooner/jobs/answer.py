"""The outputs of a job and the answer that they give: none, estimated or exact."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner._machine import usable_cores
from sooner.codes import parity
from sooner.codes.base import AnytimeCode
from sooner.codes.estimate import Functional
from sooner.codes.transform import as_rows
from sooner.jobs.space import Space

if TYPE_CHECKING:
    from sooner._types import Array, Indices, Mask, Stop
    from sooner.codes.base import Code
    from sooner.jobs.work import Work

__all__ = ["Answer", "Checked"]

_COLUMNS = 128
"""Columns of the outputs that an error bar looks at."""

_CHECKED_UNASKED = 1024
"""Tasks up to which spare outputs are checked even if nobody asked for it: it is cheap."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What spare outputs verified."""

    n_spare: int
    """Independent equations that held; 0 means that nothing was verified."""
    residual: float
    """Largest violation in units of what rounding explains; at most 1."""
    wrong: tuple[int, ...]
    """Tasks whose outputs were wrong and have been dropped."""


class Answer:
    """Outputs as they come, the decoder that is told of them, and what they amount to.

    Parameters
    ----------
    code
        The code.
    work
        What the tasks compute.
    estimator
        Method of the estimates.
    gram
        Inner products of the data blocks, for the method ``"gram"``.
    verify_extra
        Outputs to wait for beyond those that decode, to check the others by.
    space
        Where outputs and answer lie; None for memory.
    """

    def __init__(
        self,
        code: Code,
        work: Work,
        *,
        estimator: str = "common_mean",
        gram: Array | None = None,
        verify_extra: int = 0,
        space: Space | None = None,
    ) -> None:
        self._code = code
        self._work = work
        self._options = {"method": estimator} | ({} if gram is None else {"gram": gram})
        self.verify_extra = verify_extra
        self._sufficed: int | None = None  # how many outputs there were when they first decoded
        self._wrong: tuple[int, ...] = ()
        self._size = 0.0
        self._exact: Array | None = None
        self._space = space or Space(work, code.n, code.k)
        self._outputs = self._space.outputs
        self.decoder = code.decoder()
        self.n_available = 0
        self.checked: Checked | None = None
        if not work.args:  # an empty product: nothing to wait for
            self._exact = self._space.fill(lambda blocks: blocks.fill(0))
            self.checked = Checked(0, 0.0, ())

    @property
    def is_exact(self) -> bool:
        """Whether the outputs in hand determine the answer and what is spare agrees."""
        return self.checked is not None

    def add(self, task: int, value: Array, size: float = 0.0) -> None:
        """Take in a task's output; a second one of the same task changes nothing.

        Parameters
        ----------
        task
            Which task.
        value
            Its output.
        size
            Of the products that an entry of it is the sum of.
        """
        self._size = max(self._size, size)
        if not self.decoder.available[task]:
            self._outputs[task] = value
            self.n_available += 1
            if self.decoder.add(task) and self._sufficed is None:
                self._sufficed = self.n_available

    def conclude(self, *, more: bool) -> list[int]:
        """See whether the answer is there: decodable, checked, and what is wrong dropped.

        Parameters
        ----------
        more
            Whether more outputs may come, so that waiting for spare ones makes sense.

        Returns
        -------
        list of int
            Tasks whose outputs were found to be wrong just now.
        """
        found: list[int] = []
        while self.decoder.decodable and self.checked is None:
            if more and self.n_available < (self._sufficed or 0) + self.verify_extra:
                break
            received = np.flatnonzero(self.decoder.available)
            verdict = self._judge(received)
            if verdict.clean:
                self.checked = Checked(verdict.n_spare, verdict.residual, self._wrong)
            elif verdict.suspect is None:
                break  # something is wrong, and more outputs are needed to tell what
            else:
                found.append(int(received[verdict.suspect]))
                self._drop(found[-1])
        return found

    def _judge(self, received: Indices) -> parity.Verdict:
        unasked = not self.verify_extra and self._code.n > _CHECKED_UNASKED
        if unasked or received.size <= self._code.k:
            return parity.Verdict(0, 0.0, None)
        return parity.judge(
            self._generator[received],
            as_rows(self._outputs),
            received=received,
            size=self._size,
        )

    @functools.cached_property
    def _generator(self) -> Array:
        return self._code.encode(np.eye(self._code.k))

    def _drop(self, task: int) -> None:
        """Forget an output: to the decoder it never came."""
        self._wrong += (task,)
        left = self.decoder.available.copy()
        left[task] = False
        self.decoder = self._told(left)
        self.n_available -= 1

    def _told(self, available: Mask) -> Any:
        decoder = self._code.decoder()
        for index in np.flatnonzero(available).tolist():
            decoder.add(index)
        return decoder

    @property
    def contradictory(self) -> bool:
        """Whether the outputs would decode, if they did not contradict each other."""
        return self.decoder.decodable and self.checked is None

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

    def exact(self, stop: Stop = None) -> Array:
        """Decode, the first time.

        Parameters
        ----------
        stop
            Asked between tiles; True raises ``InterruptedError``.

        Returns
        -------
        ndarray
            The exact answer.
        """
        if self._exact is None:
            decode = functools.partial(
                self._code.decode,
                self._outputs,
                self.decoder.available,
                threads=usable_cores(),
                stop=stop,
            )
            self._exact = self._space.fill(lambda blocks: decode(out=blocks))
        return self._exact

    def estimated(self, available: Mask) -> Array:
        """Estimate the answer.

        Parameters
        ----------
        available
            Outputs to use, shape (n,).

        Returns
        -------
        ndarray
            The estimate.

        Raises
        ------
        TypeError
            If the code has no estimates.
        """
        if not isinstance(self._code, AnytimeCode):
            raise TypeError(
                f"{self._code!r} has no estimates before it is decodable. Wait for the result, "
                "or use a PolarCode."
            )
        estimate = self._code.estimate(self._outputs, available, **self._options)  # type: ignore[arg-type]
        return self._work.assemble(estimate.value)

    def relative_error(self, available: Mask) -> float:
        """Error bar of the estimate, from some of the columns.

        Parameters
        ----------
        available
            Outputs to use, shape (n,).

        Returns
        -------
        float
            The expected relative error; NaN if the code has no estimates.
        """
        if not isinstance(self._code, AnytimeCode):
            return math.nan
        rows = as_rows(self._outputs)
        columns = np.unique(np.linspace(0, rows.shape[1] - 1, _COLUMNS).astype(np.intp))
        some = np.zeros((len(rows), columns.size), dtype=rows.dtype)
        some[available] = rows[np.ix_(available, columns)]
        try:
            return self._code.estimate(some, available, **self._options).relative_error  # type: ignore[arg-type]
        except ValueError:  # a kernel without estimates
            return math.nan

    def functional(self, c: Array, available: Mask, *, exact: bool) -> Functional:
        """Estimate ``sum(c * answer)``.

        Parameters
        ----------
        c
            Of the shape of the answer.
        available
            Outputs to use, shape (n,).
        exact
            Whether they determine the answer.

        Returns
        -------
        Functional
            The number and its standard error.

        Raises
        ------
        ValueError
            If the code has no unbiased estimate.
        """
        blocks = self._work.take_apart(c, self._code.k)
        if exact:
            return Functional(np.sum(c * self.exact()).item(), 0.0)
        if not hasattr(self._code, "functional"):
            raise ValueError(f"{self._code!r} has no unbiased estimate. Use a PolarCode.")
        estimate: Functional = self._code.functional(self._outputs, available, blocks)
        return estimate

    def determined(self, available: Mask, *, exact: bool) -> Mask:
        """Data blocks that outputs fix.

        Parameters
        ----------
        available
            Outputs to use, shape (n,).
        exact
            Whether they determine the answer.

        Returns
        -------
        ndarray of bool, shape (k,)
            The mask.
        """
        if exact:
            return np.ones(self._code.k, dtype=np.bool_)
        mask: Mask = self._told(available).determined
        return mask
