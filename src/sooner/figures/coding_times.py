"""Times of encoding and decoding by different codes, from a kept benchmark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sooner.figures.panels import side_by_side

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from sooner.plots._matplotlib import Axes

__all__ = ["CodingTimes", "coding_rows", "draw_coding_times", "read_coding_times"]

_LINE = re.compile(
    r"\s*(?P<n>\d+)\s{2,}(?P<scheme>\S.*?)\s{2,}(?P<outputs>\d+)\s+(?P<encode>[\d.]+)\s+"
    r"(?P<decode>[\d.]+)\s+(?P<prepare>[\d.]+)\s+(?P<error>[\d.]+e[+-]\d+)\s*$"
)
"""n, scheme, outputs, encode s, decode s, prepare ms, relative error."""

_WRONG = 1e-2
"""Relative error from which an answer is of no use."""


@dataclass(frozen=True, slots=True)
class CodingTimes:
    """One code at one number of tasks."""

    n: int
    scheme: str
    encode: float
    """Seconds."""
    decode: float
    """Seconds, preparing the decoding included."""
    error: float
    """Relative error of what is decoded."""


def read_coding_times(path: str | os.PathLike[str]) -> list[CodingTimes]:
    """Read the table that ``benchmarks/reed_solomon.py`` keeps.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    list of CodingTimes
        One per line of the table.

    Raises
    ------
    ValueError
        If the file holds no such table.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = Path(folder, "kept.txt")
    ...     _ = kept.write_text("  16  polar, default   8   0.010   0.0037   1.3   2.0e-15")
    ...     read_coding_times(kept)
    [CodingTimes(n=16, scheme='polar, default', encode=0.01, decode=0.005, error=2e-15)]
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    found = [
        CodingTimes(
            n=int(match["n"]),
            scheme=match["scheme"],
            encode=float(match["encode"]),
            decode=float(match["decode"]) + float(match["prepare"]) / 1e3,
            error=float(match["error"]),
        )
        for match in map(_LINE.match, lines)
        if match
    ]
    if not found:
        raise ValueError(
            f"{path} must hold a table of coding times, and has no line of one. "
            "Use what benchmarks/reed_solomon.py --out keeps."
        )
    return found


def coding_rows(table: Sequence[CodingTimes]) -> list[dict[str, Any]]:
    """Give the table as plain dictionaries.

    Parameters
    ----------
    table
        From `read_coding_times`.

    Returns
    -------
    list of dict
        One per line.
    """
    return [
        {"n": each.n, "scheme": each.scheme, "encode_s": each.encode, "decode_s": each.decode}
        | {"relative_error": each.error}
        for each in table
    ]


def draw_coding_times(
    table: Sequence[CodingTimes], *, ax: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw seconds against the number of tasks; a cross where the answer is wrong.

    Parameters
    ----------
    table
        From `read_coding_times`.
    ax
        Two Axes, for encoding and decoding; None makes a new figure.

    Returns
    -------
    list of Axes
        Where it was drawn.

    Notes
    -----
    Figure 4 of [B19] (arXiv 1901.06811).
    """
    axes = side_by_side(2, width=4.8) if ax is None else list(ax)
    schemes = list(dict.fromkeys(each.scheme for each in table))
    for axis, what in zip(axes, ("encode", "decode"), strict=True):
        for scheme in schemes:
            lines = [each for each in table if each.scheme == scheme]
            sizes = [each.n for each in lines]
            [line] = axis.plot(sizes, [getattr(each, what) for each in lines], ".-", label=scheme)
            wrong = [each for each in lines if each.error > _WRONG]
            axis.plot(
                [each.n for each in wrong],
                [getattr(each, what) for each in wrong],
                "x",
                color=line.get_color(),
                markersize=8,
            )
        axis.set_xscale("log", base=2)
        axis.set(yscale="log", xlabel="tasks n", ylabel=f"seconds to {what}")
    axes[1].plot([], [], "kx", label=f"relative error > {_WRONG:g}")
    axes[1].legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return axes
