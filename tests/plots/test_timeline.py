"""The timeline of a job, drawn from traces made by hand."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from sooner.errors import MissingExtraError
from sooner.plots import timeline
from sooner.trace import TaskRecord, Trace


def answered(task, start, finish, available, **more):
    return TaskRecord(
        task, started=start, finished=finish, available=available, outcome="ok", **more
    )


def bars(ax):
    """Label without its count -> rectangles as (row, left, right)."""
    return {
        container.get_label().partition(" (")[0]: [
            (
                round(bar.get_y() + bar.get_height() / 2),
                round(bar.get_x(), 6),
                round(bar.get_x() + bar.get_width(), 6),
            )
            for bar in container
        ]
        for container in ax.containers
    }


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def vertical_lines(ax):
    return {
        line.get_label().partition(":")[0]: line.get_xdata()[0]
        for line in ax.lines
        if not line.get_label().startswith("_")
    }


def test_each_task_has_its_bar_from_start_to_finish_in_order_of_arrival():
    trace = Trace(
        n=3,
        k=2,
        records=[
            answered(0, 0.2, 2.0, 2.1),
            answered(1, 0.1, 1.0, 1.5),
            answered(2, 0.1, 2.5, 2.6),
        ],
        decodable=2.1,
        decoded=2.2,
    )
    ax = timeline(trace)
    assert bars(ax) == {
        "waiting for a worker": [(1, 0.0, 0.2), (0, 0.0, 0.1), (2, 0.0, 0.1)],
        "answered": [(1, 0.2, 2.0), (0, 0.1, 1.0)],
        "answered when no longer needed": [(2, 0.1, 2.5)],
    }
    (dots,) = [marks for marks in ax.collections if isinstance(marks, PathCollection)]
    np.testing.assert_allclose(dots.get_offsets(), [(2.1, 1), (1.5, 0), (2.6, 2)])
    assert ax.get_ylim() == (2.5, -0.5)  # the first answer on top


def test_two_lines_say_when_it_was_enough_and_when_exact():
    records = [answered(task, 0.0, 1.0 + task, 1.1 + task) for task in range(4)]
    records.append(TaskRecord(4, started=0.0, available=3.3, outcome="abandoned"))
    ax = timeline(Trace(n=5, k=3, records=records, decodable=3.1, decoded=3.3))
    assert vertical_lines(ax) == {"enough": 3.1, "decoded": 3.3}
    assert "enough: 3 of 5 outputs, 3.1 s" in legend(ax)
    assert "decoded: exact answer, 3.3 s" in legend(ax)
    assert ax.get_xlabel() == "seconds since the job began"
    assert ax.get_ylabel() == "5 tasks, first answer on top"


def test_a_straggler_is_hatched_up_to_the_moment_it_was_given_up():
    trace = Trace(
        n=2,
        k=1,
        records=[
            answered(0, 0.0, 1.0, 1.0),
            TaskRecord(1, started=0.1, available=1.2, outcome="abandoned"),
        ],
        decodable=1.0,
        decoded=1.1,
    )
    ax = timeline(trace)
    assert bars(ax)["not waited for"] == [(1, 0.1, 1.2)]
    (straggler,) = next(c for c in ax.containers if c.get_label() == "not waited for (1)")
    assert straggler.get_hatch()


def test_a_lost_task_has_a_cross_and_its_second_attempt_the_same_row():
    trace = Trace(
        n=2,
        k=2,
        records=[
            answered(0, 0.0, 1.0, 1.1),
            TaskRecord(1, started=0.0, available=0.5, outcome="lost"),
            answered(1, 0.6, 2.0, 2.1, attempt=1, submitted=0.5),
        ],
        decodable=2.1,
        decoded=2.2,
    )
    ax = timeline(trace)
    assert bars(ax)["lost with its worker"] == [(1, 0.0, 0.5)]
    assert (1, 0.6, 2.0) in bars(ax)["answered"]
    assert (1, 0.5, 0.6) in bars(ax)["waiting for a worker"]
    crosses = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(crosses, [(0.5, 1)])
    assert ax.get_ylim() == (1.5, -0.5)  # two tasks, two rows, three attempts


def test_a_task_that_raised_has_a_cross():
    trace = Trace(n=1, k=1, records=[TaskRecord(0, started=0, available=1, outcome="raised")])
    ax = timeline(trace)
    assert bars(ax) == {"raised an error": [(0, 0, 1)]}
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), [(1, 0)])


def test_a_job_that_still_runs_is_drawn_up_to_now():
    records = [answered(0, 0.0, 1.0, 1.1), TaskRecord(1, started=0.2), TaskRecord(2)]
    ax = timeline(Trace(n=3, k=2, records=records))
    assert bars(ax)["no answer yet"] == [(1, 0.2, 1.1), (2, 0.0, 1.1)]
    assert bars(ax)["waiting for a worker"] == [(1, 0.0, 0.2)]
    assert vertical_lines(ax) == {}


def test_the_legend_counts():
    records = [answered(task, 0.0, 1.0, 1.1) for task in range(7)]
    records += [TaskRecord(7, started=0.0, available=2.0, outcome="lost")]
    assert {"answered (7)", "lost with its worker (1)"} <= set(
        legend(timeline(Trace(n=8, k=7, records=records, decodable=1.1)))
    )


def test_no_task_at_all_is_said_in_words():
    ax = timeline(Trace(n=4, k=2))
    assert [text.get_text() for text in ax.texts] == ["no task was sent"]
    assert not ax.containers


@pytest.mark.parametrize("n", [1, 2, 64, 512])
def test_any_number_of_tasks_can_be_written_to_a_file(n, tmp_path):
    records = [answered(task, 0.0, 1.0, 1.0 + task / n) for task in range(n)]
    ax = timeline(Trace(n=n, k=1, records=records, decodable=1.0, decoded=1.0))
    ax.figure.savefig(tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert [tick.get_text() for tick in ax.get_yticklabels()][:: max(n, 2) - 1][0] == "1"
    assert ax.get_yticklabels()[-1].get_text() == str(n)
    width, height = ax.figure.get_size_inches()
    assert (width, 3 < height < 9) == (9, True)  # fits a page, however many tasks


def test_it_draws_where_it_is_told():
    own = Figure().add_subplot()
    assert timeline(Trace(n=1, k=1), ax=own) is own


def test_matplotlib_settings_and_pyplot_stay_untouched():
    code = (
        "import sys, matplotlib as mpl\n"
        "before = mpl.rcParams.copy()\n"
        "from sooner.plots import timeline\n"
        "from sooner.trace import Trace\n"
        "timeline(Trace(n=1, k=1)).figure.savefig(sys.argv[1])\n"
        "assert mpl.rcParams.copy() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, "/dev/null"], check=True, timeout=60)


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("sooner.plots")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "sooner\[plots\]"'):
        importlib.import_module("sooner.plots")
