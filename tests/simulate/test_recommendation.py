"""What is recommended, what it promises, and whether jobs keep the promise."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sooner
from sooner.codes import MDSCode
from sooner.runtimes import LogNormal, ShiftedExponential
from sooner.simulate import (
    PRICES,
    Comparison,
    Interval,
    Rounds,
    Scheme,
    replay,
    sizes_of,
)
from sooner.simulate.replaying import _durations, _sufficiency


def with_stragglers(workers, rounds, share=0.03, slow=8.0, seed=0):
    rng = np.random.default_rng(seed)
    times = 1 + 0.1 * rng.random((rounds, workers))
    return Rounds(np.where(rng.random(times.shape) < share, slow, times))


def test_rare_stragglers_are_coded_against_and_calm_workers_are_not():
    found = sooner.design(with_stragglers(64, 60), workers=64)
    assert (found.n, found.policy, found.scheme.kind) == (64, "at_once", "coded")
    assert 52 <= found.k <= 62
    assert found.expected.speedup.low > 2
    assert "most redundancy" in found.reason
    calm = sooner.design(Rounds.from_model(LogNormal(1.0, 0.001), 64, 20), workers=64)
    assert calm.n == calm.k == 64
    assert calm.reason.startswith("do not code this")
    assert isinstance(calm.code(), sooner.Uncoded)


def test_a_start_up_that_rules_makes_redundancy_cheap():
    work = Rounds.from_model(ShiftedExponential(1.0, 0.2), 64, 50).work
    mostly_work = sooner.design(Rounds(work), workers=64)
    mostly_startup = sooner.design(Rounds(0.1 * work, startup=9 * work), workers=64)
    assert mostly_startup.k < mostly_work.k


@given(workers=st.integers(1, 40), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_a_design_of_any_size_has_a_code_and_is_never_slower_than_no_code(workers, seed):
    rounds = with_stragglers(30, 8, share=0.1, seed=seed)
    found = sooner.design(rounds, workers=workers, rng=seed)
    code = found.code()
    assert (code.n, code.k) == (found.n, found.k)
    assert found.expected.mean.value <= found.alternatives[Scheme.uncoded(workers)].mean.value
    assert found.expected == found.alternatives[found.scheme]
    times = [found.time_to_error[error] for error in (0.5, 0.2, 0.1)]
    assert times == sorted(times)
    assert times[-1] <= found.expected.mean.value * (1 + 1e-9)


def test_what_run_times_may_be(tmp_path):
    times = with_stragglers(16, 10).work
    np.savetxt(tmp_path / "times.csv", times, delimiter=",")
    by_file = sooner.design(tmp_path / "times.csv", workers=16)
    assert by_file.expected == sooner.design(Rounds(times), workers=16).expected
    assert by_file.expected == sooner.design(times, workers=16).expected
    assert sooner.design(times.ravel(), workers=16).n == 16  # one round of 160 tasks
    assert isinstance(sooner.design(times, workers=8).code(), MDSCode | sooner.Uncoded)


def test_a_job_on_the_virtual_clock_takes_what_the_replay_says():
    rounds, scheme = with_stragglers(24, 30, share=0.1), Scheme.at_once(24, 18)
    code = sooner.PolarCode(24, 18, rng=0)
    coded = sooner.encode(np.ones((36, 2)), code)
    took = []
    for round_ in rounds.run_times(24 / 18):
        executor = sooner.VirtualExecutor(list(round_))
        with sooner.matvec(coded, np.ones(2), executor=executor, policy="at_once") as job:
            job.result()
        took.append(job.trace.decodable)
    np.testing.assert_allclose(took, replay(rounds, scheme, code=code).seconds)


def test_parity_on_lag_takes_what_the_replay_says_but_for_the_time_between_two_looks():
    rounds, scheme = with_stragglers(20, 30, share=0.1), Scheme.on_lag(26, 20)
    code = sooner.PolarCode(26, 20, rng=0)
    coded = sooner.encode(np.ones((40, 2)), code)
    took, n_tasks = [], []
    for round_ in _durations(rounds, scheme, _sufficiency(scheme, code), 3):
        executor = sooner.VirtualExecutor(list(round_), slots=20)
        with sooner.matvec(coded, np.ones(2), executor=executor, policy="on_lag") as job:
            job.result()
        took.append(job.trace.decodable)
        n_tasks.append(len(job.trace))
    replayed = replay(rounds, scheme, code=code, rng=3)
    assert n_tasks == replayed.launched.tolist()
    np.testing.assert_allclose(took, replayed.seconds, rtol=0.1)


def test_real_jobs_take_what_design_predicts():
    # Run times are injected by delays of real tasks in one process each.
    rounds = with_stragglers(8, 5, share=0.12, slow=4.0, seed=2)
    found = sooner.design(rounds, workers=8)
    assert found.k < 8
    coded = sooner.encode(np.ones((80, 4)), found.code())
    with sooner.LocalExecutor(8) as executor:
        for _ in range(2):  # worker processes start, and load what they need
            sooner.matvec(coded, np.ones(4), executor=executor, policy="at_once").result()
        took = []
        for delays in rounds.run_times(8 / found.k):
            with sooner.matvec(
                coded, np.ones(4), executor=executor, policy=found.policy, delays=list(delays)
            ) as job:
                job.result()
            took.append(job.trace.decodable)
    assert np.mean(took) == pytest.approx(found.expected.mean.value, rel=0.1)


def test_intervals_hold_the_truth_as_often_as_they_say():
    model, scheme = ShiftedExponential(1.0, 1.0), Scheme.at_once(16, 12)
    many = Rounds.from_model(model, 16, 20_000, rng=99)
    truth = Comparison(many, [scheme], resamples=1).seconds(scheme).value
    held = again = 0
    for seed in range(60):
        rounds = Rounds.from_model(model, 16, 30, rng=seed)
        interval = Comparison(rounds, [scheme], rng=seed).seconds(scheme)
        held += interval.low <= truth <= interval.high
        wider = Comparison(rounds, [scheme], another=True, rng=seed).seconds(scheme)
        other = Rounds.from_model(model, 16, 30, rng=1000 + seed)
        again += wider.low <= replay(other, scheme).seconds.mean() <= wider.high
    assert held >= 50
    assert again >= 50


def test_few_rounds_are_resampled_task_by_task():
    rounds = Rounds.from_model(ShiftedExponential(1.0, 1.0), 400, 1)
    comparison = Comparison(rounds, [Scheme.at_once(32, 24)], workers=32, resamples=40)
    mean = comparison.seconds(comparison.uncoded)
    expected = 1 + sum(1 / i for i in range(1, 33))
    assert mean.low < expected < mean.high
    assert comparison.cost(comparison.uncoded) == Interval(1.0, 1.0, 1.0)
    assert comparison.wasted(comparison.uncoded) == 0


def test_prices_by_a_worked_example():
    # Amazon's: 3 million calls of 120 ms with 1536 MB are 540 000 GB-seconds.
    x86 = PRICES["aws-lambda-x86"]
    assert x86.functions(3e6 * 0.12, memory=1536 * 2**20, calls=3e6) == pytest.approx(9.6, abs=0.01)
    assert x86.requests(puts=1000, gets=10_000) == pytest.approx(0.005 + 0.004)
    assert x86.month(2**40) == pytest.approx(23.55, abs=0.01)
    arm = PRICES["aws-lambda-arm"]
    assert arm.gb_second / x86.gb_second == pytest.approx(0.8, abs=1e-4)


def test_a_bill_is_of_what_the_tasks_do():
    times = np.full((6, 4), 2.0)
    times[:, 0] = 10.0  # one of four workers is slow: k = 3 or fewer
    prices = dataclasses.replace(
        PRICES["aws-lambda-x86"], gb_second=1.0, call=0.0, put=1e3, get=1.0
    )
    found = sooner.design(
        times, workers=4, shape=(12, 10), worker_memory=2**30, prices=prices, dtype="float32"
    )
    load = 4 / found.k
    assert found.bill is not None
    assert found.bill.functions == pytest.approx(load * (10 + 3 * 2.0))  # to their end
    assert found.bill.requests == pytest.approx(5e3 + 4 * 2 + found.k)
    rows = math.ceil(12 / found.k)
    assert found.sizes is not None
    assert found.sizes.store == 4 * rows * 10 * 4
    assert found.bill.month == pytest.approx(prices.month(found.sizes.store))


def test_a_block_larger_than_its_worker_is_read_in_parts():
    sizes = sizes_of((38_400, 3_000_000), Scheme.at_once(512, 384))
    assert (sizes.block, sizes.block_rows) == (2_400_000_000, 100)
    assert sizes.task < 1_500_000_000  # the paper's worker
    assert sizes.panels >= 10
    assert sizes.store / (38_400 * 3_000_000 * 8) == pytest.approx(512 / 384)
    with pytest.raises(ValueError, match=r"worker_memory must hold a task's 0.115 GB.*got 0.05 GB"):
        sooner.design(
            np.ones((5, 4)), workers=4, shape=(38_400, 3_000_000), worker_memory=50_000_000
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be at least 1"),
        ({"workers": 4, "run_times": np.zeros((5, 4))}, "run times must be long enough to be told"),
        ({"workers": 4, "shape": (0, 3)}, "shape must be at least 1"),
        (
            {"workers": 4, "shape": (9, 3), "worker_memory": 10**9, "prices": "gold"},
            "prices must be one of 'aws-lambda-x86', 'aws-lambda-arm', got 'gold'",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sooner.design(**{"run_times": np.ones((5, 4))} | options)
