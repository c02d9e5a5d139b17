"""Stores behind a URL: what is asked of them, and what happens when they misbehave."""

import datetime as dt
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import obstore
import obstore.store
import pytest

import sooner
from sooner.codes import PolarCode, SideBySide, Uncoded
from sooner.errors import (
    BlockLostError,
    MissingExtraError,
    NotDecodableError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from sooner.jobs.encoding import encode
from sooner.store import objects, open_coded, remote_slabs, slabs
from sooner.store.location import as_location

_spec = importlib.util.spec_from_file_location(
    "fault_proxy", Path(__file__).with_name("fault_proxy.py")
)
fault_proxy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fault_proxy)
FaultProxy = fault_proxy.FaultProxy

A = np.random.default_rng(1).standard_normal((64, 5))
QUICK = {
    "retry_config": {
        "max_retries": 6,
        "retry_timeout": dt.timedelta(seconds=20),
        "backoff": {
            "init_backoff": dt.timedelta(milliseconds=2),
            "max_backoff": dt.timedelta(milliseconds=20),
            "base": 2,
        },
    }
}
NEVER = {"retry_config": {"max_retries": 0, "retry_timeout": dt.timedelta(seconds=5)}}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Nothing is kept from one test to the next, and pauses are short."""
    monkeypatch.setattr(remote_slabs, "cache", remote_slabs._Cache())
    monkeypatch.setattr(objects, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def url(s3, tmp_path):
    return f"s3://bucket/{tmp_path.name}/A"


def through(proxy, options=QUICK):
    return {**options, "endpoint": proxy.url, "client_options": {"allow_http": True}}


# -- writing ------------------------------------------------------------------------------------


def test_what_is_stored_is_what_a_folder_holds(place):
    coded = encode(A, PolarCode(8, 6, rng=0), place.store)
    assert place.names() == sorted([
        *(block.name for block in coded.manifest.blocks),
        "manifest.json",
    ])
    in_memory = encode(A, coded.code)
    for i in range(8):
        contents = place.read(coded.manifest.blocks[i].name)
        assert contents == in_memory.block_source(i)["bytes"]
    manifest = json.loads(place.read("manifest.json"))
    assert manifest["fingerprint"] == in_memory.fingerprint


def test_one_put_a_block_one_for_the_manifest_and_nothing_is_listed(s3, url):
    with FaultProxy(s3) as proxy:
        coded = encode(A, Uncoded(4), url, storage_options=through(proxy))
        # before anything is done, whether something is there
        assert proxy.requests == {"PUT": 5, "GET": 1}
        proxy.requests.clear()
        open_coded(url, storage_options=through(proxy)).block(2)
        assert proxy.requests == {"GET": 2}
        encode(A, Uncoded(4), url, overwrite=True, storage_options=through(proxy))
        assert coded != open_coded(url)


def test_a_manifest_is_never_replaced_unasked(place):
    encode(A, Uncoded(2), place.store)
    with pytest.raises(StoreExistsError, match=r"coded matrix \(64 x 5 float64, encoded 20"):
        encode(A, Uncoded(2), place.store)
    old = open_coded(place.store)
    new = encode(2 * A, Uncoded(2), place.store, overwrite=True)
    assert len(place.names()) == 3
    assert np.array_equal(open_coded(place.store).block(1), 2 * A[32:])
    assert new.block_source(0) != old.block_source(0)
    with pytest.raises(BlockLostError, match="missing"):
        old.block(0)


class Slow:
    """A matrix during whose reading something else happens."""

    shape, dtype = A.shape, A.dtype

    def __init__(self, meanwhile):
        self._meanwhile = [meanwhile]

    def __getitem__(self, index):
        while self._meanwhile:
            self._meanwhile.pop()()
        return A[index]


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_two_writers_one_wins_and_the_other_is_told(place, overwrite):
    def other():
        encode(np.full(A.shape, 7.0), Uncoded(2), place.store)

    if overwrite:  # the later one was told to replace whatever is there
        encode(Slow(other), Uncoded(2), place.store, overwrite=True)
    else:
        with pytest.raises(StoreExistsError, match="already"):
            encode(Slow(other), Uncoded(2), place.store)
    winner = open_coded(place.store)
    assert np.array_equal(winner.block(0), A[:32] if overwrite else np.full((32, 5), 7.0))
    assert len(place.names()) == 3


@pytest.mark.parametrize("existing", [False, True])
def test_of_two_that_overwrite_in_the_same_moment_one_is_told(url, monkeypatch, existing):
    if existing:
        encode(A, Uncoded(2), url)
    read = objects.ObjectStore._read_manifest
    meanwhile = []

    def racing(store):
        try:
            return read(store)
        finally:
            if meanwhile:
                meanwhile.pop()()

    first = as_location(url)
    monkeypatch.setattr(objects.ObjectStore, "_read_manifest", racing)
    meanwhile.append(lambda: encode(-A, Uncoded(2), url, overwrite=True))
    with pytest.raises(StoreExistsError, match="somebody else at the same time"):
        first.commit(b"mine", overwrite=True)
    assert np.array_equal(open_coded(url).block(0), -A[:32])


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_lost_answer_to_the_last_put_is_no_other_writer(s3, url, overwrite):
    with FaultProxy(s3) as proxy:
        proxy.lose_answer_to = ("PUT", "manifest.json")
        options = through(proxy)
        coded = encode(A, Uncoded(2), url, overwrite=overwrite, storage_options=options)
        assert proxy.faults["lose answer"] == 1
    assert open_coded(url).manifest == coded.manifest
    assert np.array_equal(open_coded(url).block(1), A[32:])


def test_an_interrupted_encoding_leaves_nothing(s3, url, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def interrupt():
        assert len(list(tmp_path.glob("sooner-*/*.npy.tmp"))) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode(Slow(interrupt), Uncoded(2), url, exponents=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreNotFoundError, match="holds no coded matrix"):
        open_coded(url)
    encode(A, Uncoded(2), url)
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_temporary_files_is_said_before_anything_is_sent(url, monkeypatch):
    import shutil

    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(StoreError, match=r"\(TMPDIR\) first: .* needs 0.0 MB"):
        encode(A, Uncoded(2), url)


def test_a_store_that_forbids_writing(s3, url):
    with FaultProxy(s3, statuses={"manifest.json": 403}) as proxy:
        with pytest.raises(StoreError, match=r"manifest.json cannot be read: permission denied"):
            encode(A, Uncoded(2), url, storage_options=through(proxy))
        with pytest.raises(StoreError, match=r"cannot be written: permission denied\. Give cred"):
            as_location(url, through(proxy)).commit(b"{}", overwrite=False)


def test_options_that_obstore_does_not_know(url):
    message = r"must be what obstore.store.from_url takes, got 's3://.* with \['colour'\]"
    with pytest.raises(ValueError, match=message):
        open_coded(url, storage_options={"colour": "red"})


def test_without_obstore_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtraError, match=r'need obstore: pip install "sooner\[s3\]"'):
        open_coded("s3://bucket/without")


def test_a_forked_process_is_told_and_does_not_hang(s3, url):
    encode(A, Uncoded(2), url)
    reader, writer = os.pipe()
    with warnings.catch_warnings():  # from Python 3.12 on: the server has threads
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            open_coded(url)
        except StoreError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"forked from one that had used an object store" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)


def test_a_limit_that_is_no_number(s3, url, monkeypatch):
    coded = encode(A, Uncoded(2), url)
    monkeypatch.setenv("SOONER_CACHE_BYTES", "1 GB")
    with pytest.raises(
        ValueError, match="SOONER_CACHE_BYTES must be a number of bytes, got '1 GB'"
    ):
        coded.block(0)


def test_credentials_are_not_written_and_not_shown(s3, url):
    options = {"access_key_id": "me", "secret_access_key": "hush"}
    coded = encode(A, Uncoded(2), url, storage_options=options)
    assert "hush" not in repr(coded)
    client = obstore.store.from_url(url)
    for page in obstore.list(client):
        for item in page:
            assert b"hush" not in bytes(obstore.get(client, item["path"]).bytes())
    copy = pickle.loads(pickle.dumps(coded))
    assert np.array_equal(copy.block(1), A[32:])


# -- reading ------------------------------------------------------------------------------------


def test_one_range_request_a_slab_and_none_for_what_is_kept(s3, url, monkeypatch):
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 5 * 8 * 4)
    encode(A, Uncoded(2), url)
    with FaultProxy(s3) as proxy:
        coded = open_coded(url, storage_options=through(proxy))
        proxy.requests.clear()
        for _ in range(3):
            parts = [rows for _, rows in slabs.iter_slabs(coded.block_source(1))]
            assert np.array_equal(np.concatenate(parts), A[32:])
        assert proxy.requests == {"GET": 8}
        monkeypatch.setenv("SOONER_CACHE_BYTES", str(32 * 5 * 8 - 1))  # one byte too few
        for _ in range(2):
            assert np.array_equal(coded.block(0), A[:32])
        assert proxy.requests == {"GET": 24}


def test_what_is_kept_longest_unused_goes_first(s3, url, monkeypatch):
    monkeypatch.setenv("SOONER_CACHE_BYTES", str(2 * 16 * 5 * 8))
    encode(A, Uncoded(4), url)
    with FaultProxy(s3) as proxy:
        coded = open_coded(url, storage_options=through(proxy))
        proxy.requests.clear()
        for index in (0, 1, 0, 2, 0, 1):  # 2 drives 1 out
            coded.block(index)
        assert proxy.requests == {"GET": 4}


def test_the_next_slab_is_on_its_way_while_one_is_used(s3, url, monkeypatch):
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 5 * 8 * 16)
    coded = encode(A, Uncoded(1), url)
    import threading

    started = [threading.Event() for _ in range(4)]
    fetch_slab = remote_slabs.fetch_slab

    def observed(source, slab):
        started[slab].set()
        return fetch_slab(source, slab)

    monkeypatch.setattr(remote_slabs, "fetch_slab", observed)
    parts = slabs.iter_slabs(coded.block_source(0))
    next(parts)
    assert started[1].wait(10)
    assert not started[2].is_set()


def test_a_flipped_bit_is_seen_and_fetched_again_before_it_is_believed(anywhere, monkeypatch):
    contents = bytearray(anywhere.read(0))
    contents[128 + 5 * 24] ^= 1
    anywhere.write(0, contents)
    with pytest.raises(BlockLostError, match=r"coded block 0 is .*rows 4 to 5 differs\."):
        anywhere.coded.block(0)


def test_what_was_damaged_on_the_way_only_comes_again(s3, url, monkeypatch):
    coded = encode(A, Uncoded(2), url)
    fetch, damaged = remote_slabs.fetch, []

    def damaging(*args):
        data = bytearray(fetch(*args))
        if not damaged:
            damaged.append(True)
            data[3] ^= 8
        return data

    monkeypatch.setattr(remote_slabs, "fetch", damaging)
    assert np.array_equal(coded.block(1), A[32:])
    assert damaged


@pytest.mark.parametrize(
    ("status", "why"),
    [(403, "permission denied"), (404, "missing"), (500, "not readable: Generic S3 error")],
)
def test_what_a_store_refuses_is_lost_and_named(s3, url, status, why):
    coded = encode(A, Uncoded(2), url)
    name = coded.manifest.blocks[1].name
    with FaultProxy(s3, statuses={name: status}) as proxy:
        coded = open_coded(url, storage_options=through(proxy, NEVER))
        with pytest.raises(BlockLostError, match=rf"block 1 is lost: {url}/{name} is {why}"):
            coded.block(1)
        assert np.array_equal(coded.block(0), A[:32])


def test_a_store_that_is_not_there(s3):
    options = {**NEVER, "endpoint": "http://127.0.0.1:9", "client_options": {"allow_http": True}}
    with pytest.raises(StoreError, match=r"manifest.json cannot be read: Generic S3 error"):
        open_coded("s3://bucket/nowhere", storage_options=options)


def test_a_worker_loads_obstore_only_for_a_url(s3, url):
    encode(A, Uncoded(2), url)
    script = """
