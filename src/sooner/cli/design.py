"""``sooner design``: from measured run times to a code, or to the advice to use none."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sooner.simulate import Design, Interval

__all__ = ["design"]


@click.command()
@click.option(
    "--run-times",
    required=True,
    metavar="FILE",
    help="A trace, a matrix of rounds x workers, or a table of tasks; of tasks that hold one part "
    "of as many as there are workers.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), required=True, help="Tasks that can run at once."
)
@click.option("--column", help="Column of a table that holds seconds; guessed if it can be.")
@click.option(
    "--shape",
    type=(click.IntRange(min=1), click.IntRange(min=1)),
    metavar="ROWS COLUMNS",
    help="Of the matrix, for sizes and prices.",
)
@click.option("--dtype", default="float64", show_default=True, help="Of the matrix.")
@click.option("--memory", type=click.IntRange(min=1), help="Megabytes per worker, for prices.")
@click.option(
    "--prices",
    type=click.Choice(["aws-lambda-x86", "aws-lambda-arm"]),
    default="aws-lambda-x86",
    show_default=True,
    help="List prices to reckon with.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def design(
    run_times: str,
    workers: int,
    column: str | None,
    shape: tuple[int, int] | None,
    dtype: str,
    memory: int | None,
    prices: str,
    as_json: bool,
) -> None:
    """Recommend whether to code, with how many data blocks, and when to launch which tasks.

    Every scheme is replayed on the measured run times with the same number of workers; the
    intervals are where another measurement would find the figure in 95 % of the cases.

    Example: sooner design --run-times run.jsonl --workers 256 --json
    """
    from sooner.simulate import design as find

    found = find(
        run_times,
        workers=workers,
        column=column,
        shape=shape,
        dtype=dtype,
        worker_memory=None if memory is None else memory * 1_000_000,
        prices=prices,
    )
    if as_json:
        click.echo(json.dumps(_facts(found)))
    else:
        _tell(found)


def _facts(found: Design) -> dict[str, Any]:
    return {
        "n": found.n,
        "k": found.k,
        "scheme": found.scheme.kind,
        "policy": found.policy,
        "reason": found.reason,
        "expected": dataclasses.asdict(found.expected),
        "time_to_error": {str(error): time for error, time in found.time_to_error.items()},
        "sizes": None if found.sizes is None else dataclasses.asdict(found.sizes),
        "bill": found.bill and dataclasses.asdict(found.bill) | {"product": found.bill.product},
        "alternatives": [
            dataclasses.asdict(scheme) | {"expected": dataclasses.asdict(expected)}
            for scheme, expected in found.alternatives.items()
        ],
    }


def _tell(found: Design) -> None:
    from sooner.cli import _render

    click.echo(f"{found.scheme}: {found.reason}\n")
    _render.table(
        ("scheme", "mean s", "p95 s", "p99 s", "cost", "speedup"),
        [
            (
                f"{'> ' if scheme == found.scheme else '  '}{scheme}",
                *map(_with_ends, (expected.mean, expected.p95, expected.p99)),
                f"{expected.cost.value:.2f}",
                _with_ends(expected.speedup),
            )
            for scheme, expected in found.alternatives.items()
        ],
    )
    errors = ", ".join(
        f"{error:.0%} after {_render.time(seconds)}"
        for error, seconds in found.time_to_error.items()
    )
    click.echo(f"\nestimates: relative error {errors}")
    if found.sizes is not None:
        sizes = found.sizes
        click.echo(
            f"sizes: a block {_render.size(sizes.block)}, read in "
            f"{_render.count(sizes.panels, 'part')}; a task {_render.size(sizes.task)}; "
            f"the store {_render.size(sizes.store)}"
        )
    if found.bill is not None:
        bill = found.bill
        click.echo(
            f"prices: ${bill.product:.3g} a product (functions ${bill.functions:.3g}, requests "
            f"${bill.requests:.3g}), ${bill.month:.3g} a month at rest; {bill.as_of}"
        )


def _with_ends(interval: Interval) -> str:
    return f"{interval.value:.3g} ({interval.low:.3g}-{interval.high:.3g})"
