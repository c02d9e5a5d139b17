"""What its users see of a coded matrix."""

import pickle
import shutil

import numpy as np
import pytest

from sooner.codes import Uncoded
from sooner.jobs.encoding import encode
from sooner.store import CodedMatrix, open_coded


def test_it_says_what_it_is(stored):
    coded = open_coded(stored.folder)
    assert isinstance(coded, CodedMatrix)
    assert coded.shape == (20, 3)
    assert coded.dtype == np.float64
    assert (coded.block_rows, coded.slab_rows) == (7, 2)
    assert coded.nbytes == 4 * 7 * 3 * 8
    assert coded.location == str(stored.folder)
    assert len(coded.fingerprint) == 64
    assert coded.manifest.source_dtype == "<f8"
    assert repr(coded) == (
        f"CodedMatrix(shape=(20, 3), dtype=float64, n=4, k=3, 0.0 MB, {str(stored.folder)!r})"
    )


def test_the_code_comes_back_with_it(anywhere):
    code = open_coded(anywhere.place.store).code
    assert code.spec() == anywhere.code.spec()
    outputs = np.array([anywhere.coded.block(i) for i in range(4)])
    decoded = code.decode(outputs, np.array([True] * 4)).reshape(21, 3)
    assert np.allclose(decoded[:20], anywhere.A)
    assert np.allclose(decoded[20:], 0)


def test_opening_and_pickling_read_no_block(anywhere):
    copies = [anywhere.coded, open_coded(anywhere.place.store)]
    for i in range(4):
        anywhere.delete(i)
    copies.extend([open_coded(anywhere.place.store), pickle.loads(pickle.dumps(anywhere.coded))])
    assert len(set(copies)) == 1
    assert all(copy.block_source(3) == anywhere.coded.block_source(3) for copy in copies)


def test_equal_are_only_the_same_encoding_in_the_same_place(stored, tmp_path):
    shutil.copytree(stored.folder, tmp_path / "copy")
    assert open_coded(tmp_path / "copy") != stored.coded
    again = encode(stored.A, stored.code, stored.folder, overwrite=True)
    assert again != stored.coded
    assert again.fingerprint == stored.coded.fingerprint
    assert stored.coded != "A.coded"


def test_a_store_can_be_moved(stored, tmp_path):
    stored.folder.rename(tmp_path / "moved")
    moved = open_coded(tmp_path / "moved")
    assert np.array_equal(moved.block(3), stored.expected[3])


@pytest.mark.parametrize("index", [-1, 4])
def test_blocks_that_there_are_not(stored, index):
    with pytest.raises(IndexError, match=f"index must satisfy 0 <= index < 4, got index={index}"):
        stored.coded.block(index)


def test_indices_of_numpy_are_indices(anywhere):
    assert np.array_equal(anywhere.coded.block(np.int64(2)), anywhere.expected[2])
    with pytest.raises(TypeError, match="index must be an integer"):
        anywhere.coded.block(1.0)


def test_sources_are_made_of_builtins(stored):
    def builtin(value):
        if isinstance(value, tuple):
            return all(map(builtin, value))
        return type(value) in {int, str, bytes}

    for source in (stored.coded.block_source(1), encode(np.eye(2), Uncoded(2)).block_source(1)):
        assert all(builtin(value) for value in source.values())
