"""A coded matrix as a SciPy ``LinearOperator``: every product is a job, waited for until exact."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from sooner.jobs import matmat, matvec
from sooner.linalg.engine import Engine
from sooner.store import CodedMatrix

if TYPE_CHECKING:
    from typing import Self

    from sooner._types import Array
    from sooner.executors.base import Executor
    from sooner.jobs import Job

__all__ = ["CodedLinearOperator"]

_NOT_OPTIONS = frozenset({"A", "x", "executor", "rtol", "out"})
"""Parameters of `matvec` that an operator has by itself, or that would end a product inexact."""


class CodedLinearOperator(LinearOperator):
    """A coded matrix for whoever takes a ``LinearOperator``: lsqr, eigsh, svds and so on.

    Every product is one round of tasks, however many columns it has, and exact: the jobs behind
    it are waited for.  ``T``, ``H``, ``rmatvec``, ``rmatmat`` and ``Y @ operator`` multiply by the
    transpose, which is there if the matrix was encoded with ``adjoint=True``.  Real matrices
    take complex vectors as pairs of real ones.  The dtype of a product is NumPy's for the blocks'
    and the operand's; vectors may be of any strides, read-only, integer, and of shape (columns, 1);
    sparse operands are made dense.

    Pickling takes along what pickling the coded matrix does (no block, unless they are in memory)
    and the name of the executor if it was given by name.  An executor of another kind stays where
    it is: the copy knows its shape and dtype, and needs an executor to multiply.

    Parameters
    ----------
    A
        The coded matrix.
    executor
        Where tasks run: whatever `as_executor` takes.  One that is made from a name such as
        ``"local:8"`` serves all products of this operator and of those that are made from it,
        until `close` or the end of a ``with`` block.
    **options
        Of every product, as in `matvec`: ``timeout``, ``retries``, ``verify_extra`` and so on.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    dtype : dtype
        Of the coded blocks; known without a task.

    Raises
    ------
    TypeError
        If `A` is no coded matrix, or there is no such option.

    Examples
    --------
    >>> import sooner
    >>> from scipy.sparse.linalg import lsqr
    >>> A = np.random.default_rng(0).standard_normal((60, 5))
    >>> coded = sooner.encode(A, sooner.PolarCode(8, 6), adjoint=True)
    >>> with CodedLinearOperator(coded, "threads:2") as operator:
    ...     x, *_ = lsqr(operator, A @ np.arange(5), atol=1e-12, btol=1e-12)
    >>> np.allclose(x, np.arange(5))
    True
    """

    def __init__(self, A: CodedMatrix, executor: Any, **options: Any) -> None:
        if not isinstance(A, CodedMatrix):
            raise TypeError(
                f"A must be a coded matrix, from encode or open_coded, got {type(A).__name__}."
            )
        allowed = inspect.signature(matvec).parameters.keys() - _NOT_OPTIONS
        for name in options:
            if name not in allowed:
                raise TypeError(
                    f"an operator has the options of matvec that keep it exact, "
                    f"{', '.join(sorted(allowed))}; got {name!r}."
                )
        super().__init__(A.dtype, A.shape)  # type: ignore[call-arg]  # missing in SciPy's stubs
        self.A = A
        """The coded matrix."""
        self._engine = Engine(executor)
        self._options = options
        self._end = math.inf
        self._conjugated = False

    @property
    def executor(self) -> Executor:
        """Where tasks run."""
        return self._engine.executor

    def close(self) -> None:
        """Close the executor if the operator was given only its name."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def until(self, end: float) -> Self:
        """Give the same operator with an end to its time.

        Parameters
        ----------
        end
            By the executor's clock, ``operator.executor.now()``.

        Returns
        -------
        CodedLinearOperator
            One whose products raise `JobTimeoutError` when they are not exact by then.
        """
        return self._variant(self.A, end=min(self._end, end))

    def matvec(self, x: Any) -> Any:
        """``A @ x`` for one vector.

        Parameters
        ----------
        x
            Shape (columns,) or (columns, 1).

        Returns
        -------
        ndarray, shape (rows,) or (rows, 1)
            The exact product.

        Raises
        ------
        ValueError
            If the shape is another; no task is sent then.
        """
        vector = self._operand(x)
        if vector.ndim == 1:
            return self._matvec(vector)
        if vector.shape[1] != 1:
            raise ValueError(
                f"x must be one vector of {self.shape[1]} numbers, got shape {vector.shape}. Use "
                "matmat for a matrix."
            )
        return self._matmat(vector)

    def matmat(self, X: Any) -> Any:
        """``A @ X`` for a matrix X: one round of tasks for all of its columns.

        Parameters
        ----------
        X
            Shape (columns, width).

        Returns
        -------
        ndarray, shape (rows, width)
            The exact product.

        Raises
        ------
        ValueError
            If the shape is another; no task is sent then.
        """
        matrix = self._operand(X)
        if matrix.ndim == 1:
            raise ValueError(
                f"X must have shape ({self.shape[1]}, width), got {matrix.shape}. Use matvec for "
                "a vector."
            )
        return self._matmat(matrix)

    def rmatvec(self, x: Any) -> Any:
        """Product of the adjoint (the conjugate transpose) and one vector.

        Parameters
        ----------
        x
            Shape (rows,) or (rows, 1).

        Returns
        -------
        ndarray, shape (columns,) or (columns, 1)
            The exact product.

        Raises
        ------
        MissingAdjointError
            If the matrix was encoded without its transpose.
        """
        return self.H.matvec(x)

    def rmatmat(self, X: Any) -> Any:
        """Product of the adjoint and a matrix: one round of tasks.

        Parameters
        ----------
        X
            Shape (rows, width).

        Returns
        -------
        ndarray, shape (columns, width)
            The exact product.

        Raises
        ------
        MissingAdjointError
            If the matrix was encoded without its transpose.
        """
        return self.H.matmat(X)

    def dot(self, x: Any) -> Any:
        """``operator @ x``: a product with numbers, or a composition with an operator.

        Parameters
        ----------
        x
            A vector, a matrix, another operator or a number.

        Returns
        -------
        ndarray or LinearOperator
            A product of numbers; a lazy one of operators.
        """
        to_compose: bool = isinstance(x, LinearOperator) or np.isscalar(x)
        if to_compose:
            return super().dot(x)
        operand = self._operand(x)
        return self._matvec(operand) if operand.ndim == 1 else self._matmat(operand)

    # What SciPy asks a subclass for -----------------------------------------------------------

    def _matvec(self, x: Array) -> Array:
        return self._times(x.reshape(-1))

    def _matmat(self, X: Array) -> Array:
        return self._times(X)

    def _transpose(self) -> Self:
        return self._variant(self.A.T)

    def _adjoint(self) -> Self:
        # A real matrix is its own conjugate.
        return self._variant(self.A.T, conjugated=self._conjugated != (self.dtype.kind == "c"))

    def _variant(
        self, A: CodedMatrix, *, conjugated: bool | None = None, end: float | None = None
    ) -> Self:
        """Give an operator that shares all but what is said."""
        variant = object.__new__(type(self))
        variant.__dict__.update(self.__dict__, A=A, dtype=A.dtype, shape=A.shape)
        variant._conjugated = self._conjugated if conjugated is None else conjugated
        variant._end = self._end if end is None else end
        return variant

    def _operand(self, x: Any) -> Array:
        """Give x as an array, if it has one or two axes, the first of the right length."""
        is_sparse: bool = issparse(x)
        array: Array = x.toarray() if is_sparse else np.asarray(x)
        if array.ndim not in {1, 2} or array.shape[0] != self.shape[1]:
            raise ValueError(
                f"x must have shape ({self.shape[1]},) or ({self.shape[1]}, width) to be "
                f"multiplied by an operator of shape {self.shape}, got {array.shape}."
            )
        return array

    def _times(self, x: Array) -> Array:
        """Multiply by the matrix, or by its conjugate."""
        if x.dtype.kind != "c":
            product = self._product(x)
            return product.conj() if self._conjugated else product
        if self.dtype.kind != "c":
            return self._times_pairs(x)
        return self._product(x.conj()).conj() if self._conjugated else self._product(x)

    def _times_pairs(self, x: Array) -> Array:
        """Multiply a real matrix by complex columns: their parts are columns of one product."""
        columns = x if x.ndim == 2 else x[:, None]
        pairs = np.empty((*columns.shape, 2), columns.real.dtype.newbyteorder("="))
        pairs[..., 0], pairs[..., 1] = columns.real, columns.imag
        product = self._product(pairs.reshape(len(pairs), 2 * pairs.shape[1]))
        complex_dtype = np.result_type(product.dtype, np.complex64)
        together: Array = product.view(complex_dtype)
        return together if x.ndim == 2 else together[:, 0]

    def _product(self, x: Array) -> Array:
        """Start the job of ``A @ x`` and wait for it."""
        start = matvec if x.ndim == 1 else matmat
        with start(self.A, x, executor=self.executor, **self._job_options()) as job:
            return self._outcome(job)

    def _outcome(self, job: Job) -> Array:
        return job.result()

    def _job_options(self) -> dict[str, Any]:
        if math.isinf(self._end):
            return self._options
        left = max(0.0, self._end - self.executor.now())
        given = self._options.get("deadline")
        return self._options | {"deadline": left if given is None else min(given, left)}
