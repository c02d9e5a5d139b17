"""``sooner demo``: the main job, on real photographs and real run times."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sooner.demo import Report

__all__ = ["demo"]


@click.command()
@click.option(
    "--tasks",
    type=click.IntRange(min=4),
    help="A power of two; by default 64, on Ray and Lithops 16, which have a process for each.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "dask", "ray", "lithops"]),
    default="local",
    show_default=True,
    help="Where tasks run; started on this machine.",
)
@click.option(
    "--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    default=".",
    show_default=True,
    help="Folder for the pictures.",
)
@click.option("--rng", type=int, help="Draws the run times.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress line.")
def demo(
    tasks: int | None,
    engine: str,
    dtype: str,
    out: str,
    rng: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Multiply a matrix of photograph patches while workers straggle and one is killed.

    Compares the coded product with an uncoded one and with every block twice, on the same run
    times of real cloud functions, and writes timeline.png and picture.png.  Takes under 50 s.

    Example: sooner demo --dtype float64
    """
    from sooner.cli._progress import progress
    from sooner.demo import run

    watch = functools.partial(progress, quiet=quiet)
    chosen = {} if rng is None else {"rng": rng}
    n = tasks or (16 if engine in {"ray", "lithops"} else 64)
    report = run(n=n, engine=engine, dtype=dtype, out=out, watch=watch, **chosen)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report)))
    else:
        _show(report)
    for file in (report.timeline, report.picture):
        click.echo(f"wrote {file}", err=True)


def _show(report: Report) -> None:
    from sooner.cli import _render

    _render.table(
        (
            "scheme",
            "exact after",
            "expected",
            "median draw",
            "99% draw",
            "outputs used",
            "largest error",
            "workers lost",
            "rows computed",
        ),
        [
            (
                outcome.scheme,
                _render.time(outcome.time_to_exact),
                _render.time(outcome.predicted),
                _render.time(outcome.median),
                _render.time(outcome.rare),
                f"{outcome.outputs_used} of {outcome.n}",
                f"{outcome.largest_error:.1e}",
                f"{outcome.workers_lost}",
                f"{outcome.work:.2f}x",
            )
            for outcome in report.outcomes
        ],
    )
    click.echo(
        "expected: by these run times alone, without the kill, computing and messages; "
        "median and 99%: the same over 400 other draws",
        err=True,
    )
