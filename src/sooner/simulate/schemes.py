"""Ways to run one product on a number of workers: uncoded, backup tasks, coded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from sooner import _checks
from sooner.policy import LAG_FACTOR

__all__ = ["Scheme"]

Kind: TypeAlias = Literal["uncoded", "backup", "dropped", "coded"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one product is cut into tasks, and when which tasks are launched.

    Every scheme is judged on the same number of workers and the same matrix, so that fewer and
    larger blocks mean longer tasks.  Make one with `uncoded`, `backup`, `wait_for_share`,
    `at_once` or `on_lag`.

    Examples
    --------
    >>> Scheme.at_once(64, 48)
    Scheme(kind='coded', n=64, k=48, policy='at_once', first=64, lag_factor=1.5)
    >>> print(Scheme.at_once(64, 48), Scheme.on_lag(68, 60, first=64), Scheme.backup(64), sep=", ")
    coded 48 of 64 at once, coded 60 of 68, 64 at once, others on lag, backup at 1.5 medians
    """

    kind: Kind
    """``uncoded``; ``backup``: a task that lags is repeated; ``dropped``: what has not come when
    a share has is dropped, so the answer is not exact; ``coded``: any k outputs suffice."""
    n: int
    """Number of different tasks."""
    k: int
    """Number of outputs that suffice."""
    policy: str
    """``at_once``, or ``on_lag``: some tasks first, and others follow when they lag."""
    first: int
    """Number of tasks at the start, at least k."""
    lag_factor: float = LAG_FACTOR
    """A task lags when it runs for longer than so many medians."""

    @classmethod
    def uncoded(cls, workers: int) -> Scheme:
        """One block per worker, and wait for all.

        Parameters
        ----------
        workers
            How many.

        Returns
        -------
        Scheme
            The scheme.
        """
        workers = _checks.integer(workers, "workers", at_least=1)
        return cls("uncoded", workers, workers, "at_once", workers)

    @classmethod
    def backup(cls, workers: int, lag_factor: float = LAG_FACTOR) -> Scheme:
        """One block per worker; a task that lags is repeated once on a worker that is free.

        Parameters
        ----------
        workers
            How many.
        lag_factor
            Medians after which a task lags.

        Returns
        -------
        Scheme
            The scheme.
        """
        workers = _checks.integer(workers, "workers", at_least=1)
        lag_factor = _checks.positive(lag_factor, "lag_factor")
        return cls("backup", 2 * workers, workers, "on_lag", workers, lag_factor)

    @classmethod
    def wait_for_share(cls, workers: int, share: float) -> Scheme:
        """One block per worker; the last ones are dropped, so the answer lacks rows.

        Parameters
        ----------
        workers
            How many.
        share
            Share of the tasks to wait for.

        Returns
        -------
        Scheme
            The scheme.
        """
        workers = _checks.integer(workers, "workers", at_least=1)
        k = int(np.ceil(_checks.probability(share, "share") * workers))
        return cls("dropped", workers, max(1, k), "at_once", workers)

    @classmethod
    def at_once(cls, n: int, k: int) -> Scheme:
        """Coded, one task per worker, all of them at the start.

        Parameters
        ----------
        n
            Number of tasks and workers.
        k
            Number of data blocks.

        Returns
        -------
        Scheme
            The scheme.
        """
        return cls("coded", *_checked(n, k), "at_once", n)

    @classmethod
    def on_lag(cls, n: int, k: int, *, first: int | None = None) -> Scheme:
        """Coded, some tasks at the start, others when these lag.

        Parameters
        ----------
        n
            Number of tasks.
        k
            Number of data blocks.
        first
            Number of tasks at the start: k unless given.

        Returns
        -------
        Scheme
            The scheme.
        """
        n, k = _checked(n, k)
        first = k if first is None else _checks.integer(first, "first", at_least=k)
        return cls("coded", n, k, "on_lag", min(first, n))

    def __str__(self) -> str:
        if self.kind == "uncoded":
            return "uncoded"
        if self.kind == "backup":
            return f"backup at {self.lag_factor:g} medians"
        if self.kind == "dropped":
            return f"wait for {self.k} of {self.n}, drop the rest"
        if self.policy == "at_once":
            return f"coded {self.k} of {self.n} at once"
        return f"coded {self.k} of {self.n}, {self.first} at once, others on lag"

    @property
    def blocks(self) -> int:
        """Number of parts that the matrix is cut into."""
        return self.n if self.kind == "dropped" else self.k

    @property
    def exact(self) -> bool:
        """Whether the answer is complete."""
        return self.kind != "dropped"

    @property
    def rate(self) -> float:
        """Share k / n of the outputs that suffice; 1 where nothing is coded."""
        return self.k / self.n if self.kind == "coded" else 1.0

    @property
    def stored(self) -> int:
        """Number of different blocks at rest, in data blocks."""
        return self.n if self.kind == "coded" else self.blocks


def _checked(n: int, k: int) -> tuple[int, int]:
    n = _checks.integer(n, "n", at_least=1)
    k = _checks.integer(k, "k", at_least=1)
    if k > n:
        raise ValueError(f"k must satisfy 0 < k <= n, got k={k}, n={n}.")
    return n, k
