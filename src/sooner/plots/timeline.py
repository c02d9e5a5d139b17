"""The timeline of a job: start, finish and arrival of every task, and when it was enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sooner.plots._matplotlib import Figure, ScaledTranslation

if TYPE_CHECKING:
    from sooner.plots._matplotlib import Axes
    from sooner.trace import TaskRecord, Trace

__all__ = ["timeline"]

# Colours of Okabe and Ito, told apart with any colour vision; the hatch serves grey prints.
_WAITING = "#d4d4d4"
_ENOUGH = "#009e73"
_EXACT = "#000000"


@dataclass(frozen=True, slots=True)
class _Look:
    """How one kind of attempt is drawn."""

    label: str
    colour: str
    hatch: str = ""
    cross: bool = False


_LOOKS = {
    "used": _Look("answered", "#0072b2"),
    "late": _Look("answered when no longer needed", "#56b4e9"),
    "abandoned": _Look("not waited for", "#f5c767", hatch="////"),
    "running": _Look("no answer yet", "#bfd9ea", hatch="...."),
    "raised": _Look("raised an error", "#cc79a7", cross=True),
    "lost": _Look("lost with its worker", "#d55e00", cross=True),
}


@dataclass(frozen=True, slots=True)
class _Bar:
    """One attempt, placed: seconds from left to right."""

    row: int
    submitted: float
    start: float
    end: float
    kind: str
    available: float | None


def timeline(trace: Trace, *, ax: Axes | None = None) -> Axes:
    """Draw what each task of a job did, and when the answer was there.

    One row per task, those that answered first on top; a task that was sent again has its
    attempts in one row.  Grey: waiting for a worker.  Coloured: running.  A dot: the output
    reached the driver.  A red cross: the worker was lost, or the task raised.  Two vertical
    lines: the outputs suffice (*decodable*), and the exact answer is there (*decoded*).

    Parameters
    ----------
    trace
        What happened, from ``job.trace`` or ``Trace.from_jsonl``.
    ax
        Where to draw; None makes a new figure that fits the number of tasks.

    Returns
    -------
    Axes
        Where it was drawn; ``ax.figure.savefig("timeline.png")`` writes it.

    Notes
    -----
    After Figure 8 of "Straggler resilient serverless computing based on polar codes".

    Examples
    --------
    >>> from sooner.trace import TaskRecord, Trace
    >>> records = [
    ...     TaskRecord(0, started=0.1, finished=1.0, available=1.1, outcome="ok"),
    ...     TaskRecord(1, started=0.1, available=1.2, outcome="abandoned"),
    ... ]
    >>> ax = timeline(Trace(n=2, k=1, records=records, decodable=1.1, decoded=1.2))
    >>> ax.get_xlabel()
    'seconds since the job began'
    """
    if ax is None:
        # 64 tasks get 6 inches; above 100 tasks the rows become thinner, not the figure taller.
        figure = Figure(figsize=(9.0, 2.4 + 0.056 * min(max(trace.n, 16), 100)), dpi=130)
        figure.set_layout_engine("constrained")
        ax = figure.add_subplot()
    end = _end(trace)
    bars = _bars(trace, end)
    # Gaps between the bars help the eye up to some hundred rows; beyond, they eat the bars.
    thickness = 0.8 if trace.n <= 128 else 1.0
    _draw_bars(ax, bars, thickness)
    _draw_marks(ax, bars, trace.n)
    _draw_lines(ax, trace)
    _label(ax, trace, end)
    return ax


def _end(trace: Trace) -> float:
    moments = [trace.decodable, trace.decoded]
    for record in trace:
        moments += [record.submitted, record.started, record.finished, record.available]
    return max((moment for moment in moments if moment is not None), default=0.0)


def _bars(trace: Trace, end: float) -> list[_Bar]:
    rows = {task: row for row, task in enumerate(_in_order_of_arrival(trace))}
    bars = []
    for record in trace:
        # A task that answered has stopped when it finished; any other when the driver knew.
        stop = record.finished if record.outcome == "ok" else record.available
        stop = end if stop is None else stop
        # Only a task that answered tells when it started; of others it may be unknown, and then
        # nothing is claimed about waiting.
        start = record.submitted if record.started is None else min(record.started, stop)
        available = record.available if record.outcome == "ok" else None
        kind = _kind(record, trace.decodable)
        bars.append(_Bar(rows[record.task], record.submitted, start, stop, kind, available))
    return bars


def _in_order_of_arrival(trace: Trace) -> list[int]:
    # Those that answered, by time; then the others, by index.
    answered: dict[int, float] = {}
    for record in trace:
        if record.outcome == "ok" and record.available is not None:
            answered[record.task] = min(
                record.available, answered.get(record.task, record.available)
            )
    return sorted(
        {record.task for record in trace},
        key=lambda task: (answered.get(task, float("inf")), task),
    )


def _kind(record: TaskRecord, decodable: float | None) -> str:
    if record.outcome != "ok":
        return record.outcome
    late = decodable is not None and record.available is not None and record.available > decodable
    return "late" if late else "used"


def _draw_bars(ax: Axes, bars: list[_Bar], thickness: float) -> None:
    waited = [bar for bar in bars if bar.start > bar.submitted]
    if waited:
        _barh(ax, waited, thickness, _Look("waiting for a worker", _WAITING), waiting=True)
    for kind, look in _LOOKS.items():
        ran = [bar for bar in bars if bar.kind == kind]
        if ran:
            _barh(ax, ran, thickness, look)


def _barh(
    ax: Axes, bars: list[_Bar], thickness: float, look: _Look, *, waiting: bool = False
) -> None:
    left = [bar.submitted if waiting else bar.start for bar in bars]
    right = [bar.start if waiting else bar.end for bar in bars]
    ax.barh(
        [bar.row for bar in bars],
        [stop - start for start, stop in zip(left, right, strict=True)],
        left=left,
        height=thickness,
        color=look.colour,
        hatch=look.hatch or None,
        edgecolor="#ffffff" if look.hatch else "none",
        linewidth=0,
        label=look.label if waiting else f"{look.label} ({len(bars)})",
    )


def _draw_marks(ax: Axes, bars: list[_Bar], n: int) -> None:
    size = 9.0 if n <= 128 else 3.0
    arrived = [bar for bar in bars if bar.available is not None]
    if arrived:
        ax.scatter(
            [bar.available for bar in arrived if bar.available is not None],
            [bar.row for bar in arrived],
            s=size,
            color=_EXACT,
            linewidths=0,
            zorder=3,
            label="output available to the driver",
        )
    crossed = [bar for bar in bars if _LOOKS[bar.kind].cross]
    if crossed:
        ax.scatter(
            [bar.end for bar in crossed],
            [bar.row for bar in crossed],
            s=42,
            marker="x",
            color="#c00000",
            linewidths=1.8,
            zorder=4,
        )


def _draw_lines(ax: Axes, trace: Trace) -> None:
    if trace.decodable is not None:
        enough = _n_available(trace, trace.decodable)
        ax.axvline(
            trace.decodable,
            color=_ENOUGH,
            linewidth=1.8,
            linestyle="--",
            zorder=2.5,
            label=f"enough: {enough} of {trace.n} outputs, {trace.decodable:.3g} s",
        )
    if trace.decoded is not None:
        ax.axvline(
            trace.decoded,
            color=_EXACT,
            linewidth=1.2,
            zorder=2.5,
            label=f"decoded: exact answer, {trace.decoded:.3g} s",
        )


def _n_available(trace: Trace, moment: float) -> int:
    return len({
        record.task
        for record in trace
        if record.outcome == "ok" and record.available is not None and record.available <= moment
    })


def _label(ax: Axes, trace: Trace, end: float) -> None:
    n_rows = len({record.task for record in trace})
    ax.set_xlabel("seconds since the job began")
    ax.set_ylabel(f"{trace.n} tasks, first answer on top")
    ax.set_xlim(0, end * 1.02 if end else 1.0)
    ax.set_ylim(max(n_rows, 1) - 0.5, -0.5)  # the first row on top
    ax.set_yticks(_counting_ticks(n_rows), [str(row + 1) for row in _counting_ticks(n_rows)])
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if not n_rows:
        ax.text(0.5, 0.5, "no task was sent", transform=ax.transAxes, ha="center", va="center")
        return
    # Half an inch below the axes, whatever their height: clear of the label of the time axis.
    below = ScaledTranslation(0, -0.5, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=ax.transAxes + below,
        ncols=3,
        frameon=False,
        fontsize="small",
    )


def _counting_ticks(n_rows: int) -> list[int]:
    # Rows that get a number: the first, then round counts, as in 1, 16, 32, 48, 64.
    step = max(1, n_rows // 4)
    return sorted({0, *range(step - 1, n_rows, step)}) if n_rows else []
