"""The demo at a small size, on real processes, and the parts that it is made of."""

from __future__ import annotations

import contextlib
import importlib.resources
import importlib.util
import json
import logging
import time
from pathlib import Path

import numpy as np
import pytest

import sooner.demo
from sooner.codes import PolarCode, Replication, Uncoded
from sooner.demo.comparison import Product, schemes
from sooner.demo.delays import cloud_run_times, time_to_exact, usual_times
from sooner.demo.killing import KillingExecutor
from sooner.errors import WorkerLostError


@pytest.fixture(scope="module")
def table():
    text = importlib.resources.files("sooner.demo").joinpath("run_times.json").read_text("utf-8")
    return json.loads(text)


def test_a_small_demo_is_exact_three_times_and_loses_three_workers(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="sooner.demo")
    seen = {}

    @contextlib.contextmanager
    def watch(name, job, code):
        seen[name] = []
        yield seen[name].append

    report = sooner.demo.run(
        n=8, stride=8, width=4, budget=3.0, rng=0, out=tmp_path / "new", watch=watch
    )
    assert report.matrix == (8480, 192)
    assert [outcome.scheme for outcome in report.outcomes] == ["coded", "uncoded", "replication"]
    assert [(outcome.n, outcome.k) for outcome in report.outcomes] == [(8, 6), (8, 8), (8, 4)]
    for outcome in report.outcomes:
        assert outcome.largest_error < 1e-4
        assert outcome.workers_lost == 1
        assert outcome.time_to_exact >= outcome.predicted
        assert outcome.k <= outcome.outputs_used <= 8
        assert seen[outcome.scheme][-1].exact
    assert report.outcomes[1].outputs_used == 8  # uncoded needs the killed task again
    assert 0 < report.scale < 1
    assert sum(outcome.predicted for outcome in report.outcomes) == pytest.approx(3.0)
    assert "all run times are multiplied by" in caplog.text  # never silently
    for file in (report.timeline, report.picture):
        assert Path(file).parent == tmp_path / "new"
        assert Path(file).read_bytes().startswith(b"\x89PNG")


def test_the_tasks_must_be_a_power_of_two():
    with pytest.raises(ValueError, match="n must be a power of two, got n=20"):
        sooner.demo.run(n=20)


def test_errors_are_measured_against_the_size_of_the_answer():
    product = Product(np.eye(2), np.eye(2), np.array([[4.0, 0.0], [0.0, 3.0]]))
    assert product.largest_error(np.array([[4.0, 0.4], [0.0, 3.0]])) == pytest.approx(0.1)
    assert product.relative_error(np.zeros((2, 2))) == pytest.approx(1)


def test_every_scheme_draws_the_same_times_in_proportion_to_its_rows():
    run_times = np.arange(1.0, 65.0)
    coded, uncoded, replication = schemes(run_times, 2.0)
    np.testing.assert_allclose(coded.draws, 2 * run_times)
    np.testing.assert_allclose(uncoded.draws, 2 * run_times * 48 / 64)
    np.testing.assert_allclose(replication.draws, 2 * run_times * 48 / 32)
    assert uncoded.predicted == pytest.approx(2 * 64 * 0.75)  # the slowest of all
    assert replication.predicted == pytest.approx(2 * 32 * 1.5)  # the slowest of the faster copies


def test_time_to_exact_is_the_delay_that_completes_a_decodable_set():
    delays = np.random.default_rng(0).permutation(16).astype(float)
    assert time_to_exact(Uncoded(16), delays) == 15
    assert 11 <= time_to_exact(PolarCode(16, 12, rng=0), delays) <= 15
    np.testing.assert_equal(time_to_exact(Replication(4, 2), [5.0, 1.0, 2.0, 3.0]), 2.0)


def test_usual_times_scale():
    once, twice = (usual_times(Uncoded(8), scale, n_draws=50) for scale in (1.0, 2.0))
    np.testing.assert_allclose(twice, 2 * np.array(once))


def test_the_table_names_its_source_and_keeps_the_tail(table):
    assert "mamaj/Sequential-Gradient-Coding-2" in table["source"]
    assert "none stated" in table["licence"]
    assert len(table["probabilities"]) == len(table["seconds"]) < 20  # quantiles, not data
    assert sorted(table["seconds"]) == table["seconds"]
    assert table["seconds"][-1] > 20 * table["seconds"][table["probabilities"].index(0.5)]
    assert cloud_run_times().quantile(0.5) == pytest.approx(1.4714)


def test_the_script_that_computed_the_table_still_makes_such_tables(tmp_path, table):
    path = Path(__file__).parents[2] / "benchmarks" / "run_time_quantiles.py"
    spec = importlib.util.spec_from_file_location("run_time_quantiles", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    data = tmp_path / "times.csv"
    np.savetxt(data, np.linspace(1.0, 2.0, 15).reshape(3, 5), delimiter=",")
    made = script.quantile_table(data)
    assert made.keys() == table.keys()
    assert made["probabilities"] == table["probabilities"]
    np.testing.assert_allclose(made["seconds"], 1 + np.array(made["probabilities"]), atol=1e-4)
    assert "3 rounds of 5 functions" in made["measured"]


def test_the_killed_worker_costs_its_task_only_and_only_once():
    with KillingExecutor(max_workers=3) as executor:
        executor.kill_next(task=1, after=0.0)
        first = executor.submit_many(time.sleep, [(0.3,)] * 3)
        assert isinstance(first[1].exception(timeout=30), WorkerLostError)
        assert [first[place].exception(timeout=30) for place in (0, 2)] == [None, None]
        again = executor.submit_many(time.sleep, [(0.0,)] * 3)
        assert [future.exception(timeout=30) for future in again] == [None] * 3
