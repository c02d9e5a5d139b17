"""Sizes, times and tables for people."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.cli import _render


@given(st.integers(0, 10**17))
def test_a_size_keeps_three_digits(n_bytes):
    number, unit = _render.size(n_bytes).split()
    factor = 1000 ** ["B", "kB", "MB", "GB", "TB", "PB"].index(unit)
    assert float(number) * factor == pytest.approx(n_bytes, rel=0.005)
    assert "e" not in number


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.00 s"), (9.994, "9.99 s"), (9.996, "10.0 s"), (599, "599.0 s"), (600, "10 min")],
)
def test_a_time_has_the_digits_that_matter(seconds, text):
    assert _render.time(seconds) == text


HEADER, ROWS = ("scheme", "exact after"), [("coded", "1.54 s"), ("uncoded", "20.0 s")]


def test_a_table_outside_a_terminal_is_plain_columns(capsys):
    _render.table(HEADER, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "scheme   exact after",
        "coded         1.54 s",
        "uncoded       20.0 s",
    ]


def test_a_table_on_a_terminal_is_drawn(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _render.table(HEADER, ROWS)
    drawn = capsys.readouterr().out
    assert "─" in drawn
    assert all(cell in drawn for row in (HEADER, *ROWS) for cell in row)
