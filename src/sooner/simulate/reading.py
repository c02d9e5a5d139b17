"""Measured run times from files: traces, matrices of rounds x workers, tables of tasks."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sooner.simulate.rounds import Rounds
from sooner.trace import Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["read_rounds", "rounds_of_trace"]

_END, _WORK = "func_end_s", "func_exec_s"
"""Columns of Lithops' benchmarks: end of a function since the job's start, its computation."""

_RUN_TIMES = (
    *("run_time", "run_time_s", "runtime", "runtime_s", "duration", "duration_s"),
    *("elapsed", "elapsed_s", "seconds", "time", "time_s"),
)


def read_rounds(path: str | os.PathLike[str], *, column: str | None = None) -> Rounds:
    r"""Read run times from a file.

    Parameters
    ----------
    path
        A trace (`sooner.Trace.to_jsonl`); or comma-separated values: a matrix of rounds x
        workers without a header, or a table with a header and one row per task, which is read
        as one round.
    column
        Which column of a table holds seconds; guessed from its name unless given.

    Returns
    -------
    Rounds
        The run times.  A trace says what of them was start-up, and so does a table of Lithops'
        benchmarks (``func_end_s`` with ``func_exec_s``); of others all is work.

    Raises
    ------
    ValueError
        If the column cannot be guessed, or what is read is no run time.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "times.csv").write_text("1.5,2.5,1.0\n2.0,9.0,1.0\n")
    ...     read_rounds(folder + "/times.csv")
    <Rounds: 2 of 3 workers, median 1.75 s, maximum 9 s>
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            if file.read(1) == "{":
                return rounds_of_trace(Trace.from_jsonl(path))
            file.seek(0)
            rows = [row for row in csv.reader(file) if row]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a trace or a table as text, and is neither.") from error
    if not rows:
        raise ValueError(f"{path} must hold run times, and is empty.")
    if all(map(_is_number, rows[0])):
        return _matrix(rows, path)
    return _table([name.strip() for name in rows[0]], rows[1:], path, column)


def rounds_of_trace(trace: Trace) -> Rounds:
    """Run times of the tasks of one job, as one round, or of all rounds of `sooner.measure`.

    Parameters
    ----------
    trace
        Of a job that waited for all of its tasks; ``meta["rounds"]`` says of how many rounds.

    Returns
    -------
    Rounds
        Start-up from submission to start, work from start to finish.

    Raises
    ------
    ValueError
        If a task did not end: the slowest ones would be missing.
    """
    ended = {
        record.task: record
        for record in trace
        if record.outcome == "ok" and record.started is not None and record.finished is not None
    }
    stopped = {record.task for record in trace} - ended.keys()
    if stopped or not ended:
        raise ValueError(
            f"the trace must hold the run times of all tasks, and {len(stopped)} of "
            f"{len(stopped) + len(ended)} were stopped before they ended: without the slow ones "
            "nothing seems to lag. Use a trace of sooner.measure, which waits for all."
        )
    in_order = [ended[task] for task in sorted(ended)]
    times = np.array([(record.submitted, record.started, record.finished) for record in in_order])
    parts = np.maximum(np.diff(times, axis=1).T, 0.0)  # clocks differ by a little
    startup, work = parts.reshape(2, trace.meta.get("rounds", 1), -1)
    return Rounds(work, startup)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _matrix(rows: Sequence[Sequence[str]], path: object) -> Rounds:
    widths = {len(row) for row in rows}
    wrong = [cell for row in rows for cell in row if not _is_number(cell)]
    if len(widths) > 1 or wrong:
        what = f"the entry {wrong[0]!r}" if wrong else f"rows of {sorted(widths)} entries"
        raise ValueError(
            f"{path} must hold one number per round and worker, as its first row does, got {what}."
        )
    times = np.array(rows, dtype=np.float64)
    return Rounds(times.T if times.shape[1] == 1 else times)  # a column is one round


def _table(
    names: Sequence[str], rows: Sequence[Sequence[str]], path: object, column: str | None
) -> Rounds:
    chosen = column if column is not None else _guess(names, path)
    if chosen not in names:
        raise ValueError(f"{path} must have the column {chosen!r}, got {', '.join(names)}.")
    end = _column(names, rows, chosen, path)
    if column is None and chosen == _END and _WORK in names:
        work = np.minimum(_column(names, rows, _WORK, path), end)
        return Rounds(work[None], (end - work)[None])
    return Rounds(end[None])


def _guess(names: Sequence[str], path: object) -> str:
    known = [name for name in names if name == _END]
    known = known or [name for name in names if name.lower() in _RUN_TIMES]
    if len(known) == 1:
        return known[0]
    if len(names) == 1:
        return names[0]
    raise ValueError(
        f"{path} must say which column holds run times, got the columns {', '.join(names)}. "
        "Name it with column= (--column)."
    )


def _column(
    names: Sequence[str], rows: Sequence[Sequence[str]], name: str, path: object
) -> NDArray[np.float64]:
    place = names.index(name)
    cells = [row[place] if place < len(row) else "" for row in rows]
    wrong = [cell for cell in cells if not _is_number(cell)]
    if wrong or not cells:
        what = f"{len(wrong)} that are not, such as {wrong[0]!r}" if wrong else "no row"
        raise ValueError(f"column {name} of {path} must hold seconds in every row, got {what}.")
    return np.array(cells, dtype=np.float64)
