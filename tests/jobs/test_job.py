"""Jobs on a clock that jumps: nothing here sleeps."""

import logging
import math
from concurrent.futures import CancelledError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.codes import ARIKAN
from sooner.errors import (
    JobTimeoutError,
    NotDecodableError,
    TaskFailedError,
)
from sooner.executors import VirtualExecutor

NEVER = math.inf


@pytest.mark.parametrize(
    "code",
    [
        sooner.PolarCode(16, 12),
        sooner.PolarCode(20, 13),
        sooner.PolarCode(16, 8, late_parities=0, decoder="sequential"),
        sooner.SideBySide([sooner.PolarCode(8, 6), sooner.PolarCode(4, 3)]),
        sooner.Replication(12, 5),
        sooner.Uncoded(9),
        sooner.MDSCode(16, 12),
        sooner.LTCode(40, 12),
        sooner.LTCode(24, 12, decoder="inactivation"),
        sooner.PolarCode(20, 15, kernel=[sooner.Kernel.dct(4), sooner.Kernel.dct(5)]),
    ],
    ids=repr,
)
def test_every_code_runs_through_the_same_job(code):
    rng = np.random.default_rng(1)
    A, x = rng.standard_normal((101, 6)), rng.standard_normal(6)
    coded = sooner.encode(A, code)
    executor = VirtualExecutor(lambda ordinal, _: 1.0 + ordinal)
    with sooner.matvec(coded, x, executor=executor) as job:
        estimates = list(job)
        y = job.result()
    np.testing.assert_allclose(y, A @ x, rtol=1e-9, atol=1e-9)
    assert [estimate.n_available for estimate in estimates] == list(range(1, len(estimates) + 1))
    assert [estimate.exact for estimate in estimates] == [False] * (len(estimates) - 1) + [True]
    assert estimates[-1].relative_error == 0
    np.testing.assert_array_equal(estimates[-1].value, y)
    assert all(estimate.value.shape == (101,) for estimate in estimates)


@given(st.permutations(range(16)))
def test_order_of_arrival_never_matters(problem, order):
    coded, A, x = problem
    times = np.empty(16)
    times[list(order)] = np.arange(1, 17)
    y = sooner.matvec(coded, x, executor=VirtualExecutor(times.tolist())).result()
    np.testing.assert_allclose(y, A @ x, rtol=1e-8, atol=1e-9)


def test_the_answer_comes_with_the_kth_fastest_whatever_the_others_do(problem):
    coded, A, x = problem
    times = [1.0 + i / 100 for i in range(12)] + [NEVER] * 4
    executor = VirtualExecutor(times)
    job = sooner.matvec(coded, x, executor=executor)
    np.testing.assert_allclose(job.result(), A @ x, rtol=1e-9, atol=1e-10)
    assert executor.now() == pytest.approx(1.11)
    assert job.trace.decodable == pytest.approx(1.11)
    outcomes = [record.outcome for record in job.trace]
    assert outcomes == ["ok"] * 12 + ["abandoned"] * 4
    record = job.trace.records[3]
    assert (record.submitted, record.started, record.finished) == (0.0, 0.0, pytest.approx(1.03))
    assert record.worker.count(":") == 1


def test_tasks_queue_when_there_are_fewer_slots_than_tasks(problem):
    coded, A, x = problem
    executor = VirtualExecutor([1.0], slots=4)
    np.testing.assert_allclose(
        sooner.matvec(coded, x, executor=executor).result(), A @ x, atol=1e-9
    )
    assert executor.now() == 3


def test_lost_tasks_are_repeated_and_logged_once_each(problem, caplog):
    coded, A, x = problem
    executor = VirtualExecutor([1.0], lost=range(10))
    with caplog.at_level(logging.INFO):
        y = sooner.matvec(coded, x, executor=executor).result()
    np.testing.assert_allclose(y, A @ x, atol=1e-9)
    lines = [
        record.getMessage() for record in caplog.records if record.name == "sooner.jobs.launcher"
    ]
    assert len(lines) == 10
    assert all("repeated, 4 left" in line for line in lines)


