"""``sooner info``: what is in a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sooner.store import CodedMatrix

__all__ = ["info"]


@click.command()
@click.argument("store")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def info(store: str, as_json: bool) -> None:
    """Say what a coded matrix is: shapes, code, layout, sizes, fingerprint.

    Example: sooner info A.coded --json
    """
    from sooner.cli import _render
    from sooner.store import open_coded

    coded = open_coded(store)
    facts = _facts(coded)
    if as_json:
        click.echo(json.dumps(facts))
        return
    rows, columns = coded.shape
    n_stored = _render.count(coded.n_stored, "block")
    sparse = ", sparse" if facts["layout"] == "csr" else ""
    blocks = f"{coded.n_stored} of {coded.block_rows} x {columns}{sparse}"
    if facts["holds"] == "data":
        amplification = facts["read_amplification"]
        blocks += f", data blocks; a task adds up {amplification:.3g} of them on average"
    slabs = f"{coded.slab_rows} {'numbers' if sparse else 'rows'} each, with a checksum"
    for name, value in (
        ("matrix", f"{rows} x {columns} {coded.dtype}"),
        ("source", f"{facts['source_dtype']}, fingerprint {coded.fingerprint}"),
        (
            "code",
            f"{type(coded.code).__name__}, {coded.code.n} tasks of which about {coded.code.k} "
            f"suffice",
        ),
        ("blocks", blocks),
        ("slabs", f"{slabs}; a worker needs {_render.size(facts['slab_bytes'])} at a time"),
        ("size", f"{_render.size(coded.nbytes)}, {n_stored}"),
        ("transpose", _transpose(facts["adjoint"])),
        ("encoded", f"{facts['created']} by sooner {facts['sooner_version']}"),
        ("store", coded.location),
    ):
        click.echo(f"{name:<12}{value}")


def _transpose(facts: dict[str, Any] | None) -> str:
    from sooner.cli import _render

    if facts is None:
        return "not encoded; products of A.T need it (sooner encode --adjoint)"
    n_stored = _render.count(facts["n_stored"], "block")
    return f"{_render.size(facts['nbytes'])}, {n_stored}, beside the others"


def _facts(coded: CodedMatrix) -> dict[str, Any]:
    manifest = coded.manifest
    # Of a sparse block a worker needs all; of a dense one a slab.
    if manifest.layout == "dense":
        slab_bytes = coded.slab_rows * coded.shape[1] * coded.dtype.itemsize
    else:
        sizes = [block.size for block in manifest.blocks]
        slab_bytes = max(sum(sizes[first : first + 3]) for first in range(0, len(sizes), 3))
    return {
        "store": coded.location,
        "shape": list(coded.shape),
        "dtype": str(coded.dtype),
        "source_dtype": manifest.source_dtype,
        "n": coded.code.n,
        "k": coded.code.k,
        "code": coded.code.spec(),
        "layout": manifest.layout,
        "holds": manifest.holds,
        "n_stored": coded.n_stored,
        "read_amplification": coded.read_amplification,
        "block_rows": coded.block_rows,
        "slab_rows": coded.slab_rows,
        "slab_bytes": slab_bytes,
        "nbytes": coded.nbytes,
        "fingerprint": coded.fingerprint,
        "generation": manifest.generation,
        "created": manifest.created,
        "sooner_version": manifest.sooner_version,
        "adjoint": None if manifest.adjoint is None else _facts(coded.T),
    }
