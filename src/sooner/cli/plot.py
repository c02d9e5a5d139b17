"""``sooner plot``: pictures of what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot"]


@click.group()
def plot() -> None:
    """Draw what happened (needs Matplotlib)."""


@plot.command()
@click.argument("trace")
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="Its ending says how: .png, .svg, .pdf."
)
@click.option("--title", default="", help="Text above the picture.")
def timeline(trace: str, output: str, title: str) -> None:
    """Draw start, finish and arrival of every task, and when it was enough.

    Example: sooner plot timeline run.jsonl -o timeline.png
    """
    from sooner.plots import timeline as draw
    from sooner.trace import Trace

    axes = draw(Trace.from_jsonl(trace))
    axes.set_title(title)
    cast("Figure", axes.figure).savefig(output)
    click.echo(f"{trace} -> {output}", err=True)