def test_when_all_attempts_are_lost_it_says_how_many_were_missing(problem):
    coded, _, x = problem
    executor = VirtualExecutor([1.0], lost=lambda ordinal, _: ordinal >= 5)
    job = sooner.matvec(coded, x, executor=executor, losses=1)
    with pytest.raises(NotDecodableError, match=r"5 of 16 outputs .* at least 7 more") as caught:
        job.result()
    assert caught.value.missing == tuple(range(5, 16))
    assert caught.value.n_needed == 7
    assert len(job.trace) == 27
    with pytest.raises(NotDecodableError):  # and again, at once
        job.result()
    assert set(job.trace.failures) == set(range(5, 16))


def test_a_task_that_never_runs_is_given_up_and_not_waited_for(problem):
    coded, A, x = problem
    first_half_hangs = VirtualExecutor(lambda ordinal, _: NEVER if ordinal < 8 else 1.0)
    job = sooner.matvec(coded, x, executor=first_half_hangs, timeout=10)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)
    assert first_half_hangs.now() <= 12
    all_hang = VirtualExecutor([NEVER])
    with pytest.raises(NotDecodableError, match=r"no answer \d+ times"):
        sooner.matvec(coded, x, executor=all_hang, timeout=10).result()
    # Without a time limit of the user's there is one all the same.
    with pytest.raises(NotDecodableError):
        sooner.matvec(coded, x, executor=VirtualExecutor([NEVER])).result()


class Raising:
    """Stands for the operand; some tasks that load it raise."""

    def __init__(self, fail, x):
        self.fail, self.x, self.calls = fail, x, 0

    def load(self):
        self.calls += 1
        if self.fail(self.calls):
            raise self.error(self.calls)
        return self.x

    def error(self, call):
        return ZeroDivisionError(f"call {call}")


class BrokenExecutor(VirtualExecutor):
    def __init__(self, run_times, fail):
        super().__init__(run_times)
        self.fail = fail

    def broadcast(self, value):
        return Raising(self.fail, value)

    def release(self, reference):
        pass


def test_one_task_that_raises_costs_one_warning(problem, caplog):
    coded, A, x = problem
    executor = BrokenExecutor([1.0], lambda call: call == 3)
    with caplog.at_level(logging.WARNING):
        job = sooner.matvec(coded, x, executor=executor)
        np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)
    assert [r.getMessage() for r in caplog.records] == [
        "task 2 of 16: ZeroDivisionError: call 3; repeated, 2 left"
    ]
    assert job.trace.failures == {2: "ZeroDivisionError: call 3"}


def test_when_all_raise_the_first_error_is_the_cause_with_a_count(problem):
    coded, _, x = problem
    executor = BrokenExecutor([1.0], lambda call: True)
    job = sooner.matvec(coded, x, executor=executor)
    with pytest.raises(TaskFailedError, match=r"ZeroDivisionError \d+ times.*call 1$") as caught:
        job.result()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_timeout_carries_the_estimate_and_the_job_goes_on(problem):
    coded, A, x = problem
    job = sooner.matvec(coded, x, executor=VirtualExecutor(list(map(float, range(1, 17)))))
    with pytest.raises(JobTimeoutError, match=r"5.5 s have passed: 5 of 16 outputs came") as caught:
        job.result(timeout=5.5)
    estimate = caught.value.estimate
    assert isinstance(caught.value, TimeoutError)
    assert (estimate.n_available, estimate.exact) == (5, False)
    assert estimate.relative_error > 0.5
    assert estimate.elapsed == pytest.approx(5.5)
    with pytest.raises(JobTimeoutError):
        job.result(timeout=0)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)


