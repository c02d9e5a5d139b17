"""``sooner encode``: a matrix becomes a coded matrix, once."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import click

from sooner.cli._main import resumable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sooner._types import Array
    from sooner.codes.base import Code

__all__ = ["encode"]

_PATIENCE = 2.0  # seconds that nobody needs to be told about


@click.command()
@click.argument("matrix", metavar="A.npy")
@click.argument("store")
@click.option("--n", type=click.IntRange(min=1), required=True, help="Number of tasks.")
@click.option("--k", type=click.IntRange(min=1), required=True, help="Number of data blocks.")
@click.option("--rng", type=int, default=0, show_default=True, help="Draws the code's signs.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64", "complex64", "complex128"]),
    help="Of the coded blocks; the default is that of A, integers becoming float64.",
)
@click.option(
    "--max-memory",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Megabytes to take at a time.",
)
@click.option("--adjoint", is_flag=True, help="Encode the transpose, too: for A.T @ y.")
@click.option("--overwrite", is_flag=True, help="Replace what is stored there.")
@click.option(
    "--nonfinite",
    type=click.Choice(["raise", "allow"]),
    default="raise",
    show_default=True,
    help="What to do about NaN and infinity, each of which spoils its column.",
)
@click.option("--dry-run", is_flag=True, help="Say how large everything would be; write nothing.")
def encode(
    matrix: str,
    store: str,
    n: int,
    k: int,
    rng: int,
    dtype: str | None,
    max_memory: int,
    adjoint: bool,
    overwrite: bool,
    nonfinite: str,
    dry_run: bool,
) -> None:
    """Encode the rows of A.npy into n coded blocks, of which about k determine a product.

    STORE is a folder, or a URL such as s3://bucket/A (credentials come from the environment). An
    encoding into a folder that was killed goes on where it stopped when it is started again.

    Example: sooner encode A.npy A.coded --n 64 --k 48
    """
    from sooner.cli import _render
    from sooner.cli._arrays import read_array
    from sooner.codes import PolarCode
    from sooner.jobs.encoding import encode as encode_matrix

    A = read_array(matrix, memory_map=True)
    code = PolarCode(n, k, rng=rng)
    if dry_run:
        _foretell(A, code, dtype)
        if adjoint:
            click.echo("\nand for the transpose")
            _foretell(A.T, code, dtype)
        return
    how_to_go_on = "" if "://" in store else "the same command goes on where it stopped"
    with resumable(how_to_go_on), _progress(f"encode {matrix}") as progress:
        coded = encode_matrix(
            A,
            code,
            store,
            adjoint=adjoint,
            dtype=dtype,
            max_memory=max_memory * 1_000_000,
            overwrite=overwrite,
            nonfinite=nonfinite,
            progress=progress,
        )
    click.echo(
        f"{matrix} {A.shape[0]} x {A.shape[1]} {A.dtype}, {_render.size(A.nbytes)} -> "
        f"{store} {n} blocks of {coded.block_rows} x {A.shape[1]} {coded.dtype}, "
        f"{_render.size(coded.nbytes)}"
        + (f", and the transpose, {_render.size(coded.T.nbytes)}" if adjoint else ""),
        err=True,
    )


def _foretell(A: Array, code: Code, dtype: str | None) -> None:
    from sooner.cli import _render
    from sooner.store.block_layout import block_layout
    from sooner.store.promotion import coded_dtype

    chosen = coded_dtype(A.dtype, code, dtype)
    columns = A.shape[1]
    block_rows, slab_rows = block_layout(A.shape, code.k, chosen.itemsize)
    row_bytes = columns * chosen.itemsize
    slabs = _render.count(-(-block_rows // slab_rows), "slab")
    for name, value in (
        ("blocks", f"{code.n} of {block_rows} x {columns} {chosen}"),
        ("store", _render.size(code.n * block_rows * row_bytes)),
        ("of A", f"{code.n * block_rows * row_bytes / max(1, A.nbytes):.3g} times its size"),
        ("a worker", f"{_render.size(slab_rows * row_bytes)} at a time, {slabs} a block"),
    ):
        click.echo(f"{name:<10}{value}")


@contextlib.contextmanager
def _progress(label: str) -> Generator[Callable[[int, int], None]]:
    """Show on stderr how much is done: on a terminal a bar, elsewhere a line for every tenth."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    tenth, began = 0, time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal tenth
        reached = 10 * done // total
        if done == 1:  # of the matrix, or of its transpose
            tenth = 0
        elapsed = time.monotonic() - began
        if reached > tenth and elapsed > _PATIENCE:
            tenth = reached
            click.echo(f"{label}  {done} of {total} slabs  {elapsed:.1f} s", err=True)

    yield show
