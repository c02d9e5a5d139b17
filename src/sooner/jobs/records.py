"""When and where tasks ran, brought from their clocks into the job's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from sooner.jobs.task import TaskOutput
    from sooner.trace import TaskRecord

__all__ = ["note_output", "note_start"]


def note_output(
    record: TaskRecord,
    future: Future[Any],
    output: TaskOutput,
    *,
    zero: float,
    epoch: float,
    elapsed: float,
) -> None:
    """Take note of a task that sent its output.

    Parameters
    ----------
    record
        The task's record.
    future
        Its future; that of a virtual executor knows better than the worker when it ran.
    output
        What it sent.
    zero
        The job's start by the executor's clock.
    epoch
        The job's start in seconds since the epoch.
    elapsed
        Seconds since the job's start.
    """
    started, finished = output.started - epoch, output.finished - epoch
    handed: float | None = getattr(future, "started", None)
    virtual: float | None = getattr(future, "finished", None)
    if handed is not None and virtual is not None:
        started, finished = handed - zero, virtual - zero
    record.outcome = "ok"
    record.worker = output.worker
    record.requests = output.requests
    # Clocks of machines differ: what cannot be is brought to what can.
    record.finished = min(max(finished, record.submitted), elapsed)
    record.started = min(max(started, record.submitted), record.finished)
    # Dask, say, tells of a task when it has begun already: then nobody knows when it was handed.
    if handed is not None and handed - zero <= record.started:
        record.handed = max(handed - zero, record.submitted)
    if virtual is None:  # else its seconds are of another clock than the worker's
        record.read = min(output.read, record.finished - record.started)


def note_start(record: TaskRecord, future: Future[Any], *, zero: float) -> None:
    """Take note of what the executor knows of a task that sent no output.

    Parameters
    ----------
    record
        The task's record.
    future
        Its future.
    zero
        The job's start by the executor's clock.
    """
    record.worker = getattr(future, "worker", None)
    started: float | None = getattr(future, "started", None)
    if started is not None:
        record.handed = record.started = max(started - zero, record.submitted)
