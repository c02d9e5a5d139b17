"""The group of commands; each lives in a file of its own and imports what it needs when run."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import click

from sooner._version import __version__
from sooner.cli.demo import demo
from sooner.cli.design import design
from sooner.cli.doctor import doctor
from sooner.cli.encode import encode
from sooner.cli.figures import figures
from sooner.cli.info import info
from sooner.cli.measure import measure
from sooner.cli.minimize import minimize
from sooner.cli.multiply import multiply
from sooner.cli.plot import plot
from sooner.cli.repair import repair
from sooner.cli.report import report
from sooner.cli.simulate import simulate
from sooner.cli.verify import verify
from sooner.errors import NotDecodableError, SoonerError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["sooner"]


class _NotDecodable(click.ClickException):
    exit_code = 4


class _Commands(click.Group):
    """A group that turns what its commands raise into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Parameters
        ----------
        ctx
            From click.

        Returns
        -------
        object
            What the command returns.
        """
        with _one_line(traceback=ctx.params["traceback"]):
            return super().invoke(ctx)


@contextlib.contextmanager
def _one_line(*, traceback: bool) -> Generator[None]:
    try:
        yield
    # What click itself understands; a broken pipe: it ends quietly when nobody reads.
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except NotDecodableError as error:
        raise _NotDecodable(str(error)) from error
    except Exception as error:
        if traceback:
            raise
        # An unexpected error's message, such as that of a KeyError, says little without its type.
        expected = isinstance(error, (SoonerError, OSError, ValueError, MemoryError)) and str(error)
        name = "" if expected else f"{type(error).__name__}: "
        raise click.ClickException(" ".join(f"{name}{error}".split())) from error


class _Remarks(logging.Handler):
    """Log records as remarks on stderr, also while a progress line is there."""

    def emit(self, record: logging.LogRecord) -> None:
        # click looks stderr up at each call, so rich can keep the progress line below.
        click.echo(self.format(record), err=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@click.option("--traceback", is_flag=True, help="Show where an error was raised.")
@click.pass_context
def sooner(ctx: click.Context, traceback: bool) -> None:
    """Multiply by a huge matrix on many machines, exact before the slowest of them reply."""
    logger = logging.getLogger("sooner")
    handler, level = _Remarks(), logger.level
    # The demo tells its story; of all others only warnings are remarks.
    handler.addFilter(
        lambda record: record.levelno >= logging.WARNING or record.name.startswith("sooner.demo")
    )
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    ctx.call_on_close(lambda: logger.removeHandler(handler))
    ctx.call_on_close(lambda: logger.setLevel(level))


for _command in (
    encode,
    multiply,
    info,
    verify,
    repair,
    report,
    plot,
    demo,
    doctor,
    measure,
    design,
    simulate,
    minimize,
    figures,
):
    sooner.add_command(_command)
