"""Sparse matrices stay sparse, and their products are right."""

import json
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import sooner
from sooner.codes import ARIKAN, PolarCode, Replication, SideBySide, Uncoded
from sooner.errors import (
    BlockLostError,
    NonFiniteError,
    NotDecodableError,
    StoreExistsError,
)
from sooner.jobs.encoding import encode
from sooner.jobs.encoding_sparse import SparseEncoder
from sooner.store import MemoryStore, open_coded, repair, verify

SMALL_PARTS = SideBySide([PolarCode(4, 3, rng=i) for i in range(4)])
CODES = [
    Uncoded(5),
    Replication(6, 3),
    PolarCode(8, 5, kernel=ARIKAN, rng=0),
    PolarCode(8, 6, rng=1),
    SMALL_PARTS,
]
KINDS = ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"]


def random(shape, density=0.1, dtype=np.float64, seed=0):
    A = sparse.random_array(shape, density=density, rng=np.random.default_rng(seed))
    return sparse.csr_array((A * 100).astype(dtype))


def product(coded, x):
    with sooner.matvec(coded, x, executor="threads:2") as job:
        return job.result(timeout=60)


@pytest.mark.parametrize("code", CODES, ids=repr)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "?", "c16"])
def test_blocks_are_the_codes_sums_and_products_are_right(code, dtype, tmp_path):
    A = random((41, 13), dtype=dtype)
    coded = encode(A, code, tmp_path)
    dense = encode(A.toarray(), code)
    assert coded.dtype == dense.dtype
    for i in range(code.n):
        block = coded.block(i)
        assert sparse.issparse(block)
        assert block.has_sorted_indices
        assert np.allclose(block.toarray(), dense.block(i), rtol=1e-5, atol=1e-4)
    x = np.linspace(0, 1, 13).astype(np.float32 if dtype == "f4" else np.float64)
    assert np.allclose(product(open_coded(tmp_path), x), A.toarray() @ x, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", [sparse.csr_array, sparse.csr_matrix])
def test_every_kind_of_array_and_matrix(kind, of):
    A = of(random((20, 12))).asformat(kind)
    before = A.toarray()
    coded = encode(A, SMALL_PARTS)
    assert coded.fingerprint == encode(random((20, 12)), SMALL_PARTS).fingerprint
    assert np.allclose(product(coded, np.arange(12.0)), before @ np.arange(12.0))
    assert np.array_equal(A.toarray(), before)


def test_int64_indices_unsorted_ones_duplicates_and_empty_rows():
    data, indices = np.array([1.0, 2.0, 3.0, 4.0]), np.array([4, 0, 2, 2], np.int64)
    A = sparse.csr_array((data, indices, np.array([0, 2, 2, 2, 4, 4], np.int64)), shape=(5, 6))
    kept = A.indices.copy(), A.data.copy()
    assert not A.has_sorted_indices
    for code in CODES:
        coded = encode(A, code)
        assert np.allclose(product(coded, np.arange(6.0)), A @ np.arange(6.0))
    assert np.array_equal(A.indices, kept[0])
    assert np.array_equal(A.data, kept[1])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1), (2, 5)])
