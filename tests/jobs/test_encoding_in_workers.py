"""Only data blocks are stored, and each task adds up those of its part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import sooner
from sooner.codes import ARIKAN, PolarCode, Replication, SideBySide, Uncoded
from sooner.errors import BlockLostError, StoreError
from sooner.jobs.encoding import encode
from sooner.store import open_coded, repair, slabs, verify

CODE = SideBySide([PolarCode(16, 12, kernel=ARIKAN, rng=0), PolarCode(4, 3, rng=1)])
A = np.random.default_rng(0).standard_normal((100, 7))
X = np.arange(7.0)


def product(coded, x=X, executor="threads:2"):
    with sooner.matvec(coded, x, executor=executor) as job:
        return job.result(timeout=60)


@pytest.mark.parametrize("executor", ["threads:2", "local:2"])
def test_the_product_is_exact_and_only_the_data_is_stored(tmp_path, executor):
    coded = encode(A, CODE, tmp_path, where="workers")
    assert len(list(tmp_path.iterdir())) == 15 + 1
    assert (coded.n_stored, coded.nbytes) == (15, 15 * 7 * 7 * 8)
    assert np.allclose(product(open_coded(tmp_path), executor=executor), A @ X)
    data = [np.load(tmp_path / block.name) for block in coded.manifest.blocks]
    assert np.array_equal(np.concatenate(data)[:100], A)


@given(
    st.sampled_from([CODE, Uncoded(3), Replication(6, 3), SideBySide([Replication(4, 2)] * 3)]),
    st.integers(0, 40),
    st.sampled_from(["i1", "f4", "c16", "?"]),
)
@settings(deadline=None, max_examples=40)
def test_a_task_has_the_block_that_the_driver_would_have_written(code, rows, dtype):
    values = (10 * A[:rows]).astype(dtype)
    coded, written = encode(values, code, where="workers"), encode(values, code)
    assert coded.dtype == written.dtype
    assert coded.fingerprint == written.fingerprint
    for i in range(code.n):
        assert np.allclose(coded.block(i), written.block(i), rtol=1e-5, atol=1e-4)
        assert not coded.block(i).flags.writeable


def test_slabs_are_added_up_one_at_a_time(monkeypatch, tmp_path):
    import sys

    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 2 * 7 * 8)
    coded = encode(A, CODE, tmp_path, where="workers")
    written = encode(A, CODE)
    parts = list(slabs.iter_slabs(coded.block_source(2)))
    assert [first for first, _ in parts] == [0, 2, 4, 6]
    assert np.allclose(np.concatenate([rows for _, rows in parts]), written.block(2))


def test_read_amplification_is_how_many_data_blocks_a_task_reads():
    code = SideBySide([Replication(4, 2), Uncoded(3)])
    assert encode(A, code, where="workers").read_amplification == 1
    coded = encode(A, CODE, where="workers")
    used = [len(coded.block_source(i)["sources"]) for i in range(20)]
    assert coded.read_amplification == sum(used) / 20 > 1
    assert encode(A, CODE).read_amplification == 1


def test_a_lost_data_block_loses_the_tasks_that_read_it(tmp_path):
    coded = encode(A, CODE, tmp_path, where="workers")
    (tmp_path / coded.manifest.blocks[13].name).unlink()
    found = verify(tmp_path)
    assert list(found.lost) == [13]
    assert set(found.lost_tasks) <= set(range(16, 20))
    assert not found.decodable
    with pytest.raises(BlockLostError, match=rf"coded block {found.lost_tasks[0]} is lost: .*miss"):
        coded.block(found.lost_tasks[0])
    assert coded.block(3).shape == (7, 7)
    with pytest.raises(StoreError, match=r"holds data blocks, which cannot .* \[13\] are lost"):
        repair(tmp_path)


def test_sparse_blocks_are_added_up_too(tmp_path):
    S = sparse.random_array((100, 7), density=0.2, rng=np.random.default_rng(0), format="csr")
    coded = encode(S, CODE, tmp_path, where="workers")
    assert sparse.issparse(coded.block(3))
    assert np.allclose(coded.block(3).toarray(), encode(S, CODE).block(3).toarray())
    assert np.allclose(product(open_coded(tmp_path)), S @ X)


@pytest.mark.parametrize(
    "code", [PolarCode(32, 24, rng=0), SideBySide([Uncoded(4), PolarCode(17, 12, rng=0)])]
)
def test_large_parts_are_refused(code):
    with pytest.raises(ValueError, match="SideBySide of parts of at most 16 blocks, got"):
        encode(A, code, where="workers")


def test_elsewhere():
    with pytest.raises(ValueError, match="where must be one of 'driver', 'workers', got 'moon'"):
        encode(A, CODE, where="moon")
