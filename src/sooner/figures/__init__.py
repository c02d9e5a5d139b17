"""The figures of the two papers as functions: first the table, then the picture of it.

Drawing needs Matplotlib: ``pip install "sooner[plots]"``.  ``sooner figures`` draws all of them;
``docs/figures.md`` shows each beside what the papers report.
"""

from sooner.figures.anytime import (
    anytime_table,
    concentration_table,
    draw_anytime,
    draw_concentration,
    draw_unbiasedness,
    unbiasedness_table,
)
from sooner.figures.coding_times import draw_coding_times, read_coding_times
from sooner.figures.decodability import (
    codes_of_one_operand,
    codes_of_two_operands,
    decodability_table,
    draw_decodability,
    draw_overhead,
    papers_polar_code,
)
from sooner.figures.gallery import FIGURES, Drawn, Settings, draw, names_for
from sooner.figures.polarization import draw_polarization, polarization_table
from sooner.figures.timelines import run_locally, run_virtually

__all__ = [
    "FIGURES",
    "Drawn",
    "Settings",
    "anytime_table",
    "codes_of_one_operand",
    "codes_of_two_operands",
    "concentration_table",
    "decodability_table",
    "draw",
    "draw_anytime",
    "draw_coding_times",
    "draw_concentration",
    "draw_decodability",
    "draw_overhead",
    "draw_polarization",
    "draw_unbiasedness",
    "names_for",
    "papers_polar_code",
    "polarization_table",
    "read_coding_times",
    "run_locally",
    "run_virtually",
    "unbiasedness_table",
]
