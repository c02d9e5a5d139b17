"""Decisions as functions of the time and of what happened."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner import policy
from sooner.codes.base import launch_order

CODES = [
    sooner.PolarCode(16, 12, rng=0),
    sooner.PolarCode(20, 13, rng=0),
    sooner.PolarCode(16, 12, systematic=True, rng=0),
    sooner.PolarCode(16, 8, late_parities=0, decoder="sequential"),
    sooner.SideBySide([sooner.PolarCode(8, 6), sooner.PolarCode(4, 3)]),
    sooner.Replication(12, 5),
    sooner.Uncoded(9),
]
codes = pytest.mark.parametrize("code", CODES, ids=repr)


def suffices(code, tasks):
    decoder = code.decoder()
    for task in tasks:
        decoder.add(task)
    return decoder.decodable


@codes
def test_the_first_tasks_are_a_small_decodable_set(code):
    order = launch_order(code)
    assert sorted(order) == list(range(code.n))
    first = policy.stand_ins(code, np.zeros(code.n, dtype=bool), order)
    assert first == order[: len(first)]
    assert suffices(code, first)
    assert not suffices(code, first[:-1])
    assert len(first) <= 1.5 * code.k


def test_a_systematic_code_begins_with_its_data_blocks():
    code = CODES[2]
    assert policy.stand_ins(code, np.zeros(16, dtype=bool), launch_order(code)) == list(range(12))


def test_parts_side_by_side_begin_each_with_their_share():
    code = sooner.SideBySide([sooner.PolarCode(8, 6, systematic=True)] * 2)
    first = policy.stand_ins(code, np.zeros(16, dtype=bool), launch_order(code))
    assert sorted(first) == [*range(6), *range(8, 14)]


@codes
@given(st.data())
def test_stand_ins_are_the_fewest_that_decode_with_the_hopeful(code, data):
    hopeful = np.array(data.draw(st.lists(st.booleans(), min_size=code.n, max_size=code.n)))
    spare = data.draw(st.permutations(np.flatnonzero(~hopeful).tolist()))
    chosen = policy.stand_ins(code, hopeful, spare)
    assert chosen == spare[: len(chosen)]
    hoped_for = np.flatnonzero(hopeful).tolist()
    assert suffices(code, hoped_for + chosen)
    assert not chosen or not suffices(code, hoped_for + chosen[:-1])


@given(st.integers(0, 4))
def test_extra_outputs_are_launched_from_the_beginning(extra):
    code = CODES[0]
    nothing = np.zeros(16, dtype=bool)
    first = policy.stand_ins(code, nothing, range(16))
    assert len(policy.stand_ins(code, nothing, range(16), extra)) == len(first) + extra


def test_when_all_spare_tasks_do_not_suffice_all_are_launched():
    assert policy.stand_ins(CODES[0], np.zeros(16, dtype=bool), [3, 1, 2]) == [3, 1, 2]


def test_redundancy_waits_where_there_are_fewer_slots_than_tasks():
    assert policy.resolve("auto", 16, 15) == "on_lag"
    assert policy.resolve("auto", 16, 16) == "at_once"
    assert policy.resolve("auto", 16, None) == "at_once"
    assert policy.resolve("on_lag", 16, 100) == "on_lag"


def test_what_lags_is_known_once_half_of_the_tasks_have_finished():
    assert policy.lag_limit([], 0) is None
    assert policy.lag_limit([1.0] * 5, 12) is None
    assert policy.lag_limit([1.0, 1.0, 2.0, 2.0, 2.0, 90.0], 12) == pytest.approx(3)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=8))
def test_an_error_is_everybodys_when_a_repetition_and_another_task_raise_it(kinds):
    found = policy.raise_again(kinds)
    for kind in "ab":
        tasks = [task for task, raised in kinds if raised == kind]
        hopeless = len(set(tasks)) >= 2 and len(tasks) > len(set(tasks))
        assert (found == kind) <= hopeless
        assert not hopeless or found is not None
