"""Sizes, times and tables for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["count", "size", "table", "time"]


def size(n_bytes: int) -> str:
    """Give a number of bytes in the unit that suits it (decimal, as disks are sold).

    Parameters
    ----------
    n_bytes
        The number.

    Returns
    -------
    str
        Three significant digits and a unit.

    Examples
    --------
    >>> size(999), size(25_600_000), size(2_300_000_000)
    ('999 B', '25.6 MB', '2.3 GB')
    """
    number, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if number < 999.5:  # 999.6 kB would be written 1e+03
            break
        number, unit = number / 1000, larger
    return f"{number:.3g} {unit}"


def time(seconds: float) -> str:
    """Give seconds with as many digits as matter.

    Parameters
    ----------
    seconds
        The time.

    Returns
    -------
    str
        Seconds up to ten minutes, then hours and minutes.

    Examples
    --------
    >>> time(0.0123), time(3.11), time(59.96), time(7380)
    ('0.01 s', '3.11 s', '60.0 s', '2 h 03 min')
    """
    if seconds >= 600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"


def count(number: int, noun: str) -> str:
    """Give a number with its noun in the singular or plural.

    Parameters
    ----------
    number
        How many.
    noun
        Of what, in the singular; its plural ends in s.

    Returns
    -------
    str
        Both.

    Examples
    --------
    >>> count(1, "worker"), count(20, "straggler")
    ('1 worker', '20 stragglers')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table to stdout: drawn on a terminal, columns of plain text elsewhere.

    Parameters
    ----------
    header
        One name per column; the first column is aligned left, the others right.
    rows
        The cells.
    """
    if sys.stdout.isatty():
        _draw(header, rows)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def _draw(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD)
    for place, name in enumerate(header):
        drawn.add_column(name, justify="left" if place == 0 else "right")
    for row in rows:
        drawn.add_row(*row)
    Console(file=sys.stdout).print(drawn)
