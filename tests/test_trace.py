"""Traces survive the way to a file and back, and what is none is refused."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner import StoreFormatError, TaskRecord, Trace

TIMES = st.none() | st.floats(0, 1e6)
RECORDS = st.builds(
    TaskRecord,
    task=st.integers(0, 63),
    attempt=st.integers(0, 3),
    submitted=st.floats(0, 1e6),
    handed=TIMES,
    started=TIMES,
    finished=TIMES,
    available=TIMES,
    worker=st.none() | st.text(),
    outcome=st.sampled_from(["running", "ok", "raised", "lost", "abandoned", "wrong"]),
    error=st.none() | st.text(),
    read=TIMES,
    requests=st.none() | st.integers(0, 1000),
)


@given(st.lists(RECORDS), TIMES, TIMES)
def test_round_trip(tmp_path_factory, records, decodable, decoded):
    trace = Trace(64, 48, records, decodable, decoded, {"code": "x"})
    path = tmp_path_factory.mktemp("trace") / "run.jsonl"
    trace.to_jsonl(path)
    assert Trace.from_jsonl(path) == trace
    assert list(trace) == records
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(records) + 1


@pytest.mark.parametrize(
    "content",
    [b"", b"\x93NUMPY\xff", b"{}\n", b"[]\n", b'{"format": "sooner-trace-1", "n": 1}\n{"task"'],
)
def test_what_is_no_trace_is_refused(tmp_path, content):
    (tmp_path / "run.jsonl").write_bytes(content)
    reason = "it is empty" if content == b"" else ""
    with pytest.raises(StoreFormatError, match=rf"run\.jsonl must be a trace written by.*{reason}"):
        Trace.from_jsonl(tmp_path / "run.jsonl")


def test_a_later_format_is_named(tmp_path):
    (tmp_path / "run.jsonl").write_text('{"format": "sooner-trace-2", "n": 1, "k": 1}\n')
    with pytest.raises(StoreFormatError, match=r"has the format sooner-trace-2; this version"):
        Trace.from_jsonl(tmp_path / "run.jsonl")


def test_what_it_counts():
    trace = Trace(3, 2, [
        TaskRecord(0, started=1.0, finished=3.0, outcome="ok"),
        TaskRecord(1, outcome="lost", error="gone"),
        TaskRecord(1, attempt=1, started=1.0, outcome="abandoned"),
        TaskRecord(2, outcome="raised"),
    ])  # fmt: skip
    assert trace.n_available == 1
    assert trace.failures == {1: "gone", 2: "raised"}
    assert [record.run_time for record in trace] == [2.0, None, None, None]
    assert dataclasses.asdict(trace.records[0])["task"] == 0
