"""``sooner multiply``: one product, exact before the slowest task ends."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from sooner.cli import _render
from sooner.cli._main import resumable
from sooner.errors import JobStoppedError, JobTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sooner._types import Array
    from sooner.jobs import Estimate, Job

__all__ = ["multiply"]

_AT_DEADLINE = 3  # exit code: an estimate was written
_KEPT = "outputs"  # place in the store for outputs that outlive an interruption
_GO_ON = "the outputs that came are kept: the same command with --resume goes on from there"
_NOT_KEPT = "with --keep, what came by then would have been kept"
_LOOK = 0.1  # seconds between two looks at the job


@click.command()
@click.argument("store")
@click.argument("x", metavar="x.npy")
@click.option("-o", "--output", required=True, metavar="y.npy", help="Where to write; - is stdout.")
@click.option(
    "--executor", default="local", show_default=True, help="Where tasks run, such as local:8."
)
@click.option("--deadline", type=click.FloatRange(min=0), help="Seconds; then write the estimate.")
@click.option("--rtol", type=click.FloatRange(min=0), help="Write the estimate at this error.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that one task may run."
)
@click.option(
    "--policy",
    default="auto",
    metavar="[auto|at_once|on_lag]",
    show_default=True,
    help="Start all tasks at once, or redundant ones only when others lag.",
)
@click.option("--resume", is_flag=True, help="Take the outputs that an interrupted run has kept.")
@click.option(
    "--keep/--no-keep",
    default=None,
    help="Keep outputs in STORE until y.npy is written.  [default: if STORE is a folder]",
)
@click.option("--trace", metavar="run.jsonl", help="Write what happened to each task.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress line.")
@click.pass_context
def multiply(
    ctx: click.Context,
    store: str,
    x: str,
    output: str,
    executor: str,
    deadline: float | None,
    rtol: float | None,
    timeout: float | None,
    policy: str,
    resume: bool,
    keep: bool | None,
    trace: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Multiply the coded matrix in STORE by the vector or matrix in x.npy (- is stdin).

    Exit code 0: exact.  3: the deadline or tolerance came first and the estimate was written.
    4: too many tasks failed for an answer.

    Example: sooner multiply A.coded x.npy -o y.npy --executor local:8
    """
    from sooner.cli._arrays import read_array, write_array
    from sooner.cli._progress import progress
    from sooner.executors import as_executor
    from sooner.jobs import matmat, matvec
    from sooner.jobs.kept import KeptOutputs
    from sooner.store import open_coded

    if as_json and output == "-":
        ctx.fail("--json and -o - both write to stdout; give -o a file.")
    for option, path in (("-o", output), ("--trace", trace)):  # not when all is computed
        if path is not None and not Path(path).absolute().parent.is_dir():
            ctx.fail(f"{option} must be in a folder that exists, got {path}.")
    coded = open_coded(store)
    operand = read_array(x)
    product = matmat if operand.ndim == 2 else matvec
    if keep is None:
        keep = resume or "://" not in store
    place = f"{store.rstrip('/')}/{_KEPT}" if keep or resume else None
    if place and not resume:
        KeptOutputs.of_product(place, coded, operand).discard()
    # A matrix may be too large for memory, and goes to its file directly.
    out = output if operand.ndim == 2 and output.endswith(".npy") else None
    with (
        resumable(_GO_ON if place else _NOT_KEPT),
        as_executor(executor) as pool,
        product(
            coded,
            operand,
            executor=pool,
            policy=policy,
            deadline=deadline,
            rtol=rtol,
            timeout=timeout,
            keep=place,
            out=out,
        ) as job,
    ):
        try:
            with progress(f"multiply {store}", job, coded.code, quiet=quiet) as show:
                value = _wait(job, show)
        finally:
            job.cancel()
            if trace:
                job.trace.to_jsonl(trace)
        if not (out and job.estimate.exact):
            write_array(output, value)
        if job.kept is not None and job.estimate.exact:
            job.kept.discard()
        exact = _report(job, output, as_json=as_json)
    ctx.exit(0 if exact else _AT_DEADLINE)


def _wait(job: Job, show: Callable[[Estimate], None]) -> Array:
    """Wait for the exact answer, or until the job stops for the estimate.

    Parameters
    ----------
    job
        The job.
    show
        Called with the estimate ten times a second.

    Returns
    -------
    ndarray
        The answer.
    """
    while True:
        try:
            return job.result(timeout=_LOOK)
        except (JobTimeoutError, JobStoppedError) as error:
            estimate = cast("Estimate", error.estimate)
            show(estimate)
            if job.done() and not job.estimate.exact:
                return estimate.value


def _report(job: Job, output: str, *, as_json: bool) -> bool:
    """Say how it went; True if the answer is exact.

    Parameters
    ----------
    job
        The job, which has ended.
    output
        Where the answer was written.
    as_json
        One object on stdout instead of a remark on stderr.

    Returns
    -------
    bool
        Whether the answer is exact.
    """
    estimate, trace = job.estimate, job.trace
    seconds = trace.decoded if trace.decoded is not None else estimate.elapsed
    stopped = sum(record.outcome == "abandoned" for record in trace)
    failed = sum(record.outcome in {"lost", "raised"} for record in trace)
    error = estimate.relative_error
    if as_json:
        facts = {
            "exact": estimate.exact,
            "relative_error": error if math.isfinite(error) else None,
            "n": trace.n,
            "k": trace.k,
            "n_available": estimate.n_available,
            "elapsed": seconds,
            "kept": trace.meta.get("kept", 0),
            "stopped": stopped,
            "failed": failed,
            "output": output,
        }
        click.echo(json.dumps(facts))
        return estimate.exact
    came = f"{estimate.n_available} of {trace.n} outputs"
    if estimate.exact:
        said = f"exact after {_render.time(seconds)} from {came}"
    else:
        said = f"{came} by {_render.time(seconds)}: estimate written, relative error {error:.0%}"
    said += f", {_render.count(stopped, 'task')} stopped"
    said += f", {_render.count(failed, 'failure')}" if failed else ""
    click.echo(said, err=True)
    return estimate.exact
