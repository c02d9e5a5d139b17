"""``sooner doctor``: each check says in one line what it found, in bounded time."""

from __future__ import annotations

import importlib.metadata
import json
import socket
import time

import pytest
from click.testing import CliRunner

from sooner import doctor
from sooner.cli.commands import sooner as command
from sooner.executors import LocalExecutor


def examine(**options):
    return {finding.name: finding for finding in doctor.examine(**options)}


def run(*arguments):
    return CliRunner().invoke(command, ["doctor", *map(str, arguments)])


def test_a_good_set_up(tmp_path):
    found = examine(store=str(tmp_path / "store"))
    assert all(finding.ok for finding in found.values()), found
    assert list(found) == ["python", *doctor.EXTRAS, "store", "engine", "workers", "product"]
    assert found["store"].message.endswith("written, read back, removed")
    assert not list((tmp_path / "store").iterdir())
    assert "exact after" in found["product"].message
    assert "numpy" in found["python"].message


def test_the_command_prints_a_line_each_and_exits_with_what_it_found(tmp_path):
    good = run("--store", tmp_path / "store")
    assert good.exit_code == 0
    lines = good.stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines)
    assert len(lines) == 5 + len(doctor.EXTRAS)
    blocked = tmp_path / "file"
    blocked.write_text("")
    bad = run("--store", blocked / "store", "--json")
    assert bad.exit_code == 1
    findings = {each["name"]: each for each in map(json.loads, bad.stdout.splitlines())}
    assert not findings["store"]["ok"]
    assert "\n" not in findings["store"]["message"]
    assert findings["product"]["ok"], "one failure must not hide what comes after it"


def test_what_is_not_installed_is_a_failure_only_if_it_is_needed(monkeypatch):
    version = doctor._version

    def without(name):
        if name in {"distributed", "rich"}:
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "_version", without)
    found = examine(engine="dask", timeout=5)
    assert not found["dask"].ok
    assert 'distributed not installed: pip install "sooner[dask]"' in found["dask"].message
    assert found["cli"].ok
    assert found["cli"].message == 'rich not installed: pip install "sooner[cli]", if wanted'
    assert "give the address of the scheduler" in found["engine"].message


def test_what_does_not_answer_fails_in_time():
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # accepts, and never says a word
        began = time.monotonic()
        address = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        found = examine(engine="dask", address=address, timeout=1.0)
    assert time.monotonic() - began < 10
    assert not found["engine"].ok
    assert found["engine"].message == "no answer within 1 s. Can it be reached from here?"
    assert "product" not in found


@pytest.mark.parametrize(
    ("store", "message"),
    [("nowhere://bucket/A", "store must be a path to a local folder"), ("", "store must be")],
)
def test_a_store_that_is_none(store, message):
    found = examine(store=store)
    assert not found["store"].ok
    assert message in found["store"].message


def test_other_versions_on_workers_are_a_failure(monkeypatch):
    version = doctor._version
    with LocalExecutor(1) as executor:
        assert "the same versions" in doctor._compare_workers(executor)
        monkeypatch.setattr(
            doctor, "_version", lambda name: "0" if name == "numpy" else version(name)
        )
        with pytest.raises(RuntimeError, match=r"a worker has numpy .* \(here 0\)\. Install the"):
            doctor._compare_workers(executor)


def test_an_engine_that_is_none():
    with pytest.raises(ValueError, match="engine must be one of local, dask, ray, lithops, got"):
        list(doctor.examine(engine="spark"))
