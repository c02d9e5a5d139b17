"""Policies replayed: against a simulation event by event, and what holds for any run times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sooner import PolarCode, Uncoded
from sooner.policy import LAG_FACTOR
from sooner.runtimes import Empirical, ShiftedExponential
from sooner.simulate import Rounds, Scheme, any_k_of_n, replay
from sooner.simulate.replaying import _durations, _sufficiency


def heavy_tailed(workers, rounds, seed=0):
    """A few of the tasks take twenty times as long."""
    rng = np.random.default_rng(seed)
    times = 1 + rng.exponential(0.2, size=(rounds, workers))
    return Rounds(np.where(rng.random(times.shape) < 0.05, 20 * times, times))


def event_by_event(durations, scheme, workers):
    """Time and worker-seconds of one round on lag, one event after the other."""
    start = dict.fromkeys(range(scheme.first), 0.0)
    lagging, finished, now = set(), {}, 0.0
    while len(finished) < scheme.k:
        running = [task for task in start if task not in finished]
        next_finish, task = min((start[task] + durations[task], task) for task in running)
        waiting = [start[task] for task in running if task not in lagging]
        next_lag = np.inf
        if waiting and 2 * len(finished) >= scheme.first:
            limit = scheme.lag_factor * np.median([durations[task] for task in finished])
            next_lag = max(now, min(waiting) + limit)
        if next_finish <= next_lag:
            now = next_finish
            finished[task] = now
            continue
        now = next_lag
        lagging |= {task for task in running if start[task] + limit <= now + 1e-12}
        hopeful = len(finished) + sum(task not in lagging for task in running)
        free = workers - len(running)
        first_spare = len(start)
        for spare in range(first_spare, min(first_spare + min(scheme.k - hopeful, free), scheme.n)):
            start[spare] = now
    busy = sum(min(begun + durations[task], now) - begun for task, begun in start.items())
    return now, busy


@pytest.mark.parametrize(
    "scheme", [Scheme.on_lag(45, 40), Scheme.on_lag(60, 30), Scheme.on_lag(50, 36, first=40)]
)
def test_a_replay_is_what_happens_event_by_event(scheme):
    rounds = heavy_tailed(workers=40, rounds=300)
    durations = _durations(rounds, scheme, _sufficiency(scheme, None), 7)
    expected = [event_by_event(round_, scheme, 40) for round_ in durations]
    replayed = replay(rounds, scheme, rng=7)
    # A median that falls while stand-ins run may let these lag a little earlier than replayed.
    same = np.isclose(replayed.seconds, [seconds for seconds, _ in expected])
    assert same.mean() > 0.99
    assert np.allclose(replayed.worker_seconds[same], np.array(expected)[same, 1])


def test_more_than_one_wave_of_stand_ins():
    rounds = Rounds([[1.0] * 7 + [100.0] * 3])
    seconds = {
        seed: replay(rounds, Scheme.on_lag(40, 10), rng=seed).seconds[0] for seed in range(40)
    }
    # Each wave begins 1.5 s after the one before it; a stand-in lags itself with probability 0.3.
    assert set(seconds.values()) <= {2.5, 4.0, 5.5, 7.0, 8.5, 10.0, 11.5}
    assert len(set(seconds.values())) > 2


def test_schemes_by_hand():
    rounds = Rounds([[1.0, 1.0, 1.2, 9.0]])
    assert replay(rounds, Scheme.uncoded(4)).seconds == [9.0]
    dropped = replay(rounds, Scheme.wait_for_share(4, 0.75))
    assert (dropped.seconds, dropped.dropped) == ([1.2], 0.25)
    assert dropped.worker_seconds == pytest.approx([1 + 1 + 1.2 + 1.2])
    assert dropped.wasted == pytest.approx([1.2])
    half = replay(rounds, Scheme.at_once(4, 2))  # twice the load
    assert (half.seconds, half.launched) == ([2.0], [4])
    assert replay(rounds, Scheme.on_lag(4, 2)).launched == [2]  # nothing lags


def test_start_up_does_not_grow_with_the_load():
    rounds = Rounds([[1.0, 1.0, 1.0, 9.0]], startup=10.0)
    assert replay(rounds, Scheme.at_once(4, 2)).seconds == [12.0]


def test_a_backup_task_ends_its_original():
    rounds = Rounds([[1.0, 1.0, 1.0, 50.0]])
    seconds = np.array([
        [replayed.seconds[0], replayed.worker_seconds[0]]
        for seed in range(30)
        for replayed in [replay(rounds, Scheme.backup(4), rng=seed)]
    ])
    quick = seconds[:, 0] < 50
    assert quick.any()  # unless the repetition is as slow
    np.testing.assert_allclose(seconds[quick, 0], LAG_FACTOR + 1)
    np.testing.assert_allclose(seconds[quick, 1], 3 + (LAG_FACTOR + 1) + 1)


@given(
    workers=st.integers(2, 40),
    share=st.floats(0.3, 1),
    seed=st.integers(0, 99),
    startup=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=40, deadline=None)
def test_what_holds_for_any_run_times(workers, share, seed, startup):
    rounds = heavy_tailed(workers, 20, seed)
    rounds = Rounds(rounds.work, startup)
    k = max(1, round(share * workers))
    at_once = replay(rounds, Scheme.at_once(workers, k))
    both = replay(rounds, Scheme.on_lag(workers + 5, k, first=workers), rng=seed)
    first = replay(rounds, Scheme.on_lag(workers + 5, k), rng=seed)
    assert (both.seconds <= at_once.seconds + 1e-9).all()  # more tasks never take longer
    for replayed in (at_once, both, first):
        assert (replayed.wasted <= replayed.worker_seconds + 1e-9).all()
        assert (replayed.worker_seconds <= workers * replayed.seconds + 1e-9).all()
        assert (k <= replayed.launched).all()
    ideal = any_k_of_n(rounds.run_times(workers / k), k)
    np.testing.assert_allclose(at_once.seconds, ideal)


@pytest.mark.parametrize(
    ("scheme", "code"),
    [
        (Scheme.uncoded(24), Uncoded(24)),
        (Scheme.at_once(24, 18), PolarCode(24, 18, rng=0)),
        (Scheme.on_lag(32, 24), PolarCode(32, 24, rng=0)),
        (Scheme.on_lag(32, 20, first=24), PolarCode(32, 20, systematic=True, rng=0)),
    ],
)
def test_a_real_code_takes_hardly_longer_than_an_ideal_one(scheme, code):
    rounds = heavy_tailed(workers=24, rounds=40, seed=3)
    ideal, real = replay(rounds, scheme, rng=5), replay(rounds, scheme, code=code, rng=5)
    if isinstance(code, Uncoded):
        np.testing.assert_allclose(real.seconds, ideal.seconds)
    assert ideal.seconds.mean() <= real.seconds.mean() <= 1.1 * ideal.seconds.mean() + 1e-9


def test_rounds_of_another_number_of_workers():
    rounds = Rounds([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]], startup=[[0.1, 0.2, 0.3], [1, 2, 3]])
    fewer = rounds.drawn(2, 10)
    assert fewer.work.shape == (10, 2)
    assert (fewer.work[::2] < 10).all()
    assert (fewer.work[1::2] >= 10).all()  # workers of one round stay together
    assert (fewer.work[:, 0] != fewer.work[:, 1]).all()  # without repetition
    np.testing.assert_allclose(fewer.startup, fewer.work / 10)  # both parts of a task, too
    assert rounds.drawn(7, 2).work.shape == (2, 7)
    np.testing.assert_allclose(rounds.loaded(2.0).run_times(), rounds.run_times(2.0))
    assert rounds[:1].n_rounds == 1


def test_rounds_from_a_distribution_have_its_mean():
    model = ShiftedExponential(1.0, 0.5)
    rounds = Rounds.from_model(model, workers=200, rounds=200, startup=2.0)
    assert rounds.run_times().mean() == pytest.approx(2 + model.mean, rel=0.01)
    assert set(Rounds.from_model(Empirical([4.0]), 2, 1).work.ravel()) == {4.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rounds([1.0, 2.0]), r"work must have shape \(rounds, workers\).*got shape \(2,\)"),
        (lambda: Rounds(np.empty((0, 3))), "at least one of each"),
        (lambda: Rounds([[1.0, np.nan]]), "work must be finite seconds of at least 0, got nan"),
        (lambda: Rounds([[1.0]], startup=-1.0), "startup must be finite seconds of at least 0"),
        (lambda: Scheme.at_once(4, 5), "k must satisfy 0 < k <= n, got k=5, n=4"),
        (lambda: Scheme.on_lag(6, 4, first=3), "first must be at least 4, got first=3"),
        (lambda: Scheme.backup(4, 0), "lag_factor must be positive"),
        (lambda: Scheme.wait_for_share(4, 2), "share must lie between 0 and 1"),
        (lambda: replay(Rounds([[1.0]]), Scheme.uncoded(2)), "each of the first 2 tasks must find"),
        (
            lambda: replay(Rounds([[1.0, 1.0]]), Scheme.uncoded(2), code=Uncoded(3)),
            "code must have n=2 as the scheme, got n=3",
        ),
    ],
)
def test_what_cannot_be_replayed_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
