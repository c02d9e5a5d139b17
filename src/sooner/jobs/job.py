"""A job: n tasks, a decoder that is told of each, and the answer as soon as it is determined.

The loop knows neither what the tasks compute nor how the code works.  It is driven by whoever
asks for something (iterates, or calls `result`); there is no thread behind it.
"""

from __future__ import annotations

import logging
import math
import time
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import policy
from sooner.codes.base import AnytimeCode
from sooner.errors import JobTimeoutError, WorkerLostError
from sooner.jobs.estimate import Estimate
from sooner.jobs.failure import failure
from sooner.trace import TaskRecord, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sooner._types import Array, Mask
    from sooner.codes.base import Code
    from sooner.executors.base import Executor, Reference
    from sooner.jobs.task import TaskOutput

__all__ = ["Job", "Work"]

_log = logging.getLogger(__name__)

_LOOKS_PER_LIMIT = 20
"""How often, in the time that a task may run, a job looks which ones have begun."""


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


class Job:
    """A product under way; `matvec` and `matmat` start one.

    Iterate it for an `Estimate` after each finished task, the last one exact; or ask for the
    `result`.  As a context manager it stops what still runs when the block is left.

    Parameters
    ----------
    code
        The code.
    work
        What the tasks compute.
    executor
        Runs them.
    retries
        How often a task that raised, or whose worker was lost, is repeated.
    timeout
        Seconds that one task may run before it is taken for lost; None adapts to the others.
    references
        Broadcast values to release at the end.
    owns_executor
        Whether to close the executor at the end.
    """

    def __init__(
        self,
        code: Code,
        work: Work,
        executor: Executor,
        *,
        retries: int = 2,
        timeout: float | None = None,
        references: Sequence[Reference[Any]] = (),
        owns_executor: bool = False,
    ) -> None:
        self._code = code
        self._work = work
        self._executor = executor
        self._retries = retries
        self._timeout = timeout
        self._references = list(references)
        self._owns_executor = owns_executor
        self._decoder = code.decoder()
        self._outputs = np.empty((code.n, *work.shape), dtype=work.dtype)
        self._pending: dict[Future[TaskOutput], TaskRecord] = {}
        self._began: dict[Future[TaskOutput], float] = {}
        self._attempts = [0] * code.n
        self._ready: list[Future[TaskOutput]] = []
        self._n_available = 0
        self._run_times: list[float] = []
        self._first_error: BaseException | None = None
        self._answer: Array | None = None
        self._failure: BaseException | None = None
        self._zero = executor.now()
        self._epoch = time.time()  # workers' clocks are brought into the executor's by this
        self._next_look = 0.0
        self.trace = Trace(n=code.n, k=code.k)
        self._submit(range(len(work.args)))
        if not work.args:  # nothing to compute: an empty product
            self._answer = work.assemble(np.zeros((code.k, *work.shape), dtype=work.dtype))
            self._settle()

    # What the user sees ------------------------------------------------------------------

    def __iter__(self) -> Iterator[Estimate]:
        """Give an estimate after each finished task; the last one is exact."""
        told = 0
        while True:
            if self._failure is not None:
                raise self._failure
            if self._is_settled() or self._n_available > told:
                told = self._n_available
                estimate = self._snapshot()
                yield estimate
                if estimate.exact:
                    return
            else:
                self._step(None)

    @property
    def estimate(self) -> Estimate:
        """The latest estimate; takes in what has come, and never waits."""
        self._look()
        return self._snapshot()

    def result(self, timeout: float | None = None) -> Array:
        """Wait for the exact answer.

        Parameters
        ----------
        timeout
            Seconds to wait at most; None waits until the job ends, which it always does.

        Returns
        -------
        ndarray
            The exact answer; it differs from NumPy's by rounding only.

        Raises
        ------
        JobTimeoutError
            If the time is over first; it carries the estimate, and the job goes on.
        """
        end = None if timeout is None else self._executor.now() + timeout
        try:
            while not self._is_settled():
                left = None if end is None else end - self._executor.now()
                if left is not None and left <= 0:
                    self._look()
                    break
                self._step(left)
            if self._failure is None and self._is_settled():
                return self._decoded()
        except BaseException:  # Ctrl-C above all: nothing may run on
            self.cancel()
            raise
        if self._failure is not None:
            raise self._failure
        raise JobTimeoutError(
            f"{self._n_available} of {self._code.n} outputs came within {timeout} s and at least "
            f"{self._decoder.n_missing} more are needed. Wait longer, or use the estimate that "
            "this error carries.",
            estimate=self._snapshot(),
        )

    def done(self) -> bool:
        """Whether the job has ended: answer there, failed or cancelled; never waits.

        Returns
        -------
        bool
            True if `result` would return or raise at once.
        """
        self._look()
        return self._is_settled()

    def cancel(self) -> None:
        """Stop what still runs; without an answer, `result` raises ``CancelledError`` then."""
        if not self._is_settled():
            self._failure = CancelledError("the job was cancelled before its answer was exact.")
        self._settle()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.cancel()

    def __repr__(self) -> str:
        state = "exact" if self._decoder.decodable else "failed" if self._failure else "running"
        return (
            f"<Job {state}: {self._n_available} of {self._code.n} outputs available, "
            f"{self._decoder.n_missing} or more needed>"
        )

    # The loop ----------------------------------------------------------------------------

    def _look(self) -> None:
        """Take in all that has come by now; never wait."""
        while not self._is_settled() and self._step(0.0):
            pass

    def _step(self, timeout: float | None) -> bool:
        """Take in one task that ended, if one does within `timeout` seconds; say whether."""
        if not self._ready:
            limit = policy.patience(self._timeout, self._run_times)
            wait = limit / _LOOKS_PER_LIMIT
            wait = wait if timeout is None else min(wait, timeout)
            self._ready.extend(self._executor.wait(self._pending.keys(), wait))
            self._give_up_overdue(limit)
        took = False
        if self._ready and not self._is_settled():
            future = self._ready.pop()
            record = self._pending.pop(future, None)
            if record is not None:
                self._take(future, record)
                took = True
        if not self._is_settled() and not self._pending:
            self._fail()
        return took

    def _take(self, future: Future[TaskOutput], record: TaskRecord) -> None:
        """Take note of one task that ended."""
        self._began.pop(future, None)
        record.available = self._elapsed()
        try:
            output = future.result(timeout=0)
            self._check(output.value)
        except CancelledError:
            self._lost(record, "the executor cancelled it")
        except WorkerLostError as error:
            self._lost(record, str(error))
        except BaseException as error:
            self._raised(record, error)
        else:
            self._available(future, record, output)

    def _available(
        self, future: Future[TaskOutput], record: TaskRecord, output: TaskOutput
    ) -> None:
        record.outcome = "ok"
        record.worker = output.worker
        started, finished = output.started - self._epoch, output.finished - self._epoch
        if getattr(future, "finished", None) is not None:  # a virtual clock, which the task
            started = future.started - self._zero  # type: ignore[attr-defined]  # cannot know
            finished = future.finished - self._zero  # type: ignore[attr-defined]
        # Clocks of machines differ: what cannot be is brought to what can.
        elapsed = self._elapsed()
        record.finished = min(max(finished, record.submitted), elapsed)
        record.started = min(max(started, record.submitted), record.finished)
        self._run_times.append(record.finished - record.started)
        if self._decoder.available[record.task]:
            return  # the first attempt of a repeated task came after all
        self._outputs[record.task] = output.value
        self._n_available += 1
        if self._decoder.add(record.task):
            self.trace.decodable = elapsed
            self._settle()

    def _check(self, value: Array) -> None:
        work = self._work
        if not isinstance(value, np.ndarray) or value.shape != work.shape:
            raise TypeError(
                f"a task must return an array of shape {work.shape}, got "
                f"{getattr(value, 'shape', type(value).__name__)}."
            )

    def _lost(self, record: TaskRecord, reason: str) -> None:
        record.outcome = "lost"
        self._repeat(record, reason)

    def _raised(self, record: TaskRecord, error: BaseException) -> None:
        record.outcome = "raised"
        if self._first_error is None:
            self._first_error = error
        self._repeat(record, f"{type(error).__name__}: {error}")

    def _repeat(self, record: TaskRecord, reason: str) -> None:
        """Log one line for the failure, and submit the task again if it is allowed."""
        record.error = reason
        again = record.attempt < self._retries
        _log.warning(
            "task %d of %d: %s; %s",
            record.task,
            self._code.n,
            reason,
            f"repeated, {self._retries - record.attempt} left" if again else "given up",
        )
        if again:
            self._submit([record.task])
        elif not policy.can_still_be_decoded(self._code, self._hoped_for()):
            self._fail()

    def _submit(self, tasks: Sequence[int]) -> None:
        futures = self._executor.submit_many(self._work.fn, [self._work.args[i] for i in tasks])
        now = self._elapsed()
        for task, future in zip(tasks, futures, strict=True):
            record = TaskRecord(task=task, attempt=self._attempts[task], submitted=now)
            self._attempts[task] += 1
            self._pending[future] = record
            self.trace.records.append(record)

    def _give_up_overdue(self, limit: float) -> None:
        """Take tasks for lost that run for too long.  Looks only now and then: it costs O(n)."""
        now = self._executor.now()
        if now < self._next_look:
            return
        self._next_look = now + limit / _LOOKS_PER_LIMIT
        for future in self._pending:
            if future not in self._began and future.running():
                self._began[future] = now
        futures = list(self._pending)
        late = policy.overdue(now, [self._began.get(future) for future in futures], limit)
        for place in late:
            future = futures[place]
            record = self._pending.pop(future, None)
            if record is None:  # the job failed meanwhile
                return
            self._executor.abandon([future])
            self._began.pop(future, None)
            record.available = self._elapsed()
            self._lost(record, f"no answer within {limit:.3g} s")

    def _fail(self) -> None:
        """End without an answer: too many tasks failed too often."""
        self._failure = failure(self.trace, self._decoder, self._retries, self._first_error)
        self._settle()

    def _settle(self) -> None:
        """Stop caring for what still runs, and free what was shipped."""
        pending, self._pending = self._pending, {}
        self._ready.clear()
        self._began.clear()
        now = self._elapsed()
        for record in pending.values():
            record.outcome = "abandoned"
            record.available = now
        self._executor.abandon(list(pending))
        for reference in self._references:
            self._executor.release(reference)
        self._references.clear()
        if self._owns_executor:
            self._executor.close()

    # What is known -----------------------------------------------------------------------

    def _is_settled(self) -> bool:
        return self._answer is not None or self._failure is not None or self._decoder.decodable

    def _elapsed(self) -> float:
        return self._executor.now() - self._zero

    def _hoped_for(self) -> Mask:
        """Outputs that are available or may still come, shape (n,)."""
        hoped_for = self._decoder.available.copy()
        hoped_for[[record.task for record in self._pending.values()]] = True
        return hoped_for

    def _snapshot(self) -> Estimate:
        """What is known now.  Rows of the outputs never change once written: no copy needed."""
        available = self._decoder.available.copy()
        exact = self._answer is not None or self._decoder.decodable
        return Estimate(
            self._decoded if exact else lambda: self._estimated(available),
            exact=exact,
            n_available=self._n_available,
            elapsed=self._elapsed(),
            relative_error=0.0 if exact else self._relative_error(),
            determined=lambda: self._determined(available),
        )

    def _decoded(self) -> Array:
        """The exact answer, decoded once."""
        if self._answer is None:
            blocks = self._code.decode(self._outputs, self._decoder.available)
            self._answer = self._work.assemble(blocks)
            self.trace.decoded = self._elapsed()
        return self._answer

    def _estimated(self, available: Mask) -> Array:
        if not isinstance(self._code, AnytimeCode):
            raise TypeError(
                f"{self._code!r} has no estimates before it is decodable. Wait for the result, "
                "or use a PolarCode."
            )
        return self._work.assemble(self._code.estimate(self._outputs, available).value)

    def _relative_error(self) -> float:
        try:
            return self._code.relative_error(self._n_available)  # type: ignore[attr-defined,no-any-return]
        except (AttributeError, ValueError):  # a code without estimates, or with another kernel
            return math.nan

    def _determined(self, available: Mask) -> Mask:
        if self._answer is not None:
            return np.ones(self._code.k, dtype=np.bool_)
        decoder = self._code.decoder()
        for index in np.flatnonzero(available).tolist():
            decoder.add(index)
        return decoder.determined
