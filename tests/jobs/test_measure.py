"""Measuring run times: with real tasks, until the last of them has ended."""

import numpy as np
import pytest

import sooner
from sooner.simulate import read_rounds, rounds_of_trace


def test_a_measurement_waits_for_all_tasks_of_all_rounds(tmp_path):
    run_times = [1.0, 2.0, 3.0, 40.0] * 2 + [1.0, 1.0, 1.0, 1.0]
    executor = sooner.VirtualExecutor(run_times, slots=4)
    trace = sooner.measure((6, 3), executor=executor, tasks=4, rounds=3)
    assert (trace.n, trace.n_available) == (12, 12)
    assert trace.meta["block"] == [6, 3]
    rounds = rounds_of_trace(trace)
    assert rounds.work.tolist() == [[1, 2, 3, 40], [1, 2, 3, 40], [1, 1, 1, 1]]
    assert (rounds.startup == 0).all()
    starts = [record.submitted for record in trace]
    assert starts == sorted(starts)
    assert starts[-1] == 80  # rounds come one after the other

    trace.to_jsonl(tmp_path / "run.jsonl")
    assert read_rounds(tmp_path / "run.jsonl").work.tolist() == rounds.work.tolist()
    assert sooner.design(trace, workers=4).expected.mean.value > 0


def test_the_blocks_of_a_coded_matrix_are_measured_all_of_them():
    coded = sooner.encode(np.ones((12, 3)), sooner.PolarCode(8, 4))
    trace = sooner.measure(coded, executor=sooner.VirtualExecutor([1.0] * 7 + [9.0]), rounds=1)
    assert rounds_of_trace(trace).work.tolist() == [[1.0] * 7 + [9.0]]


def test_a_task_whose_worker_is_lost_is_measured_again():
    executor = sooner.VirtualExecutor([2.0, 2.0, 5.0, 3.0], lost=[1])
    trace = sooner.measure((4, 4), executor=executor, tasks=2, rounds=1)
    assert [record.outcome for record in trace] == ["ok", "lost", "ok"]
    assert rounds_of_trace(trace).work.tolist() == [[2.0, 5.0]]


def test_threads_of_this_machine(tmp_path):
    trace = sooner.measure((50, 20), executor="threads:2", rounds=2, store=tmp_path / "block")
    assert trace.n == 4  # as many tasks as there are workers
    assert all(record.run_time >= 0 and record.outcome == "ok" for record in trace)
    with pytest.raises(sooner.errors.StoreExistsError):
        sooner.measure((50, 20), executor="threads:2", store=tmp_path / "block")


def test_an_executor_that_is_given_stays_open():
    executor = sooner.VirtualExecutor([1.0])
    for _ in range(2):
        sooner.measure((2, 2), executor=executor, tasks=2, rounds=1)


def test_a_round_that_takes_too_long_ends_at_its_deadline():
    executor = sooner.VirtualExecutor([1.0, 1000.0])
    with pytest.raises(TimeoutError):
        sooner.measure((2, 2), executor=executor, tasks=2, rounds=1, deadline=10.0)
    assert executor.now() == pytest.approx(10.0)


def test_more_tasks_than_workers_are_refused():
    executor = sooner.VirtualExecutor([1.0], slots=3)
    with pytest.raises(ValueError, match=r"each of the 4 tasks must have a worker.*Use tasks=3"):
        sooner.measure((2, 2), executor=executor, tasks=4)
    with pytest.raises(ValueError, match="tasks must be given"):
        sooner.measure((2, 2), executor=sooner.VirtualExecutor([1.0]))
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        sooner.measure((2, 2), executor=executor, rounds=0)
