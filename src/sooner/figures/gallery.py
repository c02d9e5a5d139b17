"""The figures by name: each makes its table, draws it, and says in rows what is in it."""

from __future__ import annotations

import csv
import io
import statistics
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from PIL import Image

from sooner.codes import PolarCode
from sooner.figures import anytime, coding_times, decodability, polarization, timelines
from sooner.figures.panels import side_by_side
from sooner.plots import timeline
from sooner.runtimes import ShiftedExponential

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from sooner.plots._matplotlib import Axes, Figure
    from sooner.runtimes import RunTimes
    from sooner.trace import Trace

__all__ = ["FIGURES", "Drawn", "Settings", "draw", "names_for"]

Rows: TypeAlias = "list[dict[str, Any]]"

_COLOURS = 48
"""Of the pictures' files."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all figures are drawn from."""

    run_times: RunTimes = field(default_factory=lambda: ShiftedExponential(1.0, 0.5))
    """Of a task; those of the timelines are multiples of them."""
    small: bool = False
    """Few trials and small codes: to see that all figures work."""
    coding_times: Path | None = None
    """What ``benchmarks/reed_solomon.py`` kept; without it there is no Figure 4."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture, and the numbers that it shows."""

    figure: Figure
    rows: Rows

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write ``name.png`` and ``name.csv``.

        Parameters
        ----------
        folder
            Where to; made if it does not exist.
        name
            Of the figure.

        Returns
        -------
        list of Path
            The two files.
        """
        folder.mkdir(parents=True, exist_ok=True)
        picture, table = folder / f"{name}.png", folder / f"{name}.csv"
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format="png")
        # A few dozen colours look the same as all, and take a third of the bytes.
        with Image.open(drawn) as image:
            few = image.convert("RGB").quantize(
                _COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
            )
            few.save(picture, optimize=True)
        with table.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(self.rows[0]))
            writer.writeheader()
            writer.writerows(self.rows)
        return [picture, table]


def draw(name: str, settings: Settings) -> Drawn:
    """Draw a figure.

    Parameters
    ----------
    name
        One of `FIGURES`.
    settings
        What it is drawn from.

    Returns
    -------
    Drawn
        The picture and its numbers.

    Raises
    ------
    ValueError
        If there is no figure of that name, or Figure 4 is wanted without coding times.

    Examples
    --------
    >>> drawn = draw("figure-5", Settings(small=True))
    >>> [ax.get_title() for ax in drawn.figure.axes][0]
    '2 levels of size 2: n = 4'
    """
    if name not in FIGURES:
        raise ValueError(f"a figure must be one of {', '.join(FIGURES)}, got {name!r}.")
    return FIGURES[name](settings)


def names_for(settings: Settings) -> list[str]:
    """Give the names of all figures that can be drawn.

    Parameters
    ----------
    settings
        Without coding times there is no Figure 4.

    Returns
    -------
    list of str
        The names.

    Examples
    --------
    >>> "figure-4" in names_for(Settings())
    False
    """
    return [name for name in FIGURES if name != "figure-4" or settings.coding_times is not None]


def _drawn(axes: Axes, rows: Rows) -> Drawn:
    return Drawn(cast("Figure", axes.figure), rows)


def _figure_4(settings: Settings) -> Drawn:
    if settings.coding_times is None:
        raise ValueError(
            "figure-4 must be given measured times: --coding-times FILE, such as "
            "benchmarks/results/*-figure-4.txt."
        )
    table = coding_times.read_coding_times(settings.coding_times)
    return _drawn(coding_times.draw_coding_times(table)[0], coding_times.coding_rows(table))


def _figure_5(settings: Settings) -> Drawn:
    trials = 200 if settings.small else 4000
    # Size of the kernels, and levels.
    shown = ((2, 2), (3, 2)) if settings.small else ((2, 4), (3, 3), (4, 2), (5, 2))
    rows: Rows = []
    axes = side_by_side(len(shown), columns=2, width=3.6, height=2.7)
    for ax, (size, levels) in zip(axes, shown, strict=True):
        table = polarization.polarization_table(settings.run_times, [size] * levels, trials=trials)
        polarization.draw_polarization(table, ax=ax)
        rows += table.rows()
    return _drawn(axes[0], rows)


def _figure_6(settings: Settings) -> Drawn:
    sizes, trials = ((16, 64), 100) if settings.small else ((64, 256, 512), 1000)
    rows: Rows = []
    axes = side_by_side(len(sizes))
    for ax, n in zip(axes, sizes, strict=True):
        codes = decodability.codes_of_one_operand(n, 5 * n // 8)  # erasure 0.375
        table = decodability.decodability_table(codes, settings.run_times, trials=trials)
        decodability.draw_decodability(table, ax=ax)
        rows += table.rows()
    return _drawn(axes[0], rows)


def _figure_7(settings: Settings) -> Drawn:
    sides, trials = ((4, 8), 50) if settings.small else ((8, 16), 1000)
    rows: Rows = []
    axes = side_by_side(len(sides), width=5.2)
    for ax, side in zip(axes, sides, strict=True):
        codes = decodability.codes_of_two_operands(side, 3 * side // 4)
        table = decodability.decodability_table(codes, settings.run_times, trials=trials)
        decodability.draw_decodability(table, ax=ax)
        rows += table.rows()
    return _drawn(axes[0], rows)


def _timed(run_times: RunTimes, median: float) -> RunTimes:
    """Run times in proportion, with that median in seconds."""
    return run_times.scaled(median / float(run_times.quantile(0.5)))


def _timeline(trace: Trace, title: str, **more: Any) -> Drawn:
    ax = timeline(trace, ax=side_by_side(1, width=9.0, height=5.6)[0])
    ax.set_title(title, loc="left", fontsize="medium")
    ended = [record.run_time for record in trace if record.run_time is not None]
    row = {
        "n": trace.n,
        "k": trace.k,
        "outputs": trace.n_available,
        "decodable": trace.decodable,
        "decoded": trace.decoded,
        "median_run_time": statistics.median(ended),
    }
    return _drawn(ax, [row | more])


def _figure_8(settings: Settings) -> Drawn:
    shape, n, median = (38_400, 3_000_000), 64 if settings.small else 512, 90.0
    trace = timelines.run_virtually(shape, n, 3 * n // 4, _timed(settings.run_times, median))
    plan = trace.meta["plan"]
    block, store = plan["block"] / 1e9, plan["store"] / 1e12
    title = (
        f"38 400 x 3 000 000 on {n} workers in virtual time, run times of median {median:g} s\n"
        f"(blocks of {block:.1f} GB, a store of {store:.2f} TB, "
        f"{plan['task'] / 1e6:.0f} MB per task)"
    )
    return _timeline(trace, title, block_gb=block, store_tb=store, task_mb=plan["task"] / 1e6)


def _figure_8_local(settings: Settings) -> Drawn:
    shape, n, workers, median = (38_400, 500), 512, 32, 0.25
    if settings.small:
        shape, n, workers, median = (384, 50), 32, 8, 0.05
    with tempfile.TemporaryDirectory(prefix="sooner-figures-") as folder:
        trace = timelines.run_locally(
            shape,
            n,
            3 * n // 4,
            _timed(settings.run_times, median),
            f"{folder}/A.coded",
            max_workers=workers,
        )
    title = (
        f"A real run: {shape[0]} x {shape[1]} through {n} tasks on {workers} processes of this "
        f"machine,\neach stretched by a drawn run time of median {median:g} s"
    )
    error = trace.meta["largest_error"]
    return _timeline(trace, title, workers=workers, largest_error=error)


def _overhead(settings: Settings) -> Drawn:
    sizes, trials = ((16, 64), 100) if settings.small else ((64, 256, 512), 150)
    rows: Rows = []
    axes = side_by_side(len(sizes), height=3.2)
    for ax, n in zip(axes, sizes, strict=True):
        k = 3 * n // 4
        codes = {
            "papers'": decodability.papers_polar_code(n, k),
            "papers', by rank": decodability.papers_polar_code(n, k, decoder="inactivation"),
            "default": PolarCode(n, k),
        }
        table = decodability.decodability_table(codes, settings.run_times, trials=trials)
        decodability.draw_overhead(table, ax=ax)
        rows += table.rows()
    return _drawn(axes[0], rows)


def _anytime_error(settings: Settings) -> Drawn:
    n, trials = (32, 8) if settings.small else (256, 96)
    shares = (0.125, 0.25, 0.375, 0.5, 0.625, 0.6875, 0.75, 0.8125, 0.875, 0.9375, 1.0)
    table = anytime.anytime_table(
        n, 3 * n // 4, [int(n * share) for share in shares], trials=trials
    )
    return _drawn(anytime.draw_anytime(table), table.rows())


def _unbiasedness(settings: Settings) -> Drawn:
    draws = 256 if settings.small else 4096
    table = anytime.unbiasedness_table(64, 48, 32, draws=draws)
    return _drawn(anytime.draw_unbiasedness(table), table.rows())


def _concentration(settings: Settings) -> Drawn:
    sizes, trials = ((16, 64), 100) if settings.small else ((64, 256, 1024, 4096), 2000)
    table = anytime.concentration_table(sizes, trials=trials)
    return _drawn(anytime.draw_concentration(table), table.rows())


FIGURES: dict[str, Callable[[Settings], Drawn]] = {
    "figure-4": _figure_4,
    "figure-5": _figure_5,
    "figure-6": _figure_6,
    "figure-7": _figure_7,
    "figure-8": _figure_8,
    "figure-8-local": _figure_8_local,
    "anytime-error": _anytime_error,
    "unbiasedness": _unbiasedness,
    "concentration": _concentration,
    "default-against-papers": _overhead,
}
"""Figures 4 to 8 of [B19] (arXiv 1901.06811); the others are of [B23] (arXiv 2309.00682)."""
