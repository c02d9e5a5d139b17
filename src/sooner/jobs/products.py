"""Products as jobs: check the operands, make the tasks, name the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.jobs.kept import KeptOutputs
from sooner.jobs.launcher import Rules
from sooner.jobs.options import Options
from sooner.jobs.task import multiply_block
from sooner.jobs.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from sooner._types import Array
    from sooner.jobs.estimate import Estimate
    from sooner.jobs.job import Job
    from sooner.jobs.space import Out
    from sooner.store import CodedMatrix
    from sooner.store.location import StoreLike

__all__ = ["matmat", "matvec"]


def matvec(
    A: CodedMatrix,
    x: ArrayLike,
    *,
    executor: Any,
    policy: str = "auto",
    retries: int = 2,
    losses: int = 4,
    timeout: float | None = None,
    estimator: str = "common_mean",
    verify_extra: int = 0,
    deadline: float | None = None,
    rtol: float | None = None,
    callback: Callable[[Estimate], Any] | None = None,
    out: Out = None,
    keep: StoreLike = None,
    max_memory: int | None = None,
    delays: Sequence[float] | None = None,
) -> Job:
    """Start ``A @ x`` for a vector x.

    Parameters
    ----------
    A
        The coded matrix, shape (m, columns).
    x
        Shape (columns,), numbers of any dtype.
    executor
        Where tasks run: whatever `as_executor` takes.  One that it makes for this job (from a
        name such as ``"local:8"``) is closed with the job.
    policy
        ``"at_once"`` starts all n tasks.  ``"on_lag"`` starts those that suffice (of a systematic
        code the data blocks' first), and a further one for each that lags: that has run for 1.5
        times the median, once half of the first ones have finished.  ``"auto"`` does the former
        when the executor has a slot for every task, and the latter when it has fewer; slots that
        would be idle then get further tasks from the start.
    retries
        How often a task that raised is repeated.  When all raise the same, it is not.
    losses
        How often a task whose worker was lost, or that gave no answer in time, is repeated.
    timeout
        Seconds that one task may run before it is taken for lost.  None: 20 times the slowest
        finished one and at least 30 s.
    estimator
        Method of the estimates: ``"common_mean"``, ``"least_squares"``, ``"unbiased"``,
        ``"scaled"`` or ``"gram"``; see `PolarCode.estimate`.
    verify_extra
        Outputs to wait for beyond those that decode.  One spare output detects a wrong one, two
        to four locate it; it is dropped then.  With none to spare a wrong output goes unseen.
    deadline
        Seconds from this call after which the job stops, exact or not: control returns, and
        ``job.estimate`` says what there is.  Decoding is interrupted, too.
    rtol
        Stop as soon as the expected relative error of the estimate is at most this.
    callback
        Called with the `Estimate` after each output; returning True or raising StopIteration
        stops the job.
    out
        Where the answer goes: an array of its shape and dtype, or the path of a ``.npy`` file.
        With a file, or an array mapped to one, the outputs lie in a temporary file beside it, so
        that the driver needs memory for neither.
    keep
        Folder, URL or `MemoryStore` in which outputs are kept as they come; those of the same
        product that are there already are not computed again.
    max_memory
        Bytes that outputs and answer may take on the driver: about k outputs, and as much for
        the answer unless there is `out`.  None: what this process may use at all.
    delays
        Seconds that each task is stretched by, shape (n,): stragglers to try things out with.

    Returns
    -------
    Job
        Under way already.  The answer has shape (m,) and NumPy's result type of both dtypes.

    Raises
    ------
    TypeError
        If `A` is no coded matrix.
    ValueError
        If the shapes do not fit; no task is sent then.
    MemoryError
        If the answer cannot fit into memory; no task is sent then.

    Examples
    --------
    >>> import sooner
    >>> A = np.arange(12.0).reshape(4, 3)
    >>> coded = sooner.encode(A, sooner.PolarCode(4, 2))
    >>> with matvec(coded, [1.0, 0.0, 2.0], executor="threads:2") as job:
    ...     job.result()
    array([ 4., 13., 22., 31.])
    """
    _check_coded(A)
    vector = _operand(x, "x")
    if vector.shape != (A.shape[1],):
        raise ValueError(
            f"x must have shape ({A.shape[1]},) to be multiplied by a matrix of shape {A.shape}, "
            f"got {vector.shape}." + (" Use matmat for a matrix." if vector.ndim == 2 else "")
        )
    options = Options(
        executor=executor,
        rules=Rules(policy, retries, losses, timeout),
        estimator=estimator,
        verify_extra=verify_extra,
        deadline=deadline,
        rtol=rtol,
        callback=callback,
        out=out,
        keep=keep,
        max_memory=max_memory,
        delays=delays,
    )
    return _start(A, vector, options)


def matmat(
    A: CodedMatrix,
    X: ArrayLike,
    *,
    executor: Any,
    policy: str = "auto",
    retries: int = 2,
    losses: int = 4,
    timeout: float | None = None,
    estimator: str = "common_mean",
    verify_extra: int = 0,
    deadline: float | None = None,
    rtol: float | None = None,
    callback: Callable[[Estimate], Any] | None = None,
    out: Out = None,
    keep: StoreLike = None,
    max_memory: int | None = None,
    delays: Sequence[float] | None = None,
) -> Job:
    """Start ``A @ X`` for a matrix X of few columns: one round of tasks for all of them.

    Parameters
    ----------
    A
        The coded matrix, shape (m, columns).
    X
        Shape (columns, width), numbers of any dtype.
    executor, policy, retries, losses, timeout, estimator, verify_extra, deadline, rtol
        As in `matvec`.
    callback, out, keep, max_memory, delays
        As in `matvec`.

    Returns
    -------
    Job
        Under way already.  The answer has shape (m, width).

    Raises
    ------
    TypeError
        If `A` is no coded matrix.
    ValueError
        If the shapes do not fit; no task is sent then.
    MemoryError
        If the answer cannot fit into memory; no task is sent then.

    Examples
    --------
    >>> import sooner
    >>> coded = sooner.encode(np.eye(4), sooner.PolarCode(4, 3))
    >>> with matmat(coded, np.ones((4, 2)), executor="threads:2") as job:
    ...     job.result().shape
    (4, 2)
    """
    _check_coded(A)
    matrix = _operand(X, "X")
    if matrix.ndim != 2 or matrix.shape[0] != A.shape[1]:
        raise ValueError(
            f"X must have shape ({A.shape[1]}, width) to be multiplied by a matrix of shape "
            f"{A.shape}, got {matrix.shape}."
            + (" Use matvec for a vector." if matrix.ndim == 1 else "")
        )
    options = Options(
        executor=executor,
        rules=Rules(policy, retries, losses, timeout),
        estimator=estimator,
        verify_extra=verify_extra,
        deadline=deadline,
        rtol=rtol,
        callback=callback,
        out=out,
        keep=keep,
        max_memory=max_memory,
        delays=delays,
    )
    return _start(A, matrix, options)


def _check_coded(A: object) -> None:
    if not hasattr(A, "block_source"):
        raise TypeError(
            f"A must be a coded matrix, from encode or open_coded, got {type(A).__name__}."
        )


def _operand(x: ArrayLike, name: str) -> Array:
    """The right-hand operand as a C-ordered array of numbers in native byte order."""
    array = np.asarray(x)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16:
        raise TypeError(f"{name} must hold numbers of at most double precision, got {array.dtype}.")
    if array.dtype.char in "gG":  # long double: the blocks have no such precision
        raise TypeError(f"{name} must be of single or double precision, got {array.dtype}.")
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _start(A: CodedMatrix, x: Array, options: Options) -> Job:
    gram = getattr(A, "gram", None)
    if options.estimator == "gram" and gram is None:
        raise ValueError(
            'estimator="gram" needs the inner products of the data blocks. Encode with gram=True.'
        )
    dtype, width = np.result_type(A.dtype, x.dtype), x.shape[1:]
    work = Work(multiply_block, (A.block_rows, *width), dtype, (A.shape[0], *width))
    if 0 in {*A.shape, *width}:  # there is nothing to compute
        return options.start(A.code, work)
    return options.start(
        A.code,
        work,
        lambda task, reference: (A.block_source(task), reference, dtype.str),
        broadcast=x,
        gram=gram,
        kept=None if options.keep is None else KeptOutputs.of_product(options.keep, A, x),
    )
