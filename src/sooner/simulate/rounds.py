"""Run times of the same task on every worker, round after round: what a policy is replayed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sooner._types import RNGLike
    from sooner.runtimes import RunTimes

__all__ = ["Rounds"]


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Run times of one task per worker in each of several rounds, in two parts.

    A task has a start-up part, which stays what it is when the task gets smaller or larger, and
    work, which grows with its load.

    Parameters
    ----------
    work
        Seconds that each task computes at load 1, shape (rounds, workers).
    startup
        Seconds from the start of the round until it computes: one number, or shape like `work`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a time is negative or not finite.

    Examples
    --------
    >>> rounds = Rounds([[4.0, 8.0]], startup=1.0)
    >>> rounds.run_times(load=0.5).tolist()  # tasks half as large
    [[3.0, 5.0]]
    """

    work: NDArray[np.float64]
    """Seconds of work at load 1, shape (rounds, workers)."""
    startup: NDArray[np.float64]
    """Seconds before it, shape (rounds, workers)."""

    def __init__(self, work: ArrayLike, startup: ArrayLike = 0.0) -> None:
        times = np.array(work, dtype=np.float64)
        if times.ndim != 2 or not times.size:
            raise ValueError(
                "work must have shape (rounds, workers), with at least one of each, got shape "
                f"{times.shape}."
            )
        before = np.array(np.broadcast_to(np.asarray(startup, dtype=np.float64), times.shape))
        for name, seconds in (("work", times), ("startup", before)):
            wrong = seconds[~((seconds >= 0) & np.isfinite(seconds))]
            if wrong.size:
                raise ValueError(f"{name} must be finite seconds of at least 0, got {wrong[0]}.")
        object.__setattr__(self, "work", times)
        object.__setattr__(self, "startup", before)

    @classmethod
    def from_model(
        cls,
        run_times: RunTimes,
        workers: int,
        rounds: int,
        *,
        startup: float = 0.0,
        rng: RNGLike = 0,
    ) -> Rounds:
        """Draw rounds from a distribution of run times.

        Parameters
        ----------
        run_times
            Seconds of work at load 1.
        workers, rounds
            How many.
        startup
            Seconds before the work, the same for all.
        rng
            Seed or generator (SPEC 7).

        Returns
        -------
        Rounds
            The draws.

        Examples
        --------
        >>> from sooner.runtimes import ShiftedExponential
        >>> Rounds.from_model(ShiftedExponential(2.0, 1.0), workers=64, rounds=10)
        <Rounds: 10 of 64 workers, median 2.77 s, maximum 10.1 s>
        """
        shape = (
            _checks.integer(rounds, "rounds", at_least=1),
            _checks.integer(workers, "workers", at_least=1),
        )
        return cls(run_times.sample(np.random.default_rng(rng), shape), startup)

    def __repr__(self) -> str:
        times = self.run_times()
        return (
            f"<Rounds: {self.n_rounds} of {self.n_workers} workers, "
            f"median {np.median(times):.3g} s, maximum {times.max():.3g} s>"
        )

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.work)

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return int(self.work.shape[1])

    def run_times(self, load: float = 1.0) -> NDArray[np.float64]:
        """Run times of tasks of another size.

        Parameters
        ----------
        load
            Size of a task over that of the measured ones.

        Returns
        -------
        ndarray, shape (rounds, workers)
            Seconds from the start of the round to the end of each task.
        """
        return self.startup + load * self.work

    def __getitem__(self, rounds: slice | NDArray[np.intp]) -> Rounds:
        """Some of the rounds."""
        return Rounds(self.work[rounds], self.startup[rounds])

    def loaded(self, load: float) -> Rounds:
        """Rounds of tasks of another size.

        Parameters
        ----------
        load
            Size of a task over that of the measured ones.

        Returns
        -------
        Rounds
            With that size as load 1.
        """
        return Rounds(self.work * _checks.positive(load, "load"), self.startup)

    def drawn(self, workers: int, rounds: int, *, rng: RNGLike = 0) -> Rounds:
        """Draw rounds of another number of workers.

        Each draws its workers from one measured round, so that what slows all of a round down
        stays together; without repetition if there are enough of them.

        Parameters
        ----------
        workers
            How many workers each round shall have.
        rounds
            How many rounds; the measured ones are taken in turn.
        rng
            Seed or generator (SPEC 7).

        Returns
        -------
        Rounds
            The draws.

        Examples
        --------
        >>> Rounds([[1.0, 2.0, 3.0]]).drawn(workers=2, rounds=2).work.tolist()
        [[3.0, 1.0], [3.0, 2.0]]
        """
        workers = _checks.integer(workers, "workers", at_least=1)
        generator = np.random.default_rng(rng)
        if workers <= self.n_workers:
            everyone = np.tile(np.arange(self.n_workers), (rounds, 1))
            columns = generator.permuted(everyone, axis=1)[:, :workers]
        else:
            columns = generator.integers(self.n_workers, size=(rounds, workers))
        rows = np.arange(rounds)[:, None] % self.n_rounds
        return Rounds(self.work[rows, columns], self.startup[rows, columns])
