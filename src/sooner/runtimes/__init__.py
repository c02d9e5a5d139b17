"""Distributions of run times: how long a task takes, in seconds."""

from __future__ import annotations

from sooner.runtimes.base import RunTimes
from sooner.runtimes.combined import Correlated, PerWorker, WithStartup
from sooner.runtimes.empirical import Empirical
from sooner.runtimes.parametric import LogNormal, Pareto, ShiftedExponential

__all__ = [
    "Correlated",
    "Empirical",
    "LogNormal",
    "Pareto",
    "PerWorker",
    "RunTimes",
    "ShiftedExponential",
    "WithStartup",
]
