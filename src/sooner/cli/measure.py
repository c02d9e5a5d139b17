"""``sooner measure``: how long tasks take on these workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import numpy as np

if TYPE_CHECKING:
    from sooner.store import CodedMatrix

__all__ = ["measure"]


@click.command()
@click.argument("store", required=False)
@click.option(
    "--block",
    type=(click.IntRange(min=1), click.IntRange(min=1)),
    metavar="ROWS COLUMNS",
    help="Shape of a block to measure with; without it, those of the coded matrix in STORE.",
)
@click.option(
    "--executor", default="local", show_default=True, help="Where tasks run, such as local:8."
)
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    help="Per round; as many as there are workers unless given.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="How often."
)
@click.option(
    "--deadline", type=click.FloatRange(min=0, min_open=True), help="Seconds that a round may take."
)
@click.option(
    "-o", "--output", required=True, metavar="run.jsonl", help="Where to write the trace."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_context
def measure(
    ctx: click.Context,
    store: str | None,
    block: tuple[int, int] | None,
    executor: str,
    tasks: int | None,
    rounds: int,
    deadline: float | None,
    output: str,
    as_json: bool,
) -> None:
    """Time real tasks, round after round, wait for all, and write a trace for sooner design.

    With STORE and --block, a block of that shape is written to STORE and every task reads it.

    Example: sooner measure --block 600 20000 --executor local:8 --rounds 20 -o run.jsonl
    """
    from sooner.cli import _render
    from sooner.cli._main import check_interrupted
    from sooner.jobs.measure import measure as time_tasks
    from sooner.simulate import rounds_of_trace
    from sooner.store import open_coded

    if block is not None:
        blocks: CodedMatrix | tuple[int, int] = block
    elif store is not None:
        blocks = open_coded(store)
    else:
        ctx.fail("give the shape of a block (--block ROWS COLUMNS) or a coded matrix (STORE).")
    trace = time_tasks(
        blocks,
        executor=executor,
        tasks=tasks,
        rounds=rounds,
        store=None if block is None else store,
        deadline=deadline,
    )
    check_interrupted()
    trace.to_jsonl(output)
    times = rounds_of_trace(trace).run_times()
    n_rounds, n_tasks = times.shape
    seconds = {
        name: float(np.quantile(times, share))
        for name, share in (("median", 0.5), ("p99", 0.99), ("maximum", 1.0))
    }
    if as_json:
        click.echo(json.dumps({"tasks": n_tasks, "rounds": n_rounds, **seconds, "output": output}))
        return
    click.echo(
        f"{_render.count(n_rounds, 'round')} of {_render.count(n_tasks, 'task')}: "
        + ", ".join(f"{name} {_render.time(time)}" for name, time in seconds.items())
        + f" -> {output}",
        err=True,
    )
