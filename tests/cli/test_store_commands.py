"""``sooner info``, ``verify`` and ``repair``: what they say and exit with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sooner
from sooner.codes import PolarCode


@pytest.fixture
def store(tmp_path):
    """Eight blocks of integers, any six of which nearly suffice; decoded without rounding."""
    A = np.arange(200).reshape(50, 4).astype(np.uint8)
    code = PolarCode(8, 5, late_parities=0, decoder="sequential", rng=0)
    return sooner.encode(A, code, tmp_path / "A")


def path(coded, index):
    return Path(coded.location, coded.manifest.blocks[index].name)


def flip(path, position=-3):
    contents = bytearray(path.read_bytes())
    contents[position] ^= 4
    path.write_bytes(contents)


def test_info_says_everything(invoke, store):
    facts = json.loads(invoke("info", store.location, "--json").stdout)
    assert facts["source_dtype"] == "|u1"
    assert (facts["layout"], facts["holds"], facts["n_stored"]) == ("dense", "coded", 8)
    assert (facts["read_amplification"], facts["slab_bytes"]) == (1.0, 10 * 4 * 4)
    assert facts["generation"] in facts.pop("store") + store.manifest.blocks[0].name
    text = invoke("info", store.location).stdout
    assert "slabs       10 rows each, with a checksum; a worker needs 160 B at a time\n" in text
    assert f"source      |u1, fingerprint {store.fingerprint}\n" in text
    assert f"by sooner {sooner.__version__}\n" in text


def test_intact(invoke, store):
    result = invoke("verify", store.location)
    assert (result.exit_code, result.stdout) == (0, "8 blocks of 8 intact, nothing is lost\n")
    assert json.loads(invoke("verify", store.location, "--json").stdout)["intact"]
    result = invoke("repair", store.location)
    assert (result.exit_code, result.stdout) == (0, "8 blocks intact, nothing to repair\n")


def test_lost_and_made_again(invoke, store):
    path(store, 2).unlink()
    flip(path(store, 5))
    result = invoke("verify", store.location)
    assert result.exit_code == 1
    first, second, verdict = result.stdout.splitlines()
    assert "coded block 2 is lost" in first
    assert "missing" in first
    assert "the checksum of rows 0 to 9 differs" in second
    assert verdict == "6 blocks of 8 intact, products are still exact"
    facts = json.loads(invoke("verify", store.location, "--json").stdout)
    assert facts["lost"].keys() == {"2", "5"}
    assert (facts["lost"]["5"]["slabs"], facts["decodable"]) == ([0], True)

    result = invoke("repair", store.location)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"block {index} is again what it was, bit for bit" for index in (2, 5)
    ]
    assert invoke("verify", store.location).exit_code == 0


def test_rounding_is_told(invoke, tmp_path):
    A = np.random.default_rng(0).standard_normal((300, 4))
    coded = sooner.encode(A, PolarCode(8, 6, rng=0), tmp_path / "A")
    flip(path(coded, 3))
    facts = json.loads(invoke("repair", coded.location, "--json").stdout)
    assert facts["lost"] == facts["identical"] + facts["rounded"] == [3]
    assert facts["rounded"] == [3]
    flip(path(sooner.open_coded(coded.location), 4))
    assert (
        "block 4 is again what it was but for rounding\n" in invoke("repair", coded.location).stdout
    )


def test_too_much_is_lost(invoke, store):
    for index in range(5):
        flip(path(store, index))
    result = invoke("verify", store.location)
    assert result.exit_code == 4
    assert result.stdout.splitlines()[-1] == "3 blocks of 8 intact, too few for exact products"
    result = invoke("repair", store.location)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "3 of 8 outputs are available" in result.stderr


def test_nothing_there(invoke, tmp_path):
    for command in ("info", "verify", "repair"):
        result = invoke(command, tmp_path / "nowhere")
        assert result.exit_code == 1
        assert "holds no coded matrix" in result.stderr


def test_encode_tells_of_every_tenth_once_it_takes_long(invoke, tmp_path, monkeypatch):
    import sys

    from sooner.jobs.encoding import encode

    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 32)
    arguments = ("encode", "A.npy", tmp_path / "A", "--n", 2, "--k", 1, "--max-memory", 1)
    assert "slabs" not in invoke(*arguments).stderr
    monkeypatch.setattr(sys.modules["sooner.cli.encode"], "_PATIENCE", -1.0)
    told = [
        line for line in invoke(*arguments, "--overwrite").stderr.splitlines() if "slabs" in line
    ]
    assert len(told) == 10
    assert told[-1].startswith("encode A.npy  50 of 50 slabs  ")


def test_a_dry_run_says_how_large_everything_would_be(invoke, tmp_path):
    with (tmp_path / "A.npy").open("wb") as file:  # as in the first paper; takes no place
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (38_400, 3_000_000)}
        )
        file.truncate(file.tell() + 38_400 * 3_000_000 * 8)
    result = invoke(*(
        "encode",
        tmp_path / "A.npy",
        tmp_path / "A",
        "--n",
        512,
        "--k",
        384,
        "--dry-run",
    ))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "blocks    512 of 100 x 3000000 float64",
        "store     1.23 TB",
        "of A      1.33 times its size",
        "a worker  24 MB at a time, 100 slabs a block",
    ]
    assert not (tmp_path / "A").exists()
