"""The same product by three schemes over the same workers, on the same draws of run times."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import PolarCode, Replication, Uncoded
from sooner.demo.delays import time_to_exact, usual_times
from sooner.jobs import encode, matmat

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from sooner._types import Array
    from sooner.codes.base import Code
    from sooner.demo.killing import Killing
    from sooner.jobs import Estimate, Job
    from sooner.trace import Trace

    Watch: TypeAlias = Callable[
        [str, Job, Code], AbstractContextManager[Callable[[Estimate], None]]
    ]

__all__ = ["Measured", "Outcome", "Product", "Scheme", "measure", "schemes"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to spread one product over n workers."""

    name: str
    code: Code
    draws: Array
    """Seconds that each task takes at the least, shape (n,)."""
    scale: float
    """What such seconds are to those of a cloud function."""

    @property
    def predicted(self) -> float:
        """Time to exact by the draws alone, if no worker were lost."""
        return time_to_exact(self.code, self.draws)


@dataclass(frozen=True, slots=True)
class Product:
    """What is computed, with NumPy's answer."""

    A: Array
    X: Array
    expected: Array
    """``A @ X`` in double precision."""

    def largest_error(self, value: Array) -> float:
        """Largest error of any entry, relative to the largest entry.

        Parameters
        ----------
        value
            What came out.

        Returns
        -------
        float
            The error.
        """
        return float(np.abs(value - self.expected).max() / np.abs(self.expected).max())

    def relative_error(self, value: Array) -> float:
        """Root mean square of the error, relative to that of the answer.

        Parameters
        ----------
        value
            What came out.

        Returns
        -------
        float
            The error.
        """
        return float(np.linalg.norm(value - self.expected) / np.linalg.norm(self.expected))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one scheme; seconds and counts."""

    scheme: str
    n: int
    k: int
    time_to_exact: float
    """Seconds from the job's start to the exact answer."""
    predicted: float
    """The same by the draws alone: no kill, no computing, no messages."""
    median: float
    """Median of that over many draws."""
    rare: float
    """What one draw in a hundred exceeds."""
    outputs_used: int
    """Outputs that had come by then."""
    largest_error: float
    """Of any entry, against NumPy in double precision, relative to the largest entry."""
    workers_lost: int
    work: float
    """Rows that all tasks together multiply, over the rows of the matrix."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One scheme's outcome, with what the pictures are drawn from."""

    outcome: Outcome
    trace: Trace
    estimates: list[Estimate] = field(default_factory=list)
    """At the wanted numbers of outputs, and the exact one."""


def schemes(run_times: Array, scale: float = 1.0) -> list[Scheme]:
    """Give the three schemes: coded at rate 3/4, uncoded, and every block twice.

    A task's time is its worker's draw, in proportion to the rows that it multiplies: a coded task
    has 1/k of all rows, an uncoded one 1/n, a replicated one 2/n.

    Parameters
    ----------
    run_times
        Seconds that a cloud function took, one per worker; shape (n,), n a power of two from 4.
    scale
        What they are multiplied by.

    Returns
    -------
    list of Scheme
        The coded one first.

    Examples
    --------
    >>> [(scheme.name, scheme.draws.tolist()) for scheme in schemes(np.full(4, 1.0))]
    [('coded', [1.0, 1.0, 1.0, 1.0]), ('uncoded', [0.75, 0.75, 0.75, 0.75]),
     ('replication', [1.5, 1.5, 1.5, 1.5])]
    """
    n = run_times.size
    k = 3 * n // 4
    codes: dict[str, Code] = {
        "coded": PolarCode(n, k, rng=0),
        "uncoded": Uncoded(n),
        "replication": Replication(n, n // 2),
    }
    scales = {name: scale * (k / code.k) for name, code in codes.items()}
    return [
        Scheme(name, code, run_times * scales[name], scales[name]) for name, code in codes.items()
    ]


def measure(
    scheme: Scheme,
    product: Product,
    executor: Killing,
    *,
    victim: int,
    at: tuple[int, ...],
    watch: Watch,
) -> Measured:
    """Run the product by one scheme; the worker of one task is killed halfway through it.

    Parameters
    ----------
    scheme
        Which one.
    product
        What to compute.
    executor
        With a worker for each task.
    victim
        The task whose worker is killed.
    at
        Numbers of outputs at which to keep the estimate.
    watch
        Opens the display of a job's progress: given the scheme's name, the job and its code, it
        is a context manager that gives what to call with each estimate.

    Returns
    -------
    Measured
        What came of it.
    """
    code, wanted, estimates = scheme.code, list(at), []
    with tempfile.TemporaryDirectory(prefix="sooner-demo-") as folder:
        coded = encode(product.A, code, folder + "/A.coded", dtype=product.A.dtype)
        executor.kill_next(task=victim, after=0.5 * float(scheme.draws[victim]))
        with (
            matmat(coded, product.X, executor=executor, delays=scheme.draws.tolist()) as job,
            watch(scheme.name, job, code) as show,
        ):
            for estimate in job:
                show(estimate)
                if estimate.exact or (wanted and estimate.n_available >= wanted[0]):
                    estimates.append(estimate)
                    wanted = [m for m in wanted if m > estimate.n_available]
            value = job.result()
    lost = sum(record.outcome == "lost" for record in job.trace)
    median, rare = usual_times(code, scheme.scale)
    outcome = Outcome(
        scheme=scheme.name,
        n=code.n,
        k=code.k,
        time_to_exact=job.trace.decoded or 0.0,
        predicted=scheme.predicted,
        median=median,
        rare=rare,
        outputs_used=job.trace.n_available,
        largest_error=product.largest_error(value),
        workers_lost=lost,
        work=code.n / code.k,
    )
    return Measured(outcome, job.trace, estimates)
