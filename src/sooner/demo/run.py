"""The demo from the photographs to the report."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.codes import Uncoded
from sooner.demo.comparison import Product, measure, schemes
from sooner.demo.delays import cloud_run_times
from sooner.demo.engines import start_engine
from sooner.demo.photographs import components, load_photographs, patch_matrix
from sooner.demo.pictures import draw_picture, draw_timeline
from sooner.jobs import encode, matvec

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator

    from numpy.typing import DTypeLike

    from sooner._types import Array
    from sooner.codes.base import Code
    from sooner.demo.comparison import Measured, Outcome, Watch
    from sooner.demo.killing import Killing
    from sooner.demo.photographs import PatchMatrix
    from sooner.jobs import Estimate, Job

__all__ = ["Report", "run"]

logger = logging.getLogger(__name__)

_FAR_OUT = 10.0  # seconds; the run times are either below 5 or above 26
_BUDGET = 30.0  # seconds that the three products may take together
_RNG = 30  # a draw with one function that is far out, as 1 in 9 has: the case to be shown


@dataclass(frozen=True, slots=True)
class Report:
    """What the demo found."""

    matrix: tuple[int, int]
    """Rows and columns of A."""
    width: int
    """Columns of X."""
    dtype: str
    rng: int
    """Which draws of the run times."""
    scale: float
    """What the measured run times were multiplied by."""
    slowest: float
    """Seconds that the slowest coded task takes by its draw."""
    outcomes: tuple[Outcome, ...]
    timeline: str
    """File."""
    picture: str
    """File."""
    elapsed: float
    """Seconds that all of it took."""


@contextlib.contextmanager
def _unwatched(name: str, job: Job, code: Code) -> Generator[Callable[[Estimate], None]]:
    yield lambda _: None


def run(
    *,
    n: int = 64,
    engine: str = "local",
    dtype: DTypeLike = np.float32,
    out: str | os.PathLike[str] = ".",
    rng: int = _RNG,
    budget: float = _BUDGET,
    stride: int = 2,
    width: int = 24,
    watch: Watch = _unwatched,
) -> Report:
    """Multiply patches of photographs by their leading components, coded and not.

    Each of n worker processes takes as long as a real cloud function did, heavy tail included;
    one is killed.  Writes ``timeline.png`` and ``picture.png``.

    Parameters
    ----------
    n
        Number of workers and of tasks, a power of two, at least 4.
    engine
        Where tasks run: ``"local"``, or ``"dask"``, ``"ray"`` or ``"lithops"``, each started on
        this machine for the purpose.
    dtype
        float32 or float64.
    out
        Folder of the pictures, made if it is not there.
    rng
        Seed of the draws of run times.
    budget
        Seconds that the three products may take together; if they would take longer, all run
        times are scaled down alike, and a log line says so.
    stride
        Pixels from one patch to the next; 2 gives 133 140 rows.
    width
        How many components.
    watch
        Opens the display of a job's progress, see `sooner.demo.comparison.measure`.

    Returns
    -------
    Report
        What was found.
    """
    began = time.monotonic()
    n = _checks.power_of_two(n, "n")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    patches = patch_matrix(load_photographs(), stride=stride, dtype=dtype)
    product = _product(patches, width)
    logger.info(
        "A: %d x %d %s, patches of two photographs; X: their %d leading components",
        *product.A.shape,
        product.A.dtype,
        width,
    )
    run_times, scale = _draw(n, rng, budget)
    slowest = scale * float(run_times.max())
    measured = _compare(product, run_times, scale, watch, engine)
    timeline, picture = folder / "timeline.png", folder / "picture.png"
    draw_timeline(measured[0], slowest, timeline)
    draw_picture(measured[0], product, patches, picture)
    return Report(
        matrix=product.A.shape,
        width=width,
        dtype=str(product.A.dtype),
        rng=rng,
        scale=scale,
        slowest=slowest,
        outcomes=tuple(each.outcome for each in measured),
        timeline=str(timeline),
        picture=str(picture),
        elapsed=time.monotonic() - began,
    )


def _product(patches: PatchMatrix, width: int) -> Product:
    A = patches.matrix
    X = components(A, width)
    expected: Array = A.astype(np.float64) @ X.astype(np.float64)
    return Product(A, X, expected)


def _draw(n: int, rng: int, budget: float) -> tuple[Array, float]:
    # One draw per worker, the same for every scheme; and the scale, said aloud.
    distribution = cloud_run_times()
    run_times = distribution.sample(np.random.default_rng(rng), n)
    total = sum(scheme.predicted for scheme in schemes(run_times))
    scale = min(1.0, budget / total)
    far_out = float((distribution.quantile(np.linspace(0, 1, 10_001)) > _FAR_OUT).mean())
    logger.info(
        "run times: %d draws from those of AWS Lambda functions (rng=%d), median %.2f s, "
        "slowest %.1f s; %.0f%% of all products over as many have one above %.0f s",
        n,
        rng,
        float(np.median(run_times)),
        float(run_times.max()),
        100 * (1 - (1 - far_out) ** n),
        _FAR_OUT,
    )
    if scale < 1:
        logger.info("all run times are multiplied by %.3g to end within %.0f s", scale, budget)
    else:
        logger.info("the run times are used as they were measured, not scaled")
    return run_times, scale


def _compare(
    product: Product, run_times: Array, scale: float, watch: Watch, engine: str
) -> list[Measured]:
    n = run_times.size
    # Killed is a task of middling speed: the kill must not rescue anyone from the straggler.
    victim = int(np.argsort(run_times)[n // 2])
    measured = []
    with start_engine(engine, n) as executor:
        _start_workers(executor, n)
        for scheme in schemes(run_times, scale):
            k = scheme.code.k
            at = (k // 4, k // 2, 3 * k // 4) if scheme.name == "coded" else ()
            measured.append(measure(scheme, product, executor, victim=victim, at=at, watch=watch))
    return measured


def _start_workers(executor: Killing, n: int) -> None:
    # A small product, so that they have imported what they need before the clock starts; each
    # task holds its worker for a moment, so that each has one of its own.
    coded = encode(np.zeros((n, 1)), Uncoded(n))
    with matvec(coded, [0.0], executor=executor, delays=[1.0] * n) as job:
        job.result(timeout=120)
    logger.info("%d workers are ready", n)