def test_estimate_and_done_never_wait(problem):
    coded, _, x = problem
    executor = VirtualExecutor(list(map(float, range(1, 17))))
    job = sooner.matvec(coded, x, executor=executor)
    assert not job.done()
    first = job.estimate
    assert (first.n_available, first.relative_error, executor.now()) == (0, 1.0, 0.0)
    np.testing.assert_array_equal(first.value, np.zeros(200))
    assert not first.determined.any()
    assert "0 outputs" in repr(first)
    assert "running" in repr(job)
    job.result()
    assert job.done()
    assert job.estimate.exact
    assert job.estimate.determined.all()
    np.testing.assert_array_equal(np.asarray(job.estimate), job.result())


def test_an_estimate_is_of_its_moment(problem):
    coded, _, x = problem
    job = sooner.matvec(coded, x, executor=VirtualExecutor(list(map(float, range(1, 17)))))
    estimates = list(job)
    # Computed only now, after all have come, and yet from its own outputs.
    outputs = coded.code.encode((estimates[-1].value).reshape(-1)[:0].reshape(12, 0))
    assert outputs.shape == (16, 0)
    errors = [np.linalg.norm(e.value - estimates[-1].value) for e in estimates]
    assert errors[0] > errors[-2] > errors[-1] == 0


def test_iterating_twice_gives_the_exact_answer_again(problem):
    coded, _, x = problem
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]))
    list(job)
    (again,) = list(job)
    assert again.exact


def test_a_cancelled_job_has_no_answer_and_stops_its_tasks(problem):
    coded, _, x = problem
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]))
    job.cancel()
    with pytest.raises(CancelledError, match="cancelled before"):
        job.result()
    with pytest.raises(CancelledError):
        list(job)
    assert {record.outcome for record in job.trace} == {"abandoned"}
    finished = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]))
    y = finished.result()
    finished.cancel()  # changes nothing any more
    np.testing.assert_array_equal(finished.result(), y)


def test_an_interrupted_result_stops_the_tasks(problem, monkeypatch):
    coded, _, x = problem
    executor = VirtualExecutor([1.0])

    def interrupted(futures, timeout=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(executor, "wait", interrupted)
    job = sooner.matvec(coded, x, executor=executor)
    with pytest.raises(KeyboardInterrupt):
        job.result()
    assert {record.outcome for record in job.trace} == {"abandoned"}


def test_a_kernel_without_estimates_gives_the_exact_answer_all_the_same():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((30, 4)), rng.standard_normal(4)
    coded = sooner.encode(A, sooner.PolarCode(8, 6, kernel=ARIKAN))
    estimates = list(sooner.matvec(coded, x, executor=VirtualExecutor([1.0])))
    np.testing.assert_allclose(estimates[-1].value, A @ x, atol=1e-10)
    assert math.isnan(estimates[0].relative_error)
    with pytest.raises(ValueError, match="need orthogonal kernels"):
        _ = estimates[0].value


def test_several_jobs_share_an_executor(problem):
    coded, A, x = problem
    executor = VirtualExecutor([3.0, 1.0, 2.0])
    jobs = [sooner.matvec(coded, i * x, executor=executor) for i in range(4)]
    for i in (2, 0, 3, 1):
        np.testing.assert_allclose(jobs[i].result(), i * (A @ x), atol=1e-9)


class Corrupting(VirtualExecutor):
    """An executor some of whose tasks return wrong numbers."""

    def __init__(self, run_times, corrupted):
        super().__init__(run_times)
        self.corrupted, self.submitted = corrupted, 0

    def submit_many(self, fn, args, **options):
        def wrong(*arguments):
            output = fn(*arguments)
            return output._replace(value=output.value + 1e-3)

        first, self.submitted = self.submitted, self.submitted + len(args)
        return [
            super(Corrupting, self).submit_many(
                wrong if first + i in self.corrupted else fn, [arg]
            )[0]
            for i, arg in enumerate(args)
        ]


IN_ORDER = [float(i) for i in range(1, 17)]


def test_a_wrong_output_is_found_dropped_and_named(problem, caplog):
    coded, A, x = problem
    executor = Corrupting(IN_ORDER, {5})
    job = sooner.matvec(coded, x, executor=executor, verify_extra=3)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)
    assert job.checked.wrong == (5,)
    assert job.checked.n_spare >= 1
    assert job.checked.residual <= 1
    assert [r.outcome for r in job.trace][5] == "wrong"
    assert "task 5 of 16: its output contradicts the others" in caplog.text


