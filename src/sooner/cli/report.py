"""``sooner report``: where the time of a run went, and what it used."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sooner.report import Report, WorkerTime

__all__ = ["report"]


@click.command()
@click.argument("trace")
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    help="Megabytes of each worker or function, for GB-seconds; by default what the trace says.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def report(trace: str, memory: float | None, as_json: bool) -> None:
    """Say where the time of a run went, what of it was wasted, and what it used.

    TRACE is what sooner multiply --trace wrote.  Phases that the engine does not tell apart have
    one line together.

    Example: sooner report run.jsonl --memory 1769
    """
    from sooner.report import report_on
    from sooner.trace import Trace

    found = report_on(Trace.from_jsonl(trace), memory=memory)
    if as_json:
        facts = {
            **dataclasses.asdict(found),
            "total_wasted": dataclasses.asdict(found.total_wasted),
            "total": dataclasses.asdict(found.total),
            "wasted_share": found.wasted_share,
            "gb_seconds": found.gb_seconds,
        }
        click.echo(json.dumps(facts))
        return
    _show_time(found)
    _show_workers(found)
    _show_use(found)


def _show_time(found: Report) -> None:
    from sooner.cli import _render

    click.echo(f"{found.n_used} of {found.n} outputs used, {_ending(found)}")
    task = "" if found.deciding_task is None else f" {found.deciding_task}"
    _render.table(
        ("time", f"deciding task{task}", "median task", "all tasks"),
        [
            (phase.name, *map(_seconds, (phase.deciding, phase.median, phase.total)))
            for phase in found.phases
        ],
    )


def _ending(found: Report) -> str:
    from sooner.cli import _render

    if found.decodable is None:
        return f"no exact answer by {_render.time(found.duration)}"
    decodable = f"decodable after {_render.time(found.decodable)}"
    if found.decoded is None:
        return f"{decodable}, not decoded"
    return f"{decodable}, exact after {_render.time(found.decoded)}"


def _show_workers(found: Report) -> None:
    from sooner.cli import _render

    total = found.total.seconds

    def row(name: str, time: WorkerTime, *, share: bool = True) -> tuple[str, ...]:
        part = f"{time.seconds / total:.0%}" if share and total else "-"
        unknown = f"up to {_seconds(time.unknown)}" if time.unknown else "-"
        return name, str(time.attempts), _seconds(time.seconds), part, unknown

    rows = [
        row("used", found.used),
        *(row(name, time) for name, time in found.wasted.items()),
        row("total", found.total),
    ]
    if found.unfinished.attempts:
        rows.append(row("unfinished", found.unfinished, share=False))
    click.echo()
    _render.table(("time of workers", "attempts", "seconds", "share", "more, if it ran"), rows)


def _show_use(found: Report) -> None:
    from sooner.cli import _render

    click.echo()
    used = _render.count(found.invocations, "invocation")
    if found.store_requests is not None:
        used += f", {_render.count(found.store_requests, 'store request')} for blocks"
    if found.gb_seconds is not None:
        low, high = found.gb_seconds
        used += f", {low:.3g}{f' to {high:.3g}' if high > low else ''} GB-s at {found.memory:g} MB"
    click.echo(used)


def _seconds(seconds: float | None) -> str:
    from sooner.cli import _render

    if seconds is None:
        return "-"
    return f"{1000 * seconds:.3g} ms" if seconds < 0.1 else _render.time(seconds)
