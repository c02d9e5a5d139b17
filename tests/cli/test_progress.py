"""The line that says whether it is enough."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sooner.cli import _main
from sooner.cli._progress import expected_outputs, progress
from sooner.codes import PolarCode, Replication, Uncoded
from sooner.trace import TaskRecord, Trace


def estimate(n_available, elapsed=1.0, exact=False):
    return SimpleNamespace(n_available=n_available, elapsed=elapsed, exact=exact)


@pytest.fixture
def job():
    return SimpleNamespace(trace=Trace(20, 20, [TaskRecord(task) for task in range(20)]))


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_what_is_expected_lies_between_k_and_n():
    assert expected_outputs(Uncoded(16)) == 16
    assert 12 <= expected_outputs(PolarCode(16, 12, rng=0)) <= 16
    assert 8 < expected_outputs(Replication(16, 8)) < 16
    assert expected_outputs(Uncoded(30_000)) == 30_000  # one order only, in no time


def test_in_a_log_there_is_a_line_for_every_tenth(capsys, job):
    with progress("multiply A", job, Uncoded(20)) as show:
        for n_available in range(1, 21):
            job.trace.records[n_available - 1].outcome = "ok"
            show(estimate(n_available, exact=n_available == 20))
    written = lines(capsys)
    assert len(written) == 10
    assert written[0] == "multiply A  2 of ~20 needed (18 running)  1.00 s"
    assert written[-1] == "multiply A  20 of ~20 needed (0 running)  1.00 s"


def test_in_a_log_there_is_a_line_after_half_a_minute_of_silence(capsys, job):
    with progress("multiply A", job, Uncoded(20)) as show:
        for second in range(95):
            show(estimate(0, elapsed=second))
    assert [line.rpartition("  ")[2] for line in lines(capsys)] == ["30.0 s", "60.0 s", "90.0 s"]


def test_it_never_claims_enough_before_it_is(capsys, job):
    with progress("multiply A", job, Replication(20, 10)) as show:
        show(estimate(19))
        show(estimate(20, exact=True))
    assert "19 of ~20 needed" in lines(capsys)[0]


def test_quiet_is_silent(capsys, job):
    with progress("multiply A", job, Uncoded(20), quiet=True) as show:
        show(estimate(20))
    assert lines(capsys) == []


@pytest.mark.parametrize("quiet", [True, False])
def test_a_signal_that_python_dropped_is_raised_at_the_next_look(monkeypatch, job, quiet):
    monkeypatch.setattr(_main, "_arrived", [2])
    with (
        pytest.raises(_main.Interrupted),
        progress("multiply A", job, Uncoded(20), quiet=quiet) as show,
    ):
        show(estimate(1))
