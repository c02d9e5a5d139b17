"""What a policy would have done: a scheme replayed over measured or drawn rounds of run times.

All rounds advance together, wave by wave: the first tasks at time zero, then, each time that the
tasks which run lag, the fewest others that make up for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sooner import policy
from sooner.codes.base import launch_order
from sooner.simulate.decodability import any_k_of_n, decodability_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Mask, RNGLike
    from sooner.codes import Code
    from sooner.simulate.rounds import Rounds
    from sooner.simulate.schemes import Scheme

__all__ = ["Replay", "replay"]


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What a scheme took in each round."""

    seconds: NDArray[np.float64]
    """Seconds until the answer, shape (rounds,)."""
    worker_seconds: NDArray[np.float64]
    """Seconds that workers were busy until then, start-up included, shape (rounds,)."""
    wasted: NDArray[np.float64]
    """Those of them spent on tasks whose output was not used, shape (rounds,)."""
    unstopped: NDArray[np.float64]
    """Seconds that workers are busy where a task that is not needed any more cannot be stopped."""
    launched: NDArray[np.intp]
    """Number of tasks that were launched, shape (rounds,)."""
    dropped: float
    """Share of the answer that is missing; 0 when it is exact."""


def replay(rounds: Rounds, scheme: Scheme, *, code: Code | None = None, rng: RNGLike = 0) -> Replay:
    """Run a scheme over rounds of run times.

    Parameters
    ----------
    rounds
        Run times of tasks that hold one part of as many as there are workers.  Tasks of a scheme
        with fewer blocks have more work in that proportion, and the same start-up.
    scheme
        What to run; its first tasks must find a worker each.
    code
        Whose decoder says when the outputs suffice; any k of n do unless given.
    rng
        Seed or generator of the run times of tasks that are launched later (SPEC 7).

    Returns
    -------
    Replay
        Times and costs of each round.

    Raises
    ------
    ValueError
        If there are fewer workers than first tasks, or the code has another n.

    Notes
    -----
    A task that is launched later runs on a worker that has ended its own, and takes what a task
    of the same round took, drawn at random: stragglers included.  Tasks that are not needed any
    more are stopped.

    Examples
    --------
    >>> from sooner.simulate import Rounds, Scheme
    >>> rounds = Rounds([[1.0, 1.0, 1.2, 9.0]])
    >>> replay(rounds, Scheme.uncoded(4)).seconds
    array([9.])
    >>> replay(rounds, Scheme.at_once(4, 3)).seconds  # tasks are 4/3 as long
    array([1.6])
    """
    enough = _sufficiency(scheme, code)
    durations = _durations(rounds, scheme, enough, rng)
    start = np.full(durations.shape, np.inf)
    start[:, : enough.n_first] = 0.0
    if enough.n_first < durations.shape[1]:
        _launch_more(start, durations, scheme.lag_factor, enough, rounds.n_workers)
    finish = start + durations
    seconds = enough.times(finish)
    end = np.minimum(enough.stopped(finish), seconds[:, None])
    busy = np.where(start < end, end - np.minimum(start, end), 0.0)
    launched = start < seconds[:, None]
    return Replay(
        seconds,
        busy.sum(axis=1),
        np.where(finish > end, busy, 0.0).sum(axis=1),
        np.where(launched, durations, 0.0).sum(axis=1),
        np.count_nonzero(launched, axis=1),
        0.0 if scheme.exact else 1 - scheme.k / scheme.n,
    )


