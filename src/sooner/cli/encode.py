"""``sooner encode``: a matrix becomes a coded matrix, once."""

from __future__ import annotations

import click

__all__ = ["encode"]


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
@click.option("--overwrite", is_flag=True, help="Replace what is stored there.")
@click.option(
    "--nonfinite",
    type=click.Choice(["raise", "allow"]),
    default="raise",
    show_default=True,
    help="What to do about NaN and infinity, each of which spoils its column.",
)
def encode(
    matrix: str,
    store: str,
    n: int,
    k: int,
    rng: int,
    dtype: str | None,
    overwrite: bool,
    nonfinite: str,
) -> None:
    """Encode the rows of A.npy into n coded blocks, of which about k determine a product.

    Example: sooner encode A.npy A.coded --n 64 --k 48
    """
    from sooner.cli import _render
    from sooner.cli._arrays import read_array
    from sooner.codes import PolarCode
    from sooner.jobs.encoding import encode as encode_matrix

    A = read_array(matrix, memory_map=True)
    coded = encode_matrix(
        A, PolarCode(n, k, rng=rng), store, dtype=dtype, overwrite=overwrite, nonfinite=nonfinite
    )
    click.echo(
        f"{matrix} {A.shape[0]} x {A.shape[1]} {A.dtype}, {_render.size(A.nbytes)} -> "
        f"{store} {n} blocks of {coded.block_rows} x {A.shape[1]} {coded.dtype}, "
        f"{_render.size(coded.nbytes)}",
        err=True,
    )
