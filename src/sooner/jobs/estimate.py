"""What a job knows at one moment: the answer so far and how far off it is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sooner._types import Array, Mask
    from sooner.codes.estimate import Functional
    from sooner.jobs.answer import Answer

__all__ = ["Estimate"]


class Estimate:
    """The answer so far.  What it says is computed when it is asked for, not before.

    Parameters
    ----------
    answer
        The job's outputs and what they amount to.
    available
        The outputs of this moment, shape (n,).
    exact
        Whether they determine the answer.
    elapsed
        Seconds from the job's start.

    Examples
    --------
    >>> import sooner
    >>> coded = sooner.encode(np.eye(8), sooner.PolarCode(8, 4, rng=0))
    >>> run_times = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    >>> job = sooner.matvec(coded, np.ones(8), executor=sooner.VirtualExecutor(run_times))
    >>> first, *_, last = job
    >>> first.exact, first.n_available, first.elapsed, bool(0 < first.relative_error <= 1)
    (False, 1, 1.0, True)
    >>> last.exact, last.relative_error, bool(np.allclose(last.value, 1))
    (True, 0.0, True)
    """

    def __init__(self, answer: Answer, available: Mask, *, exact: bool, elapsed: float) -> None:
        self._answer = answer
        self._available = available
        self.exact = exact
        self.elapsed = elapsed
        self.n_available = int(np.count_nonzero(available))

    @functools.cached_property
    def value(self) -> Array:
        """The answer: of full shape, with every entry estimated."""
        return self._answer.exact() if self.exact else self._answer.estimated(self._available)

    @functools.cached_property
    def relative_error(self) -> float:
        """Root mean square of the error over that of the answer, expected; 0 when exact.

        By leave-one-out or the code's law, whichever the job's ``estimator`` has; NaN where the
        code has no estimates.
        """
        return 0.0 if self.exact else self._answer.relative_error(self._available)

    @functools.cached_property
    def determined(self) -> Mask:
        """Data blocks that the outputs fix already, shape (k,); exact in `value`."""
        return self._answer.determined(self._available, exact=self.exact)

    def functional(self, c: ArrayLike) -> Functional:
        """Estimate one number that is linear in the answer, ``sum(c * answer)``, without bias.

        Parameters
        ----------
        c
            Coefficients, of the shape of the answer.

        Returns
        -------
        Functional
            ``value`` and ``standard_error``, which does not grow with the number of data
            blocks, and is 0 when exact.

        Raises
        ------
        ValueError
            If the shape is another, or the code has no unbiased estimate.

        Notes
        -----
        "Randomized polar codes for anytime distributed machine learning", eq. (5).

        Examples
        --------
        >>> import sooner
        >>> coded = sooner.encode(np.eye(8), sooner.PolarCode(8, 4, rng=0))
        >>> job = sooner.matvec(coded, np.ones(8), executor=sooner.VirtualExecutor([1.0]))
        >>> first, *_, last = job
        >>> round(last.functional(np.ones(8)).value, 6), last.functional(np.ones(8)).standard_error
        (8.0, 0.0)
        """
        return self._answer.functional(np.asarray(c), self._available, exact=self.exact)

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "not exact"
        return f"<Estimate from {self.n_available} outputs after {self.elapsed:.3g} s, {kind}>"

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return np.asarray(self.value, dtype=dtype, copy=copy)  # type: ignore[call-overload,no-any-return]
