"""What ``sooner demo`` prints, of a report made by hand; the demo itself has tests of its own."""

from __future__ import annotations

import json

import pytest

import sooner.demo


@pytest.fixture
def asked(monkeypatch):
    asked = {}
    outcome = sooner.demo.Outcome(
        scheme="coded",
        n=64,
        k=48,
        time_to_exact=1.61,
        predicted=1.52,
        median=1.51,
        rare=1.56,
        outputs_used=48,
        largest_error=3.4e-6,
        workers_lost=1,
        work=64 / 48,
    )

    def run(**options):
        asked.update(options)
        return sooner.demo.Report(
            matrix=(133140, 192),
            width=24,
            dtype="float32",
            rng=30,
            scale=1.0,
            slowest=26.5,
            outcomes=(outcome,),
            timeline="somewhere/timeline.png",
            picture="somewhere/picture.png",
            elapsed=33.0,
        )

    monkeypatch.setattr(sooner.demo, "run", run)
    return asked


@pytest.mark.usefixtures("asked")
def test_the_table_is_data_and_where_the_pictures_are_a_remark(invoke):
    result = invoke("demo")
    assert result.exit_code == 0
    header, row = result.stdout.splitlines()
    assert header.split()[:3] == ["scheme", "exact", "after"]
    for cell in ("coded", "1.61 s", "1.52 s", "48 of 64", "3.4e-06", "1.33x"):
        assert cell in row
    assert "wrote somewhere/timeline.png\nwrote somewhere/picture.png\n" in result.stderr


@pytest.mark.usefixtures("asked")
def test_json_is_one_object(invoke):
    report = json.loads(invoke("demo", "--json").stdout)
    assert report["outcomes"][0]["workers_lost"] == 1
    assert report["matrix"] == [133140, 192]


def test_options_are_passed_on(invoke, asked, tmp_path):
    invoke("demo", "--tasks", 16, "--dtype", "float64", "--out", tmp_path, "--rng", 5)
    del asked["watch"]
    assert asked == {"n": 16, "engine": "local", "dtype": "float64", "out": str(tmp_path), "rng": 5}


@pytest.mark.parametrize(("engine", "n"), [("dask", 64), ("ray", 16), ("lithops", 16)])
def test_engines_that_start_a_process_for_each_task_have_fewer(invoke, asked, engine, n):
    invoke("demo", "--engine", engine)
    assert (asked["engine"], asked["n"]) == (engine, n)
