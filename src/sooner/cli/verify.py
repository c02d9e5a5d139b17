"""``sooner verify``: whether everything in a store is as it was written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sooner.store import Verification

__all__ = ["verify"]


@click.command()
@click.argument("store")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_context
def verify(ctx: click.Context, store: str, as_json: bool) -> None:
    """Read every slab, compare every checksum; say what is lost and whether the rest decodes.

    The exit code is 0 if all is intact, 1 if something is lost and products are still exact, 4
    if they are not.

    Example: sooner verify A.coded
    """
    from sooner.cli import _render
    from sooner.store import open_coded
    from sooner.store import verify as look_through

    coded = open_coded(store)
    found = look_through(coded)
    if as_json:
        click.echo(json.dumps({"store": coded.location, **_facts(found)}))
    else:
        for part in filter(None, (found, found.adjoint)):
            for loss in part.lost.values():
                click.echo(loss.why)
        n_stored = found.n_stored + (found.adjoint.n_stored if found.adjoint else 0)
        n_lost = len(found.lost) + (len(found.adjoint.lost) if found.adjoint else 0)
        left = _render.count(n_stored - n_lost, "block")
        click.echo(f"{left} of {n_stored} intact, {_verdict(found.intact, found.decodable)}")
    if not found.intact:
        ctx.exit(1 if found.decodable else 4)


def _facts(found: Verification) -> dict[str, Any]:
    return {
        "intact": found.intact,
        "n_stored": found.n_stored,
        "lost": {
            str(index): {"why": loss.why, "slabs": sorted(loss.slabs)}
            for index, loss in found.lost.items()
        },
        "lost_tasks": list(found.lost_tasks),
        "decodable": found.decodable,
        "n_missing": found.n_missing,
        "adjoint": None if found.adjoint is None else _facts(found.adjoint),
    }


def _verdict(intact: bool, decodable: bool) -> str:
    if intact:
        return "nothing is lost"
    return "products are still exact" if decodable else "too few for exact products"