import pickle, sys
from sooner.store import slabs
assert "obstore" not in sys.modules
print(slabs.read_block(pickle.load(sys.stdin.buffer)).sum())
assert not {"scipy", "sooner.store.manifest", "sooner.codes"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(open_coded(url).block_source(1)),
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ,
    )
    assert done.stderr == b""
    assert float(done.stdout) == pytest.approx(A[32:].sum())


# -- products -----------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["threads:4", "local:2"])
def test_a_product_is_exact_whatever_the_network_does(s3, url, executor, monkeypatch):
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 5 * 8 * 2)
    x = np.arange(5.0)
    faults = {"cut": 0.05, "reset": 0.05, "busy": 0.2, "n_busy": 30}
    with FaultProxy(s3, **faults) as proxy:
        coded = encode(A, PolarCode(16, 12, rng=0), url, storage_options=through(proxy))
        names = [block.name for block in coded.manifest.blocks]
        proxy.statuses = {names[3]: 403, names[7]: 404}
        with sooner.matvec(coded, x, executor=executor) as job:
            assert np.allclose(job.result(timeout=60), A @ x)
        assert min(proxy.faults[kind] for kind in ("cut", "reset", 503)) > 0
        # 16 blocks of 3 slabs, and what had to be asked for again
        assert proxy.requests["GET"] <= 16 * 3 * 3 * 2
        assert proxy.requests.keys() == {"PUT", "GET"}


