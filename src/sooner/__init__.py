"""Multiply by a huge matrix on many machines, and have the exact answer before the slowest reply.

`encode` a matrix once into n coded blocks; for each new x `matvec` starts n tasks on an executor
and has the exact product as soon as the finished ones determine it, an estimate before that.

Public names are imported when they are first used, so ``import sooner`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sooner._version import __version__

if TYPE_CHECKING:
    from sooner import codes, errors, plots, simulate, testing
    from sooner.codes import (
        ARIKAN,
        HADAMARD,
        Kernel,
        LTCode,
        MDSCode,
        PolarCode,
        PolynomialCode,
        ProductCode,
        Replication,
        SideBySide,
        Uncoded,
    )
    from sooner.errors import (
        JobStoppedError,
        JobTimeoutError,
        MissingAdjointError,
        NotDecodableError,
        SoonerError,
        StoreFormatError,
        TaskFailedError,
        WrongOutputError,
    )
    from sooner.executors import LocalExecutor, RayExecutor, VirtualExecutor, as_executor
    from sooner.jobs import Estimate, Job, encode, matmat, matmul, matvec
    from sooner.jobs.measure import measure
    from sooner.linalg import CodedLinearOperator, gradient_descent, power_iteration
    from sooner.optimize import EvolutionStrategy, evaluate, minimize
    from sooner.simulate import design
    from sooner.store import CodedMatrix, MemoryStore, open_coded
    from sooner.trace import TaskRecord, Trace

_HOMES = {
    "codes": (
        "ARIKAN HADAMARD Kernel LTCode MDSCode PolarCode PolynomialCode ProductCode Replication "
        "SideBySide Uncoded"
    ),
    "errors": (
        "JobStoppedError JobTimeoutError MissingAdjointError NotDecodableError SoonerError "
        "StoreFormatError TaskFailedError WrongOutputError"
    ),
    "executors": "LocalExecutor RayExecutor VirtualExecutor as_executor",
    "jobs": "Estimate Job encode matmat matmul matvec",
    "jobs.measure": "measure",
    "linalg": "CodedLinearOperator gradient_descent power_iteration",
    "optimize": "EvolutionStrategy evaluate minimize",
    "simulate": "design",
    "store": "CodedMatrix MemoryStore open_coded",
    "trace": "TaskRecord Trace",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = ("codes", "errors", "plots", "simulate", "testing")

__all__ = [
    "ARIKAN",
    "HADAMARD",
    "CodedLinearOperator",
    "CodedMatrix",
    "Estimate",
    "EvolutionStrategy",
    "Job",
    "JobStoppedError",
    "JobTimeoutError",
    "Kernel",
    "LTCode",
    "LocalExecutor",
    "MDSCode",
    "MemoryStore",
    "MissingAdjointError",
    "NotDecodableError",
    "PolarCode",
    "PolynomialCode",
    "ProductCode",
    "RayExecutor",
    "Replication",
    "SideBySide",
    "SoonerError",
    "StoreFormatError",
    "TaskFailedError",
    "TaskRecord",
    "Trace",
    "Uncoded",
    "VirtualExecutor",
    "WrongOutputError",
    "__version__",
    "as_executor",
    "codes",
    "design",
    "encode",
    "errors",
    "evaluate",
    "gradient_descent",
    "matmat",
    "matmul",
    "matvec",
    "measure",
    "minimize",
    "open_coded",
    "plots",
    "power_iteration",
    "simulate",
    "testing",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"sooner.{_HOME_OF[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"sooner.{name}")
    else:
        raise AttributeError(f"module 'sooner' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted(__all__)
