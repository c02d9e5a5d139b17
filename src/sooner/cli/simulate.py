"""``sooner simulate``: what codes and policies do with run times, without running anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import numpy as np

if TYPE_CHECKING:
    from sooner.runtimes import RunTimes
    from sooner.simulate import Rounds

__all__ = ["simulate"]

_MODELS = {
    "exponential": ("ShiftedExponential", "shift,scale"),
    "pareto": ("Pareto", "shortest,shape"),
    "log-normal": ("LogNormal", "median,sigma"),
}


def _model(ctx: click.Context, param: click.Parameter, value: str | None) -> RunTimes | None:
    """Make a distribution of ``name:parameter,parameter``, such as exponential:2,1."""
    from sooner import runtimes

    if value is None:
        return None
    name, _, given = value.partition(":")
    try:
        kind = getattr(runtimes, _MODELS[name][0])
        made: RunTimes = kind(*map(float, given.split(",")))
    except (KeyError, TypeError, ValueError) as error:
        known = ", ".join(f"{each}:{names}" for each, (_, names) in _MODELS.items())
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise click.BadParameter(f"a model must be one of {known}, got {value!r}{why}") from error
    return made


@click.command()
@click.option("--n", type=click.IntRange(min=1), required=True, help="Number of tasks and workers.")
@click.option("--k", type=click.IntRange(min=1), required=True, help="Number of data blocks.")
@click.option(
    "--model",
    callback=_model,
    help="Seconds of a task of 1/n of the matrix: exponential:shift,scale, "
    "pareto:shortest,shape or log-normal:median,sigma.",
)
@click.option("--run-times", metavar="FILE", help="Measured ones instead; see sooner design.")
@click.option("--column", help="Column of a table that holds seconds; guessed if it can be.")
@click.option(
    "--startup",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds before the work that do not grow with the task, for a model.",
)
@click.option(
    "--correlation",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Of a worker's time in one round and the next, for a model.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How many products.",
)
@click.option("--rng", type=int, default=0, show_default=True, help="Seed of the draws.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per scheme on stdout.")
@click.pass_context
def simulate(
    ctx: click.Context,
    n: int,
    k: int,
    model: RunTimes | None,
    run_times: str | None,
    column: str | None,
    startup: float,
    correlation: float,
    rounds: int,
    rng: int,
    as_json: bool,
) -> None:
    """Compare uncoded tasks, backup tasks and codes on drawn or measured run times.

    Every scheme has n workers; a task of a code holds 1/k of the matrix instead of 1/n.

    Example: sooner simulate --n 64 --k 48 --model exponential:2,1 --startup 0.5
    """
    from sooner.cli import _render
    from sooner.runtimes import Correlated
    from sooner.simulate import Rounds, read_rounds

    if (model is None) == (run_times is None):
        ctx.fail("give either --model or --run-times.")
    if k > n:
        ctx.fail(f"--k must not exceed --n, got k={k}, n={n}.")
    if run_times is not None:
        drawn = read_rounds(run_times, column=column).drawn(n, rounds, rng=rng)
    elif model is not None:
        model = Correlated(model, correlation) if correlation else model
        drawn = Rounds.from_model(model, n, rounds, startup=startup, rng=rng)
    results = _results(drawn, k, rng)
    if as_json:
        for result in results:
            click.echo(json.dumps(result))
        return
    _render.table(
        ("scheme", "mean s", "p95 s", "p99 s", "cost", "wasted"),
        [
            (
                result["scheme"],
                *(f"{result[name]:.3g}" for name in ("mean", "p95", "p99")),
                f"{result['cost']:.2f}",
                f"{result['wasted']:.0%}",
            )
            for result in results
        ],
    )


def _results(rounds: Rounds, k: int, rng: int) -> list[dict[str, Any]]:
    from sooner.codes import PolarCode
    from sooner.simulate import Scheme, replay

    n = rounds.n_workers
    coded = Scheme.at_once(n, k)
    replays = {
        "uncoded": replay(rounds, Scheme.uncoded(n)),
        "backup at 1.5 medians": replay(rounds, Scheme.backup(n), rng=rng),
        f"MDS, {k} of {n} at once": replay(rounds, coded),
        f"polar, {k} of {n} at once": replay(rounds, coded, code=PolarCode(n, k, rng=rng)),
        f"polar, {k} of {n}, the papers' decoder": replay(
            rounds,
            coded,
            code=PolarCode(
                n, k, erasure_prob=1 - k / n, late_parities=0, decoder="sequential", rng=rng
            ),
        ),
    }
    uncoded = replays["uncoded"].worker_seconds.sum()
    return [
        {
            "scheme": name,
            "mean": float(each.seconds.mean()),
            "p95": float(np.quantile(each.seconds, 0.95)),
            "p99": float(np.quantile(each.seconds, 0.99)),
            "cost": float(each.worker_seconds.sum() / uncoded),
            "wasted": float(each.wasted.sum() / each.worker_seconds.sum()),
        }
        for name, each in replays.items()
    ]
