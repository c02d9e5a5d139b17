"""Decisions of a job as pure functions of the time and of what happened; no clock in here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sooner._types import Mask
    from sooner.codes.base import Code

__all__ = [
    "POLICIES",
    "can_still_be_decoded",
    "lag_limit",
    "overdue",
    "patience",
    "raise_again",
    "resolve",
    "stand_ins",
]

POLICIES = ("auto", "at_once", "on_lag")
"""When tasks are launched: all at once; or those that suffice, and others when these lag."""

LAG_FACTOR = 1.5
"""A task lags when it runs for longer than so many medians."""

_FIRST_ANSWER = 3600.0
_FACTOR = 20.0
_FLOOR = 30.0


def resolve(policy: str, n: int, slots: int | None) -> str:
    """Choose between the policies.

    With a worker for each task, redundancy costs no time.  With fewer, a redundant task takes the
    slot of one that is needed, so it had better wait until something lags.

    Parameters
    ----------
    policy
        One of `POLICIES`.
    n
        Number of tasks.
    slots
        Tasks that can run at the same time; None if unknown.

    Returns
    -------
    str
        ``"at_once"`` or ``"on_lag"``.

    Examples
    --------
    >>> resolve("auto", 64, 8), resolve("auto", 64, 100), resolve("at_once", 64, 8)
    ('on_lag', 'at_once', 'at_once')
    """
    if policy != "auto":
        return policy
    return "on_lag" if slots is not None and slots < n else "at_once"


def stand_ins(code: Code, hopeful: Mask, spare: Iterable[int], extra: int = 0) -> list[int]:
    """Fewest of the spare tasks, in their order, that suffice with the hopeful ones.

    A spare task stands in for *any* task that lags or is lost.  With nothing hopeful, these are
    the tasks to begin with.

    Parameters
    ----------
    code
        The code.
    hopeful
        Outputs that are available or whose task runs and does not lag, shape (n,).
    spare
        Tasks that may be launched, the best first.
    extra
        Outputs that are wanted beyond those that decode.

    Returns
    -------
    list of int
        Tasks to launch; all spare ones if even these do not suffice.

    Examples
    --------
    >>> from sooner.codes import PolarCode
    >>> code = PolarCode(8, 4, rng=0)
    >>> first = stand_ins(code, np.zeros(8, dtype=bool), range(8))
    >>> first
    [0, 1, 2, 3]
    >>> stand_ins(code, np.isin(np.arange(8), [0, 1, 3]), [4, 5, 6, 7])  # task 2 lags
    [4]
    """
    decoder = code.decoder()
    beyond = 0
    for index in np.flatnonzero(hopeful).tolist():
        beyond += decoder.decodable
        decoder.add(index)
    chosen: list[int] = []
    for index in spare:
        if decoder.decodable and beyond >= extra:
            break
        beyond += decoder.decodable
        decoder.add(index)
        chosen.append(index)
    return chosen


def lag_limit(run_times: Collection[float], n_first: int) -> float | None:
    """Seconds after which a running task lags.

    Parameters
    ----------
    run_times
        Seconds that the finished tasks took.
    n_first
        How many tasks the job began with.

    Returns
    -------
    float or None
        `LAG_FACTOR` medians; None as long as less than half as many tasks have finished as the
        job began with, since the median is not known then.

    Examples
    --------
    >>> lag_limit([1.0, 3.0, 2.0], 6), lag_limit([1.0, 3.0], 6)
    (3.0, None)
    """
    if not run_times or 2 * len(run_times) < n_first:
        return None
    return LAG_FACTOR * float(np.median(list(run_times)))


def raise_again(kinds: Iterable[tuple[int, str]]) -> str | None:
    """Name the error that repeating does not help against.

    A task that raises is repeated, since a worker may be at fault.  When the repetition raises
    the same, and other tasks do, too, the function is at fault, and every task would.

    Parameters
    ----------
    kinds
        The task and the kind of error, for each attempt that raised.

    Returns
    -------
    str or None
        The kind that one task raised twice and another one as well; None if there is none.

    Examples
    --------
    >>> raise_again([(0, "ValueError"), (1, "ValueError")]) is None
    True
    >>> raise_again([(0, "ValueError"), (1, "ValueError"), (0, "ValueError")])
    'ValueError'
    """
    tasks: dict[str, list[int]] = {}
    for task, kind in kinds:
        tasks.setdefault(kind, []).append(task)
    for kind, raised in tasks.items():
        if 1 < len(set(raised)) < len(raised):
            return kind
    return None


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