@pytest.mark.parametrize("verify_extra", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_rounding_is_not_taken_for_a_wrong_output_where_products_cancel(verify_extra, dtype):
    # The gradient of a least squares problem at its solution.
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((60, 200)).astype(dtype), rng.standard_normal(200).astype(dtype)
    residual = b - np.linalg.lstsq(A.T, b, rcond=None)[0] @ A
    coded = sooner.encode(A, sooner.PolarCode(16, 12, rng=0))
    for seed in range(20):
        times = np.random.default_rng(seed).permutation(16) + 1.0
        job = sooner.matvec(
            coded, residual, executor=VirtualExecutor(times.tolist()), verify_extra=verify_extra
        )
        assert np.abs(job.result()).max() < 1e3 * np.finfo(dtype).eps
        assert job.checked.wrong == ()


def test_asking_for_spare_outputs_waits_for_them(problem):
    coded, A, x = problem
    executor = VirtualExecutor(IN_ORDER)
    job = sooner.matvec(coded, x, executor=executor, verify_extra=2)
    assert job.checked is None
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)
    assert executor.now() == 14
    assert job.checked == type(job.checked)(2, job.checked.residual, ())
    job = sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER))
    job.result()
    assert job.checked.n_spare == 0


def test_with_too_few_to_spare_the_job_takes_what_there_is(problem):
    coded, A, x = problem
    executor = VirtualExecutor(IN_ORDER, lost=lambda ordinal, _: ordinal >= 13)
    job = sooner.matvec(coded, x, executor=executor, verify_extra=10, losses=0)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)
    assert job.checked.n_spare == 1


def test_a_contradiction_that_cannot_be_resolved_is_an_error(problem):
    coded, _, x = problem
    executor = Corrupting(IN_ORDER, {5})
    executor._is_lost = lambda ordinal, _: ordinal >= 13
    job = sooner.matvec(coded, x, executor=executor, verify_extra=1, losses=0)
    with pytest.raises(sooner.WrongOutputError, match="contradict each other"):
        job.result()


def test_with_nothing_to_spare_a_wrong_output_goes_unseen(problem):
    # The stated limit: twelve numbers determine twelve, and nothing is left to check them by.
    coded, A, x = problem
    job = sooner.matvec(coded, x, executor=Corrupting(IN_ORDER, {5}))
    assert not np.allclose(job.result(), A @ x, atol=1e-9)
    assert job.checked.n_spare == 0


@pytest.mark.parametrize("estimator", ["unbiased", "scaled", "least_squares", "common_mean"])
def test_every_estimator_and_its_functional(problem, estimator):
    coded, A, x = problem
    job = sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER), estimator=estimator)
    for estimate in job:
        assert estimate.value.shape == (200,)
        assert estimate.relative_error >= 0
        number = estimate.functional(np.ones(200))
        assert number.standard_error >= 0
    assert number.value == pytest.approx(np.sum(A @ x))
    assert number.standard_error == 0
    with pytest.raises(ValueError, match=r"c must have the shape of the answer, \(200,\)"):
        estimate.functional(np.ones(7))


def test_options_of_estimates_are_checked(problem):
    coded, _, x = problem
    executor = VirtualExecutor([1.0])
    with pytest.raises(ValueError, match="estimator must be one of"):
        sooner.matvec(coded, x, executor=executor, estimator="magic")
    with pytest.raises(ValueError, match="Encode with gram=True"):
        sooner.matvec(coded, x, executor=executor, estimator="gram")
    with pytest.raises(ValueError, match="verify_extra must be at least 0"):
        sooner.matvec(coded, x, executor=executor, verify_extra=-1)


