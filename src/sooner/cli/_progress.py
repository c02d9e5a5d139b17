"""One line that says whether it is *enough*: ``41 of ~53 needed (23 running)  2.9 s``."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click
import numpy as np

from sooner.cli import _render
from sooner.cli._main import check_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sooner.codes.base import Code
    from sooner.jobs import Estimate, Job

__all__ = ["expected_outputs", "progress"]

_SILENCE = 30.0  # seconds without a line in a log after which one is due
_N_ADDS = 20_000  # outputs that a decoder is told of, to learn how many it needs


def expected_outputs(code: Code) -> int:
    """Give the number of outputs that suffice on average, when they come in random order.

    Parameters
    ----------
    code
        The code.

    Returns
    -------
    int
        Mean over a few random orders, the same ones each time.

    Examples
    --------
    >>> from sooner.codes import Uncoded
    >>> expected_outputs(Uncoded(8))
    8
    """
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(max(1, min(20, _N_ADDS // code.n))):
        decoder = code.decoder()
        for number, index in enumerate(rng.permutation(code.n), start=1):
            if decoder.add(int(index)):
                counts.append(number)
                break
    return round(float(np.mean(counts)))


@contextlib.contextmanager
def progress(
    label: str, job: Job, code: Code, *, quiet: bool = False
) -> Generator[Callable[[Estimate], None]]:
    """Show on stderr how far a job is from enough.

    On a terminal, one line that changes; elsewhere a line for every tenth, and one when there
    was none for 30 s.

    Parameters
    ----------
    label
        What the line begins with.
    job
        The job to look at.
    code
        Its code.
    quiet
        Show nothing.

    Yields
    ------
    callable
        To be called with an estimate now and then; it also ends the job when a signal has come.
    """
    if quiet:
        yield lambda _: check_interrupted()
    elif sys.stderr.isatty():
        with _bar(label, _Status(job, code)) as show:
            yield show
    else:
        yield _lines(label, _Status(job, code))


class _Status:
    """What a progress line says, from the estimates and the trace of a job."""

    def __init__(self, job: Job, code: Code) -> None:
        self._trace = job.trace
        self._expected = expected_outputs(code)
        self.n_available = 0
        self.n_needed = self._expected

    def update(self, estimate: Estimate) -> None:
        self.n_available = estimate.n_available
        # Past the expectation, at least one more is needed, or the job would be over.
        least = self.n_available + (not estimate.exact)
        self.n_needed = max(self._expected, least)

    def __str__(self) -> str:
        running = sum(record.outcome == "running" for record in self._trace)
        return f"{self.n_available} of ~{self.n_needed} needed ({running} running)"


@contextlib.contextmanager
def _bar(label: str, status: _Status) -> Generator[Callable[[Estimate], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    # What stands in the columns is asked for anew ten times a second, whatever the job does.
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[status]}"),
        TextColumn("{task.elapsed:.1f} s"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=status.n_needed, status=status)

        def show(estimate: Estimate) -> None:
            check_interrupted()
            status.update(estimate)
            bar.update(task, completed=status.n_available, total=status.n_needed)

        yield show


def _lines(label: str, status: _Status) -> Callable[[Estimate], None]:
    tenth, written = 0, 0.0  # of what is needed; seconds since the job began

    def show(estimate: Estimate) -> None:
        nonlocal tenth, written
        check_interrupted()
        status.update(estimate)
        reached = 10 * status.n_available // status.n_needed
        if reached > tenth or estimate.elapsed - written >= _SILENCE:
            tenth, written = max(reached, tenth), estimate.elapsed
            click.echo(f"{label}  {status}  {_render.time(estimate.elapsed)}", err=True)

    return show