def test_empty_and_small_matrices(shape, tmp_path):
    for number, code in enumerate(CODES):
        coded = encode(sparse.csr_array(shape), code, tmp_path / str(number))
        assert coded.block(code.n - 1).shape == (-(-shape[0] // code.k), shape[1])
        assert verify(tmp_path / str(number)).intact
        assert np.array_equal(product(coded, np.ones(shape[1])), np.zeros(shape[0]))


@given(st.integers(1, 60), st.integers(1, 20), st.floats(0, 0.5), st.integers(1, 4000))
@settings(deadline=None, max_examples=40)
def test_memory_changes_no_bit(rows, columns, density, max_memory):
    A = random((rows, columns), density)
    reference = encode(A, SMALL_PARTS)
    coded = encode(A, SMALL_PARTS, max_memory=max_memory)
    for block, same in zip(coded.manifest.blocks, reference.manifest.blocks, strict=True):
        assert (block.size, block.crc32c) == (same.size, same.crc32c)
    assert coded.fingerprint == reference.fingerprint


def test_it_is_cut_so_that_parts_fit():
    A = random((400, 50), 0.2)
    encoder = SparseEncoder(
        A, SMALL_PARTS, np.dtype("f8"), coded=True, check=True, max_memory=30_000
    )
    largest = max(sum(rows.nnz for rows in blocks) for blocks in encoder.parts())
    assert encoder.n_parts > 3
    assert 2 * largest * 16 <= 30_000


def test_fill_in_is_told_before_anything_is_written(tmp_path, caplog):
    A = random((1200, 500), 0.005)

    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop

    def fill_in(code):
        caplog.clear()
        with caplog.at_level(logging.INFO, "sooner"), pytest.raises(Stop):
            encode(A, code, tmp_path / "A", progress=stop)
        return caplog.messages

    [told] = fill_in(SMALL_PARTS)
    few = encode(A, SMALL_PARTS)
    entries = sum(few.block(i).nnz for i in range(16))
    assert f"with {A.nnz} entries: fills in to {entries} entries, " in told
    assert entries < 4.5 * A.nnz
    _, warned = fill_in(PolarCode(128, 96, rng=0))
    assert "hardly sparse any more" in warned
    assert "Use SideBySide of small parts or kernel=ARIKAN" in warned
    assert not (tmp_path / "A").exists()


def test_a_large_matrix_of_few_entries():
    A = sparse.random_array((1_000_000, 100_000), density=1e-7, rng=np.random.default_rng(0))
    coded = encode(A, SMALL_PARTS)
    assert coded.nbytes < 40e6  # a dense one takes a terabyte
    x = np.random.default_rng(1).standard_normal(100_000)
    assert np.allclose(product(coded, x), A @ x)


def test_the_store_can_be_read_without_sooner(tmp_path):
    A = random((41, 13))
    coded = encode(A, Uncoded(3), tmp_path)
    fields = json.loads((tmp_path / "manifest.json").read_text())
    assert fields["layout"] == "csr"
    arrays = [np.load(tmp_path / block["name"]) for block in fields["blocks"]]
    rows = [
        sparse.csr_array(tuple(arrays[first : first + 3]), shape=(14, 13)) for first in (0, 3, 6)
    ]
    assert np.array_equal(sparse.vstack(rows).toarray()[:41], A.toarray())
    assert [array.dtype for array in arrays[:3]] == [np.float64, np.int32, np.int64]
    assert coded.block(1).nnz == len(arrays[3])


def test_what_is_lost_is_named_and_the_product_is_exact(tmp_path):
    A = random((60, 13))
    coded = encode(A, SMALL_PARTS, tmp_path)
    names = [block.name for block in coded.manifest.blocks]
    (tmp_path / names[3 * 2 + 1]).unlink()
    contents = bytearray((tmp_path / names[3 * 9]).read_bytes())
    contents[-1] ^= 1
    (tmp_path / names[3 * 9]).write_bytes(contents)
    found = verify(tmp_path)
    assert found.lost.keys() == {2, 9}
    assert f"{names[7]} is missing" in found.lost[2].why
    assert "damaged" in found.lost[9].why
    assert found.decodable
    with pytest.raises(BlockLostError, match=f"coded block 2 is lost: .*{names[7]} is missing"):
        coded.block(2)
    assert np.allclose(product(coded, np.ones(13)), A @ np.ones(13))
    before = [coded.block(i).nnz for i in range(16) if i not in {2, 9}]
    done = repair(tmp_path)
    assert {*done.identical, *done.rounded} == {2, 9}
    again = open_coded(tmp_path)
    assert verify(again).intact
    assert len(list(tmp_path.iterdir())) == 3 * 16 + 1
    reference = encode(A, SMALL_PARTS)
    for i in (2, 9):  # as sparse as they were
        assert again.block(i).nnz == reference.block(i).nnz
        assert np.allclose(again.block(i).toarray(), reference.block(i).toarray())
    assert [again.block(i).nnz for i in range(16) if i not in {2, 9}] == before


@pytest.mark.parametrize("code", [Replication(6, 3), PolarCode(8, 5, kernel=ARIKAN, rng=0)])
@pytest.mark.parametrize("dtype", ["i1", "f4", "c16"])
def test_lost_sparse_blocks_are_made_again_and_stay_sparse(code, dtype):
    A = random((60, 40), 0.05, dtype)
    store = MemoryStore()
    coded = encode(A, code, store)
    reference = encode(A, code)
    for index in range(code.n):
        store.discard([coded.manifest.blocks[3 * index].name])
        done = repair(store)
        assert {*done.identical, *done.rounded} == {index}
        if code.k == 3:  # copies
            assert done.identical == (index,)
        coded = open_coded(store)
        assert coded.block(index).nnz == reference.block(index).nnz
        assert np.allclose(
            coded.block(index).toarray(), reference.block(index).toarray(), rtol=1e-4, atol=1e-3
        )
    assert len(store._objects) == 3 * code.n + 1


def test_too_many_lost_sparse_blocks_change_nothing():
    store = MemoryStore()
    coded = encode(random((60, 40)), SMALL_PARTS, store)
    store.discard([coded.manifest.blocks[3 * index].name for index in (0, 1, 2)])
    with pytest.raises(NotDecodableError, match="13 of 16 outputs are available"):
        repair(store)
    assert open_coded(store).manifest == coded.manifest


def test_a_store_is_replaced_only_when_told():
    A = random((60, 13))
    store = MemoryStore()
    encode(A, SMALL_PARTS, store)
    assert np.allclose(product(open_coded(store), np.ones(13)), A @ np.ones(13))
    with pytest.raises(StoreExistsError, match="60 x 13 float64"):
        encode(A, SMALL_PARTS, store)
    encode(2 * A, SMALL_PARTS, store, overwrite=True)
    assert np.allclose(product(open_coded(store), np.ones(13)), 2 * A @ np.ones(13))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_named(value):
    A = random((30, 10)).tolil()
    A[17, 4] = value
    A[20, 1] = value
    with pytest.raises(NonFiniteError, match=f"got {value} at row 17, column 4") as caught:
        encode(A, SMALL_PARTS)
    assert (caught.value.row, caught.value.column) == (17, 4)
    coded = encode(A, SMALL_PARTS, nonfinite="allow")
    assert not all(np.isfinite(coded.block(i).data).all() for i in range(16))


def test_sums_that_overflow_are_refused():
    A = sparse.csr_array(np.full((8, 2), 1.5e308))
    with pytest.raises(NonFiniteError, match=r"coded block \d overflows at its row 0, column 0"):
        encode(A, PolarCode(8, 6, rng=0))


def test_sparse_objects_are_refused():
    A = sparse.coo_array((np.ones(2, np.longdouble), ([0, 1], [0, 1])), shape=(2, 2))
    with pytest.raises(TypeError, match="at most 64 bits a component, got dtype"):
        encode(A, Uncoded(2))


def test_a_sparse_vector_is_no_x():
    coded = encode(random((30, 10)), SMALL_PARTS)
    with pytest.raises(TypeError, match="x must hold numbers"):
        sooner.matvec(coded, sparse.csr_array(np.ones((10, 1))), executor="threads:2")


@pytest.mark.parametrize("value", [2**53 + 1, -(2**60)])
def test_integers_that_float64_rounds_are_warned_of(value):
    A = sparse.csr_array(np.array([[0, 3], [value, 0]]))
    with pytest.warns(UserWarning, match=rf"beyond 2\*\*53.*{value} at row 1, column 0") as seen:
        encode(A, Uncoded(2))
    assert seen[0].filename == __file__
