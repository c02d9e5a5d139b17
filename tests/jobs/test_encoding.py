"""`encode`: any input, any layout, any memory: the same blocks, or a clear refusal."""

import itertools
import logging
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sooner.codes import ARIKAN, PolarCode, Replication, SideBySide, Uncoded
from sooner.errors import (
    BlockLostError,
    NonFiniteError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from sooner.jobs.encoding import encode
from sooner.store import MemoryStore, open_coded
from sooner.store.promotion import coded_dtype

CODES = [
    Uncoded(1),
    Uncoded(5),
    Replication(6, 3),
    PolarCode(8, 5, rng=1),
    PolarCode(16, 12, rng=2, late_parities=0, decoder="sequential"),
    PolarCode(4, 2, kernel=ARIKAN, rng=3),
    PolarCode(11, 7, rng=4),
    SideBySide([PolarCode(8, 4, rng=5), Uncoded(2)]),
]
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "f2", "f4", "f8", "c8", "c16"]


class Sliceable:
    """What an HDF5 dataset looks like: a shape, a dtype and slices; never read whole."""

    def __init__(self, array, on_read=lambda: None):
        self._array, self._on_read = array, on_read
        self.shape, self.dtype = array.shape, array.dtype
        self.largest = 0

    def __getitem__(self, index):
        self._on_read()
        part = self._array[index]
        self.largest = max(self.largest, part.shape[0])
        return part.tolist() if part.dtype == np.float64 else part

    def __array__(self, *args, **kwargs):
        raise AssertionError("read whole")


