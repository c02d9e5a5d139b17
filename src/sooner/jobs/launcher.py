"""The tasks of a job: launched, watched, repeated, given up, as the policy says."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sooner import _checks, policy
from sooner.codes.base import launch_order
from sooner.jobs.records import note_start
from sooner.trace import TaskRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from concurrent.futures import Future

    from sooner._types import Mask
    from sooner.codes.base import Code
    from sooner.executors.base import Executor
    from sooner.jobs.task import TaskOutput
    from sooner.jobs.work import Work
    from sooner.trace import Trace

__all__ = ["Launcher", "Rules"]

_log = logging.getLogger(__name__)

_LOOKS_PER_LIMIT = 20
"""How often, in the time that a task may run, a job looks which ones have begun."""

_PAUSE = 0.01
"""Seconds between two looks, at least: each costs O(n), and tasks may take less than that."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When tasks are launched and how often; what a user may say about it."""

    policy: str = "auto"
    """``"at_once"``, ``"on_lag"``, or ``"auto"``; see `sooner.policy.resolve`."""
    retries: int = 2
    """How often a task that raised is repeated."""
    losses: int = 4
    """How often a task whose worker was lost, or that did not answer in time, is repeated."""
    timeout: float | None = None
    """Seconds that one task may run before it is taken for lost; None adapts to the others."""

    def __post_init__(self) -> None:
        _checks.one_of(self.policy, "policy", policy.POLICIES)
        _checks.integer(self.retries, "retries", at_least=0)
        _checks.integer(self.losses, "losses", at_least=0)
        if self.timeout is not None:
            _checks.positive(self.timeout, "timeout")


