"""What happened to each task of a job: one record per attempt, JSON lines on disk.

Progress, plots and reports read only this.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sooner.errors import StoreFormatError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["Outcome", "TaskRecord", "Trace"]

Outcome: TypeAlias = Literal["running", "ok", "raised", "lost", "abandoned", "wrong"]

_FORMAT = "sooner-trace-1"


@dataclass(slots=True)
class TaskRecord:
    """One attempt at one task.  All times are seconds since the job began.

    Examples
    --------
    >>> record = TaskRecord(task=3, submitted=0.0, started=0.1, finished=0.4, available=0.5)
    >>> round(record.run_time, 3)
    0.3
    """

    task: int
    """Index of the task, so of the coded block, in 0 … n-1."""
    attempt: int = 0
    """0 for the first submission, then one more for each re-issue."""
    submitted: float = 0.0
    """When the driver handed the task to the executor."""
    handed: float | None = None
    """When the executor gave it to a worker, if the executor knows."""
    started: float | None = None
    """When a worker began it, by the worker's clock brought into the driver's."""
    finished: float | None = None
    """When the worker had its output."""
    available: float | None = None
    """When the driver had its output, or learned that there will be none."""
    worker: str | None = None
    """Host and process that ran it, ``host:pid``."""
    outcome: Outcome = "running"
    """``ok``, ``raised`` (user's error), ``lost`` (worker gone), ``abandoned`` (not waited for),
    ``wrong`` (contradicted by the others)."""
    error: str | None = None
    """One line that says what went wrong."""
    read: float | None = None
    """Seconds, of those from start to finish, in which it read its block and x."""
    requests: int | None = None
    """How many requests to an object store reading its block took."""

    @property
    def run_time(self) -> float | None:
        """Seconds from start to finish on the worker, None if it did not finish."""
        if self.started is None or self.finished is None:
            return None
        return self.finished - self.started


@dataclass(slots=True)
class Trace:
    """The records of one job, with the moments at which its answer was there.

    Examples
    --------
    >>> trace = Trace(n=2, k=1, records=[TaskRecord(0, started=0.0, finished=1.5, outcome="ok")])
    >>> trace.decodable = 1.5
    >>> [record.run_time for record in trace]
    [1.5]
    """

    n: int
    """Number of tasks."""
    k: int
    """Number of data blocks."""
    records: list[TaskRecord] = field(default_factory=list)
    """One per attempt, in order of submission."""
    decodable: float | None = None
    """When the available outputs first sufficed, seconds since the job began."""
    decoded: float | None = None
    """When the exact answer was there."""
    meta: dict[str, Any] = field(default_factory=dict)
    """What else a reader wants to know: code, shapes, executor."""

    def __iter__(self) -> Iterator[TaskRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def n_available(self) -> int:
        """Number of tasks whose output has come."""
        return len({record.task for record in self.records if record.outcome == "ok"})

    @property
    def failures(self) -> dict[int, str]:
        """Task to its last error, for every task with an attempt that raised or was lost."""
        return {
            record.task: record.error or record.outcome
            for record in self.records
            if record.outcome in {"raised", "lost"}
        }

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the trace: a header line, then one line per record.

        Parameters
        ----------
        path
            File to write; an existing one is replaced.
        """
        header: dict[str, Any] = {"format": _FORMAT}
        header |= {name: getattr(self, name) for name in ("n", "k", "decodable", "decoded", "meta")}
        lines = [header, *(dataclasses.asdict(record) for record in self.records)]
        Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    @classmethod
    def from_jsonl(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `to_jsonl` wrote.

        Parameters
        ----------
        path
            File to read.

        Returns
        -------
        Trace
            The trace.

        Raises
        ------
        StoreFormatError
            If the file is no trace of sooner, or a line of it is damaged.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Trace(n=2, k=1).to_jsonl(folder + "/run.jsonl")
        ...     Trace.from_jsonl(folder + "/run.jsonl").n
        2
        """
        data = Path(path).read_bytes()
        if not data:
            raise StoreFormatError(
                f"{path} must be a trace written by Trace.to_jsonl: it is empty."
            )
        try:
            lines = data.decode("utf-8").splitlines()
            header = json.loads(lines[0])
            written_as = header.pop("format")
            records = [TaskRecord(**json.loads(line)) for line in lines[1:]]
            trace = cls(records=records, **header)
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreFormatError(
                f"{path} must be a trace written by Trace.to_jsonl ({_FORMAT}): {error}."
            ) from error
        if written_as != _FORMAT:
            raise StoreFormatError(
                f"{path} has the format {written_as}; this version of sooner reads {_FORMAT}."
            )
        return trace
