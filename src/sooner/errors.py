"""Every exception of sooner, each also a built-in that a caller would already catch.

::

    SoonerError
    ├── NotDecodableError      RuntimeError          the outputs do not determine the answer
    │   └── TaskFailedError                          ... because tasks raised, and how
    ├── JobTimeoutError        TimeoutError          the time is over; carries the estimate
    ├── JobStoppedError        RuntimeError          stopped early; carries the estimate
    ├── WrongOutputError       ArithmeticError       outputs contradict each other
    ├── WorkerLostError        RuntimeError          the process that ran a task is gone
    ├── NonFiniteError         ValueError            NaN or infinity in a matrix to encode
    ├── MissingAdjointError    NotImplementedError   a matrix was encoded without its transpose
    ├── MissingExtraError      ImportError           an optional package is not installed
    └── StoreError             OSError
        ├── StoreNotFoundError FileNotFoundError     nothing complete is stored there
        ├── StoreExistsError   FileExistsError       something is stored there already
        ├── StoreFormatError   ValueError            written by another version, or no store at all
        └── BlockLostError     OSError               a block is missing, forbidden or damaged
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BlockLostError",
    "JobStoppedError",
    "JobTimeoutError",
    "MissingAdjointError",
    "MissingExtraError",
    "NonFiniteError",
    "NotDecodableError",
    "SoonerError",
    "StoreError",
    "StoreExistsError",
    "StoreFormatError",
    "StoreNotFoundError",
    "TaskFailedError",
    "WorkerLostError",
    "WrongOutputError",
]


class SoonerError(Exception):
    """What every exception of this library is."""


class NotDecodableError(SoonerError, RuntimeError):
    """The available outputs do not determine the answer, and no more will come.

    Raised by ``Job.result`` after the last permitted re-issue, and by ``code.decode``.

    Parameters
    ----------
    message
        What is missing, and what to do.
    n_available
        Outputs that are available.
    missing
        Indices of the tasks whose outputs are not.
    n_needed
        How many more outputs are needed at the least.
    """

    def __init__(
        self,
        message: str,
        *,
        n_available: int = 0,
        missing: Sequence[int] = (),
        n_needed: int = 1,
    ) -> None:
        super().__init__(message)
        self.n_available = n_available
        self.missing = tuple(missing)
        self.n_needed = n_needed


class TaskFailedError(NotDecodableError):
    """Too many tasks raised; ``__cause__`` is the first exception, with its remote traceback."""


class JobTimeoutError(SoonerError, TimeoutError):
    """A job's time is over before its answer is exact.

    Parameters
    ----------
    message
        How many outputs came.
    estimate
        The ``Estimate`` from the outputs that did come.
    """

    def __init__(self, message: str, *, estimate: object = None) -> None:
        super().__init__(message)
        self.estimate = estimate


class JobStoppedError(SoonerError, RuntimeError):
    """A job was stopped by its tolerance or callback before its answer was exact.

    Parameters
    ----------
    message
        Why it was stopped.
    estimate
        The ``Estimate`` of that moment.
    """

    def __init__(self, message: str, *, estimate: object = None) -> None:
        super().__init__(message)
        self.estimate = estimate


class WrongOutputError(SoonerError, ArithmeticError):
    """Outputs contradict each other, and which one is wrong cannot be told."""


class WorkerLostError(SoonerError, RuntimeError):
    """The process that ran a task is gone: killed, out of memory, crashed or pre-empted."""


class NonFiniteError(SoonerError, ValueError):
    """A matrix to encode holds NaN or infinity.

    Encoding adds rows to each other, so one such entry would spoil its whole column.

    Parameters
    ----------
    message
        Where the entry is, and what to do.
    row, column
        Position of the first such entry.
    """

    def __init__(self, message: str, *, row: int, column: int) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class MissingAdjointError(SoonerError, NotImplementedError):
    """A matrix was encoded without its transpose, which ``adjoint=True`` encodes, too."""


class MissingExtraError(SoonerError, ImportError):
    """An optional package is not installed; the message says what to install."""


class StoreError(SoonerError, OSError):
    """Something is wrong with a coded matrix at rest."""


class StoreNotFoundError(StoreError, FileNotFoundError):
    """Nothing complete is stored there: no manifest, or an encoding that was interrupted."""


class StoreExistsError(StoreError, FileExistsError):
    """Something is stored there already, and ``overwrite=True`` was not given."""


class StoreFormatError(StoreError, ValueError):
    """The manifest is of a later version of sooner, or no manifest of sooner at all."""


class BlockLostError(StoreError):
    """A coded block is missing, forbidden, truncated or damaged; to a job, an erasure."""
