"""What iterations share: what they multiply by, what ends them early, what they give."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from sooner import _checks
from sooner.linalg.operator import CodedLinearOperator
from sooner.store import CodedMatrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.optimize import OptimizeResult

__all__ = ["as_operator", "called_off", "outcome", "with_deadline"]


def as_operator(A: Any) -> LinearOperator:
    """Give what multiplies by A: anything that SciPy takes for an operator.

    Parameters
    ----------
    A
        An operator, an array or a sparse matrix.

    Returns
    -------
    LinearOperator
        The operator.

    Raises
    ------
    TypeError
        If `A` is a coded matrix, which knows no executor, or something else.
    """
    if isinstance(A, CodedMatrix):
        raise TypeError(
            "A must be an operator, got a coded matrix, which has no executor. Pass "
            "CodedLinearOperator(A, executor)."
        )
    operator: LinearOperator = aslinearoperator(A if hasattr(A, "shape") else np.asarray(A))
    return operator


def with_deadline(
    A: LinearOperator, deadline: float | None
) -> tuple[LinearOperator, Callable[[], bool]]:
    """Set a time by which an iteration ends.

    Parameters
    ----------
    A
        What the iteration multiplies by.
    deadline
        Seconds from now; of the executor's clock if `A` is a `CodedLinearOperator`.  None is never.

    Returns
    -------
    operator : LinearOperator
        The same, whose products raise `JobTimeoutError` at the deadline if they are coded.
    is_over : callable
        Whether the time is over.
    """
    if deadline is None:
        return A, lambda: False
    _checks.not_negative(deadline, "deadline")
    if isinstance(A, CodedLinearOperator):
        now = A.executor.now
        end = now() + deadline
        return A.until(end), lambda: now() >= end
    end = time.monotonic() + deadline
    return A, lambda: time.monotonic() >= end


def called_off(callback: Callable[[Any], Any] | None, result: Any) -> bool:
    """Ask the caller whether to stop.

    Parameters
    ----------
    callback
        Called with `result`; returning True or raising StopIteration stops, as in SciPy.
    result
        An ``OptimizeResult`` of this moment.

    Returns
    -------
    bool
        True to stop.
    """
    try:
        return callback is not None and callback(result) is True
    except StopIteration:
        return True


def outcome(**fields: Any) -> OptimizeResult:
    """Make a result as SciPy's solvers give it.

    Parameters
    ----------
    **fields
        What it says.

    Returns
    -------
    OptimizeResult
        With these attributes.
    """
    from scipy.optimize import OptimizeResult  # takes long to import

    result: OptimizeResult = OptimizeResult()
    result.update(fields)
    return result
