"""What `encode` takes beside NumPy's arrays, with the packages that make them."""

import logging
import shutil
import sys

import dask.array
import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from sooner.codes import PolarCode
from sooner.errors import StoreError
from sooner.jobs.encoding import encode
from sooner.store import MemoryStore, row_major
from sooner.store.panels import Panels

A = np.random.default_rng(0).standard_normal((230, 70)).astype(np.float32)
CODE = PolarCode(8, 6, rng=0)
LITTLE = 30_000  # bytes: an eighth of A


def blocks(coded):
    return [coded.block(i).tobytes() for i in range(coded.code.n)]


@pytest.fixture(scope="module")
def expected():
    coded = encode(A, CODE)
    return coded.fingerprint, blocks(coded)


def in_zarr(chunks, folder):
    array = zarr.create_array(folder / "A.zarr", shape=A.shape, dtype=A.dtype, chunks=chunks)
    array[:] = A
    return array


def in_hdf5(chunks, folder):
    return h5py.File(folder / "A.h5", "w").create_dataset("A", data=A, chunks=chunks)


def in_dask(chunks, folder):
    return dask.array.from_array(A, chunks=chunks or "auto")


def in_columns(chunks, folder):
    array = np.memmap(folder / "A.bin", A.dtype, "w+", shape=A.shape, order="F")
    array[:] = A
    array.flush()
    return np.memmap(folder / "A.bin", A.dtype, "r", shape=A.shape, order="F")


@pytest.mark.parametrize("chunks", [(10, 70), (230, 7), (100, 33), None])
@pytest.mark.parametrize("make", [in_zarr, in_hdf5, in_dask, in_columns])
def test_chunked_matrices(make, chunks, tmp_path, expected, caplog):
    source = make(chunks or (230, 70) if make is in_zarr else chunks, tmp_path)
    with caplog.at_level(logging.INFO, "sooner"):
        coded = encode(source, CODE, tmp_path / "coded", max_memory=LITTLE)
    assert (coded.fingerprint, blocks(coded)) == expected
    if make is in_columns or chunks == (230, 7):
        assert "A is stored by columns: copying it (0.1 MB) to a temporary file" in caplog.text
    if chunks == (10, 70) and make is not in_columns:
        assert "stored by columns" not in caplog.text
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] != []
    assert len(list((tmp_path / "coded").iterdir())) == 9


class Counting:
    """Chunks of 100 x 7 that are read whole, and counted."""

    shape, dtype, chunks = A.shape, A.dtype, (100, 7)

    def __init__(self):
        self.reads = np.zeros((3, 10), int)
        self.largest = 0

    def __getitem__(self, index):
        rows, columns = index if isinstance(index, tuple) else (index, slice(0, 70))
        touched = np.s_[
            rows.start // 100 : -(-rows.stop // 100), columns.start // 7 : -(-columns.stop // 7)
        ]
        self.reads[touched] += 1
        part = A[rows, columns]
        self.largest = max(self.largest, part.nbytes)
        return part


def test_every_chunk_is_read_once_within_the_memory(expected):
    source = Counting()
    coded = encode(source, CODE, max_memory=LITTLE, exponents=False)
    assert (coded.fingerprint, blocks(coded)) == expected
    assert source.reads.max() == source.reads.min() == 1
    assert source.largest <= LITTLE


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 50), st.integers(1, 50)),
    st.integers(1, 5000),
)
@settings(deadline=None, max_examples=40)
def test_the_detour_changes_nothing(shape, chunks, max_memory):
    values = np.arange(shape[0] * shape[1], dtype=np.int16).reshape(shape)
    source = dask.array.from_array(values, chunks=chunks)
    copied = row_major.row_major(Panels(source), None, max_memory)
    assert np.array_equal(copied.read(0, shape[0], 0, shape[1]), values)
    assert copied.chunks == (1, 1)


def test_no_room_for_the_detour(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(StoreError, match=r"stored by columns.* needs 0.1 MB, and .* has 0.0 MB"):
        encode(Counting(), CODE, max_memory=LITTLE)


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">f8", "c8", "?"])
def test_other_numbers_in_hdf5_and_zarr(tmp_path, dtype):
    values = (A * 50).astype(np.dtype(dtype).newbyteorder("=")).astype(dtype)
    with h5py.File(tmp_path / "A.h5", "w") as file:
        hdf5 = encode(file.create_dataset("A", data=values), CODE)
    zarr_array = zarr.create_array(tmp_path / "A.zarr", data=values)
    reference = encode(values, CODE)
    for coded in (hdf5, encode(zarr_array, CODE)):
        assert blocks(coded) == blocks(reference)
        assert coded.fingerprint == reference.fingerprint


def test_a_matrix_without_entries(tmp_path):
    with h5py.File(tmp_path / "A.h5", "w") as file:
        coded = encode(file.create_dataset("A", shape=(0, 3), dtype="f4"), CODE)
    assert coded.shape == (0, 3)
    assert encode(pd.DataFrame(index=range(4)), CODE).shape == (4, 0)


def test_a_frame_of_numbers_is_never_made_an_array_whole():
    frame = pd.DataFrame({"a": np.arange(40), "b": np.linspace(0, 1, 40), "c": [True, False] * 20})
    values = frame.to_numpy(dtype=np.float64)
    largest = []

    class Watched(pd.DataFrame):
        @property
        def _constructor(self):
            return Watched

        def to_numpy(self, *args, **options):
            array = super().to_numpy(*args, **options)
            largest.append(len(array))
            return array

    coded = encode(Watched(frame), CODE, store := MemoryStore(), max_memory=1000)
    assert max(largest) <= 7
    assert coded.dtype == np.float64
    assert blocks(coded) == blocks(encode(values, CODE))
    assert coded.fingerprint == encode(values, CODE).fingerprint
    assert store is not None


def test_a_frame_of_one_type_keeps_it():
    frame = pd.DataFrame(np.arange(12, dtype=np.float32).reshape(6, 2), columns=["x", "x"])
    assert encode(frame, CODE).dtype == np.float32


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (["a", "b"], "str"),
        ([1, None], "Int64"),
        (pd.to_datetime(["2020", "2021"]), "datetime64"),
        ([1, "b"], "object"),
        (["a", "b"], "category"),
    ],
)
def test_a_frame_of_other_things_is_refused_with_the_columns_name(column, dtype):
    values = pd.Series(column) if dtype == "datetime64" else pd.Series(column, dtype=dtype)
    frame = pd.DataFrame({"number": [1.0, 2.0], "other": values})
    message = rf"columns of A must hold numbers, got column 'other' of dtype {dtype}.*A.astype\("
    with pytest.raises(TypeError, match=message):
        encode(frame, CODE)


def test_importing_sooner_imports_none_of_them():
    import subprocess

    script = (
        "import sys, numpy as np, sooner; sooner.encode(np.eye(4), sooner.Uncoded(2))\n"
        "print({'pandas', 'zarr', 'h5py', 'dask', 'obstore'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"set()\n"
