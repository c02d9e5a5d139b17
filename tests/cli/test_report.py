"""``sooner report``: what it prints of a trace, for people and programs."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sooner.report import report_on
from sooner.trace import TaskRecord, Trace


@pytest.fixture
def trace():
    return Trace(
        n=3,
        k=1,
        records=[
            TaskRecord(
                *(0, 0, 0.0, 0.5, 1.0, 60.0, 61.0),
                outcome="ok",
                read=0.0625,
                requests=2,
            ),
            TaskRecord(1, handed=1.0, available=61.0, outcome="abandoned"),
            TaskRecord(2, available=10.0, outcome="lost"),
        ],
        decodable=61.0,
        decoded=62.0,
    )


@pytest.fixture
def file(trace, tmp_path):
    trace.to_jsonl(tmp_path / "run.jsonl")
    return tmp_path / "run.jsonl"


def test_for_people(invoke, file):
    result = invoke("report", file, "--memory", 1024)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "1 of 3 outputs used, decodable after 61.0 s, exact after 62.0 s\n"
        "time           deciding task 0  median task  all tasks\n"
        "held back                 0 ms            -          -\n"
        "queue                   0.50 s       0.50 s     1.50 s\n"
        "queue to send                -            -     10.0 s\n"
        "start                   0.50 s       0.50 s     0.50 s\n"
        "start to send                -            -     60.0 s\n"
        "read                   62.5 ms      62.5 ms    62.5 ms\n"
        "compute                 58.9 s       58.9 s     58.9 s\n"
        "send                    1.00 s       1.00 s     1.00 s\n"
        "wait                      0 ms         0 ms          -\n"
        "decode                  1.00 s            -          -\n"
        "\n"
        "time of workers  attempts  seconds  share  more, if it ran\n"
        "used                    1   59.5 s    50%                -\n"
        "abandoned               1   60.0 s    50%                -\n"
        "lost                    1     0 ms     0%     up to 10.0 s\n"
        "total                   3  119.5 s   100%     up to 10.0 s\n"
        "\n"
        "3 invocations, 2 store requests for blocks, 120 to 130 GB-s at 1024 MB\n"
    )


def test_for_programs(invoke, file, trace):
    result = invoke("report", file, "--json")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    found = report_on(trace)
    assert facts["phases"] == [dataclasses.asdict(phase) for phase in found.phases]
    assert facts["total"] == {"attempts": 3, "seconds": 119.5, "unknown": 10.0}
    assert facts["total_wasted"] == {"attempts": 2, "seconds": 60.0, "unknown": 10.0}
    assert facts["wasted_share"] == found.wasted_share
    assert facts["gb_seconds"] is None
    assert facts["deciding_task"] == 0
    facts = json.loads(invoke("report", file, "--json", "--memory", "1024").stdout)
    assert facts["gb_seconds"] == [119.5, 129.5]


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (Trace(4, 3), "0 of 4 outputs used, no exact answer by 0.00 s"),
        (Trace(4, 3, decodable=1.0), "decodable after 1.00 s, not decoded"),
        (Trace(4, 3, [TaskRecord(0)]), "unfinished"),
    ],
)
def test_runs_without_an_answer(invoke, file, said):
    result = invoke("report", file)
    assert result.exit_code == 0
    assert said in result.stdout


def test_what_multiply_traced(invoke, tmp_path):
    trace = tmp_path / "run.jsonl"
    multiplied = invoke(
        *("multiply", "A.coded", "x.npy", "-o", tmp_path / "y.npy", "--quiet"),
        *("--executor", "threads:2", "--trace", trace),
    )
    assert multiplied.exit_code == 0
    facts = json.loads(invoke("report", trace, "--json").stdout)
    assert facts["n"] == 8
    assert facts["decoded"] is not None


def test_what_is_no_trace(invoke, tmp_path):
    (tmp_path / "run.jsonl").write_text("{}\n")
    result = invoke("report", tmp_path / "run.jsonl")
    assert result.exit_code == 1
    assert "must be a trace written by" in result.stderr
