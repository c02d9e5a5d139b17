"""`verify` says what is lost, `repair` makes it again: in a folder and behind a URL."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sooner
from sooner.codes import PolarCode, Replication, Uncoded
from sooner.errors import BlockLostError, NotDecodableError, StoreError
from sooner.jobs.encoding import encode
from sooner.store import MemoryStore, open_coded, repair, repairing, slabs, verification, verify

EXACT = PolarCode(16, 10, late_parities=0, decoder="sequential", rng=0)
"""Decodes integers without rounding."""


def flip(stored, index, row=5):
    contents = bytearray(stored.read(index))
    contents[128 + row * 24] ^= 1
    stored.write(index, contents)


def truncate(stored, index):
    stored.write(index, stored.read(index)[:-1])


def empty(stored, index):
    stored.write(index, b"")


def delete(stored, index):
    stored.delete(index)


SPOIL = {"missing": delete, "truncated": truncate, "truncated: 0": empty, "damaged": flip}


def test_intact(anywhere):
    found = verify(anywhere.place.store)
    assert found.intact
    assert (found.n_stored, found.lost, found.decodable, found.n_missing) == (4, {}, True, 0)
    done = repair(anywhere.place.store)
    assert (done.identical, done.rounded) == ((), ())


@pytest.mark.parametrize("why", SPOIL)
def test_one_is_lost_and_made_again(anywhere, why):
    SPOIL[why](anywhere, 2)
    found = verify(anywhere.coded)
    assert list(found.lost) == [2]
    assert why in found.lost[2].why
    assert anywhere.name(2) in found.lost[2].why
    assert found.lost[2].slabs == ({2} if why == "damaged" else {0, 1, 2, 3})
    assert (found.decodable, found.lost_tasks) == (True, (2,))

    done = repair(anywhere.coded)
    assert done.found == found
    assert {*done.identical, *done.rounded} == {2}
    again = open_coded(anywhere.place.store)
    assert verify(again).intact
    for i in range(4):
        assert np.allclose(again.block(i), anywhere.expected[i], rtol=1e-14, atol=1e-14)
    assert again == anywhere.coded
    names = {block.name for block in again.manifest.blocks}
    assert set(anywhere.place.names()) == names | {"manifest.json"}
    # who has the old manifest finds the block missing, and never one that it does not know
    with pytest.raises(BlockLostError, match="missing"):
        anywhere.coded.block(2)


def test_losses_are_mended_slab_by_slab(anywhere):
    # of four blocks, three have no damage in a slab: each slab decodes, no product does
    for index, row in enumerate((0, 3, 4, 6)):
        flip(anywhere, index, row)
    found = verify(anywhere.coded)
    assert [sorted(loss.slabs) for loss in found.lost.values()] == [[0], [1], [2], [3]]
    assert (found.decodable, found.n_missing) == (False, 3)
    repair(anywhere.coded)
    again = open_coded(anywhere.place.store)
    assert verify(again).intact
    assert np.allclose([again.block(i) for i in range(4)], anywhere.expected)


def test_too_much_is_lost(anywhere):
    before = anywhere.place.names()
    flip(anywhere, 0)
    flip(anywhere, 3)
    found = verify(anywhere.coded)
    assert (found.decodable, found.n_missing, found.lost_tasks) == (False, 1, (0, 3))
    with pytest.raises(NotDecodableError, match="2 of 4 outputs are available"):
        repair(anywhere.coded)
    assert anywhere.place.names() == before


@given(
    st.sampled_from([
        Replication(6, 3),
        EXACT,
        PolarCode(8, 5, late_parities=0, decoder="sequential", rng=1),
    ]),
    st.data(),
)
@settings(deadline=None, max_examples=30)
def test_integers_come_back_bit_for_bit(code, data):
    A = np.random.default_rng(0).integers(-128, 128, (37, 5)).astype(np.int8)
    store = MemoryStore()
    coded = encode(A, code, store)
    lost = data.draw(st.sets(st.integers(0, code.n - 1), min_size=1, max_size=3))
    decoder = code.decoder()
    for index in set(range(code.n)) - lost:
        decoder.add(index)
    store.discard([coded.manifest.blocks[index].name for index in lost])
    if not decoder.decodable:
        with pytest.raises(NotDecodableError):
            repair(store)
        return
    done = repair(store, max_memory=data.draw(st.integers(1, 5000)))
    assert (done.identical, done.rounded) == (tuple(sorted(lost)), ())
    again = open_coded(store)
    expected = encode(A, code)
    assert all(np.array_equal(again.block(i), expected.block(i)) for i in range(code.n))


def test_rounded_blocks_have_new_checksums_and_products_are_right(tmp_path, caplog):
    A = np.random.default_rng(0).standard_normal((100, 6))
    coded = encode(A, PolarCode(16, 12, rng=0), tmp_path)
    for index in (1, 6):
        (tmp_path / coded.manifest.blocks[index].name).unlink()
    with caplog.at_level(logging.INFO, "sooner"):
        done = repair(tmp_path)
    assert {*done.identical, *done.rounded} == {1, 6}
    assert done.rounded
    assert "repaired 2 blocks" in caplog.text
    again = open_coded(tmp_path)
    for index in done.rounded:
        assert again.manifest.blocks[index].crc32c != coded.manifest.blocks[index].crc32c
    x = np.arange(6.0)
    with sooner.matvec(again, x, executor="threads:2") as job:
        assert np.allclose(job.result(timeout=60), A @ x)


def test_nothing_remembered_is_believed(stored):
    slabs.read_block(stored.coded.block_source(0))
    status = stored.path(0).stat()
    flip(stored, 0)
    import os

    os.utime(stored.path(0), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert list(verify(stored.coded).lost) == [0]


def test_without_redundancy_there_is_nothing_to_repair_from(tmp_path):
    coded = encode(np.eye(4), Uncoded(2), tmp_path)
    (tmp_path / coded.manifest.blocks[1].name).unlink()
    with pytest.raises(NotDecodableError):
        repair(tmp_path)


def test_a_store_that_was_replaced_meanwhile_stays(stored, monkeypatch):
    flip(stored, 1)
    winner = []

    def verify_slowly(coded):
        found = verification.verify(coded)
        winner.append(encode(stored.A, stored.code, stored.folder, overwrite=True))
        return found

    monkeypatch.setattr(repairing, "verify", verify_slowly)
    with pytest.raises((StoreError, BlockLostError)):
        repair(stored.coded)
    assert verify(winner[0]).intact
    assert open_coded(stored.folder).manifest == winner[0].manifest


def test_a_store_that_is_replaced_at_the_last_moment_stays(stored):
    flip(stored, 1)
    winner = []

    def at_the_end(done, total):
        if done == total:
            winner.append(encode(stored.A, stored.code, stored.folder, overwrite=True))

    with pytest.raises(StoreError, match="written by somebody else during the repair"):
        repair(stored.coded, progress=at_the_end)
    assert open_coded(stored.folder).manifest == winner[0].manifest
    assert len(list(stored.folder.iterdir())) == 5


def test_progress(stored):
    looked, mended = [], []
    verify(stored.coded, progress=lambda *seen: looked.append(seen))
    flip(stored, 0)
    repair(stored.coded, progress=lambda *seen: mended.append(seen))
    assert looked == mended == [(1, 4), (2, 4), (3, 4), (4, 4)]