def test_a_worker_reads_each_of_its_blocks_once_for_many_products(s3, url):
    with FaultProxy(s3) as proxy, sooner.LocalExecutor(max_workers=1) as executor:
        coded = encode(A, Uncoded(4), url, storage_options=through(proxy))
        proxy.requests.clear()
        for scale in range(3):
            with sooner.matvec(coded, np.full(5, scale), executor=executor) as job:
                assert np.allclose(job.result(timeout=60), scale * A.sum(axis=1))
        assert proxy.requests == {"GET": 4}


def test_sparse_blocks_and_blocks_of_data_anywhere(place):
    from scipy import sparse

    S = sparse.random_array((64, 5), density=0.3, rng=np.random.default_rng(0), format="csr")
    code = SideBySide([PolarCode(4, 3, rng=0), PolarCode(8, 6, rng=1)])
    x = np.arange(5.0)
    for matrix, where in ((S, "driver"), (S, "workers"), (A, "workers")):
        encode(matrix, code, place.store, where=where, overwrite=True)
        coded = open_coded(place.store)
        assert sparse.issparse(coded.block(1)) == sparse.issparse(matrix)
        with sooner.matvec(coded, x, executor="threads:2") as job:
            assert np.allclose(job.result(timeout=60), matrix @ x)
    assert len(place.names()) == 9 + 1  # what was replaced is gone


