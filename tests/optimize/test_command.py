"""``sooner minimize``, called as click calls it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from sooner.cli.minimize import minimize

BASE = ["--sigma", "0.01", "--learning-rate", "0.3", "--maxiter", "20", "--executor", "threads:2"]
MODULE = """
import threading
import numpy as np

def bowl(x):
    return float(np.sum((x - 2) ** 2))

def make():
    lock = threading.Lock()
    return lambda x: bowl(x) if lock else 0

def broken(x):
    raise ArithmeticError("no such thing")

value = 3
"""


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wells.py").write_text(MODULE)
    np.save(tmp_path / "x0.npy", np.zeros(6))
    monkeypatch.syspath_prepend(tmp_path)
    return lambda *arguments: CliRunner().invoke(minimize, [*arguments, *BASE])


@pytest.mark.parametrize(
    "code", [["--n", "8", "--share", "0.9"], ["--n", "8", "--k", "6", "--noise-gain", "2"]]
)
@pytest.mark.parametrize("function", [["wells:bowl"], ["wells:make", "--factory"]])
def test_it_writes_the_point_and_tells_of_each_generation(function, code, invoke):
    result = invoke(*function, "x0.npy", "-o", "x.npy", *code)
    assert result.exit_code == 0
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 21
    assert "generation 20: " in result.stderr
    assert "after 20 generations" in result.stderr
    assert np.sum((np.load("x.npy") - 2) ** 2) < 1


def test_a_program_gets_json(invoke):
    result = invoke("wells:bowl", "x0.npy", "-o", "x.npy", "--json", "-q", "--deadline", "0")
    facts = json.loads(result.stdout)
    assert result.exit_code == 3
    assert (facts["status"], facts["success"], facts["fun"], facts["nfev"]) == (1, False, None, 0)
    assert not result.stderr
    np.testing.assert_array_equal(np.load("x.npy"), np.zeros(6))


@pytest.mark.filterwarnings("ignore:generation 0 was lost")
def test_when_nothing_comes_it_fails_and_says_why(invoke):
    result = invoke("wells:broken", "x0.npy", "-o", "x.npy", "-q")
    assert result.exit_code == 1
    assert "no such thing" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wells", "x0.npy", "-o", "x.npy"], "must look like module:function"),
        (["no_such_wells:bowl", "x0.npy", "-o", "x.npy"], "no module 'no_such_wells' here"),
        (["wells:deep", "x0.npy", "-o", "x.npy"], "no function 'deep' in wells"),
        (["wells:value", "x0.npy", "-o", "x.npy"], "no function 'value' in wells"),
        (["wells:bowl", "x0.npy", "-o", "-", "--json"], "both write to stdout"),
        (["wells:bowl", "x0.npy", "-o", "x.npy", "--k", "3"], "--k needs --n"),
    ],
)
def test_wrong_usage_says_what_must_hold(arguments, message, invoke):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
