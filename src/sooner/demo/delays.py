"""Run times of real cloud functions: drawn, and what they alone make of a code."""

from __future__ import annotations

import importlib.resources
import json
from typing import TYPE_CHECKING

import numpy as np

from sooner.runtimes import Empirical

if TYPE_CHECKING:
    from sooner._types import Array
    from sooner.codes.base import Code

__all__ = ["cloud_run_times", "time_to_exact", "usual_times"]


def cloud_run_times() -> Empirical:
    """Give the distribution of the run times of AWS Lambda functions that ships with sooner.

    Their median is 1.47 s; 1 in 100 is above 2.2 s, and 1 in 500 takes 27 to 39 s.

    Returns
    -------
    Empirical
        Seconds from call to answer, by a table of quantiles; ``run_times.json`` names its source.

    Examples
    --------
    >>> float(cloud_run_times().quantile(0.5))
    1.4714
    """
    table = json.loads(
        importlib.resources.files("sooner.demo").joinpath("run_times.json").read_text("utf-8")
    )
    return Empirical.from_quantiles(table["probabilities"], table["seconds"])


def time_to_exact(code: Code, delays: Array) -> float:
    """Give the time at which tasks that take just their delay determine the product.

    Parameters
    ----------
    code
        The code.
    delays
        Seconds that each task takes, shape (n,).

    Returns
    -------
    float
        The delay of the task that completes a decodable set.

    Examples
    --------
    >>> from sooner.codes import Replication
    >>> time_to_exact(Replication(4, 2), [3.0, 1.0, 2.0, 5.0])
    2.0
    """
    decoder = code.decoder()
    order = np.argsort(delays, kind="stable")
    last = next(index for index in order if decoder.add(int(index)))
    return float(delays[last])


def usual_times(code: Code, scale: float, *, n_draws: int = 400) -> tuple[float, float]:
    """Give the median and the 99 % quantile of `time_to_exact` over draws of the run times.

    One product is one draw: this says what to expect of many.

    Parameters
    ----------
    code
        The code.
    scale
        What the run times are multiplied by.
    n_draws
        How many draws, the same ones for every code with as many tasks.

    Returns
    -------
    tuple of float
        Seconds.

    Examples
    --------
    >>> from sooner.codes import Uncoded
    >>> median, rare = usual_times(Uncoded(64), 1.0)
    >>> 2.1 < median < 2.4, rare > 26
    (True, True)
    """
    draws = cloud_run_times().sample(np.random.default_rng(0), (n_draws, code.n)) * scale
    times = [time_to_exact(code, row) for row in draws]
    median, rare = np.quantile(times, (0.5, 0.99))
    return float(median), float(rare)
