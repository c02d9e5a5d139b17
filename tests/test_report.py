"""Where the time of a run went: sums that must hold for any trace, and traces made by hand."""

from __future__ import annotations

import math
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner import report
from sooner.executors import VirtualExecutor
from sooner.jobs.records import note_output, note_start
from sooner.jobs.task import TaskOutput, _requests
from sooner.report import WorkerTime, phases_of, report_on
from sooner.store import remote_slabs
from sooner.trace import TaskRecord, Trace

# Any trace at all, also one whose clocks disagree ---------------------------------------------

SECONDS = st.floats(0, 1000, allow_subnormal=False)
RECORDS = st.builds(
    TaskRecord,
    task=st.integers(0, 7),
    attempt=st.integers(0, 3),
    submitted=SECONDS,
    handed=st.none() | SECONDS,
    started=st.none() | SECONDS,
    finished=st.none() | SECONDS,
    available=st.none() | SECONDS,
    outcome=st.sampled_from(["running", "ok", "raised", "lost", "abandoned", "wrong"]),
    read=st.none() | SECONDS,
    requests=st.none() | st.integers(0, 9),
)


@st.composite
def traces(draw):
    records = draw(st.lists(RECORDS, max_size=12))
    decodable = draw(st.none() | SECONDS)
    decode = draw(st.none() | SECONDS)
    decoded = None if decodable is None or decode is None else decodable + decode
    return Trace(8, 6, records, decodable, decoded, draw(st.sampled_from([{}, {"memory": 512}])))


def life_of(record, trace):
    """Seconds from submission to the end, which for what still runs is that of the trace."""
    moments = [trace.decodable, trace.decoded]
    for each in trace:
        moments += [each.submitted, each.available]
    end = max(moment for moment in moments if moment is not None)
    return max(0.0, (end if record.available is None else record.available) - record.submitted)


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@given(RECORDS)
def test_phases_of_a_task_add_up_to_its_life(record):
    phases = phases_of(record)
    assert all(seconds >= 0 for seconds in phases.values())
    last = record.submitted if record.available is None else record.available
    assert math.fsum(phases.values()) == close(max(0.0, last - record.submitted))
    known = [phase for phase in phases if " " not in phase]
    assert set(known) <= set(report.PHASES)


@given(traces())
def test_phases_of_all_tasks_add_up_to_their_lives(trace):
    found = report_on(trace)
    lives = math.fsum(life_of(record, trace) for record in trace)
    assert math.fsum(phase.total or 0.0 for phase in found.phases) == close(lives)


@given(traces())
def test_phases_around_the_deciding_task_add_up_to_the_run(trace):
    found = report_on(trace)
    deciding = [phase.deciding for phase in found.phases if phase.deciding is not None]
    if trace.decodable is None:
        assert not deciding
        return
    assert found.duration == (trace.decodable if trace.decoded is None else trace.decoded)
    assert math.fsum(deciding) == close(found.duration)
    assert all(seconds >= 0 for seconds in deciding)


@given(traces())
def test_used_and_wasted_are_all_that_ended(trace):
    found = report_on(trace)
    n_running = sum(record.outcome == "running" for record in trace)
    assert found.used + found.total_wasted == found.total
    assert found.total.attempts == len(trace) - n_running
    assert found.unfinished.attempts == n_running
    assert found.used.attempts == trace.n_available
    everything = found.total + found.unfinished
    lives = math.fsum(life_of(record, trace) for record in trace)
    assert everything.seconds + everything.unknown <= lives + 1e-6
    assert found.wasted_share is None or 0 <= found.wasted_share <= 1


