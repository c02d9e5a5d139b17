"""When a job stops before its answer is exact: time, tolerance, or the caller says so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from sooner.jobs.estimate import Estimate

__all__ = ["Limits"]

_GROWTH = 1.02
"""The error bar is computed anew when there are so many times more outputs: it costs O(m³)."""


@dataclass(slots=True)
class Limits:
    """What ends a job early."""

    deadline: float = math.inf
    """Seconds from the job's start at which control returns, whatever has come."""
    rtol: float | None = None
    """Stop when the expected relative error is at most this."""
    callback: Callable[[Estimate], Any] | None = None
    """Called after each output; returning True or raising StopIteration stops."""
    end: float = math.inf
    """The deadline on the executor's clock, once the job has begun."""
    _next: int = 1

    def begin(self, now: float) -> None:
        """Note when the job begins.

        Parameters
        ----------
        now
            The time.
        """
        self.end = now + self.deadline

    def left(self, now: float) -> float:
        """Seconds until the end.

        Parameters
        ----------
        now
            The time.

        Returns
        -------
        float
            At least 0; infinite without a deadline.
        """
        return max(0.0, self.end - now)

    def reason(self, now: float, n_available: int, estimate: Callable[[], Estimate]) -> str | None:
        """Why to stop now.

        Parameters
        ----------
        now
            The time.
        n_available
            Outputs that have come.
        estimate
            Gives the estimate, if it has to be asked for.

        Returns
        -------
        str or None
            The reason; None to go on.
        """
        if now >= self.end:
            return "its deadline has passed"
        if self.callback is not None and self._called_off(estimate()):
            return "the callback said so"
        if self.rtol is not None and n_available >= self._next:
            self._next = max(n_available + 1, math.ceil(_GROWTH * n_available))
            if estimate().relative_error <= self.rtol:
                return f"its error bar is below rtol={self.rtol:g}"
        return None

    def _called_off(self, estimate: Estimate) -> bool:
        try:
            return self.callback is not None and self.callback(estimate) is True
        except StopIteration:
            return True