def finite(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return (
            hnp.from_dtype(dtype, min_value=-1000, max_value=1000, allow_nan=False)
            if (dtype.kind == "f")
            else st.complex_numbers(max_magnitude=1000, allow_nan=False, width=8 * dtype.itemsize)
        )
    return hnp.from_dtype(dtype)


@st.composite
def matrices(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.tuples(st.integers(0, 23), st.integers(0, 5)))
    return draw(hnp.arrays(dtype, shape, elements=finite(dtype)))


def layouts(A):
    """The same matrix, laid out in every way."""
    rows, columns = A.shape
    wide = np.zeros((2 * rows, 3 * columns), A.dtype)
    wide[::2, ::3] = A
    read_only = A.copy()
    read_only.flags.writeable = False
    records = np.zeros(A.shape, [("skip", "u1"), ("x", A.dtype)])
    records["x"] = A
    return {
        "fortran": np.asfortranarray(A),
        "transposed": A.T.copy().T,
        "strided": wide[::2, ::3],
        "backwards": A[::-1, ::-1].copy()[::-1, ::-1],
        "other byte order": A.astype(A.dtype.newbyteorder(">")),
        "read-only": read_only,
        "field of records": records["x"],
        "subclass": A.view(np.matrix),
        "masked array without a mask": np.ma.array(A),
        "sliceable": Sliceable(A),
    }


def data_blocks(A, k, dtype):
    """The k data blocks, as the documentation describes them."""
    rows, columns = A.shape
    padded = np.zeros((k * -(-rows // k), columns), dtype)
    padded[:rows] = A
    return padded.reshape(k, -(-rows // k), columns)


def blocks(coded):
    return np.array([coded.block(i) for i in range(coded.code.n)])


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(matrices(), st.sampled_from(CODES))
@settings(deadline=None, max_examples=150)
def test_a_block_is_the_codes_sum_of_padded_data_blocks(A, code):
    coded = encode(A, code)
    dtype = coded_dtype(A.dtype, code)
    expected = coded.code.encode(data_blocks(A, code.k, dtype)) if A.size else None
    assert coded.shape == A.shape
    assert coded.dtype == dtype
    assert coded.block_rows == -(-len(A) // code.k)
    got = blocks(coded)
    assert got.shape == (code.n, coded.block_rows, A.shape[1])
    assert expected is None or same_bits(got, expected)


@given(matrices(), st.sampled_from(CODES), st.integers(0, 3000))
@settings(deadline=None, max_examples=60)
def test_layout_and_memory_change_no_bit(A, code, spare):
    reference = encode(A, code)
    least = (code.n + code.k) * reference.dtype.itemsize + 2 * A.dtype.itemsize + 1
    before = A.tobytes()
    for name, same in layouts(A).items():
        coded = encode(same, code, max_memory=least + spare)
        assert same_bits(blocks(coded), blocks(reference)), name
        assert coded.fingerprint == reference.fingerprint, name
        assert coded.manifest.blocks[0].crc32c == reference.manifest.blocks[0].crc32c, name
    assert A.tobytes() == before


@pytest.mark.parametrize("n_columns", [3, 300])
def test_slabs_are_checked_whatever_the_memory(monkeypatch, tmp_path, n_columns):
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 256)
    A = np.random.default_rng(0).standard_normal((203, n_columns))
    code = PolarCode(8, 5, rng=0)
    reference = blocks(encode(A, code))
    for number, max_memory in enumerate((2_000, 9_000, 40_000, 1 << 28)):
        coded = encode(A, code, tmp_path / str(number), max_memory=max_memory)
        assert coded.slab_rows == max(1, 256 // (8 * n_columns))
        assert len(coded.manifest.blocks[0].crc32c) == -(-41 // coded.slab_rows) > 1
        assert same_bits(blocks(open_coded(tmp_path / str(number))), reference)


def test_broadcast_input_is_read_in_place():
    A = np.broadcast_to(np.arange(4.0), (10, 4))
    assert same_bits(blocks(encode(A, Uncoded(5))), blocks(encode(A.copy(), Uncoded(5))))


def test_lists_and_a_column_of_records():
    assert blocks(encode([[1, 2], [3, 4]], Uncoded(2))).tolist() == [[[1, 2]], [[3, 4]]]
    records = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    assert blocks(encode(records["b"][:, None], Uncoded(1))).tolist() == [[[2.5], [4.5]]]


def test_an_object_with_slices_is_never_read_whole():
    A = Sliceable(np.ones((1000, 10), np.float32))
    encode(A, Uncoded(4), max_memory=20_000, exponents=False)
    assert 0 < A.largest <= 60


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1), (2, 5)])
@pytest.mark.parametrize("code", CODES, ids=repr)
@pytest.mark.parametrize("local", [True, False])
def test_empty_and_small_matrices(tmp_path, shape, code, local):
    coded = encode(np.ones(shape), code, tmp_path / "A" if local else None)
    assert coded.shape == shape
    assert coded.block(code.n - 1).shape == (-(-shape[0] // code.k), shape[1])
    if local:
        assert open_coded(tmp_path / "A") == coded


# -- what is promoted, and to what --------------------------------------------------------------


@pytest.mark.parametrize("name", ["i1", "u1", "i2", "u2", "i4", "u4"])
@pytest.mark.parametrize("code", [*CODES, PolarCode(256, 192, rng=0)], ids=repr)
def test_integer_blocks_are_exact(name, code):
    ends = np.iinfo(name)
    A = np.random.default_rng(0).choice([ends.min, ends.max, ends.max - 1], size=(2 * code.k, 3))
    coded = encode(A.astype(name), code)
    exact = code.encode(data_blocks(A, code.k, np.float64))
    assert np.array_equal(blocks(coded), exact)


def test_signs_of_the_largest_values_stay_exact_in_float32():
    code = PolarCode(1024, 768, rng=0)
    assert coded_dtype("u1", code) == np.float32
    A = np.random.default_rng(0).choice(np.array([0, 255], np.uint8), size=(768, 40))
    exact = code.encode(A.astype(np.float64)[:, None, :])
    assert np.array_equal(blocks(encode(A, code)), exact)


@pytest.mark.parametrize(
    ("source", "dtype", "message"),
    [
        ("f8", "f2", "dtype must be float32, float64, complex64 or complex128, got float16"),
        ("f8", "i8", "dtype must be float32, .* got int64"),
        ("c8", "f8", r"dtype must be complex for a complex matrix \(complex64\), got float64"),
    ],
)
def test_dtypes_that_cannot_be(source, dtype, message):
    with pytest.raises(ValueError, match=message):
        encode(np.ones((2, 2), source), Uncoded(2), dtype=dtype)


def test_dtype_overrides_the_rule():
    assert encode(np.ones((2, 2)), Uncoded(2), dtype=np.float32).dtype == np.float32
    assert encode(np.ones((2, 2)), Uncoded(2), dtype=">c16").dtype == np.complex128


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**62, np.iinfo(np.int64).min])
def test_integers_that_float64_rounds_are_warned_of_once(value):
    A = np.zeros((6, 2), np.int64)
    A[3:5, 1] = value
    with pytest.warns(UserWarning, match=rf"beyond 2\*\*53.*{value} at row 3, column 1") as seen:
        coded = encode(A, Uncoded(3))
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert coded.block(1)[1].tolist() == [0.0, float(value)]


def test_unsigned_integers_that_float64_rounds_are_warned_of():
    with pytest.warns(UserWarning, match=rf"{2**64 - 1} at row 0, column 0"):
        encode(np.full((1, 1), 2**64 - 1, np.uint64), Uncoded(1))


def test_a_warning_that_is_an_error_leaves_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=r"beyond 2\*\*53"):
            encode(np.full((1, 1), 2**60), Uncoded(1), tmp_path / "A")
    assert not (tmp_path / "A").exists()


def test_integers_that_float64_holds_are_not_warned_of():
    A = np.array([[2**53, -(2**53)]])
    assert encode(A, Uncoded(1)).block(0).tolist() == A.tolist()


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("A", "kind", "message"),
    [
        (np.ones(3), ValueError, r"two dimensions, got shape \(3,\). .*A\[:, None\]"),
        (np.ones((2, 3, 4)), ValueError, r"two dimensions, got shape \(2, 3, 4\). Flatten it"),
        (3.0, ValueError, r"two dimensions, got shape \(\)"),
        (np.array([[1, "x"]], object), TypeError, "got dtype object"),
        (np.array([["a"]]), TypeError, "got dtype <U1"),
        ("A.npy", TypeError, "got dtype <U5"),
        (np.zeros((2, 2), [("a", "f8")]), TypeError, "pass its fields as columns"),
        (np.zeros((2, 2), "m8[s]"), TypeError, "got dtype timedelta64"),
        (np.zeros((2, 2), np.longdouble), TypeError, r"Convert it first.*A.astype\(np.float64\)"),
        (np.zeros((2, 2), np.clongdouble), TypeError, "at most 64 bits a component"),
        (np.ma.array([[1.0, 2.0]], mask=[[0, 1]]), ValueError, r"masked entries.*A.filled\(0\)"),
    ],
)
def test_what_is_no_matrix_of_numbers(A, kind, message):
    with pytest.raises(kind, match=message):
        encode(A, Uncoded(1))


def test_an_object_that_does_not_keep_its_promise():
    A = Sliceable(np.ones((4, 2), np.float32))
    A.dtype = np.dtype(np.int32)
    with pytest.raises(TypeError, match=r"rows 0 to 3 of A must be .*int32, got .*float32 from a"):
        encode(A, Uncoded(1))
    A.shape = (np.nan, 2)
    with pytest.raises(ValueError, match="shape of A must be known before it is read"):
        encode(A, Uncoded(1))


def test_arguments_that_cannot_be():
    class Product(Uncoded):
        operands = 2

    A = np.ones((2, 2))
    with pytest.raises(TypeError, match=r"code must be a code such as PolarCode\(64, 48\), got 4"):
        encode(A, 4)
    with pytest.raises(ValueError, match="code must be for one matrix"):
        encode(A, Product(2))
    with pytest.raises(ValueError, match="nonfinite must be one of 'raise', 'allow', got 'x'"):
        encode(A, Uncoded(2), nonfinite="x")
    with pytest.raises(ValueError, match=r"take 49 bytes, got max_memory=48"):
        encode(A, Uncoded(2), max_memory=48)
    assert encode(A, Uncoded(2), max_memory=49).block(1).tolist() == [[1.0, 1.0]]


# -- what is not finite -------------------------------------------------------------------------


@given(
    st.sampled_from([np.nan, np.inf, -np.inf]),
    st.sets(st.tuples(st.integers(0, 16), st.integers(0, 3)), min_size=1, max_size=5),
    st.integers(300, 3000),
    st.sampled_from(["f2", "f4", "f8", "c16"]),
)
@settings(deadline=None, max_examples=60)
def test_the_first_entry_that_is_not_finite_is_named(value, positions, max_memory, dtype):
    A = np.ones((17, 4), dtype)
    for position in positions:
        A[position] = value
    row, column = min(positions)
    with pytest.raises(NonFiniteError, match=f"at row {row}, column {column}") as caught:
        encode(A, PolarCode(8, 5, rng=0), max_memory=max_memory)
    assert (caught.value.row, caught.value.column) == (row, column)
    assert "nonfinite='allow'" in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_allowed_in_spoils_one_column_of_its_row_of_every_block(value):
    A = np.random.default_rng(0).standard_normal((16, 3))
    clean, code = encode(A, PolarCode(8, 4, rng=0, late_parities=0)), PolarCode(8, 4, rng=0)
    A[6, 1] = value  # row 2 of data block 1
    with np.errstate(all="raise"):
        coded = encode(A, clean.code, nonfinite="allow")
    expected = np.ones((8, 4, 3), bool)
    expected[:, 2, 1] = False
    assert np.array_equal(np.isfinite(blocks(coded)), expected)
    assert np.array_equal(blocks(coded)[expected], blocks(clean)[expected])
    assert code.n == coded.code.n


@pytest.mark.parametrize("max_memory", [500, 1 << 28])
def test_sums_that_overflow_are_refused(max_memory):
    A = np.ones((10, 4))
    A[[1, 6, 3, 8], [2, 2, 0, 0]] = 1.5e308
    code = Sums()
    message = "coded block 2 overflows at its row 1, column 2: the sum of rows 1, 6 … of A. Divide"
    with pytest.raises(NonFiniteError, match=message) as caught:
        encode(A, code, max_memory=max_memory)
    assert (caught.value.row, caught.value.column) == (1, 2)
    assert np.isinf(encode(A, code, nonfinite="allow").block(2)[1, 2])


class Sums(Uncoded):
    """Two data blocks and their sum."""

    def __init__(self):
        super().__init__(2)
        self.n = 3

    def encode(self, blocks, *, out=None, threads=1, stop=None):
        return np.concatenate([blocks, blocks[:1] + blocks[1:]], out=out)


def test_values_that_the_blocks_cannot_hold_are_refused():
    A = np.array([[1.0, 1e300]])
    with pytest.raises(NonFiniteError, match=r"fit into float32, got 1e\+300 at row 0, column 1"):
        encode(A, Uncoded(1), dtype=np.float32)


def test_settings_for_floating_point_errors_do_not_matter():
    with np.errstate(all="raise"):
        coded = encode(np.array([[1e-300, 1.0]]), Uncoded(1), dtype=np.float32)
    assert coded.block(0).tolist() == [[0.0, 1.0]]


# -- what is in the store -----------------------------------------------------------------------


def test_a_matrix_changed_in_place_is_not_taken_for_the_old_one(tmp_path):
    A = np.arange(12.0).reshape(6, 2)
    first = encode(A, Uncoded(3), tmp_path)
    A[4, 1] += 1e-9
    with pytest.raises(StoreExistsError, match=r"a coded matrix \(6 x 2 float64, encoded 20"):
        encode(A, Uncoded(3), tmp_path)
    with pytest.raises(StoreExistsError, match="Pass overwrite=True to replace it"):
        encode(A[:2].astype(np.int8), Uncoded(2), tmp_path)
    assert np.array_equal(open_coded(tmp_path).block(2), [[8.0, 9.0], [10.0, 11.0]])

    second = encode(A, Uncoded(3), tmp_path, overwrite=True)
    assert second.fingerprint != first.fingerprint
    assert second != first
    assert same_bits(open_coded(tmp_path).block(2), A[4:])
    assert len(list(tmp_path.iterdir())) == 4  # the old blocks are gone
    for i in range(3):  # and whoever knows only them reads no other ones
        with pytest.raises(BlockLostError, match="missing"):
            first.block(i)


@pytest.mark.parametrize("contents", [b"", b"{}", b"\xff", b"not json"])
def test_a_manifest_that_cannot_be_read_is_not_replaced_unasked(tmp_path, contents):
    (tmp_path / "manifest.json").write_bytes(contents)
    with pytest.raises(StoreExistsError, match="a manifest that cannot be read already"):
        encode(np.eye(2), Uncoded(2), tmp_path)
    encode(np.eye(2), Uncoded(2), tmp_path, overwrite=True)
    assert open_coded(tmp_path).shape == (2, 2)


@pytest.mark.parametrize("local", [True, False])
def test_of_two_writers_one_wins(tmp_path, local):
    store = tmp_path / "A" if local else MemoryStore()
    winner = []

    def other_writer():
        if not winner:
            winner.append(None)
            winner[0] = encode(np.full((4, 2), 7.0), Uncoded(2), store)

    with pytest.raises(StoreExistsError, match="already"):
        encode(Sliceable(np.ones((4, 2)), other_writer), Uncoded(2), store)
    assert open_coded(store) == winner[0]
    assert np.all(blocks(open_coded(store)) == 7)
    if local:
        assert len(list(store.iterdir())) == 3


@pytest.mark.parametrize("local", [True, False])
def test_of_two_writers_that_overwrite_the_last_wins(tmp_path, local):
    store = tmp_path / "A" if local else MemoryStore()
    encode(np.zeros((4, 2)), Uncoded(2), store)
    inner = []

    def other_writer():
        if not inner:
            inner.append(None)
            inner[0] = encode(np.full((4, 2), 7.0), Uncoded(2), store, overwrite=True)

    encode(Sliceable(np.ones((4, 2)), other_writer), Uncoded(2), store, overwrite=True)
    assert np.all(blocks(open_coded(store)) == 1)
    with pytest.raises(BlockLostError, match="missing"):
        inner[0].block(0)
    if local:
        assert len(list(store.iterdir())) == 3


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_encoding_leaves_nothing(tmp_path, error):
    reads = itertools.count()

    def interrupt():
        if next(reads) == 5:
            raise error

    A = Sliceable(np.ones((100, 4)), interrupt)
    with pytest.raises(error):
        encode(A, Uncoded(2), tmp_path / "A", max_memory=300)
    assert not (tmp_path / "A").exists()
    assert encode(A, Uncoded(2), tmp_path / "A").shape == (100, 4)


def test_an_encoding_killed_on_the_way_is_no_store_and_in_nobodys_way(tmp_path):
    script = """
        import os, signal, sys
        import numpy as np
        from sooner.codes import Uncoded
        from sooner.jobs.encoding import encode

        class Deadly:
            shape, dtype, left = (100, 4), np.dtype("f8"), 5
            def __getitem__(self, index):
                self.left -= 1
                if not self.left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return np.zeros(self.shape)[index]

        encode(Deadly(), Uncoded(2), sys.argv[1], max_memory=300, exponents=False)
    """
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path], check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    left = {path.name for path in tmp_path.iterdir()}
    assert left
    assert all(name.endswith(".npy.tmp") for name in left)
    with pytest.raises(StoreNotFoundError, match=r"no manifest.json.*interrupted; encode"):
        open_coded(tmp_path)
    encode(np.ones((100, 4)), Uncoded(2), tmp_path)
    assert np.all(blocks(open_coded(tmp_path)) == 1)
    assert left < {path.name for path in tmp_path.iterdir()}


def test_too_little_room_is_said_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    message = r"needs 0.0 MB \(1056 bytes\), and its disk has 0.0 MB \(1000 bytes\) free"
    with pytest.raises(StoreError, match=message):
        encode(np.ones((100, 1)), Uncoded(2), tmp_path / "A")
    assert not (tmp_path / "A").exists()


def test_more_blocks_than_a_process_may_have_files(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = 20  # beside those that other tests have left open
    files = len(list(Path("/proc/self/fd").iterdir())) + spare
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, limits[1]))
    try:
        coded = encode(np.ones((files + 40, 1)), Uncoded(files + 40), tmp_path)
        assert sum(coded.block(i).sum() for i in range(files + 40)) == files + 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_memory_stays_within_its_limit(tmp_path):
    A = np.memmap(tmp_path / "A.bin", np.float64, "w+", shape=(6_000, 1_000))  # 48 MB
    code = PolarCode(8, 6, rng=0)
    encode(A[:12], code)  # what is made once is not counted
    tracemalloc.start()
    try:
        encode(A, code, tmp_path / "A", max_memory=8 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (8 << 20) / 2 < peak < (8 << 20) + (6 << 20)


def test_what_it_will_take_is_logged_and_what_it_did(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "sooner"):
        encode(np.ones((5, 4), np.uint8), Uncoded(2), tmp_path)
    assert caplog.messages == [
        f"encoding 5 x 4 uint8: writes 0.0 MB to {tmp_path} and takes up to 0.0 MB of memory",
        f"encoded 5 x 4 uint8 as 2 blocks of 3 x 4 float32, 0.0 MB, in {tmp_path}",
    ]


@given(st.sampled_from(CODES), matrices())
@settings(deadline=None, max_examples=20)
def test_a_store_on_disk_holds_what_memory_holds(code, A):
    with tempfile.TemporaryDirectory() as folder:
        encode(A, code, Path(folder) / "A")
        coded = open_coded(str(Path(folder) / "A"))
        assert same_bits(blocks(coded), blocks(encode(A, code)))
        assert repr(coded.code) == repr(code)
