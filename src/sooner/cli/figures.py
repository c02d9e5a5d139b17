"""``sooner figures``: the papers' figures, drawn from run times of one's own or from a model."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["figures"]


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("figures"),
    show_default=True,
    help="Folder for the pictures, and for the numbers in them.",
)
@click.option("--small", is_flag=True, help="Few trials and small codes; under a minute in all.")
@click.option("--run-times", metavar="FILE", help="Measured ones; else 1 s + Exp(0.5 s).")
@click.option("--column", help="Column of a table that holds seconds; guessed if it can be.")
@click.option(
    "--coding-times",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What benchmarks/reed_solomon.py kept, for figure-4; left out without it.",
)
@click.pass_context
def figures(
    ctx: click.Context,
    names: tuple[str, ...],
    out: Path,
    small: bool,
    run_times: str | None,
    column: str | None,
    coding_times: Path | None,
) -> None:
    """Draw the figures of the papers, all or those that are named.

    Each is a picture, NAME.png, with the numbers in it, NAME.csv (needs Matplotlib).  Names:
    figure-4 to figure-8, figure-8-local, anytime-error, unbiasedness, concentration,
    default-against-papers.

    Example: sooner figures figure-6 figure-7 --out pictures
    """
    from sooner.figures import FIGURES, Settings, draw, names_for
    from sooner.runtimes import Empirical
    from sooner.simulate import read_rounds

    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        ctx.fail(f"a figure must be one of {', '.join(FIGURES)}, got {', '.join(unknown)}.")
    settings = Settings(small=small, coding_times=coding_times)
    if run_times is not None:
        measured = Empirical(read_rounds(run_times, column=column).run_times().ravel())
        settings = Settings(measured, small=small, coding_times=coding_times)
    for name in names or names_for(settings):
        for file in draw(name, settings).save(out, name):
            click.echo(f"wrote {file}", err=True)
