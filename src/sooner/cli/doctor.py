"""``sooner doctor``: what is wrong with this set-up."""

from __future__ import annotations

import dataclasses
import json

import click

__all__ = ["doctor"]


@click.command()
@click.option(
    "--engine",
    type=click.Choice(["local", "dask", "ray", "lithops"]),
    default="local",
    show_default=True,
    help="Lithops is configured by its own file.",
)
@click.option("--address", help="Of a Dask scheduler or a Ray cluster.")
@click.option("--store", help="Folder or URL, such as s3://bucket/A: written to, read, cleaned up.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds for each check.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per check on stdout.")
@click.pass_context
def doctor(
    ctx: click.Context,
    engine: str,
    address: str | None,
    store: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Check versions, extras, a store, an engine and one product; a line each, with what to do.

    Exit code 0: all is well.  1: something failed.

    Example: sooner doctor --engine dask --address tcp://10.0.0.1:8786 --store s3://bucket/A
    """
    from sooner.doctor import examine

    well = True
    for finding in examine(engine=engine, address=address, store=store, timeout=timeout):
        well = well and finding.ok
        click.echo(json.dumps(dataclasses.asdict(finding)) if as_json else str(finding))
    ctx.exit(0 if well else 1)
