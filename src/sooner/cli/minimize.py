"""``sooner minimize``: a black box from the shell, as `sooner.minimize` does it."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sooner.cli import _render
from sooner.cli._main import check_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.optimize import OptimizeResult

__all__ = ["minimize"]

_AT_DEADLINE = 3  # exit code: there is a point, and there could be a better one
_FAILED = 1


@click.command()
@click.argument("objective", metavar="MODULE:FUNCTION")
@click.argument("x0", metavar="x0.npy")
@click.option("-o", "--output", required=True, metavar="x.npy", help="Where to write; - is stdout.")
@click.option(
    "--sigma", type=click.FloatRange(min=0, min_open=True), required=True, help="Step to probe."
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(min=0, min_open=True),
    required=True,
    help="How far to go against the gradient.",
)
@click.option("--n", type=click.IntRange(min=1), help="Antithetic pairs per generation.")
@click.option("--k", type=click.IntRange(min=1), help="Code them, so that about K pairs suffice.")
@click.option("--share", type=click.FloatRange(0, 1), default=1.0, help="Uncoded: go on with it.")
@click.option("--noise-gain", type=click.FloatRange(min=0, min_open=True), help="Wait for it.")
@click.option(
    "--optimizer",
    type=click.Choice(["plain", "momentum", "adam"]),
    default="plain",
    show_default=True,
    help="From a gradient to a step.",
)
@click.option(
    "--maxiter",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Generations.",
)
@click.option("--deadline", type=click.FloatRange(min=0), help="Seconds for all.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds for one evaluation."
)
@click.option(
    "--executor", default="local", show_default=True, help="Where tasks run, such as local:8."
)
@click.option("--factory", is_flag=True, help="FUNCTION makes the objective, once per worker.")
@click.option("--checkpoint", metavar="FILE", help="Written each generation; taken up if there.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the directions.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No line per generation.")
@click.pass_context
def minimize(
    ctx: click.Context,
    /,
    objective: str,
    x0: str,
    output: str,
    n: int | None,
    k: int | None,
    seed: int,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Minimize MODULE:FUNCTION from the point in x0.npy on (- is stdin).

    The function is called with a vector and gives a number; the module is looked for in this
    folder, too.  An evaluation that raises, crashes or hangs costs itself only.

    Exit code 0: all generations.  3: the deadline came first.  1: nothing came, or another error.

    Example: sooner minimize rocket:drag x0.npy -o x.npy --sigma 0.1 --learning-rate 0.01
    --n 64 --k 48 --executor local:8
    """
    from sooner.cli._arrays import read_array, write_array
    from sooner.codes import PolarCode
    from sooner.optimize import minimize as run

    if as_json and output == "-":
        ctx.fail("--json and -o - both write to stdout; give -o a file.")
    if k is not None and n is None:
        ctx.fail("--k needs --n: how many coded directions there are.")

    def callback(intermediate_result: OptimizeResult) -> None:
        check_interrupted()
        if not quiet:
            found = intermediate_result
            failed = f", {_render.count(found.nfailed, 'failure')}" if found.nfailed else ""
            click.echo(f"generation {found.nit}: {found.fun:.6g}{failed}", err=True)

    result = run(
        _function(objective),
        read_array(x0),
        code=None if k is None or n is None else PolarCode(n, k),
        n=n,
        rng=seed,
        callback=callback,
        **options,
    )
    write_array(output, result.x)
    _report(result, output, as_json=as_json)
    ctx.exit({0: 0, 1: _AT_DEADLINE}.get(result.status, _FAILED))


def _function(objective: str) -> Callable[..., Any]:
    """Import what ``module:function`` names.

    Parameters
    ----------
    objective
        The name.

    Returns
    -------
    callable
        The function.

    Raises
    ------
    click.BadParameter
        If there is none.
    ModuleNotFoundError
        If the module imports one that is missing.
    """
    module, colon, name = objective.partition(":")
    if not (module and colon and name):
        raise click.BadParameter(f"must look like module:function, got {objective!r}.")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last, so that nothing here stands in for a library
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # what the module itself imports
            raise
        raise click.BadParameter(f"there is no module {module!r} here.") from None
    function = getattr(found, name, None)
    if not callable(function):
        raise click.BadParameter(f"there is no function {name!r} in {module}.")
    return function  # type: ignore[no-any-return]  # it is called with what users say


def _report(result: OptimizeResult, output: str, *, as_json: bool) -> None:
    """Say how it went.

    Parameters
    ----------
    result
        What `sooner.minimize` gave.
    output
        Where the point was written.
    as_json
        One object on stdout instead of a remark on stderr.
    """
    if as_json:
        facts = {name: result[name] for name in ("success", "status", "message", "nit", "nfev")}
        facts |= {"nfailed": result.nfailed, "output": output}
        facts["fun"] = result.fun if math.isfinite(result.fun) else None
        click.echo(json.dumps(facts))
        return
    click.echo(
        f"{result.message} value {result.fun:.6g} after {_render.count(result.nit, 'generation')}, "
        f"{_render.count(result.nfev, 'evaluation')}, {_render.count(result.nfailed, 'failure')}",
        err=True,
    )
