"""Decisions of a job as pure functions of the time and of what happened; no clock in here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sooner._types import Mask
    from sooner.codes.base import Code

__all__ = ["can_still_be_decoded", "overdue", "patience"]

_FIRST_ANSWER = 3600.0
_FACTOR = 20.0
_FLOOR = 30.0


def can_still_be_decoded(code: Code, hoped_for: Mask) -> bool:
    """Whether the answer is determined once all outputs that may still come have come.

    Parameters
    ----------
    code
        The code.
    hoped_for
        Outputs that are available or whose task still runs, shape (n,).

    Returns
    -------
    bool
        False when waiting alone cannot help.

    Examples
    --------
    >>> from sooner.codes import Uncoded
    >>> can_still_be_decoded(Uncoded(3), np.array([True, False, True]))
    False
    """
    if np.count_nonzero(hoped_for) < code.k:
        return False
    decoder = code.decoder()
    for index in np.flatnonzero(hoped_for).tolist():
        decoder.add(index)
    return decoder.decodable


def patience(timeout: float | None, run_times: Sequence[float]) -> float:
    """Seconds that one task may run before it is taken for lost.

    Parameters
    ----------
    timeout
        What the user said, or None.
    run_times
        Seconds that the finished tasks took.

    Returns
    -------
    float
        `timeout`, else 20 times the slowest finished task and at least 30 s, else (nothing has
        finished yet) an hour: nothing waits without bound.

    Examples
    --------
    >>> patience(None, [1.0, 4.0]), patience(None, []), patience(5.0, [1.0])
    (80.0, 3600.0, 5.0)
    """
    if timeout is not None:
        return timeout
    if not run_times:
        return _FIRST_ANSWER
    return max(_FLOOR, _FACTOR * max(run_times))


def overdue(now: float, started: Iterable[float | None], limit: float) -> list[int]:
    """Which tasks have run for longer than they may.

    Parameters
    ----------
    now
        The time.
    started
        When each task began; None for one that still waits for a worker.
    limit
        Seconds that a task may run.

    Returns
    -------
    list of int
        Their places in `started`.

    Examples
    --------
    >>> overdue(10.0, [0.0, None, 8.0], 5.0)
    [0]
    """
    return [
        place for place, start in enumerate(started) if start is not None and now - start >= limit
    ]
