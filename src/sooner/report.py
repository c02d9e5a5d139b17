"""Where the time of a run went, what of it was wasted, and what it used: all from its trace.

A task goes through *queue* (until the executor gives it to a worker), *start* (until its code
runs there), *read* (its block and x), *compute* and *send* (until the driver has its output).
Not every engine tells each of these moments: phases that cannot be told apart are one, under a
name such as ``"queue or start"`` or ``"start to send"``.  Nothing is taken for zero because it
is unknown.  Around them, a run is *held back* (until the task is sent that turns out to decide),
*waits* (until the driver finds that the outputs suffice) and *decodes*.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sooner import _checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sooner.trace import TaskRecord, Trace

__all__ = ["PHASES", "Phase", "Report", "WorkerTime", "phases_of", "report_on"]

PHASES = ("queue", "start", "read", "compute", "send")
"""Phases of a task, in order."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Where time went, in seconds; None where this phase has no part in it."""

    name: str
    deciding: float | None
    """Of the task whose output completed the answer; with what is around it, the whole run."""
    median: float | None
    """Over the outputs that were used."""
    total: float | None
    """Over all attempts."""


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """What a set of attempts took of workers."""

    attempts: int = 0
    seconds: float = 0.0
    """From when workers had them until they ended, as far as it is known when that was."""
    unknown: float = 0.0
    """Seconds from submission to end of those of which nobody knows when, or whether, they began:
    between none and all of these belong to `seconds`, too."""

    def __add__(self, other: WorkerTime) -> WorkerTime:
        return WorkerTime(
            self.attempts + other.attempts,
            self.seconds + other.seconds,
            self.unknown + other.unknown,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What `report_on` found.  All times are seconds."""

    n: int
    """Tasks."""
    k: int
    """Data blocks."""
    n_used: int
    """Outputs that went into the answer."""
    decodable: float | None
    """When they sufficed, since the job began; None if they did not."""
    decoded: float | None
    """When the exact answer was there."""
    duration: float
    """From the beginning of the job to its answer, or to the last moment that the trace knows."""
    deciding_task: int | None
    """The one whose output was the last that was needed; None if there is none."""
    phases: tuple[Phase, ...]
    """In the order of a task's life; `Phase.deciding` adds up to `duration`."""
    used: WorkerTime
    """Of outputs that went into the answer."""
    wasted: dict[str, WorkerTime]
    """Of all others by outcome: ``"abandoned"``, ``"lost"``, ``"raised"``, ``"wrong"``, and
    ``"duplicate"`` for a second output of one task."""
    unfinished: WorkerTime
    """Of what still ran when the trace was taken; neither used nor wasted."""
    invocations: int
    """Attempts that were handed to the executor; on serverless functions each is a request."""
    store_requests: int | None
    """Requests to an object store for blocks, of tasks that told; None if none did."""
    memory: float | None
    """Megabytes of each worker."""

    @property
    def total_wasted(self) -> WorkerTime:
        """Of all that was wasted."""
        return sum(self.wasted.values(), start=WorkerTime())

    @property
    def total(self) -> WorkerTime:
        """Of all attempts that ended: used and wasted."""
        return self.used + self.total_wasted

    @property
    def wasted_share(self) -> float | None:
        """Of the known seconds of workers, 0 … 1; None if there are none."""
        total = self.total.seconds
        return self.total_wasted.seconds / total if total else None

    @property
    def gb_seconds(self) -> tuple[float, float] | None:
        """Memory times seconds of all attempts, at least and at most; None without `memory`.

        A GB is 1024 MB, as on bills.  The two differ when it is not known when attempts began.
        """
        if self.memory is None:
            return None
        everything = self.total + self.unfinished
        low, high = everything.seconds, everything.seconds + everything.unknown
        return low * self.memory / 1024, high * self.memory / 1024


def report_on(trace: Trace, *, memory: float | None = None) -> Report:
    """Find out where the time of a run went.

    Parameters
    ----------
    trace
        What happened, from ``job.trace`` or ``Trace.from_jsonl``.
    memory
        Megabytes of each worker or function, for GB-seconds.  None: what the trace says
        (``trace.meta["memory"]``), if it does.

    Returns
    -------
    Report
        What was found.  It knows what the driver saw: a task that goes on after the job, because
        its engine cannot end it, is counted until the end of the job.

    Raises
    ------
    ValueError
        If `memory` is not positive.

    Examples
    --------
    >>> from sooner.trace import TaskRecord, Trace
    >>> answered = TaskRecord(
    ...     0, handed=0.5, started=1.0, read=0.5, finished=3.0, available=3.25, outcome="ok"
    ... )
    >>> stopped = TaskRecord(1, handed=0.5, started=0.5, available=3.25, outcome="abandoned")
    >>> trace = Trace(n=2, k=1, records=[answered, stopped], decodable=3.25, decoded=3.5)
    >>> report = report_on(trace, memory=1024)
    >>> [(phase.name, phase.deciding) for phase in report.phases if phase.deciding]
    [('queue', 0.5), ('start', 0.5), ('read', 0.5), ('compute', 1.5), ('send', 0.25),
     ('decode', 0.25)]
    >>> report.used.seconds, report.total_wasted.seconds, report.gb_seconds
    (2.5, 2.75, (5.25, 5.25))
    """
    memory = trace.meta.get("memory") if memory is None else memory
    if memory is not None:
        _checks.positive(memory, "memory")
    end = _end(trace)
    records = _filled_in(trace, end)
    kinds = _kinds(records)
    used = [record for record, kind in zip(records, kinds, strict=True) if kind == "used"]
    deciding = _deciding(trace, used)
    spent: dict[str, WorkerTime] = defaultdict(WorkerTime)
    for record, kind in zip(records, kinds, strict=True):
        spent[kind] += _worker_time(record)
    requests = [record.requests for record in records if record.requests is not None]
    moments = (trace.decoded, trace.decodable, end)
    return Report(
        n=trace.n,
        k=trace.k,
        n_used=len(used),
        decodable=trace.decodable,
        decoded=trace.decoded,
        duration=next(moment for moment in moments if moment is not None),
        deciding_task=None if deciding is None else deciding.task,
        phases=_phases(trace, records, used, deciding),
        used=spent.pop("used", WorkerTime()),
        unfinished=spent.pop("running", WorkerTime()),
        wasted=dict(sorted(spent.items())),
        invocations=len(records),
        store_requests=sum(requests) if requests else None,
        memory=memory,
    )


def _end(trace: Trace) -> float:
    """Last moment that a trace knows."""
    moments = [trace.decodable or 0.0, trace.decoded or 0.0]
    for record in trace:
        moments += [record.submitted, record.available or 0.0]
    return max(moments)


def _filled_in(trace: Trace, end: float) -> list[TaskRecord]:
    """Give the records with what follows from the others: when they were handed over and ended."""
    tells = any(record.handed is not None for record in trace)
    filled_in = []
    for record in trace:
        available = end if record.available is None else record.available
        handed = record.handed
        if handed is None and record.finished is None:
            handed = record.started  # it sent nothing, so this is what the executor knows
            # A task of which such an executor said nothing was in its queue; but a worker that
            # was lost may have been lost before its word was out.
            if handed is None and tells and record.outcome in {"abandoned", "running"}:
                handed = available
        filled_in.append(dataclasses.replace(record, handed=handed, available=available))
    return filled_in


def _kinds(records: list[TaskRecord]) -> list[str]:
    """Say of each attempt whether its output was used, and if not, why not."""
    kinds: list[str] = []
    answered: set[int] = set()
    for record in records:
        kind: str = record.outcome
        if kind == "ok":
            kind = "duplicate" if record.task in answered else "used"
            answered.add(record.task)
        kinds.append(kind)
    return kinds


def _deciding(trace: Trace, used: list[TaskRecord]) -> TaskRecord | None:
    """Give the last output that came before they sufficed."""
    if trace.decodable is None:
        return None
    in_time = [record for record in used if _ended(record) <= trace.decodable]
    return max(in_time, key=_ended, default=None)


def _ended(record: TaskRecord) -> float:
    """When an attempt was over for the driver."""
    return max(record.submitted, record.available or 0.0)


def phases_of(record: TaskRecord) -> dict[str, float]:
    """Seconds of each phase of an attempt that ended; they add up to its life.

    Parameters
    ----------
    record
        Of the attempt.

    Returns
    -------
    dict
        Name to seconds, in order; what cannot be told apart has one name together.

    Examples
    --------
    >>> from sooner.trace import TaskRecord
    >>> phases_of(TaskRecord(0, started=1.0, finished=3.0, available=3.5))
    {'queue or start': 1.0, 'read or compute': 2.0, 'send': 0.5}
    >>> phases_of(TaskRecord(0, available=3.5, outcome="lost"))
    {'queue to send': 3.5}
    """
    seconds: dict[str, float] = {}
    begun, moment, last = 0, record.submitted, _ended(record)
    # Each phase ends at a moment, and where that is unknown goes on with the next one.
    for number, until in enumerate((*_moments(record), last), start=1):
        if until is not None:
            reached = min(max(until, moment), last)
            seconds[_name(begun, number)] = reached - moment
            begun, moment = number, reached
    return seconds


def _moments(record: TaskRecord) -> tuple[float | None, ...]:
    """When queue, start, read and compute ended; None where nobody knows."""
    if record.finished is None:
        return record.handed, None, None, None
    if record.started is None or record.read is None:
        return record.handed, record.started, None, record.finished
    return record.handed, record.started, record.started + record.read, record.finished


def _name(first: int, after: int) -> str:
    """Name what goes from one phase to before another."""
    if after - first == 1:
        return PHASES[first]
    return f"{PHASES[first]} {'or' if after - first == 2 else 'to'} {PHASES[after - 1]}"


_NAMES = [_name(*ends) for ends in itertools.combinations(range(len(PHASES) + 1), 2)]
"""All names of phases, in the order of a task's life."""


def _worker_time(record: TaskRecord) -> WorkerTime:
    """Say how long a worker had an attempt."""
    first, last = record.submitted, _ended(record)
    begun = record.started if record.handed is None else record.handed
    if begun is None:
        return WorkerTime(1, 0.0, last - first)
    begun = min(max(begun, first), last)
    stopped = last if record.finished is None else min(record.finished, last)
    return WorkerTime(1, max(0.0, stopped - begun))


def _phases(
    trace: Trace,
    records: list[TaskRecord],
    used: list[TaskRecord],
    deciding: TaskRecord | None,
) -> tuple[Phase, ...]:
    of_run = _run(trace, deciding)
    of_used = _by_phase(used)
    of_all = _by_phase(records)
    if trace.decodable is not None:
        of_used["wait"] = [max(0.0, trace.decodable - _ended(record)) for record in used]
    return tuple(
        Phase(
            name,
            of_run.get(name),
            statistics.median(of_used[name]) if of_used.get(name) else None,
            math.fsum(of_all[name]) if name in of_all else None,
        )
        for name in ("held back", *_NAMES, "wait", "decode")
        if name in of_run or name in of_all or of_used.get(name)
    )


def _run(trace: Trace, deciding: TaskRecord | None) -> dict[str, float]:
    """Seconds of the run itself, if it came to an answer: they add up to its duration."""
    if trace.decodable is None:
        return {}
    seconds, came = {}, 0.0
    if deciding is not None:
        seconds = {"held back": deciding.submitted, **phases_of(deciding)}
        came = _ended(deciding)
    seconds["wait"] = trace.decodable - came
    if trace.decoded is not None:
        seconds["decode"] = trace.decoded - trace.decodable
    return seconds


def _by_phase(records: Iterable[TaskRecord]) -> dict[str, list[float]]:
    listed: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for name, seconds in phases_of(record).items():
            listed[name].append(seconds)
    return listed
