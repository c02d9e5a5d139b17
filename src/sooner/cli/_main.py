"""The entry point: signals become exit codes, and a missing click becomes a sentence."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

_arrived: list[int] = []


class Interrupted(BaseException):
    """SIGINT or SIGTERM arrived; like KeyboardInterrupt, not for ``except Exception``.

    Parameters
    ----------
    signum
        Which signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum
        self.how_to_go_on = ""


def check_interrupted() -> None:
    """Raise once more for a signal that has arrived.

    Python drops an exception that happens to be raised in a finalizer or a weakref's callback,
    and a signal handler runs anywhere: without this, one Ctrl-C in some thirty is lost.

    Raises
    ------
    Interrupted
        If a signal has arrived.
    """
    if _arrived:
        raise Interrupted(_arrived[0])


@contextlib.contextmanager
def resumable(how: str) -> Generator[None]:
    """Tell whoever interrupts what follows how to go on.

    Parameters
    ----------
    how
        What to say.

    Yields
    ------
    None

    Raises
    ------
    Interrupted
        The one that arrived.
    """
    try:
        yield
    except Interrupted as error:
        error.how_to_go_on = how
        raise


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    if not all(map(importlib.util.find_spec, ("click", "rich"))):
        sys.exit('the sooner command needs click and rich: pip install "sooner[cli]"')
    signal.signal(signal.SIGINT, _on_signal)
    signal.signal(signal.SIGTERM, _on_signal)
    sys.unraisablehook = _report_unraisable
    try:
        from sooner.cli.commands import sooner

        sooner(prog_name="sooner")
    except Interrupted as error:
        name = "interrupted" if error.signum == signal.SIGINT else "terminated"
        sys.stderr.write("; ".join(filter(None, (name, error.how_to_go_on))) + "\n")
        sys.exit(128 + error.signum)


def _on_signal(signum: int, frame: FrameType | None) -> None:
    _arrived.append(signum)
    raise Interrupted(signum)


def _report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    # A dropped interruption is raised again by `check_interrupted`: nothing to report.
    if not isinstance(unraisable.exc_value, Interrupted):
        sys.__unraisablehook__(unraisable)
