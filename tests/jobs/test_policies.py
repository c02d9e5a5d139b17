"""When a job launches which tasks, on the virtual clock."""

import math

import numpy as np
import pytest

import sooner
from sooner.errors import TaskFailedError
from sooner.executors import VirtualExecutor

NEVER = math.inf


def run(problem, run_times, *, slots=None, lost=(), **options):
    coded, A, x = problem
    executor = VirtualExecutor(run_times, slots=slots, lost=lost)
    job = sooner.matvec(coded, x, executor=executor, **options)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)
    return job, executor


def test_on_lag_a_calm_job_spends_no_redundancy(problem):
    job, executor = run(problem, [1.0], policy="on_lag")
    assert [record.task for record in job.trace] == list(range(12))
    assert executor.now() == 1


def test_a_lagging_task_gets_a_stand_in_at_one_and_a_half_medians(problem):
    job, executor = run(problem, [1.0] * 11 + [NEVER, 1.0], policy="on_lag")
    assert len(job.trace) == 13
    last = job.trace.records[-1]
    assert (last.task, last.outcome) == (12, "ok")
    assert 1.5 <= last.submitted <= 1.5 + 1.5 / 20 + 1e-9  # one look later at most
    assert executor.now() == pytest.approx(last.submitted + 1.0)
    assert job.trace.records[11].outcome == "abandoned"


def test_one_stand_in_serves_any_straggler(problem):
    # Two lag and get a stand-in each; one of the two then answers all the same.
    job, executor = run(problem, [1.0] * 10 + [NEVER, 2.0, 0.6, NEVER], policy="on_lag")
    assert len(job.trace) == 14
    assert executor.now() == pytest.approx(job.trace.records[12].submitted + 0.6)


def test_a_stand_in_that_lags_gets_one_itself(problem):
    job, executor = run(problem, [1.0] * 11 + [NEVER, NEVER, 1.0], policy="on_lag")
    assert [record.task for record in job.trace] == list(range(14))
    assert executor.now() == pytest.approx(4, abs=0.2)


def test_a_lost_task_is_replaced_by_a_fresh_one_before_it_is_repeated(problem):
    job, _ = run(problem, [1.0], lost={3}, policy="on_lag")
    assert [record.task for record in job.trace] == [*range(12), 12]
    # Five are lost and four are spare: one is repeated.
    job, _ = run(problem, [1.0], lost=set(range(5)), policy="on_lag")
    tasks = [record.task for record in job.trace]
    assert tasks[:16] == list(range(16))
    assert len(tasks) == 17
    assert tasks[16] in range(5)


def test_with_few_slots_redundancy_waits_and_with_many_it_does_not(problem):
    job, executor = run(problem, [1.0], slots=4)
    assert len(job.trace) == 12
    assert executor.now() == 3
    assert len(run(problem, [1.0], slots=16)[0].trace) == 16
    assert len(run(problem, [1.0])[0].trace) == 16


def test_slots_that_would_be_idle_are_filled_unless_redundancy_is_to_wait(problem):
    assert len(run(problem, [1.0], slots=14)[0].trace) == 14
    assert len(run(problem, [1.0], slots=14, policy="on_lag")[0].trace) == 12


def test_spare_outputs_that_are_asked_for_are_launched_at_the_start(problem):
    job, executor = run(problem, [1.0], policy="on_lag", verify_extra=2)
    assert len(job.trace) == 14
    assert executor.now() == 1
    assert job.checked.n_spare == 2


def test_losses_and_errors_are_counted_apart(problem):
    coded, A, x = problem
    calls = []

    def lost(ordinal, attempt):
        del ordinal
        return attempt < 4

    executor = VirtualExecutor([1.0], lost=lost)
    job = sooner.matvec(coded, x, executor=executor, retries=0, losses=4)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)
    assert not calls


class AllRaise(VirtualExecutor):
    def submit_many(self, fn, args, **options):
        def buggy(*arguments):
            del arguments
            raise KeyError("x")

        return super().submit_many(buggy, args, **options)


@pytest.mark.parametrize("slots", [None, 4])
def test_situation_6_a_bug_that_all_tasks_share_fails_fast(problem, slots):
    coded, _, x = problem
    executor = AllRaise([1.0], slots=slots)
    job = sooner.matvec(coded, x, executor=executor, deadline=1000, retries=10)
    with pytest.raises(
        TaskFailedError, match=r"\(KeyError \d+ times\).*first error.*'x'"
    ) as caught:
        job.result()
    assert isinstance(caught.value.__cause__, KeyError)
    assert executor.now() <= 5  # not the ten repetitions, and not the deadline
    assert len(job.trace) <= 33


def test_the_policy_is_checked_before_a_task_is_sent(problem):
    coded, _, x = problem
    executor = VirtualExecutor([1.0])
    for wrong in ({"policy": "later"}, {"losses": -1}, {"retries": 1.5}, {"timeout": 0}):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            sooner.matvec(coded, x, executor=executor, **wrong)
    assert executor._n_submitted == 0
