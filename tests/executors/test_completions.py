"""Waiting for the first of many."""

import threading
import time
from concurrent.futures import Future

import pytest

from sooner.executors._completions import Completions, settle


def test_a_wait_ends_with_the_first_completion():
    completions = Completions()
    futures = [completions.new_future(str(i)) for i in range(5)]
    thread = threading.Timer(0.02, futures[3].set_result, ["answer"])
    thread.start()
    assert completions.wait(dict.fromkeys(futures), timeout=10) == {futures[3]}
    thread.join()
    assert completions.wait(set(futures) - {futures[3]}, timeout=0.01) == set()
    assert completions.wait(futures, timeout=10) == {futures[3]}, "done futures stay done"


def test_every_kind_of_end_counts():
    completions = Completions()
    futures = [completions.new_future(str(i)) for i in range(3)]
    futures[0].cancel()
    futures[1].set_exception(ValueError())
    futures[2].set_result(None)
    assert completions.wait(futures) == set(futures)
    assert not any(settle(future, 1) for future in futures)


def test_waiters_wait_for_their_own():
    completions = Completions()
    mine, other = completions.new_future("mine"), completions.new_future("other")
    found = []
    thread = threading.Thread(target=lambda: found.append(completions.wait([mine], timeout=10)))
    thread.start()
    other.set_result(1)
    mine.set_result(2)
    thread.join(10)
    assert found == [{mine}]


@pytest.mark.parametrize("timeout", [0, -1, 0.0])
def test_no_time_only_looks(timeout):
    completions = Completions()
    future = completions.new_future("a")
    before = time.monotonic()
    assert completions.wait([future], timeout) == set()
    assert time.monotonic() - before < 0.1


def test_endless_timeouts_are_allowed():
    completions = Completions()
    future = completions.new_future("a")
    threading.Timer(0.01, future.set_result, [1]).start()
    assert completions.wait([future], timeout=float("inf")) == {future}


def test_futures_from_elsewhere_are_refused_instead_of_missed():
    with pytest.raises(TypeError, match="futures must come from submit_many of this executor"):
        Completions().wait([Future()], timeout=1)


def test_looking_at_many_pending_futures_is_cheap():
    completions = Completions()
    futures = {completions.new_future("a") for _ in range(512)}
    before = time.perf_counter()
    for _ in range(200):
        completions.wait(futures, timeout=0)
    assert (time.perf_counter() - before) / 200 < 1e-3, "about 0.02 ms on a quiet machine"
