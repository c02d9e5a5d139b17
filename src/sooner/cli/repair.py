"""``sooner repair``: lost blocks made again from the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sooner.store import Repair

__all__ = ["repair"]


@click.command()
@click.argument("store")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def repair(store: str, as_json: bool) -> None:
    """Make lost blocks again from those that are left, slab by slab.

    The exit code is 0 if all is intact then, 4 if too much is lost for that.

    Example: sooner repair A.coded
    """
    from sooner.cli import _render
    from sooner.store import open_coded
    from sooner.store import repair as mend

    coded = open_coded(store)
    done = mend(coded)
    if as_json:
        click.echo(json.dumps({"store": coded.location, **_facts(done)}))
    elif done.found.intact:
        click.echo(f"{_render.count(done.found.n_stored, 'block')} intact, nothing to repair")
    else:
        for of, part in (("", done), (" of the transpose", done.adjoint)):
            for index in part.identical if part else ():
                click.echo(f"block {index}{of} is again what it was, bit for bit")
            for index in part.rounded if part else ():
                click.echo(f"block {index}{of} is again what it was but for rounding")


def _facts(done: Repair) -> dict[str, Any]:
    return {
        "lost": sorted(done.found.lost),
        "identical": list(done.identical),
        "rounded": list(done.rounded),
        "adjoint": None if done.adjoint is None else _facts(done.adjoint),
    }
