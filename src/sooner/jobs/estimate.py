"""What a job knows at one moment: the answer so far and how far off it is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from sooner._types import Array, Mask

__all__ = ["Estimate"]


class Estimate:
    """The answer so far.  Its value is computed when it is asked for, not before.

    Parameters
    ----------
    value
        Computes the answer.
    exact
        Whether the outputs determine the answer.
    n_available
        Number of outputs that it uses.
    elapsed
        Seconds from the job's start.
    relative_error
        Root mean square of the error over that of the answer, by the code's law; 0 when exact.
    determined
        Computes which data blocks the outputs fix.

    Examples
    --------
    >>> import sooner
    >>> coded = sooner.encode(np.eye(8), sooner.PolarCode(8, 4, rng=0))
    >>> run_times = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    >>> job = sooner.matvec(coded, np.ones(8), executor=sooner.VirtualExecutor(run_times))
    >>> first, *_, last = job
    >>> first.exact, first.n_available, first.elapsed, bool(first.relative_error > 1)
    (False, 1, 1.0, True)
    >>> last.exact, bool(np.allclose(last.value, 1))
    (True, True)
    """

    def __init__(
        self,
        value: Callable[[], Array],
        *,
        exact: bool,
        n_available: int,
        elapsed: float,
        relative_error: float,
        determined: Callable[[], Mask],
    ) -> None:
        self._value = value
        self._determined = determined
        self.exact = exact
        self.n_available = n_available
        self.elapsed = elapsed
        self.relative_error = relative_error

    @functools.cached_property
    def value(self) -> Array:
        """The answer: of full shape, with every entry estimated."""
        return self._value()

    @functools.cached_property
    def determined(self) -> Mask:
        """Data blocks that the outputs fix already, shape (k,)."""
        return self._determined()

    def __repr__(self) -> str:
        kind = "exact" if self.exact else f"relative error {self.relative_error:.2g}"
        return f"<Estimate from {self.n_available} outputs after {self.elapsed:.3g} s, {kind}>"

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return np.asarray(self.value, dtype=dtype, copy=copy)  # type: ignore[call-overload,no-any-return]