def test_too_many_lost_blocks_are_a_clear_end(s3, url):
    coded = encode(A, PolarCode(8, 6, rng=0), url)
    names = [block.name for block in coded.manifest.blocks]
    with FaultProxy(s3, statuses=dict.fromkeys(names[:3], 404)) as proxy:
        coded = open_coded(url, storage_options=through(proxy))
        with (
            sooner.matvec(coded, np.ones(5), executor="threads:2", retries=1) as job,
            pytest.raises(NotDecodableError, match=r"coded block \d is lost: .*is missing"),
        ):
            job.result(timeout=60)


def test_a_manifest_that_may_have_arrived_keeps_its_blocks(s3, url, monkeypatch):
    with FaultProxy(s3) as proxy:
        options = through(proxy)
        put = objects._patiently

        def losing(call):
            result = put(call)
            if proxy.requests["PUT"] == 3:
                raise objects._obstore().exceptions.GenericError("connection reset")
            return result

        monkeypatch.setattr(objects, "_patiently", losing)
        with pytest.raises(StoreError, match=r"manifest.json cannot be written: connection reset"):
            encode(A, Uncoded(2), url, storage_options=options)
    monkeypatch.undo()
    assert np.array_equal(open_coded(url).block(1), A[32:])


def test_the_command_takes_urls(s3, url, tmp_path):
    from click.testing import CliRunner

    from sooner.cli.commands import sooner as command

    np.save(tmp_path / "A.npy", A)
    arguments = ["encode", str(tmp_path / "A.npy"), url, "--n", "4", "--k", "3"]
    assert CliRunner().invoke(command, arguments).exit_code == 0
    assert json.loads(CliRunner().invoke(command, ["info", url, "--json"]).stdout)["store"] == url
    coded = open_coded(url)
    obstore.delete(obstore.store.from_url(url), coded.manifest.blocks[1].name)
    assert CliRunner().invoke(command, ["verify", url]).exit_code == 1
    assert CliRunner().invoke(command, ["repair", url]).exit_code == 0
    assert CliRunner().invoke(command, ["verify", url]).exit_code == 0