class Launcher:
    """Tasks of one job on an executor.

    Parameters
    ----------
    code
        The code.
    work
        What the tasks compute.
    executor
        Runs them.
    trace
        Where a record of each attempt goes.
    zero
        The job's start by the executor's clock.
    rules
        When tasks are launched and how often.
    extra
        Outputs that are wanted beyond those that decode.
    """

    def __init__(
        self,
        code: Code,
        work: Work,
        executor: Executor,
        trace: Trace,
        *,
        zero: float,
        rules: Rules,
        extra: int = 0,
    ) -> None:
        self._code = code
        self._work = work
        self._executor = executor
        self._trace = trace
        self._zero = zero
        self._rules = rules
        self._extra = extra
        self._at_once = policy.resolve(rules.policy, code.n, executor.slots) == "at_once"
        self._spare = launch_order(code) if work.args else []
        self._attempts: Counter[int] = Counter()
        self._failed: Counter[tuple[int, str]] = Counter()  # by task and outcome
        self._pending: dict[Future[TaskOutput], TaskRecord] = {}
        self._began: dict[Future[TaskOutput], float] = {}
        self._lagging: set[Future[TaskOutput]] = set()
        self._run_times: list[float] = []
        self._n_first = 0
        self._looked = self._next_look = zero

    def begin(self, available: Mask) -> None:
        """Launch the first tasks.

        Parameters
        ----------
        available
            Outputs that are there already, shape (n,).
        """
        self._spare = [task for task in self._spare if not available[task]]
        self.launch(available)
        self._n_first = len(self._pending)
        idle = (self._executor.slots or 0) - self._n_first
        if self._rules.policy == "auto" and idle > 0 and self._spare:  # they cost nothing
            filling, self._spare = self._spare[:idle], self._spare[idle:]
            self._submit(filling)

    def launch(self, available: Mask, *, at_least: int = 0) -> None:
        """Launch what the policy asks for now.

        Parameters
        ----------
        available
            Outputs that have come, shape (n,).
        at_least
            Tasks to launch even if those in hand should suffice, as far as there are any.
        """
        if self._at_once:
            tasks = self._spare
        else:
            hopeful = available.copy()
            hopeful[self._tasks(without=self._lagging)] = True
            tasks = policy.stand_ins(self._code, hopeful, self._spare, self._extra)
            tasks = tasks or self._spare[:at_least]
        launched = set(tasks)
        self._spare = [task for task in self._spare if task not in launched]
        if tasks:
            self._submit(tasks)

    def _tasks(self, without: Collection[Future[TaskOutput]] = ()) -> list[int]:
        return [record.task for future, record in self._pending.items() if future not in without]

    def _submit(self, tasks: Sequence[int]) -> None:
        now = self._executor.now() - self._zero  # quick tasks end before all are submitted
        futures = self._executor.submit_many(
            self._work.fn,
            [self._work.args[task] for task in tasks],
            descriptions=[self.name(task) for task in tasks],
        )
        for task, future in zip(tasks, futures, strict=True):
            record = TaskRecord(task=task, attempt=self._attempts[task], submitted=now)
            self._attempts[task] += 1
            self._pending[future] = record
            self._trace.records.append(record)

    def name(self, task: int) -> str:
        """Call a task what messages call it.

        Parameters
        ----------
        task
            Which task.

        Returns
        -------
        str
            Its name.
        """
        return f"task {task} of {self._code.n}"

    def wait(self, timeout: float) -> list[Future[TaskOutput]]:
        """Wait until a task ends or there is something to look at, `timeout` seconds at most.

        Parameters
        ----------
        timeout
            Seconds.

        Returns
        -------
        list of Future
            Of the tasks that ended; those that ended together in one order, so that a run can be
            repeated: the last is to be taken first.
        """
        pause = max(self._next_look - self._executor.now(), _PAUSE)
        done = self._executor.wait(self._pending.keys(), min(timeout, pause))
        done &= self._pending.keys()  # whatever else the executor names
        return sorted(done, key=lambda future: -self._pending[future].task)

    @property
    def limit(self) -> float:
        """Seconds that a task may run."""
        return policy.patience(self._rules.timeout, self._run_times)

    @property
    def _lag_limit(self) -> float:
        """Seconds after which a running task lags, where that makes a difference."""
        if self._at_once or not self._spare:
            return math.inf
        return policy.lag_limit(self._run_times, self._n_first) or math.inf

    def take(self, future: Future[TaskOutput]) -> TaskRecord | None:
        """Stop waiting for a future.

        Parameters
        ----------
        future
            Of a task that ended.

        Returns
        -------
        TaskRecord or None
            Its record; None if nobody waits for it.
        """
        self._began.pop(future, None)
        self._lagging.discard(future)
        return self._pending.pop(future, None)

    def succeeded(self, run_time: float) -> None:
        """Learn from a task that gave its output.

        Parameters
        ----------
        run_time
            Seconds that it took.
        """
        self._run_times.append(run_time)
        self._next_look = 0.0  # the median is another one now

    def failed(self, record: TaskRecord, reason: str, level: int, *, for_good: bool) -> bool:
        """Log one line for an attempt that failed, and see whether the task may be repeated.

        Parameters
        ----------
        record
            Of the attempt; its outcome is ``"raised"`` or ``"lost"``, which are counted apart.
        reason
            What went wrong.
        level
            Of the line in the log.
        for_good
            Whether a repetition cannot help.

        Returns
        -------
        bool
            Whether it may.
        """
        record.error = reason
        self._failed[record.task, record.outcome] += 1
        allowed = self._rules.losses if record.outcome == "lost" else self._rules.retries
        left = 0 if for_good else max(0, allowed + 1 - self._failed[record.task, record.outcome])
        said = f"{'repeated' if self._at_once else 'may be repeated'}, {left} left"
        name = self.name(record.task)
        # The executor calls its tasks by the names that they were given.
        reason = reason if reason.startswith(name) else f"{name}: {reason}"
        _log.log(level, "%s; %s", reason, said if left else "given up")
        if left:
            self._spare.append(record.task)
        return left > 0

    def hopeless(self) -> str | None:
        """Name the error that every task raises, if there is one: repeating does not help then.

        Returns
        -------
        str or None
            The kind of error.
        """
        if self._run_times:
            return None
        raised = [record for record in self._trace if record.outcome == "raised"]
        kinds = [(record.task, (record.error or "").partition(":")[0]) for record in raised]
        return policy.raise_again(kinds)

    def can_still_be_decoded(self, available: Mask) -> bool:
        """Whether the answer is determined once all that may still come has come.

        Parameters
        ----------
        available
            Outputs that have come, shape (n,).

        Returns
        -------
        bool
            False when waiting alone cannot help.
        """
        hoped_for = available.copy()
        hoped_for[[*self._tasks(), *self._spare]] = True
        return policy.can_still_be_decoded(self._code, hoped_for)

    def look(self, available: Mask) -> list[TaskRecord]:
        """See what has run for too long; launch stand-ins for what lags.

        Parameters
        ----------
        available
            Outputs that have come, shape (n,).

        Returns
        -------
        list of TaskRecord
            Of the tasks that are given up.
        """
        now = self._executor.now()
        if now < self._looked + _PAUSE:
            return []
        self._looked = now
        for future in self._pending:
            if future not in self._began and future.running():
                started = getattr(future, "started", None)
                self._began[future] = now if started is None else started
        overdue = [self._give_up(future) for future in self._longer_than(self.limit)]
        lagging = set(self._longer_than(self._lag_limit))
        if not lagging <= self._lagging:
            self._lagging |= lagging
            self.launch(available)
        self._next_look = min(now + self.limit / _LOOKS_PER_LIMIT, self._next_lag(now))
        return overdue

    def _next_lag(self, now: float) -> float:
        """When, at the earliest, another task will lag."""
        watched = [began for future, began in self._began.items() if future not in self._lagging]
        if len(self._began) < len(self._pending):
            watched.append(now)  # others may begin at any time
        return min(watched, default=math.inf) + self._lag_limit

    def _longer_than(self, limit: float) -> list[Future[TaskOutput]]:
        futures = list(self._began)
        late = policy.overdue(self._executor.now(), self._began.values(), limit)
        return [futures[place] for place in late]

    def _give_up(self, future: Future[TaskOutput]) -> TaskRecord:
        record = self._pending[future]
        self.take(future)
        self._executor.abandon([future])
        note_start(record, future, zero=self._zero)
        record.available = self._executor.now() - self._zero
        record.outcome = "lost"
        return record

    @property
    def idle(self) -> bool:
        """Whether nothing is awaited."""
        return not self._pending

    @property
    def exhausted(self) -> bool:
        """Whether nothing is awaited and nothing can be launched any more."""
        return not self._pending and not self._spare

    def abandon(self) -> None:
        """Stop caring for what still runs."""
        pending, self._pending = self._pending, {}
        self._began.clear()
        self._lagging.clear()
        self._spare = []
        for future, record in pending.items():
            note_start(record, future, zero=self._zero)
            record.outcome = "abandoned"
            record.available = self._executor.now() - self._zero
        self._executor.abandon(list(pending))
