"""A job: n tasks, a decoder that is told of each, and the answer as soon as it is determined.

The loop knows neither what the tasks compute nor how the code works.  It is driven by whoever
asks for something (iterates, or calls `result`); there is no thread behind it.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

from sooner import policy
from sooner.errors import JobTimeoutError, WorkerLostError
from sooner.jobs.answer import Answer
from sooner.jobs.estimate import Estimate
from sooner.jobs.failure import failure
from sooner.trace import TaskRecord, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sooner._types import Array, Mask
    from sooner.codes.base import Code
    from sooner.executors.base import Executor, Reference
    from sooner.jobs.answer import Checked, Work
    from sooner.jobs.task import TaskOutput

__all__ = ["Job"]

_log = logging.getLogger(__name__)

_LOOKS_PER_LIMIT = 20
"""How often, in the time that a task may run, a job looks which ones have begun."""


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
    estimator
        Method of the estimates, see `PolarCode.estimate`.
    gram
        Inner products of the data blocks, for the method ``"gram"``.
    verify_extra
        Outputs to wait for beyond those that decode, to find wrong ones by.
    references
        Broadcast values to release at the end.
    owns_executor
        Whether to close the executor at the end.

    Examples
    --------
    >>> import numpy as np, sooner
    >>> coded = sooner.encode(np.eye(8), sooner.PolarCode(8, 4, rng=0))
    >>> with sooner.matvec(coded, np.arange(1, 9), executor="threads:2") as job:
    ...     print(job.result(timeout=60).round(9))
    [1. 2. 3. 4. 5. 6. 7. 8.]
    >>> len(job.trace)
    8
    """

    def __init__(
        self,
        code: Code,
        work: Work,
        executor: Executor,
        *,
        retries: int = 2,
        timeout: float | None = None,
        estimator: str = "common_mean",
        gram: Array | None = None,
        verify_extra: int = 0,
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
        self._answer = Answer(code, work, estimator=estimator, gram=gram, verify_extra=verify_extra)
        self._pending: dict[Future[TaskOutput], TaskRecord] = {}
        self._began: dict[Future[TaskOutput], float] = {}
        self._attempts = [0] * code.n
        self._ready: list[Future[TaskOutput]] = []
        self._run_times: list[float] = []
        self._first_error: BaseException | None = None
        self._failure: BaseException | None = None
        self._zero = executor.now()
        self._epoch = time.time()  # workers' clocks are brought into the executor's by this
        self._next_look = 0.0
        self.trace = Trace(n=code.n, k=code.k)
        self._submit(range(len(work.args)))
        if self._is_settled():  # an empty product
            self._settle()

    # What the user sees ------------------------------------------------------------------

    def __iter__(self) -> Iterator[Estimate]:
        """Give an estimate after each finished task; the last one is exact."""
        told = 0
        while True:
            if self._failure is not None:
                raise self._failure
            if self._is_settled() or self._answer.n_available > told:
                told = self._answer.n_available
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
            f"{self._answer.n_available} of {self._code.n} outputs came within {timeout} s and at "
            f"least {self._answer.decoder.n_missing} more are needed. Wait longer, or use the "
            "estimate that this error carries.",
            estimate=self._snapshot(),
        )

    @property
    def checked(self) -> Checked | None:
        """What spare outputs verified; None while the answer is not exact."""
        return self._answer.checked

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
        state = "exact" if self._answer.is_exact else "failed" if self._failure else "running"
        return (
            f"<Job {state}: {self._answer.n_available} of {self._code.n} outputs available, "
            f"{self._answer.decoder.n_missing} or more needed>"
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
            self._conclude()  # nothing more comes: with less to spare than was asked for
            if not self._is_settled():
                self._fail()
        return took

    def _take(self, future: Future[TaskOutput], record: TaskRecord) -> None:
        """Take note of one task that ended."""
        self._began.pop(future, None)
        record.available = self._elapsed()
        try:
            output = future.result(timeout=0)
            self._answer.check(output.value)
        except (CancelledError, WorkerLostError) as error:
            self._note_start(future, record)
            record.outcome = "lost"
            # The executor has told who killed which worker; one line is enough.
            self._repeat(record, str(error) or "it was cancelled", logging.INFO)
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
        self._answer.add(record.task, output.value)
        self._conclude()

    def _conclude(self) -> None:
        """See whether the answer is there, and drop what is found to be wrong."""
        for task in self._answer.conclude(more=bool(self._pending)):
            reason = "its output contradicts the others and was dropped"
            for record in self.trace:
                if record.task == task and record.outcome == "ok":
                    record.outcome, record.error = "wrong", reason
            _log.warning("%s: %s", self._name(task), reason)
        if self.trace.decodable is None and self._answer.decoder.decodable:
            self.trace.decodable = self._elapsed()
        if self._answer.is_exact:
            self._settle()

    def _note_start(self, future: Future[TaskOutput], record: TaskRecord) -> None:
        """What is known of a task that sent no output: its executor may know more than nothing."""
        record.worker = getattr(future, "worker", None)
        started: float | None = getattr(future, "started", None)
        if started is not None:
            record.started = max(started - self._zero, record.submitted)

    def _raised(self, record: TaskRecord, error: BaseException) -> None:
        record.outcome = "raised"
        if self._first_error is None:
            self._first_error = error
        self._repeat(record, f"{type(error).__name__}: {error}")

    def _repeat(self, record: TaskRecord, reason: str, level: int = logging.WARNING) -> None:
        """Log one line for the failure, and submit the task again if it is allowed."""
        record.error = reason
        left = self._retries - record.attempt
        _log.log(
            level,
            "%s: %s; %s",
            self._name(record.task),
            reason,
            f"repeated, {left} left" if left else "given up",
        )
        if left:
            self._submit([record.task])
        elif not policy.can_still_be_decoded(self._code, self._hoped_for()):
            self._fail()

    def _name(self, task: int) -> str:
        return f"task {task} of {self._code.n}"

    def _submit(self, tasks: Sequence[int]) -> None:
        futures = self._executor.submit_many(
            self._work.fn,
            [self._work.args[task] for task in tasks],
            descriptions=[self._name(task) for task in tasks],
        )
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
            self._note_start(future, record)
            record.outcome = "lost"
            self._repeat(record, f"no answer within {limit:.3g} s")

    def _fail(self) -> None:
        """End without an answer: too many tasks failed too often."""
        self._failure = failure(self.trace, self._answer.decoder, self._retries, self._first_error)
        self._settle()

    def _settle(self) -> None:
        """Stop caring for what still runs, and free what was shipped."""
        pending, self._pending = self._pending, {}
        self._ready.clear()
        self._began.clear()
        now = self._elapsed()
        for future, record in pending.items():
            self._note_start(future, record)
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
        return self._answer.is_exact or self._failure is not None

    def _elapsed(self) -> float:
        return self._executor.now() - self._zero

    def _hoped_for(self) -> Mask:
        """Outputs that are available or may still come, shape (n,)."""
        hoped_for = self._answer.decoder.available.copy()
        hoped_for[[record.task for record in self._pending.values()]] = True
        return hoped_for

    def _snapshot(self) -> Estimate:
        # Rows of the outputs never change once written, so only the mask is copied.
        exact = self._answer.is_exact
        if exact:
            self._decoded()
        available = self._answer.decoder.available.copy()
        return Estimate(self._answer, available, exact=exact, elapsed=self._elapsed())

    def _decoded(self) -> Array:
        """The exact answer, with the moment at which it was there first."""
        value = self._answer.exact()
        if self.trace.decoded is None:
            self.trace.decoded = self._elapsed()
        return value
