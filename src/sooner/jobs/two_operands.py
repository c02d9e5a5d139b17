"""A @ B with both matrices coded: one task for each pair of coded blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes import ProductCode
from sooner.errors import MissingAdjointError
from sooner.jobs.kept import KeptOutputs
from sooner.jobs.launcher import Rules
from sooner.jobs.options import Options
from sooner.jobs.task import multiply_blocks
from sooner.jobs.work import Work
from sooner.store import CodedMatrix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sooner.codes.base import TwoOperandCode
    from sooner.jobs.estimate import Estimate
    from sooner.jobs.job import Job
    from sooner.jobs.space import Out
    from sooner.store.location import StoreLike

__all__ = ["matmul"]


def matmul(
    A: CodedMatrix,
    B: CodedMatrix,
    *,
    executor: Any,
    code: TwoOperandCode | None = None,
    policy: str = "auto",
    retries: int = 2,
    losses: int = 4,
    timeout: float | None = None,
    verify_extra: int = 0,
    deadline: float | None = None,
    rtol: float | None = None,
    callback: Callable[[Estimate], Any] | None = None,
    out: Out = None,
    keep: StoreLike = None,
    max_memory: int | None = None,
    delays: Sequence[float] | None = None,
) -> Job:
    """Start ``A @ B`` for two matrices that both lie in stores: A coded by rows, B by columns.

    The tasks form a grid: task (i, j) multiplies coded block i of A by coded block j of B, a slab
    of each at a time.  Neither matrix is ever sent to or held by the driver, which needs memory for
    about three times the answer, or with `out` a file for none of it.

    Parameters
    ----------
    A
        Shape (m, inner), coded by rows.
    B
        Shape (inner, columns), coded by columns: ``encode(B, code, axis=1)``, or with
        ``adjoint=True``.  Encoded with `Uncoded`, it is only cut into pieces, and A alone is
        coded.
    executor
        Where tasks run, as for `matvec`.
    code
        For two operands, whose factors both matrices are encoded with, such as a
        `PolynomialCode`.  None is the `ProductCode` of their codes.
    policy, retries, losses, timeout, verify_extra, deadline, rtol, callback
        As in `matvec`.
    out, keep, max_memory, delays
        As in `matvec`.

    Returns
    -------
    Job
        Under way already.  The answer has shape (m, columns).

    Raises
    ------
    TypeError
        If `A` or `B` is no coded matrix, or `code` is no code for two operands.
    ValueError
        If the shapes do not fit, or the matrices are encoded with other codes than those of
        `code`; no task is sent then.
    MissingAdjointError
        If the columns of `B` are not encoded.
    MemoryError
        If the answer cannot fit into memory; no task is sent then.

    Notes
    -----
    [B19]: arXiv 1901.06811, Section IV.

    Examples
    --------
    >>> import sooner
    >>> A, B = np.arange(12.0).reshape(6, 2), np.arange(8.0).reshape(2, 4)
    >>> coded_A = sooner.encode(A, sooner.PolarCode(4, 3))
    >>> coded_B = sooner.encode(B, sooner.PolarCode(4, 2), axis=1)
    >>> with matmul(coded_A, coded_B, executor="threads:2") as job:
    ...     bool(np.allclose(job.result(), A @ B))
    True
    """
    for name, matrix in (("A", A), ("B", B)):
        if not isinstance(matrix, CodedMatrix):
            raise TypeError(
                f"{name} must be a coded matrix, made by encode, got {type(matrix).__name__}."
            )
    if B.manifest.axis == 0 and B.manifest.adjoint is None:
        raise MissingAdjointError(
            "B must be coded by columns, and was encoded by rows alone. Encode it with axis=1."
        )
    columns = B if B.manifest.axis == 1 else B.T
    if A.shape[1] != columns.shape[1]:
        raise ValueError(
            f"A and B must have shapes (m, inner) and (inner, columns), got {A.shape} and "
            f"{columns.shape[::-1]}."
        )
    options = Options(
        executor=executor,
        rules=Rules(policy, retries, losses, timeout),
        estimator="least_squares",
        verify_extra=verify_extra,
        deadline=deadline,
        rtol=rtol,
        callback=callback,
        out=out,
        keep=keep,
        max_memory=max_memory,
        delays=delays,
    )
    return _start(A, columns, code, options)


def _start(
    A: CodedMatrix, columns: CodedMatrix, code: TwoOperandCode | None, options: Options
) -> Job:
    if code is None:
        code = ProductCode(A.code, columns.code)
    elif getattr(code, "operands", None) != 2:
        raise TypeError(
            f"code must be a code for two operands such as PolynomialCode(16, 3, 4), got {code!r}."
        )
    elif [c.spec() for c in code.factors] != [A.code.spec(), columns.code.spec()]:
        raise ValueError(
            f"A and B must be encoded with the factors of the code, {code.factors}, got "
            f"{A.code!r} and {columns.code!r}."
        )
    dtype = np.result_type(A.dtype, columns.dtype)
    shape = (A.block_rows, columns.block_rows)
    answer_shape = (A.shape[0], columns.shape[0])
    work = Work(multiply_blocks, shape, dtype, answer_shape, block_columns=code.factors[1].k)
    if 0 in {*A.shape, *columns.shape}:  # there is nothing to compute
        return options.start(code, work)
    operands = [code.task_operands(task) for task in range(code.n)]
    kept = None
    if options.keep is not None:
        # Codes with the same factors may differ in which blocks a task multiplies.
        kept = KeptOutputs(options.keep, code.n, shape, dtype, (A, columns, np.array(operands)))
    return options.start(
        code,
        work,
        lambda task: (
            A.block_source(operands[task][0]),
            columns.block_source(operands[task][1]),
            dtype.str,
        ),
        kept=kept,
    )
