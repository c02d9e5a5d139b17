"""What is wrong with an engine: nobody answers, no workers, other versions, clocks, folders."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import sooner
from sooner import doctor
from sooner.doctor import engines
from sooner.doctor.finding import CheckFailedError
from sooner.executors import LocalExecutor

HASTE = 1.5  # seconds for a check that cannot succeed
END = 60.0  # seconds in which anything here ends


def examine(**options):
    return {finding.name: finding for finding in doctor.examine(**options)}


def test_other_versions_on_workers_are_a_failure(monkeypatch):
    with LocalExecutor(1) as executor:
        assert "the same versions" in engines.compare_workers(executor, also=["click"])
        monkeypatch.setattr(engines, "version", lambda name: "0" if name == "numpy" else None)
        with pytest.raises(CheckFailedError, match=r"has sooner .* numpy .* \(here 0\)") as caught:
            engines.compare_workers(executor)
    assert str(caught.value).endswith("Install the same versions there.")


@pytest.mark.parametrize(("skew", "message"), [(-3600, "ahead: stores"), (3600, "behind: stores")])
def test_a_workers_clock_that_is_wrong(monkeypatch, skew, message):
    """Seen from a driver whose clock is off by the same."""
    here = SimpleNamespace(time=lambda: time.time() + skew)
    with LocalExecutor(1) as executor:
        monkeypatch.setattr(engines, "time", here)
        with pytest.raises(CheckFailedError, match=message):
            engines.compare_workers(executor)


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_an_engine_that_does_not_answer(engine, unreachable):
    importlib.import_module({"dask": "distributed"}.get(engine, engine))  # which takes its time
    address = f"tcp://{unreachable.at}" if engine == "dask" else unreachable.at
    found = examine(engine=engine, address=address, timeout=HASTE)
    assert not found["engine"].ok
    assert unreachable.at in found["engine"].message
    assert unreachable.said in found["engine"].message
    assert "product" not in found


def test_lithops_whose_storage_does_not_answer(monkeypatch, tmp_path, unreachable):
    monkeypatch.setenv("HOME", str(tmp_path))
    config = {
        "lithops": {"backend": "localhost", "storage": "minio", "telemetry": False},
        "minio": {
            "endpoint": f"http://{unreachable.at}",
            "access_key_id": "tester",
            "secret_access_key": "secret",
            "storage_bucket": "bucket",
        },
    }
    (tmp_path / "lithops.yaml").write_text(json.dumps(config))
    monkeypatch.setenv("LITHOPS_CONFIG_FILE", str(tmp_path / "lithops.yaml"))
    importlib.import_module("lithops")
    found = examine(engine="lithops", timeout=HASTE)
    assert not found["engine"].ok
    assert unreachable.said in found["engine"].message


@pytest.mark.parametrize(
    ("engine", "address", "message"),
    [
        ("dask", None, "give the address of the scheduler"),
        ("dask", "tcp://127.0.0.1", "must have a host and a port, got 'tcp://127.0.0.1'"),
        ("dask", "tcp://nowhere.invalid:1", "no host is known by the name in nowhere.invalid:1"),
    ],
)
def test_an_address_that_is_none(engine, address, message):
    assert message in examine(engine=engine, address=address)["engine"].message


def test_something_else_at_the_address(server_that):
    with server_that("") as endpoint:
        address = endpoint.removeprefix("http://")
        found = examine(engine="ray", address=address)
    assert found["engine"].message == f"something else listens at {address}. Correct the address."


def test_a_scheduler_without_workers(dask_scheduler):
    with dask_scheduler(0) as address:
        found = examine(engine="dask", address=address, timeout=END)
    assert found["engine"].message.startswith("dask answers and has no workers. Start some: dask")
    assert "product" not in found


def test_workers_that_do_not_see_the_folder(tmp_path, monkeypatch):
    def elsewhere(coded, *args, **options):
        for block in Path(coded.location).glob("*.npy"):
            block.unlink()
        return sooner.matvec(coded, *args, **options)

    monkeypatch.setattr(engines, "matvec", elsewhere)
    found = examine(store=str(tmp_path / "store"))
    assert not found["product"].ok
    assert found["product"].message.endswith("Do they see this folder, at the same path?")
