"""``sooner doctor``: each check says in one line what it found, in bounded time."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import sooner
from sooner import doctor
from sooner.cli.commands import sooner as command
from sooner.doctor.finding import check

STORE = "s3://bucket/examined"
HASTE = 1.5  # seconds for a check that cannot succeed
END = 60.0  # seconds after which a process would never end


def examine(**options):
    return {finding.name: finding for finding in doctor.examine(**options)}


def run(*arguments):
    return CliRunner().invoke(command, ["doctor", *map(str, arguments)])


def test_all_is_well(tmp_path):
    found = examine(store=str(tmp_path / "store"))
    assert all(finding.ok for finding in found.values()), found
    assert list(found) == ["python", *doctor.EXTRAS, "store", "engine", "workers", "product"]
    assert found["store"].message.endswith("written, read back, removed")
    assert not list((tmp_path / "store").iterdir())
    assert "exact after" in found["product"].message
    assert "numpy" in found["python"].message


def test_all_is_well_with_a_bucket_and_a_cluster(s3_server, use_s3, dask_scheduler):
    use_s3(s3_server)
    with dask_scheduler(1) as address:
        found = examine(engine="dask", address=address, store=STORE, timeout=END)
    assert all(finding.ok for finding in found.values()), found
    of_store = ["credentials", "proxy", "endpoint", "bucket", "store"]
    assert list(found)[-8:] == [*of_store, "engine", "workers", "product"]
    assert "secret" not in str(list(found.values()))
    with urllib.request.urlopen(f"{s3_server}/bucket?list-type=2&prefix=examined") as listing:
        assert b"<Key>" not in listing.read()


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
    version = importlib.metadata.version

    def without(name):
        if name in {"distributed", "obstore", "rich"}:
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without)
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "obstore", None)
    found = examine(engine="dask", address="127.0.0.1:1", store=STORE, timeout=HASTE)
    assert found["dask"].message == 'distributed not installed: pip install "sooner[dask]"'
    assert found["s3"].message == 'obstore not installed: pip install "sooner[s3]"'
    assert found["bucket"].message.endswith('pip install "sooner[s3]"')
    assert found["engine"].message.endswith('pip install "sooner[dask]"')
    assert not any(found[name].ok for name in ("dask", "s3", "bucket", "engine"))
    assert found["cli"].ok
    assert found["cli"].message == 'rich not installed: pip install "sooner[cli]", if wanted'


@pytest.mark.parametrize("raised", [SystemExit(3), KeyError("x"), BaseException("panic")])
def test_a_check_that_raises(raised):
    def look():
        raise raised

    found = check("thing", END, look)
    assert not found.ok
    assert type(raised).__name__ in found.message


def test_a_check_that_never_ends_from_any_thread():
    found = []
    never = threading.Event()
    thread = threading.Thread(
        target=lambda: found.append(check("thing", 0.01, never.wait, late="Wake it."))
    )
    thread.start()
    thread.join(END)
    never.set()
    assert found[0].message == "no answer within 0.01 s. Wake it."


def failures_of_process(endpoint, *arguments):
    """Names of the checks that failed in a process, which must end by itself."""
    environment = os.environ | {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "PYTHONPATH": str(Path(sooner.__file__).parent.parent),
    }
    main = [sys.executable, "-c", "from sooner.cli import main; main()", "doctor"]
    done = subprocess.run(
        [*main, "--store", STORE, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=END,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout, done.stderr
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("failed")]


def test_the_process_ends_when_nothing_answers(unreachable):
    """Nothing that was left behind may hold it up."""
    arguments = ["--engine", "dask", "--address", unreachable.at, "--timeout", HASTE]
    failed = failures_of_process(f"http://{unreachable.at}", *map(str, arguments))
    assert failed == ["endpoint", "bucket", "engine"]


def test_the_process_ends_when_writing_has_no_answer(server_that):
    with server_that("AccessDenied", deaf_to="PUT") as endpoint:
        assert failures_of_process(endpoint, "--timeout", "5") == ["store"]


def test_an_engine_that_is_none():
    with pytest.raises(ValueError, match=r"engine must be one of .*, got 'spark'"):
        list(doctor.examine(engine="spark"))
