"""Run times from files of every shape."""

import numpy as np
import pytest

from sooner.simulate import read_rounds, rounds_of_trace
from sooner.trace import TaskRecord, Trace


def written(tmp_path, text):
    path = tmp_path / "times.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_matrix_without_a_header(tmp_path):
    rounds = read_rounds(written(tmp_path, "1.5,2\n3,4e1\n\n"))
    assert rounds.work.tolist() == [[1.5, 2], [3, 40]]
    assert read_rounds(written(tmp_path, "1\n2\n3\n")).work.tolist() == [[1, 2, 3]]


def test_a_table_of_lithops_has_a_start_up_part(tmp_path):
    rounds = read_rounds(
        written(tmp_path, "worker,func_start_s,func_end_s,func_exec_s\n0,1.5,11,9\n1,2,8,6\n")
    )
    assert rounds.work.tolist() == [[9, 6]]
    assert rounds.run_times().tolist() == [[11, 8]]


@pytest.mark.parametrize("name", ["run_time", "Seconds", "duration_s"])
def test_a_column_is_guessed_by_its_name(tmp_path, name):
    path = written(tmp_path, f"task, {name},host\n0,1.5,a\n1,2.5,b\n")
    assert read_rounds(path).work.tolist() == [[1.5, 2.5]]


def test_a_column_can_be_named_and_the_only_one_need_not_be(tmp_path):
    path = written(tmp_path, "x,y\n1,2\n3,4\n")
    assert read_rounds(path, column="y").work.tolist() == [[2, 4]]
    assert read_rounds(written(tmp_path, "x\n1\n3\n")).work.tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold run times, and is empty"),
        ("x,y\n1,2\n", r"which column holds run times, got the columns x, y.*--column"),
        ("time,seconds\n1,2\n", "which column holds run times"),
        (
            "run_time\n1\noops\n",
            "must hold seconds in every row, got 1 that are not, such as 'oops'",
        ),
        ("run_time,x\n1,2\n,3\n", "got 1 that are not, such as ''"),
        ("run_time\n", "got no row"),
        ("1,2\n3\n", r"one number per round and worker.*got rows of \[1, 2\] entries"),
        ("1,2\n3,x\n", "got the entry 'x'"),
        ("1,nan\n", "work must be finite seconds"),
    ],
)
def test_what_is_no_table_of_run_times_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_rounds(written(tmp_path, text))
    with pytest.raises(ValueError, match=r"must have the column 'z'|empty|one number|finite"):
        read_rounds(written(tmp_path, text), column="z")


def test_what_is_no_text_is_refused_by_its_name(tmp_path):
    (tmp_path / "y.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(ValueError, match=r"y\.npy must be a trace or a table as text"):
        read_rounds(tmp_path / "y.npy")


def ok(task, submitted, started, finished, attempt=0):
    return TaskRecord(
        task, attempt, submitted=submitted, started=started, finished=finished, outcome="ok"
    )


def test_a_trace_says_what_was_start_up(tmp_path):
    lost = TaskRecord(1, submitted=0.0, outcome="lost")
    trace = Trace(n=2, k=2, records=[ok(0, 0.0, 0.5, 2.0), lost, ok(1, 3.0, 3.25, 4.0, attempt=1)])
    trace.to_jsonl(tmp_path / "run.jsonl")
    rounds = read_rounds(tmp_path / "run.jsonl")
    assert (rounds.startup.tolist(), rounds.work.tolist()) == ([[0.5, 0.25]], [[1.5, 0.75]])


def test_a_trace_of_several_rounds():
    records = [ok(task, task // 2, task // 2, task // 2 + 1 + task) for task in range(6)]
    rounds = rounds_of_trace(Trace(n=6, k=6, records=records, meta={"rounds": 3}))
    np.testing.assert_allclose(rounds.work, [[1, 2], [3, 4], [5, 6]])


def test_a_trace_without_its_slowest_tasks_is_refused():
    stopped = TaskRecord(1, submitted=0.0, started=0.0, outcome="abandoned")
    with pytest.raises(ValueError, match=r"1 of 2 were stopped before they ended.*sooner.measure"):
        rounds_of_trace(Trace(n=2, k=1, records=[ok(0, 0.0, 0.0, 1.0), stopped]))
