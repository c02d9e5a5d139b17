"""Least squares by coded gradient descent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from sooner import _checks
from sooner.errors import JobTimeoutError
from sooner.linalg import descent
from sooner.linalg.anytime import Anytime, EstimatingOperator
from sooner.linalg.descent import Point
from sooner.linalg.normal_equations import NormalEquations
from sooner.linalg.operator import CodedLinearOperator
from sooner.linalg.power import power_iteration
from sooner.linalg.stopping import as_operator, called_off, outcome, with_deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike
    from scipy.optimize import OptimizeResult

    from sooner._types import Array, RNGLike

__all__ = ["gradient_descent"]

_GROWN = 1e3
"""A gradient so many times larger than the first one means that the step is too long."""

_MARGIN = 1.05
"""Power iteration finds the largest eigenvalue from below."""

_METHODS = ("gradient", "nesterov", "cg")
_MESSAGES = {
    0: "The gradient is at most rtol times its size at zero, or atol.",
    1: "The maximum number of iterations was reached.",
    2: "The iteration diverges: the step must be below 2 over the square of A's largest singular "
    "value. Leave it out to have it estimated.",
    3: "The deadline has passed.",
    99: "The callback said so.",
}


def gradient_descent(
    A: Any,
    b: ArrayLike,
    *,
    x0: ArrayLike | None = None,
    normal_equations: bool = False,
    method: str = "gradient",
    damp: float = 0.0,
    step: float | None = None,
    anytime: Anytime | None = None,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    callback: Callable[[OptimizeResult], Any] | None = None,
    deadline: float | None = None,
    rng: RNGLike = 0,
) -> OptimizeResult:
    r"""Minimize $\frac12 \|A x - b\|^2 + \frac12 \mathrm{damp}^2 \|x\|^2$ by products with A.

    Two forms.  With A and its transpose coded (``adjoint=True``), each gradient
    $A^H (A x - b)$ is two rounds of tasks and the Gram matrix is never formed.  With
    ``normal_equations=True``, A is the Gram matrix $A^H A$, encoded once, and b is $A^H b$: a
    gradient is one round, and A need not be tall for it to be worth while, but the condition is
    squared.  All columns of b are solved at once, in the same rounds.

    Parameters
    ----------
    A
        As a rule a `CodedLinearOperator`, shape (m, n); anything that SciPy takes for an operator.
    b
        Shape (m,) or (m, r); with `normal_equations`, n instead of m.
    x0
        Where to begin, shape (n,) or (n, r); None is zero.
    normal_equations
        Whether A and b are those of the normal equations.
    method
        ``"gradient"``: the plain step; ``"nesterov"``: with momentum, which begins again where it
        leads uphill; ``"cg"``: conjugate gradients.
    damp
        Square root of the ridge, as in SciPy's ``lsqr``.
    step
        Length of a step; None is one over the largest eigenvalue of the Gram matrix, which power
        iteration estimates, and with `anytime` less (`Anytime.shortening`).  Conjugate gradients
        need none.
    anytime
        Estimate products from the first outputs; for the method ``"gradient"`` on a
        `CodedLinearOperator`.
    rtol, atol
        Converged when in every column the gradient is at most ``max(rtol * |A^H b|, atol)``.  An
        estimated gradient does not count.
    maxiter
        Steps at most; None is ten times n, and at least a thousand.
    callback
        Called after each step with an ``OptimizeResult`` of ``x``, ``fun``, ``jac`` and ``nit``;
        returning True or raising StopIteration stops.
    deadline
        Seconds after which it stops; by the executor's clock, and in the middle of a product, if
        `A` is a `CodedLinearOperator` itself.
    rng
        Draws the first vectors of the power iteration.

    Returns
    -------
    OptimizeResult
        ``x``, ``fun`` (summed over the columns; with `normal_equations` less the constant
        ``|b|² / 2``), ``jac`` (the gradient), ``nit``, ``step``, ``success``, ``status`` (0
        converged, 1 `maxiter`, 2 diverged, 3 `deadline`, 99 `callback`) and ``message``.

    Raises
    ------
    ValueError
        If shapes do not fit, or b is not finite; no task is sent then.
    TypeError
        If `A` is no operator.
    MissingAdjointError
        If A was encoded without its transpose, in the two-sided form.

    Notes
    -----
    "Straggler resilient serverless computing based on polar codes", Figure 9, has the plain step
    with the Gram matrix encoded.

    Examples
    --------
    >>> import sooner
    >>> A = np.random.default_rng(0).standard_normal((60, 4))
    >>> b = A @ [1.0, 2.0, 3.0, 4.0]
    >>> coded = sooner.encode(A, sooner.PolarCode(8, 6), adjoint=True)
    >>> with sooner.CodedLinearOperator(coded, "threads:2") as operator:
    ...     result = gradient_descent(operator, b, method="cg", rtol=1e-10)
    >>> result.x.round(6), result.success
    (array([1., 2., 3., 4.]), True)
    """
    _checks.one_of(method, "method", _METHODS)
    for name, value in (("damp", damp), ("rtol", rtol), ("atol", atol)):
        _checks.not_negative(value, name)
    if step is not None:
        _checks.positive(step, "step")
    operator, is_over = with_deadline(as_operator(A), deadline)
    B, x = _operands(operator, b, x0, normal_equations)
    maxiter = max(1000, 10 * len(x)) if maxiter is None else maxiter
    _checks.integer(maxiter, "maxiter", at_least=0)
    equations = NormalEquations(operator, B, damp, formed=normal_equations)
    estimated, shortening = None, 1.0
    if anytime is not None:
        estimating = _estimating(operator, anytime, method)
        estimated = NormalEquations(estimating, B, damp, formed=normal_equations)
        code = estimating.A.code
        shortening = anytime.shortening(code.n, code.k, 1 if normal_equations else 2)
    progress = _Progress(x, callback, is_vector=np.ndim(b) == 1)
    status = 1
    try:
        target = np.maximum(rtol * np.linalg.norm(equations.right_side(), axis=0), atol)
        if method != "cg":
            progress.step = shortening * _step(equations, x, rng) if step is None else step
        points = _points(method, equations, estimated, anytime, x, progress.step)
        for nit, point in zip(range(maxiter + 1), points, strict=False):
            found = progress.note(nit, point, target)
            if found is not None or is_over():
                status = 3 if found is None else found
                break
    except JobTimeoutError:
        status = 3
    return progress.result(status)


class _Progress:
    """What is known of the solution so far, and when it is enough."""

    def __init__(
        self, x: Array, callback: Callable[[OptimizeResult], Any] | None, *, is_vector: bool
    ) -> None:
        self.step = math.nan
        self._point = Point(x, np.full_like(x, math.nan), math.nan)
        self._nit = 0
        self._callback = callback
        self._is_vector = is_vector
        self._first = math.nan

    def note(self, nit: int, point: Point, target: Array) -> int | None:
        """Take in a point; gives the status that ends the descent, or None."""
        self._point, self._nit = point, nit
        sizes = np.linalg.norm(point.gradient, axis=0)
        size = float(np.linalg.norm(sizes))
        if nit == 0:
            self._first = max(size, float(np.linalg.norm(target)))
        stopped = called_off(self._callback, self._values())
        if point.exact and (sizes <= target).all():
            return 0
        if not math.isfinite(size) or size > _GROWN * self._first:
            return 2
        return 99 if stopped else None

    def result(self, status: int) -> OptimizeResult:
        """Give the outcome."""
        return self._values(
            step=self.step, status=status, success=status == 0, message=_MESSAGES[status]
        )

    def _values(self, **more: Any) -> OptimizeResult:
        x, gradient = self._point.x, self._point.gradient
        if self._is_vector:
            x, gradient = x[:, 0], gradient[:, 0]
        return outcome(x=x, fun=self._point.fun, jac=gradient, nit=self._nit, **more)


def _operands(
    A: LinearOperator, b: ArrayLike, x0: ArrayLike | None, normal_equations: bool
) -> tuple[Array, Array]:
    """Give right-hand sides and first points as matrices of one dtype."""
    rows, columns = A.shape
    if normal_equations and rows != columns:
        raise ValueError(
            f"A must be square with normal_equations=True, the matrix A.H @ A, got shape {A.shape}."
        )
    B = np.asarray(b)
    if B.ndim not in {1, 2} or B.shape[0] != rows:
        raise ValueError(
            f"b must have shape ({rows},) or ({rows}, r) for an operator of shape {A.shape}, got "
            f"{B.shape}."
        )
    if not np.isfinite(B).all():
        raise ValueError("b must be finite, and it holds NaN or infinity.")
    shape = (columns, *B.shape[1:])
    x = np.zeros(shape) if x0 is None else np.asarray(x0)
    if x.shape != shape:
        raise ValueError(f"x0 must have shape {shape} for this A and b, got {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError("x0 must be finite, and it holds NaN or infinity.")
    dtype = np.result_type(A.dtype or np.float64, B.dtype, np.float32)
    if x0 is not None:
        dtype = np.result_type(dtype, x.dtype)
    B, x = B.astype(dtype), x.astype(dtype)
    return (B, x) if B.ndim == 2 else (B[:, None], x[:, None])


def _estimating(A: LinearOperator, anytime: Anytime, method: str) -> EstimatingOperator:
    if not isinstance(A, CodedLinearOperator):
        raise TypeError(f"anytime needs A to be a CodedLinearOperator, got {type(A).__name__}.")
    if method != "gradient":
        raise ValueError(
            f'anytime is for method="gradient", got {method!r}, whose momentum adds the errors up.'
        )
    return EstimatingOperator(A, anytime.outputs)


def _step(equations: NormalEquations, x: Array, rng: RNGLike) -> float:
    """One over the largest eigenvalue of the normal equations."""
    n = len(x)
    if not n:
        return 1.0
    make: Any = LinearOperator
    times = equations.times
    matrix = make((n, n), matvec=times, matmat=times, dtype=x.dtype)
    found = power_iteration(matrix, rtol=0.01, maxiter=30, rng=rng)
    largest = float(abs(found.eigenvalues[0]))
    return 1 / (_MARGIN * largest) if largest else 1.0


def _points(
    method: str,
    equations: NormalEquations,
    estimated: NormalEquations | None,
    anytime: Anytime | None,
    x: Array,
    step: float,
) -> Iterator[Point]:
    """Give the way down that was asked for."""
    if anytime is not None and estimated is not None:
        return descent.anytime_steps(equations, estimated, x, step, anytime)
    if method == "cg":
        return descent.conjugate(equations, x)
    walk = descent.steps if method == "gradient" else descent.accelerated
    return walk(equations, x, step)