class _Sufficiency(Protocol):
    """Which outputs suffice; columns are tasks in order of launching."""

    n_first: int

    def times(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        """When the outputs suffice, shape (rounds,)."""

    def stopped(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        """When each task ends at the latest, if the answer does not come before."""

    def stand_ins(self, available: Mask, launched: Mask, free: NDArray[np.intp]) -> Mask:
        """Tasks to launch when only `available` can be hoped for, at most `free` of them."""


class _AnyK:
    def __init__(self, k: int, n_first: int) -> None:
        self._k = k
        self.n_first = n_first

    def times(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        return any_k_of_n(finish, self._k)

    def stopped(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        return finish

    def stand_ins(self, available: Mask, launched: Mask, free: NDArray[np.intp]) -> Mask:
        missing = self._k - np.count_nonzero(available, axis=1)
        before = np.count_nonzero(launched, axis=1)
        until = before + np.minimum(missing, free)
        places = np.arange(launched.shape[1])
        chosen: Mask = (places >= before[:, None]) & (places < until[:, None])
        return chosen


class _Copies:
    """Column i + k repeats column i."""

    def __init__(self, k: int) -> None:
        self._k = self.n_first = k

    def _block_times(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        times: NDArray[np.float64] = finish.reshape(len(finish), -1, self._k).min(axis=1)
        return times

    def times(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        slowest: NDArray[np.float64] = self._block_times(finish).max(axis=1)
        return slowest

    def stopped(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.tile(self._block_times(finish), finish.shape[1] // self._k)

    def stand_ins(self, available: Mask, launched: Mask, free: NDArray[np.intp]) -> Mask:
        # At the first lag half of the workers are free, and at most as many tasks lag.
        lags = ~available[:, : self._k] & ~available[:, self._k :]
        chosen: Mask = np.hstack([np.zeros_like(lags), lags]) & ~launched
        return chosen & (np.cumsum(chosen, axis=1) <= free[:, None])


class _Decoder:
    """Asks a code, round by round; columns are its tasks in launch order."""

    def __init__(self, code: Code, first: int) -> None:
        self._code = code
        order = launch_order(code)
        needed = policy.stand_ins(code, np.zeros(code.n, dtype=np.bool_), order)
        self._order = np.array(needed + [task for task in order if task not in set(needed)])
        self._columns = np.argsort(self._order)  # of each task
        self.n_first = max(first, len(needed))

    def times(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        return decodability_times(self._code, finish[:, self._columns])

    def stopped(self, finish: NDArray[np.float64]) -> NDArray[np.float64]:
        return finish

    def stand_ins(self, available: Mask, launched: Mask, free: NDArray[np.intp]) -> Mask:
        chosen = np.zeros_like(launched)
        for row, (came, began) in enumerate(zip(available, launched, strict=True)):
            spare = self._order[~began].tolist()
            tasks = policy.stand_ins(self._code, came[self._columns], spare)
            chosen[row] = np.isin(self._order, tasks[: free[row]])
        return chosen


def _sufficiency(scheme: Scheme, code: Code | None) -> _Sufficiency:
    if code is not None:
        if code.n != scheme.n:
            raise ValueError(f"code must have n={scheme.n} as the scheme, got n={code.n}.")
        return _Decoder(code, scheme.first)
    if scheme.kind == "backup":
        return _Copies(scheme.k)
    return _AnyK(scheme.k, scheme.first)


def _durations(
    rounds: Rounds, scheme: Scheme, enough: _Sufficiency, rng: RNGLike
) -> NDArray[np.float64]:
    """Run time of each task, shape (rounds, n), if it is launched."""
    if enough.n_first > rounds.n_workers:
        raise ValueError(
            f"each of the first {enough.n_first} tasks must find a worker, got rounds of "
            f"{rounds.n_workers} workers. Use Rounds.drawn for more of them."
        )
    first = rounds.run_times(rounds.n_workers / scheme.blocks)
    shape = (rounds.n_rounds, scheme.n - enough.n_first)
    later = np.random.default_rng(rng).integers(rounds.n_workers, size=shape)
    return np.hstack([first[:, : enough.n_first], np.take_along_axis(first, later, axis=1)])


def _launch_more(
    start: NDArray[np.float64],
    durations: NDArray[np.float64],
    factor: float,
    enough: _Sufficiency,
    workers: int,
) -> None:
    """Launch stand-ins in place, wave by wave, in the rounds that still lag."""
    running = np.arange(len(start))
    wave = np.zeros(len(start))  # when the latest tasks of each running round began
    while running.size:
        begun, lengths = start[running], durations[running]
        finish = begun + lengths
        lag = _lag_times(finish, lengths, wave, factor, (enough.n_first + 1) // 2)
        late = lag < enough.times(finish)
        running, lag, begun, finish = running[late], lag[late], begun[late], finish[late]
        launched = np.isfinite(begun)
        available = finish <= lag[:, None]
        free = workers - np.count_nonzero(launched & ~available, axis=1)
        chosen = enough.stand_ins(available, launched, free)
        start[running] = np.where(chosen, lag[:, None], begun)
        more = chosen.any(axis=1)
        running, wave = running[more], lag[more]


def _lag_times(
    finish: NDArray[np.float64],
    durations: NDArray[np.float64],
    wave: NDArray[np.float64],
    factor: float,
    n_half: int,
) -> NDArray[np.float64]:
    """When tasks that began at `wave` have run for `factor` medians of the finished run times."""
    # The median grows with what finishes in the meantime: the time is approached from below.
    time = np.maximum(wave, any_k_of_n(finish, n_half))
    while True:
        finished = finish <= time[:, None]
        count = np.count_nonzero(finished, axis=1)
        ordered = np.sort(np.where(finished, durations, np.inf), axis=1)
        middle = np.stack([(count - 1) // 2, count // 2], axis=1)
        median = np.take_along_axis(ordered, middle, axis=1).mean(axis=1)
        later = np.maximum(time, wave + factor * median)
        if (later <= time).all():
            return time
        time = later