def test_at_the_deadline_there_is_an_estimate_and_never_an_inexact_result(problem):
    coded, _, x = problem
    executor = VirtualExecutor(IN_ORDER)
    job = sooner.matvec(coded, x, executor=executor, deadline=5.5)
    with pytest.raises(JobTimeoutError, match=r"its deadline has passed: 5 of 16") as caught:
        job.result()
    assert executor.now() == pytest.approx(5.5)
    assert (caught.value.estimate.n_available, caught.value.estimate.exact) == (5, False)
    assert job.done()
    assert job.estimate.n_available == 5
    assert {record.outcome for record in job.trace.records[5:]} == {"abandoned"}
    assert "stopped" in repr(job)
    with pytest.raises(JobTimeoutError):
        job.result()


@pytest.mark.parametrize("deadline", [0, 3.0])
def test_a_deadline_holds_when_nothing_ever_finishes(problem, deadline):
    coded, _, x = problem
    executor = VirtualExecutor([NEVER])
    job = sooner.matvec(coded, x, executor=executor, deadline=deadline)
    (last,) = list(job)
    assert executor.now() == pytest.approx(deadline)
    assert (last.n_available, last.relative_error) == (0, 1.0)
    np.testing.assert_array_equal(last.value, np.zeros(200))


def test_a_job_that_is_exact_before_its_deadline_stays_so(problem):
    coded, A, x = problem
    executor = VirtualExecutor([1.0])
    job = sooner.matvec(coded, x, executor=executor, deadline=10)
    list(job)
    executor.wait([], 100)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)


def test_the_deadline_interrupts_decoding_and_the_answer_can_be_had_later(problem, monkeypatch):
    coded, A, x = problem
    executor = VirtualExecutor([1.0])
    job = sooner.matvec(coded, x, executor=executor, deadline=2)
    decode = coded.code.decode

    def slow(outputs, available, *, out=None, stop=None, threads=1):
        executor._now += 5  # decoding takes five seconds
        if stop is not None and stop():
            raise InterruptedError
        return decode(outputs, available, out=out)

    monkeypatch.setattr(coded.code, "decode", slow)
    with pytest.raises(JobTimeoutError):
        job.result()
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-9)


def test_a_tolerance_stops_as_soon_as_the_error_bar_is_below(problem):
    coded, A, x = problem
    executor = VirtualExecutor(IN_ORDER)
    job = sooner.matvec(coded, x, executor=executor, estimator="least_squares", rtol=0.5)
    *_, last = job
    assert not last.exact
    assert last.relative_error <= 0.5
    assert executor.now() < 12
    assert np.linalg.norm(last.value - A @ x) < np.linalg.norm(A @ x)
    with pytest.raises(sooner.JobStoppedError, match=r"below rtol=0.5") as caught:
        job.result()
    assert caught.value.estimate.relative_error <= 0.5
    exact = sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER), rtol=0)
    np.testing.assert_allclose(exact.result(), A @ x, atol=1e-9)


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_a_callback_sees_every_output_and_may_stop(problem, how):
    coded, _, x = problem
    seen = []

    def callback(estimate):
        seen.append(estimate.n_available)
        if len(seen) == 4:
            if how == "raises":
                raise StopIteration
            return True
        return None

    job = sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER), callback=callback)
    with pytest.raises(sooner.JobStoppedError, match="the callback said so"):
        job.result()
    assert seen == [1, 2, 3, 4]
    assert [e.n_available for e in job] == [4]


@pytest.mark.parametrize("ask", [list, lambda job: job.result()])
def test_a_callback_that_raises_stops_the_tasks(problem, ask):
    coded, _, x = problem

    def broken(estimate):
        raise KeyError(estimate.n_available)

    executor = VirtualExecutor(IN_ORDER)
    job = sooner.matvec(coded, x, executor=executor, callback=broken)
    with pytest.raises(KeyError):
        ask(job)
    assert job.done()
    assert not executor._n_busy


def test_limits_are_checked(problem):
    coded, _, x = problem
    for options in ({"deadline": -1}, {"rtol": float("nan")}):
        with pytest.raises(ValueError, match="must not be negative"):
            sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), **options)
