"""`encode(..., adjoint=True)`: the transpose beside its matrix, and one manifest for both."""

import contextlib
import logging
import os
import pickle
import signal
import sys
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sooner.codes import ARIKAN, PolarCode, Replication, SideBySide, Uncoded
from sooner.errors import (
    MissingAdjointError,
    NonFiniteError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from sooner.jobs.encoding import encode
from sooner.store import MemoryStore, open_coded, repair, verify

CODE = PolarCode(8, 6, rng=0)
A = np.random.default_rng(0).standard_normal((40, 30))


@pytest.fixture(autouse=True)
def many_slabs(monkeypatch):
    """Slabs of a few rows."""
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 2 * 40 * 8)


@pytest.fixture(scope="module")
def bucket():
    """URL of a bucket on loopback, whose address and credentials are in the environment."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", "tester")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_REGION", "us-east-1")
        put = urllib.request.Request(f"http://{host}:{port}/adjoints", method="PUT")
        urllib.request.urlopen(put).close()
        yield "s3://adjoints"
    server.stop()


@pytest.fixture(params=["memory", "folder", "s3"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore()
    if request.param == "folder":
        return tmp_path / "A.coded"
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


class Sliceable:
    """A matrix that can only be sliced, in chunks, and says how much it gave at most."""

    def __init__(self, array, chunks=None, last=None):
        self._array, self._last = array, last
        self.shape, self.dtype = array.shape, array.dtype
        self.chunks = chunks
        self.reads = self.largest = 0

    def __getitem__(self, index):
        self.reads += 1
        if self.reads == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        part = self._array[index]
        self.largest = max(self.largest, part.size)
        return part


def contents(coded):
    blocks = [coded.block(i) for i in range(coded.code.n)]
    return [block.toarray() if sparse.issparse(block) else np.array(block) for block in blocks]


def assert_same(coded, expected):
    assert coded.shape == expected.shape
    assert coded.fingerprint == expected.fingerprint
    for mine, other in zip(contents(coded), contents(expected), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_transpose_is_what_encoding_it_alone_gives(store):
    encode(A, CODE, store, adjoint=True)
    coded = open_coded(store)
    assert_same(coded, encode(A, CODE))
    assert_same(coded.T, encode(A.T, CODE))
    assert coded.T.T is coded
    assert coded.T == open_coded(store).T != coded


@given(
    st.sampled_from(["?", "u1", "i8", "f2", "f4", "f8", "c8", "c16"]),
    st.tuples(st.integers(0, 23), st.integers(0, 23)),
    st.sampled_from(
        [Uncoded(3), Replication(6, 3), CODE, PolarCode(4, 2, kernel=ARIKAN),
         SideBySide([PolarCode(8, 4), Uncoded(2)])]
    ),
    st.sampled_from(
        [np.array, np.asfortranarray, lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
         lambda X: X.astype(X.dtype.newbyteorder(">")), Sliceable,
         lambda X: Sliceable(X, (4, 3)), sparse.csr_array, sparse.coo_matrix]
    ),
    st.sampled_from([600, 3000, 1 << 20]),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_any_matrix_in_any_layout_and_memory(dtype, shape, code, layout, max_memory):
    matrix = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    if dtype == "f2" and layout in {sparse.csr_array, sparse.coo_matrix}:
        return  # SciPy has none
    sparsely = sparse.csr_array if layout in {sparse.csr_array, sparse.coo_matrix} else np.array
    coded = encode(layout(matrix), code, adjoint=True, max_memory=max_memory)
    assert_same(coded, encode(sparsely(matrix), code))
    assert_same(coded.T, encode(sparsely(matrix.T), code))


def test_without_it_there_is_an_error_that_says_what_to_do():
    with pytest.raises(MissingAdjointError, match=r"Encode again with adjoint=True") as caught:
        _ = encode(A, CODE).T
    assert isinstance(caught.value, NotImplementedError)


def test_the_transpose_may_have_another_code(tmp_path):
    encode(A, CODE, tmp_path / "A", adjoint=PolarCode(4, 3))
    coded = open_coded(tmp_path / "A")
    assert (coded.code.n, coded.T.code.n) == (8, 4)
    assert_same(coded.T, encode(A.T, PolarCode(4, 3)))
    with pytest.raises(TypeError, match="code must be a code"):
        encode(A, CODE, adjoint=3)


def test_blocks_of_the_transpose_get_exponents_of_their_own():
    uneven = A * np.logspace(0, 12, 30)
    coded = encode(uneven, CODE, adjoint=True)
    assert coded.code == CODE
    assert coded.T.code != CODE
    assert_same(coded.T, encode(uneven.T, CODE))


def test_tasks_may_encode_the_transpose(tmp_path):
    encode(A, CODE, tmp_path / "A", adjoint=True, where="workers")
    coded = open_coded(tmp_path / "A")
    assert coded.n_stored == coded.T.n_stored == 6
    np.testing.assert_allclose(contents(coded.T), contents(encode(A.T, CODE)), atol=1e-12)


def test_what_is_only_sliced_is_never_read_whole():
    matrix = Sliceable(A)
    encode(matrix, CODE, adjoint=True, max_memory=2000)
    assert matrix.largest < A.size / 4


def test_pickling_takes_both_along(tmp_path):
    coded = encode(A, CODE, tmp_path / "A", adjoint=True)
    _ = coded.T
    data = pickle.dumps(coded)
    assert len(data) < 20_000
    assert_same(pickle.loads(data).T, coded.T)
    assert_same(pickle.loads(pickle.dumps(coded.T)).T, coded)
    in_memory = pickle.loads(pickle.dumps(encode(A, CODE, adjoint=True)))
    assert_same(in_memory.T, coded.T)


def test_progress_is_first_of_the_matrix_and_then_of_its_transpose():
    told = []
    encode(A, CODE, adjoint=True, progress=lambda done, total: told.append((done, total)))
    first, second = ([count for count in told if count[1] == total] for total in (4, 3))
    assert told == first + second
    assert first == [(i, 4) for i in range(1, 5)]
    assert second == [(i, 3) for i in range(1, 4)]


def test_integers_that_are_rounded_are_warned_of_once():
    matrix = np.array([[2**53 + 1, 1], [1, 1]])
    for kind in (np.array, sparse.csr_array):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encode(kind(matrix), Uncoded(2), adjoint=True)
        assert [str(warning.message)[:30] for warning in caught] == [
            "A holds integers beyond 2**53,"
        ]
        assert caught[0].filename == __file__


def test_sums_that_overflow_in_the_transpose_alone_are_named_in_the_matrix():
    matrix = np.zeros((2, 4))
    matrix[1, :] = 1e308
    with pytest.raises(NonFiniteError, match="of the transpose, which adjoint encodes: ") as caught:
        encode(matrix, Uncoded(2), adjoint=PolarCode(4, 2), exponents=False)
    assert (caught.value.row, caught.value.column) == (1, 0)


# One manifest for both --------------------------------------------------------------------------


def test_an_error_in_the_second_part_leaves_nothing_of_the_first(tmp_path):
    class Failing(Sliceable):
        def __getitem__(self, index):
            if isinstance(index, tuple) or self.reads > 20:
                raise OSError("unplugged")
            return super().__getitem__(index)

    for store in (tmp_path / "A", MemoryStore()):
        with pytest.raises(OSError, match="unplugged"):
            encode(Failing(A, (40, 1)), CODE, store, adjoint=True, exponents=False)
        with pytest.raises(StoreNotFoundError):
            open_coded(store)
    assert files(tmp_path) == []
    assert not (tmp_path / "A").exists()


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_encoding_again_replaces_both(store, kind):
    encode(kind(A), CODE, store, adjoint=True)
    with pytest.raises(StoreExistsError):
        encode(kind(2 * A), CODE, store, adjoint=True)
    encode(kind(2 * A), CODE, store, adjoint=True, overwrite=True)
    coded = open_coded(store)
    assert_same(coded.T, encode(kind(2 * A.T), CODE))
    encode(kind(A), CODE, store, overwrite=True)
    coded = open_coded(store)
    assert_same(coded, encode(kind(A), CODE))
    with pytest.raises(MissingAdjointError):
        _ = coded.T
    if isinstance(store, Path):
        assert {path.name for path in store.iterdir()} == {
            *(block.name for block in coded.manifest.blocks), "manifest.json",
        }  # fmt: skip


def killed(folder, last, **options):
    """Encode in a child that is killed at its read number `last`."""
    with warnings.catch_warnings():  # from Python 3.12 on: other tests have left threads
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            encode_slowly(Sliceable(A, (2, 2), last), folder, **options)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def encode_slowly(matrix, folder, **options):
    options = {"adjoint": True, "max_memory": 10_000, "exponents": False, **options}
    return encode(matrix, CODE, folder, **options)


def test_an_encoding_that_was_killed_in_either_part_is_taken_up(tmp_path, caplog):
    whole = Sliceable(A, (2, 2))
    expected = encode_slowly(whole, tmp_path / "whole")
    for last in range(1, whole.reads, 4):
        folder = tmp_path / f"{last}"
        killed(folder, last)
        with pytest.raises(StoreNotFoundError):
            open_coded(folder)
        with caplog.at_level(logging.INFO):
            coded = encode_slowly(Sliceable(A, (2, 2)), folder)
        assert_same(coded, expected)
        assert_same(coded.T, expected.T)
        assert not list(folder.rglob("*.journal"))
    taken_up = [r.getMessage() for r in caplog.records if "taking up" in r.getMessage()]
    assert any(message.endswith("/adjoint") for message in taken_up)
    assert any(not message.endswith("/adjoint") for message in taken_up)


def test_a_writer_killed_after_its_last_step_has_written_both(tmp_path, monkeypatch):
    """What it had no time to remove are its journals; the blocks must outlive the next writer."""
    from sooner.store.journal import Journal

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", lambda self: self._file.close())
        encode(A, CODE, tmp_path, adjoint=True)
    assert len(list(tmp_path.rglob("*.journal"))) == 2
    before = open_coded(tmp_path)
    matrix = Sliceable(2 * A)

    def look(done, total):
        assert verify(before).intact

    encode(matrix, CODE, tmp_path, adjoint=True, overwrite=True, progress=look)
    assert_same(open_coded(tmp_path).T, encode(2 * A.T, CODE))
    assert len(files(tmp_path)) == 8 + 8 + 1


# What is lost -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_verify_and_repair_look_after_both(tmp_path, kind):
    rounded = np.round(A)
    coded = encode(kind(rounded), CODE, tmp_path, adjoint=True)
    assert verify(tmp_path).intact
    per_block = len(coded.manifest.blocks) // 8
    (tmp_path / coded.manifest.blocks[per_block * 2].name).unlink()
    inside = tmp_path / "adjoint"
    (inside / coded.T.manifest.blocks[per_block * 5].name).write_bytes(b"")
    found = verify(tmp_path)
    assert (list(found.lost), list(found.adjoint.lost)) == ([2], [5])
    assert not found.intact
    assert found.decodable

    told = []
    done = repair(tmp_path, progress=lambda *count: told.append(count))
    assert told
    assert set(done.identical + done.rounded) == {2}
    assert set(done.adjoint.identical + done.adjoint.rounded) == {5}
    again = open_coded(tmp_path)
    assert verify(again).intact
    for mine, other in ((again, rounded), (again.T, rounded.T)):
        for block, expected in zip(
            contents(mine), contents(encode(kind(other), CODE)), strict=True
        ):
            np.testing.assert_allclose(block, expected, atol=1e-12)
    assert len(files(tmp_path)) == 1 + per_block * 16


def test_a_transpose_of_which_too_much_is_lost_is_not_decodable(tmp_path):
    coded = encode(A, CODE, tmp_path, adjoint=True)
    for block in coded.T.manifest.blocks[:3]:
        (tmp_path / "adjoint" / block.name).unlink()
    found = verify(coded)
    assert not found.decodable
    assert found.n_missing == found.adjoint.n_missing > 0
    assert found.lost_tasks == ()
    with pytest.raises(RuntimeError, match="do not determine"):
        repair(coded)


def test_a_repair_during_which_the_store_changes_is_refused(tmp_path):
    coded = encode(A, CODE, tmp_path, adjoint=True)
    (tmp_path / "adjoint" / coded.T.manifest.blocks[1].name).unlink()

    def meddle(done, total):
        if done == 1:
            encode(A, CODE, tmp_path, overwrite=True)

    with pytest.raises((StoreError, RuntimeError)):
        repair(tmp_path, progress=meddle)
    assert verify(tmp_path).intact


def test_a_manifest_whose_adjoint_does_not_fit_is_refused():
    from dataclasses import replace

    from sooner.errors import StoreFormatError
    from sooner.store.manifest import Manifest

    manifest = encode(A, CODE, adjoint=True).manifest
    assert Manifest.from_json(manifest.to_json(), "m") == manifest
    other = encode(A.T[:20], CODE).manifest
    wrong = replace(manifest, adjoint=other).to_json()
    with pytest.raises(StoreFormatError, match=r"of shape \(40, 30\), its adjoint of \(20, 40\)"):
        Manifest.from_json(wrong, "m")


def test_a_matrix_in_chunks_of_rows_is_read_twice_for_its_transpose_not_once_per_row():
    class Chunked(Sliceable):
        """Counts chunks: each read brings in all those that it touches."""

        fetched = 0

        def __getitem__(self, index):
            rows = index[0] if isinstance(index, tuple) else index
            height = self.chunks[0]
            self.fetched += -(-rows.stop // height) - rows.start // height
            return super().__getitem__(index)

    matrix = Chunked(np.random.default_rng(0).standard_normal((400, 90)), (10, 90))
    coded = encode(matrix, CODE, adjoint=True, max_memory=100_000)
    assert_same(coded.T, encode(np.asarray(matrix._array.T), CODE))
    assert matrix.fetched <= 6 * 40  # twice for the matrix, and tile by tile for the transpose