@given(traces())
def test_a_trace_from_a_file_gives_the_same_report(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("trace") / "run.jsonl"
    trace.to_jsonl(path)
    assert report_on(Trace.from_jsonl(path)) == report_on(trace)


@given(traces(), st.floats(1, 10_000))
def test_gb_seconds_are_of_all_attempts(trace, memory):
    found = report_on(trace, memory=memory)
    everything = found.total + found.unfinished
    low, high = found.gb_seconds
    assert low == close(everything.seconds * memory / 1024)
    assert high - low == close(everything.unknown * memory / 1024)


# Traces made by hand --------------------------------------------------------------------------


def by_name(found):
    return {phase.name: phase for phase in found.phases}


def answered(task, **times):
    return TaskRecord(task, outcome="ok", **times)


def test_every_phase_of_a_task_that_tells_all():
    record = answered(
        0, submitted=1.0, handed=2.0, started=4.0, read=0.5, finished=8.0, available=9.0
    )
    phases = {"queue": 1.0, "start": 2.0, "read": 0.5, "compute": 3.5, "send": 1.0}
    assert phases_of(record) == phases
    found = report_on(Trace(1, 1, [record], decodable=9.25, decoded=10.0))
    run = {name: phase.deciding for name, phase in by_name(found).items()}
    assert run == {"held back": 1.0, **phases, "wait": 0.25, "decode": 0.75}
    assert found.used == WorkerTime(1, 6.0)
    assert found.deciding_task == 0


@pytest.mark.parametrize(
    ("times", "names"),
    [
        ({}, ["queue to send"]),
        ({"handed": 1.0}, ["queue", "start to send"]),
        ({"handed": 1.0, "started": 1.0}, ["queue", "start to send"]),
        ({"finished": 3.0}, ["queue to compute", "send"]),
        ({"started": 2.0, "finished": 3.0}, ["queue or start", "read or compute", "send"]),
        ({"handed": 1.0, "finished": 3.0}, ["queue", "start to compute", "send"]),
        (
            {"started": 2.0, "finished": 3.0, "read": 0.5},
            ["queue or start", "read", "compute", "send"],
        ),
    ],
)
def test_what_is_not_known_is_not_told_apart(times, names):
    assert list(phases_of(TaskRecord(0, available=4.0, **times))) == names


def test_waste_by_outcome():
    times = {"handed": 0.0, "started": 0.0, "available": 2.0}
    records = [
        answered(0, finished=1.0, **times),
        answered(0, attempt=1, finished=1.5, **times),
        TaskRecord(1, outcome="lost", **times),
        TaskRecord(2, outcome="raised", **times),
        TaskRecord(3, outcome="wrong", finished=1.0, **times),
        TaskRecord(4, outcome="abandoned", **times),
        TaskRecord(5, outcome="abandoned", **times),
        TaskRecord(6, handed=1.5, submitted=1.0),
    ]
    found = report_on(Trace(8, 1, records, decodable=2.0, decoded=2.0))
    assert found.used == WorkerTime(1, 1.0)
    assert found.wasted == {
        "abandoned": WorkerTime(2, 4.0),
        "duplicate": WorkerTime(1, 1.5),
        "lost": WorkerTime(1, 2.0),
        "raised": WorkerTime(1, 2.0),
        "wrong": WorkerTime(1, 1.0),
    }
    assert found.unfinished == WorkerTime(1, 0.5)
    assert found.wasted_share == pytest.approx(10.5 / 11.5)
    assert found.invocations == 8


def test_a_beginning_that_is_not_known_is_neither_none_nor_all():
    records = [
        answered(0, started=1.0, finished=3.0, available=3.0),
        TaskRecord(1, outcome="abandoned", available=3.0),
    ]
    found = report_on(Trace(2, 1, records, decodable=3.0, decoded=3.0), memory=2048)
    assert found.wasted == {"abandoned": WorkerTime(1, 0.0, 3.0)}
    assert found.gb_seconds == (4.0, 10.0)


def test_an_executor_that_tells_beginnings_has_not_begun_what_it_does_not_tell_of():
    records = [
        answered(0, handed=0.5, started=1.0, finished=3.0, available=3.0),
        TaskRecord(1, outcome="abandoned", available=3.0),
        TaskRecord(2, outcome="lost", available=3.0),
    ]
    found = report_on(Trace(3, 1, records, decodable=3.0, decoded=3.0))
    assert found.wasted == {"abandoned": WorkerTime(1), "lost": WorkerTime(1, 0.0, 3.0)}
    assert by_name(found)["queue"].total == close(3.5)
    assert by_name(found)["queue to send"].total == close(3.0)


def test_medians_are_of_outputs_that_were_used():
    records = [
        answered(task, started=0.0, finished=seconds, available=seconds)
        for task, seconds in enumerate((1.0, 2.0, 6.0))
    ]
    records.append(TaskRecord(3, started=0.0, finished=50.0, available=50.0, outcome="wrong"))
    found = report_on(Trace(4, 3, records, decodable=6.0))
    assert by_name(found)["read or compute"].median == close(2.0)
    assert by_name(found)["read or compute"].total == close(59.0)
    assert by_name(found)["wait"].median == close(4.0)
    assert found.deciding_task == 2
    assert "decode" not in by_name(found)


@pytest.mark.parametrize("trace", [Trace(4, 3), Trace(4, 3, [TaskRecord(0, available=1.0)])])
def test_a_run_without_an_answer(trace):
    found = report_on(trace)
    assert found.duration == len(trace)
    assert found.deciding_task is None
    assert found.store_requests is None
    assert found.gb_seconds is None
    assert not any(phase.deciding for phase in found.phases)


def test_outputs_that_were_kept_from_an_earlier_run_need_no_task():
    found = report_on(Trace(4, 3, decodable=0.25, decoded=1.0))
    assert {phase.name: phase.deciding for phase in found.phases} == {"wait": 0.25, "decode": 0.75}


def test_memory_that_is_none():
    with pytest.raises(ValueError, match="memory must be"):
        report_on(Trace(1, 1), memory=0)
    assert report_on(Trace(1, 1, meta={"memory": 512})).memory == 512
    assert report_on(Trace(1, 1, meta={"memory": 512}), memory=128).memory == 128


# Traces of jobs -------------------------------------------------------------------------------


def trace_of(executor, store=None, **options):
    A = np.random.default_rng(0).standard_normal((60, 5))
    coded = sooner.encode(A, sooner.PolarCode(8, 6, rng=0), store=store, overwrite=True)
    with sooner.matvec(coded, A[0], executor=executor, **options) as job:
        np.testing.assert_allclose(job.result(timeout=60), A @ A[0], rtol=1e-9)
    return job.trace


def test_a_job_on_processes_tells_all_phases(tmp_path):
    found = report_on(trace_of("local:2", store=tmp_path / "A.coded"))
    assert set(report.PHASES) <= set(by_name(found))
    assert found.used.attempts >= 6
    assert found.used.unknown == 0
    assert found.store_requests == 0
    assert by_name(found)["read"].total > 0


def test_what_an_executor_tells_too_late_is_not_known():
    """Dask's word that a task has begun comes after it has."""
    record, future = TaskRecord(0, submitted=1.0), Future()
    output = TaskOutput(np.ones(1), 102.0, 104.0, "host:1", 0.5, 3)
    future.started = 53.0
    note_output(record, future, output, zero=50.0, epoch=100.0, elapsed=5.0)
    assert record.handed is None
    future.started = 51.5
    note_output(record, future, output, zero=50.0, epoch=100.0, elapsed=5.0)
    assert (record.handed, record.started, record.finished) == (1.5, 2.0, 4.0)
    assert (record.read, record.requests) == (0.5, 3)
    stopped = TaskRecord(1, submitted=1.0)
    note_start(stopped, future, zero=50.0)
    assert (stopped.handed, stopped.started) == (1.5, 1.5)


def test_a_request_for_each_slab_behind_a_url_that_is_not_kept(monkeypatch):
    monkeypatch.setattr(remote_slabs, "cache", remote_slabs._Cache())
    block = {"kind": "object", "path": "s3://bucket/block", "crc32c": (1, 2, 3)}
    other = {**block, "path": "s3://bucket/other"}
    local = {"kind": "file", "crc32c": (1,)}
    total = {"kind": "sum", "sources": [block, other, local]}
    sparse = {"kind": "csr", "data": block, "indices": other, "indptr": local}
    assert [_requests(each) for each in (local, block, total, sparse)] == [0, 3, 6, 6]
    remote_slabs.cache.put(block, np.ones(3))
    assert [_requests(each) for each in (local, block, total, sparse)] == [0, 0, 3, 3]


def test_a_job_on_a_virtual_clock():
    """Eight workers, run times of 1 to 8 s: the sixth or a later task decides."""
    with VirtualExecutor(np.arange(1.0, 9.0)) as executor:
        found = report_on(trace_of(executor), memory=1024)
    assert found.deciding_task == found.n_used - 1
    assert by_name(found)["read or compute"].deciding == pytest.approx(found.n_used)
    worked = sum(min(task + 1, found.n_used) for task in range(8))
    assert found.gb_seconds == (pytest.approx(worked), pytest.approx(worked))
