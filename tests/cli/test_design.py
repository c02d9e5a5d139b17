"""From run times to a recommendation at the shell: measure, design, simulate."""

import json

import numpy as np
import pytest

import sooner


@pytest.fixture
def run_times(tmp_path):
    rng = np.random.default_rng(0)
    times = np.where(rng.random((30, 32)) < 0.05, 9.0, 1.0) + 0.01 * rng.random((30, 32))
    np.savetxt(tmp_path / "times.csv", times, delimiter=",", fmt="%.4f")
    return tmp_path / "times.csv"


def test_a_file_and_a_number_of_workers_suffice(invoke, run_times):
    result = invoke("design", "--run-times", run_times, "--workers", 32, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    found = sooner.design(run_times, workers=32)
    assert (facts["n"], facts["k"], facts["scheme"]) == (32, found.k, "coded")
    assert facts["policy"] == "at_once"
    assert facts["expected"]["mean"]["value"] == found.expected.mean.value
    assert facts["expected"]["speedup"]["low"] > 1
    assert facts["sizes"] is facts["bill"] is None
    assert {scheme["kind"] for scheme in facts["alternatives"]} == {"uncoded", "backup", "coded"}


def test_sizes_and_prices_when_shape_and_memory_are_given(invoke, run_times):
    result = invoke(
        *("design", "--run-times", run_times, "--workers", 512),
        *("--shape", 38400, 3000000, "--memory", 1500, "--prices", "aws-lambda-arm"),
    )
    assert result.exit_code == 0, result.output
    assert "coded " in result.stdout
    assert "> coded" in result.stdout
    assert "the store 1." in result.stdout  # TB
    assert "a product (functions $" in result.stdout
    facts = json.loads(
        invoke(
            *("design", "--run-times", run_times, "--workers", 4, "--shape", 80, 20),
            *("--memory", 1000, "--json"),
        ).stdout
    )
    assert facts["sizes"]["block_rows"] == -(-80 // facts["k"])
    bill = facts["bill"]
    assert bill["product"] == bill["functions"] + bill["requests"] > 0


def test_a_column_that_cannot_be_guessed_is_asked_for(invoke, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,b\n" + "1,2\n" * 10, encoding="utf-8")
    result = invoke("design", "--run-times", table, "--workers", 4)
    assert result.exit_code == 1
    assert "which column holds run times" in result.stderr
    result = invoke("design", "--run-times", table, "--workers", 4, "--column", "b")
    assert result.stdout.startswith("uncoded: do not code this")


def test_what_is_measured_is_what_design_reads(invoke, tmp_path):
    trace = tmp_path / "run.jsonl"
    result = invoke(
        *("measure", "--block", 3000, 700, "--executor", "threads:3"),
        *("--rounds", 12, "-o", trace),  # tasks of the first may end while others are submitted
    )
    assert (result.exit_code, result.stdout) == (0, "")
    assert "12 rounds of 3 tasks: median" in result.stderr
    result = invoke("design", "--run-times", trace, "--workers", 3, "--json")
    assert json.loads(result.stdout)["n"] >= 3


def test_the_blocks_of_a_coded_matrix_are_measured(invoke, tmp_path):
    trace = tmp_path / "run.jsonl"
    result = invoke(*(
        "measure",
        "A.coded",
        "--executor",
        "threads:8",
        "--rounds",
        1,
        "-o",
        trace,
        "--json",
    ))
    facts = json.loads(result.stdout)
    assert (facts["tasks"], facts["rounds"]) == (8, 1)
    assert facts["median"] <= facts["p99"] <= facts["maximum"]
    assert invoke("measure", "-o", trace).exit_code == 2


@pytest.mark.parametrize("model", ["exponential:2,1", "pareto:1,3", "log-normal:1,0.5"])
def test_simulated_codes_beat_uncoded_tasks_on_a_tail(invoke, model):
    result = invoke(
        *("simulate", "--n", 16, "--k", 13, "--model", model, "--startup", 0.5),
        *("--correlation", 0.2, "--rounds", 100, "--json"),
    )
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    mean = {line["scheme"].split(",")[0]: line["mean"] for line in lines[:4]}
    assert mean["MDS"] <= mean["polar"] < mean["uncoded"]
    assert lines[0]["cost"] == 1


def test_simulation_of_measured_run_times(invoke, run_times):
    result = invoke("simulate", "--n", 8, "--k", 6, "--run-times", run_times, "--rounds", 50)
    assert result.exit_code == 0, result.output
    assert "polar, 6 of 8 at once" in result.stdout
    assert "the papers' decoder" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", 8, "--k", 6], "give either --model or --run-times"),
        (["--n", 8, "--k", 9, "--model", "pareto:1,2"], "--k must not exceed --n"),
        (["--n", 8, "--k", 6, "--model", "uniform:1,2"], "a model must be one of exponential:"),
        (["--n", 8, "--k", 6, "--model", "pareto:1"], "a model must be one of"),
        (["--n", 8, "--k", 6, "--model", "pareto:1,-2"], "shape must be positive"),
    ],
)
def test_what_cannot_be_simulated_is_a_matter_of_usage(invoke, arguments, message):
    result = invoke("simulate", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
