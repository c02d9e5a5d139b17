"""``sooner info``: what is in a store."""

from __future__ import annotations

import json

import click

__all__ = ["info"]


@click.command()
@click.argument("store")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def info(store: str, as_json: bool) -> None:
    """Say what a coded matrix is: shapes, code, size, fingerprint.

    Example: sooner info A.coded --json
    """
    from sooner.cli import _render
    from sooner.store import open_coded

    coded = open_coded(store)
    rows, columns = coded.shape
    facts = {
        "store": coded.location,
        "shape": [rows, columns],
        "dtype": str(coded.dtype),
        "n": coded.code.n,
        "k": coded.code.k,
        "code": coded.code.spec(),
        "block_rows": coded.block_rows,
        "slab_rows": coded.slab_rows,
        "nbytes": coded.nbytes,
        "fingerprint": coded.fingerprint,
    }
    if as_json:
        click.echo(json.dumps(facts))
        return
    kind = type(coded.code).__name__
    for name, value in (
        ("matrix", f"{rows} x {columns} {coded.dtype}"),
        ("code", f"{kind}, {coded.code.n} tasks of which about {coded.code.k} suffice"),
        ("blocks", f"{coded.code.n} of {coded.block_rows} x {columns}"),
        ("slabs", f"{coded.slab_rows} rows each, with a checksum"),
        ("size", _render.size(coded.nbytes)),
        ("fingerprint", coded.fingerprint),
        ("store", coded.location),
    ):
        click.echo(f"{name:<12}{value}")
