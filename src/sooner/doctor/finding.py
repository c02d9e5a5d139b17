"""What a check found, in one line and in bounded time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sooner.errors import SoonerError
from sooner.executors.worker import run_bounded

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CheckFailedError", "Finding", "check"]


class CheckFailedError(Exception):
    """Something is wrong; the message says what, and what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    name: str
    ok: bool
    message: str
    """What was found; and if it is bad, what to do."""

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'failed':<8}{self.name:<12}{self.message}"


def check(name: str, timeout: float, look: Callable[[], str], *, late: str = "") -> Finding:
    """Look at something, in a thread that is left behind if it takes too long.

    Parameters
    ----------
    name
        Of the check.
    timeout
        Seconds that it may take.
    look
        Says what is well, or raises.
    late
        What to do if it takes too long.

    Returns
    -------
    Finding
        What was found.

    Examples
    --------
    >>> print(check("number", 5.0, lambda: str(1 + 1)))
    ok      number      2
    >>> print(check("number", 5.0, lambda: str(1 / 0)))
    failed  number      ZeroDivisionError: division by zero
    """

    def find() -> Finding:
        try:
            return Finding(name, True, look())
        # Not only Exception: obstore may panic, and Lithops may call sys.exit.
        except BaseException as error:
            return Finding(name, False, _one_line(error))

    try:
        finding: Finding = run_bounded(timeout, find)
    except TimeoutError:
        return Finding(name, False, f"no answer within {timeout:g} s. {late}".rstrip())
    return finding


def _one_line(error: BaseException) -> str:
    # The message of a KeyError, say, tells little without its type.
    expected = isinstance(error, (CheckFailedError, SoonerError)) and str(error)
    return " ".join((str(error) if expected else f"{type(error).__name__}: {error}").split())
