"""Timelines of runs with hundreds of tasks: a real job in virtual time, and one in real time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import PolarCode
from sooner.executors import LocalExecutor, VirtualExecutor
from sooner.jobs import encode, matvec
from sooner.simulate import Scheme, sizes_of
from sooner.store import MemoryStore

if TYPE_CHECKING:
    from sooner._types import RNGLike
    from sooner.runtimes import RunTimes
    from sooner.trace import Trace

__all__ = ["run_locally", "run_virtually"]


def run_virtually(
    shape: tuple[int, int],
    n: int,
    k: int,
    run_times: RunTimes,
    *,
    columns: int = 8,
    rng: RNGLike = 0,
) -> Trace:
    """Run a product of a matrix that is far too large for this machine, on a clock that jumps.

    The job, its code and its decoding are real, and so is the number of rows; of the columns only
    a few are there, since run times are drawn.

    Parameters
    ----------
    shape
        Rows and columns of the matrix that is planned for.
    n, k
        Numbers of tasks and of data blocks.
    run_times
        Of a task of that size.
    columns
        Columns that are really multiplied.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    Trace
        What happened; ``meta["plan"]`` holds the sizes of blocks, store and tasks in bytes.

    Notes
    -----
    Figure 8 of [B19] (arXiv 1901.06811): 38 400 x 3 000 000 through 512 tasks.

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> trace = run_virtually((240, 10**6), 16, 12, ShiftedExponential(60.0, 10.0))
    >>> trace.decodable > 60, trace.meta["plan"]["block"]
    (True, 160000000)
    """
    generator = np.random.default_rng(rng)
    code = PolarCode(n, k, rng=generator)
    A, x = generator.standard_normal((shape[0], columns)), generator.standard_normal(columns)
    coded = encode(A, code, MemoryStore())
    with (
        VirtualExecutor(run_times, rng=generator) as executor,
        matvec(coded, x, executor=executor) as job,
    ):
        job.result()
    sizes = sizes_of(shape, Scheme.at_once(n, k))
    job.trace.meta["plan"] = {"block": sizes.block, "store": sizes.store, "task": sizes.task}
    return job.trace


def run_locally(
    shape: tuple[int, int],
    n: int,
    k: int,
    run_times: RunTimes,
    store: str,
    *,
    max_workers: int = 32,
    rng: RNGLike = 0,
) -> Trace:
    """Run a product on processes of this machine; each task is stretched by a drawn time.

    Parameters
    ----------
    shape
        Rows and columns of the matrix, which is made and multiplied.
    n, k
        Numbers of tasks and of data blocks.
    run_times
        What the tasks are stretched by.
    store
        Folder for the coded matrix.
    max_workers
        Tasks at a time; the others queue.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    Trace
        What happened; ``meta["largest_error"]`` is that of the answer against NumPy's, relative
        to its largest entry.

    Notes
    -----
    Figure 8 of [B19] (arXiv 1901.06811), with 512 tasks at a size that fits.
    """
    generator = np.random.default_rng(rng)
    code = PolarCode(n, k, rng=generator)
    A, x = generator.standard_normal(shape), generator.standard_normal(shape[1])
    coded = encode(A, code, store)
    delays = run_times.sample(generator, n).tolist()
    with (
        LocalExecutor(max_workers=max_workers) as executor,
        matvec(coded, x, executor=executor, delays=delays, policy="at_once") as job,
    ):
        value = job.result(timeout=600)
    expected = A @ x
    error = np.abs(value - expected).max() / np.abs(expected).max()
    job.trace.meta["largest_error"] = float(error)
    return job.trace
