"""A job: n tasks, a decoder that is told of each, and the answer as soon as it is determined.

The loop knows neither what the tasks compute nor how the code works.  It is driven by whoever
asks for something (iterates, or calls `result`); there is no thread behind it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

from sooner.errors import BlockLostError, WorkerLostError
from sooner.jobs.answer import Answer
from sooner.jobs.estimate import Estimate
from sooner.jobs.failure import failure, not_exact
from sooner.jobs.launcher import Launcher, Rules
from sooner.jobs.limits import Limits
from sooner.jobs.records import note_output, note_start
from sooner.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sooner._types import Array
    from sooner.codes.base import Code
    from sooner.executors.base import Executor, Reference
    from sooner.jobs.answer import Checked
    from sooner.jobs.kept import KeptOutputs
    from sooner.jobs.task import TaskOutput
    from sooner.jobs.work import Work
    from sooner.trace import TaskRecord

__all__ = ["Job"]

_log = logging.getLogger(__name__)


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
    answer
        Takes in their outputs; None for one with the default options.
    limits
        What ends the job before its answer is exact; None for nothing.
    rules
        When tasks are launched and how often; None for the default ones.
    kept
        Outputs of an earlier run of the same job, and where those of this one go; None for none.
    references
        Broadcast values to release at the end.
    owns_executor
        Whether to close the executor at the end.

    Examples
    --------
    >>> import numpy as np, sooner
    >>> coded = sooner.encode(np.eye(8), sooner.PolarCode(8, 4, rng=0))
    >>> with sooner.matvec(coded, np.arange(1, 9), executor="threads:8") as job:
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
        answer: Answer | None = None,
        limits: Limits | None = None,
        rules: Rules | None = None,
        kept: KeptOutputs | None = None,
        references: Sequence[Reference[Any]] = (),
        owns_executor: bool = False,
    ) -> None:
        self._executor = executor
        self._references = list(references)
        self._owns_executor = owns_executor
        self._answer = answer or Answer(code, work)
        self.kept = kept
        """Outputs that outlive the job, if there is a place for them."""
        self._ready: list[Future[TaskOutput]] = []
        self._first_error: BaseException | None = None
        self._failure: BaseException | None = None
        self._zero = executor.now()
        self._limits = limits or Limits()
        self._limits.begin(self._zero)
        self._stopped: str | None = None
        self._epoch = time.time()  # workers' clocks are brought into the executor's by this
        self.trace = Trace(n=code.n, k=code.k)
        self._launcher = Launcher(
            code,
            work,
            executor,
            self.trace,
            zero=self._zero,
            rules=rules or Rules(),
            extra=self._answer.verify_extra,
        )
        self._take_kept()
        if self._is_settled():  # an empty product, or all outputs were kept
            self._settle()
        else:
            self._launcher.begin(self._answer.decoder.available)

    def _take_kept(self) -> None:
        """Take in what an earlier run has kept, instead of computing it again."""
        for task, value in [] if self.kept is None else self.kept.load():
            self._answer.add(task, value)
        if self._answer.n_available:
            self.trace.meta["kept"] = self._answer.n_available
            self._conclude()

    def __iter__(self) -> Iterator[Estimate]:
        """Give an estimate after each finished task; the last is exact, or of the last moment."""
        told = 0
        while True:
            if self._failure is not None:
                raise self._failure
            if self._is_settled() or self._answer.n_available > told:
                told = self._answer.n_available
                yield self._snapshot()
                if self._is_settled() and self._failure is None:
                    return
            else:
                try:
                    self._step(None)
                except BaseException:  # Ctrl-C, or the callback's: nothing may run on
                    self.cancel()
                    raise

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
            If the time is over first; it carries the estimate.  After `timeout` the job goes on.
        JobStoppedError
            If the job's tolerance or callback stopped it.
        """
        end = math.inf if timeout is None else self._executor.now() + timeout
        try:
            while not self._is_settled():
                left = end - self._executor.now()
                if left <= 0:
                    self._look()
                    break
                self._step(left)
            if self._failure is None and self._answer.is_exact:
                with contextlib.suppress(InterruptedError):  # the deadline came while decoding
                    return self._decoded()
        except BaseException:  # Ctrl-C above all: nothing may run on
            self.cancel()
            raise
        if self._failure is not None:
            raise self._failure
        error = not_exact(
            self._snapshot(),
            self._answer.decoder,
            self._stopped or f"{timeout or self._elapsed():.3g} s have passed",
            in_time=self._stopped is not None and not self._deadline_has_passed(),
        )
        raise error

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
        state = "stopped" if self._stopped else state
        return (
            f"<Job {state}: {self._answer.n_available} of {self.trace.n} outputs available, "
            f"{self._answer.decoder.n_missing} or more needed>"
        )

    def _look(self) -> None:
        """Take in all that has come by now; never wait."""
        while not self._is_settled() and self._step(0.0):
            pass

    def _step(self, timeout: float | None) -> bool:
        """Take in one task that ended, if one does within `timeout` seconds; say whether."""
        if not self._ready:
            left = self._limits.left(self._executor.now())
            self._ready = self._launcher.wait(left if timeout is None else min(left, timeout))
            for overdue in self._launcher.look(self._answer.decoder.available):
                if not self._is_settled():
                    self._failed(overdue, f"no answer within {self._launcher.limit:.3g} s")
        took = False
        if self._ready and not self._is_settled():
            future = self._ready.pop()
            record = self._launcher.take(future)
            if record is not None:
                self._take(future, record)
                took = True
        if not self._is_settled() and self._launcher.idle:
            self._launch_more()
        if not self._is_settled() and (took or self._limits.left(self._executor.now()) == 0):
            self._stopped = self._limits.reason(
                self._executor.now(), self._answer.n_available, self._snapshot
            )
            if self._stopped:
                self._settle()
        return took

    def _launch_more(self) -> None:
        """Go on when nothing is awaited: outputs contradicted each other, or did not suffice."""
        self._launcher.launch(self._answer.decoder.available, at_least=1)
        if self._launcher.idle:
            self._conclude()  # nothing more comes: with less to spare than was asked for
            if not self._is_settled():
                self._fail()

    def _take(self, future: Future[TaskOutput], record: TaskRecord) -> None:
        """Take note of one task that ended."""
        record.available = self._elapsed()
        try:
            output = future.result(timeout=0)
            self._answer.check(output.value)
        except (CancelledError, WorkerLostError) as error:
            note_start(record, future, zero=self._zero)
            record.outcome = "lost"
            # The executor has told who killed which worker; one line is enough.
            self._failed(record, str(error) or "it was cancelled", logging.INFO)
        except BaseException as error:
            record.outcome = "raised"
            self._first_error = self._first_error or error
            # Reading has tried again where that could help: a lost block stays lost.
            for_good = isinstance(error, BlockLostError)
            self._failed(record, f"{type(error).__name__}: {error}", for_good=for_good)
        else:
            self._available(future, record, output)

    def _available(
        self, future: Future[TaskOutput], record: TaskRecord, output: TaskOutput
    ) -> None:
        note_output(
            record,
            future,
            output,
            zero=self._zero,
            epoch=self._epoch,
            elapsed=self._elapsed(),
        )
        self._launcher.succeeded(record.run_time or 0.0)
        self._answer.add(record.task, output.value, output.size)
        if self.kept is not None:
            self.kept.save(record.task, output.value)
        if self._conclude() and not self._is_settled():
            self._launcher.launch(self._answer.decoder.available)

    def _conclude(self) -> list[int]:
        """See whether the answer is there, and drop what is found to be wrong; say which."""
        wrong = self._answer.conclude(more=not self._launcher.exhausted)
        for task in wrong:
            reason = "its output contradicts the others and was dropped"
            for record in self.trace:
                if record.task == task and record.outcome == "ok":
                    record.outcome, record.error = "wrong", reason
            if self.kept is not None:
                self.kept.drop(task)
            _log.warning("%s: %s", self._launcher.name(task), reason)
        if self.trace.decodable is None and self._answer.decoder.decodable:
            self.trace.decodable = self._elapsed()
        if self._answer.is_exact:
            self._settle()
        return wrong

    def _failed(
        self,
        record: TaskRecord,
        reason: str,
        level: int = logging.WARNING,
        *,
        for_good: bool = False,
    ) -> None:
        """Have the task repeated or another in its place, or see that there is no hope."""
        if self._launcher.failed(record, reason, level, for_good=for_good):
            if record.outcome == "raised" and self._launcher.hopeless():
                self._fail()
                return
        elif not self._launcher.can_still_be_decoded(self._answer.decoder.available):
            self._fail()
            return
        self._launcher.launch(self._answer.decoder.available)

    def _fail(self) -> None:
        """End without an answer: too many tasks failed too often."""
        self._failure = failure(self.trace, self._answer.decoder, self._first_error)
        self._settle()

    def _settle(self) -> None:
        """Stop caring for what still runs, and free what was shipped."""
        self._ready.clear()
        self._launcher.abandon()
        for reference in self._references:
            self._executor.release(reference)
        self._references.clear()
        if self._owns_executor:
            self._executor.close()

    def _is_settled(self) -> bool:
        return self._answer.is_exact or bool(self._failure or self._stopped)

    def _elapsed(self) -> float:
        return self._executor.now() - self._zero

    def _snapshot(self) -> Estimate:
        # Rows of the outputs never change once written, so only the mask is copied.
        exact = self._answer.is_exact
        if exact:
            try:
                self._decoded()
            except InterruptedError:  # the deadline came first
                exact = False
        available = self._answer.decoder.available.copy()
        return Estimate(self._answer, available, exact=exact, elapsed=self._elapsed())

    def _deadline_has_passed(self) -> bool:
        return self._executor.now() >= self._limits.end

    def _decoded(self) -> Array:
        """The exact answer, with the moment at which it was there first."""
        # A deadline ends the decoding that it finds under way, not one that is begun later.
        limited = self._executor.now() < self._limits.end < math.inf
        value = self._answer.exact(stop=self._deadline_has_passed if limited else None)
        if self.trace.decoded is None:
            self.trace.decoded = self._elapsed()
        return value
