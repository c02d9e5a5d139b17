"""A worker reads what was written, or says what is wrong; it never reads zeros."""

import errno
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sooner.codes import Uncoded
from sooner.errors import BlockLostError, SoonerError
from sooner.jobs.encoding import encode
from sooner.store import slabs


def read(coded, index):
    """A block as a worker has it: from a pickled source."""
    return slabs.read_block(pickle.loads(pickle.dumps(coded.block_source(index))))


def test_slabs_come_in_order_and_make_the_block(anywhere):
    for i in range(4):
        parts = list(slabs.iter_slabs(anywhere.coded.block_source(i)))
        assert [first for first, _ in parts] == [0, 2, 4, 6]
        assert np.array_equal(np.concatenate([rows for _, rows in parts]), anywhere.expected[i])


def test_blocks_are_read_only_maps_of_plain_npy_files(stored):
    block = read(stored.coded, 2)
    assert not block.flags.writeable
    assert isinstance(block.base, mmap.mmap)
    assert np.array_equal(np.load(stored.path(2)), block)
    assert np.load(stored.path(2), mmap_mode="r").flags.c_contiguous


@pytest.mark.parametrize("size", [0, 1, 127, 128, 200, 295])
def test_truncated(anywhere, size):
    anywhere.write(1, anywhere.read(1)[:size])
    message = rf"coded block 1 is lost: .*npy is truncated: {size} bytes instead of 296\."
    with pytest.raises(BlockLostError, match=message):
        read(anywhere.coded, 1)
    assert np.array_equal(read(anywhere.coded, 0), anywhere.expected[0])


def test_longer_than_it_was(anywhere):
    anywhere.write(1, anywhere.read(1) + b"x")
    with pytest.raises(BlockLostError, match="is damaged: 297 bytes instead of 296"):
        read(anywhere.coded, 1)


def test_deleted(anywhere):
    anywhere.delete(3)
    with pytest.raises(BlockLostError, match=r"coded block 3 is lost: .*npy is missing\."):
        read(anywhere.coded, 3)


def test_the_folder_is_gone_or_no_folder(stored):
    for path in list(stored.folder.iterdir()):
        path.unlink()
    stored.folder.rmdir()
    with pytest.raises(BlockLostError, match="missing"):
        read(stored.coded, 0)
    stored.folder.write_text("a file")
    with pytest.raises(BlockLostError, match="missing"):
        read(stored.coded, 0)


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EPERM, "permission denied"),
        (errno.EIO, "not readable: Input/output error"),
        (errno.EMFILE, "not readable: Too many open files"),
    ],
)
def test_forbidden_or_broken(stored, monkeypatch, number, why):
    def refuse(path, mode):
        raise OSError(number, os.strerror(number), str(path))

    # Whoever runs the tests as root may read everything, so the refusal is made up.
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BlockLostError, match=rf"coded block 0 is lost: .*npy is {why}\."):
        read(stored.coded, 0)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_no_flipped_bit_goes_unseen(data):
    with tempfile.TemporaryDirectory() as folder:
        A = np.random.default_rng(0).standard_normal((5, 4))
        coded = encode(A, Uncoded(1), folder)
        path = Path(folder) / coded.manifest.blocks[0].name
        contents = bytearray(path.read_bytes())
        position = data.draw(st.integers(0, len(contents) - 1))
        contents[position] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(contents)
        if position < coded.manifest.header_bytes:  # NumPy's header, which nobody here reads
            assert np.array_equal(read(coded, 0), A)
        else:
            with pytest.raises(BlockLostError, match="checksum of rows 0 to 4 differs"):
                read(coded, 0)


def test_slabs_before_the_damage_can_be_used(anywhere):
    contents = bytearray(anywhere.read(0))
    contents[128 + 5 * 24] ^= 1  # row 5, in slab 2
    anywhere.write(0, contents)
    parts = slabs.iter_slabs(anywhere.coded.block_source(0))
    assert np.array_equal(next(parts)[1], anywhere.expected[0][:2])
    assert np.array_equal(next(parts)[1], anywhere.expected[0][2:4])
    with pytest.raises(BlockLostError, match=r"is damaged: the checksum of rows 4 to 5 differs\."):
        next(parts)


def test_each_slab_is_checked_once_and_again_when_its_file_changed(stored, monkeypatch):
    checked = []

    def counting(rows, crc=0, check=slabs.checksum):
        checked.append(rows)
        return check(rows, crc)

    monkeypatch.setattr(slabs, "checksum", counting)
    next(slabs.iter_slabs(stored.coded.block_source(0)))
    assert len(checked) == 1
    read(stored.coded, 0)
    read(stored.coded, 0)
    assert len(checked) == 4
    os.utime(stored.path(0), ns=(0, 1))
    read(stored.coded, 0)
    assert len(checked) == 8


def test_what_is_remembered_is_bounded(stored, monkeypatch):
    monkeypatch.setattr(slabs, "_INTACT_FILES", 2)
    for i in range(4):
        read(stored.coded, i)
        assert 1 <= len(slabs._intact) <= 2


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(BlockLostError("coded block 1 is lost: a is missing.")))
    assert str(error) == "coded block 1 is lost: a is missing."
    assert isinstance(error, OSError | SoonerError)


def test_a_worker_imports_numpy_and_little_else(stored):
    script = """
import pickle, sys
from sooner.store import slabs
before = set(sys.modules)
print(slabs.read_block(pickle.load(sys.stdin.buffer)).sum())
mine = {name for name in sys.modules if name.startswith("sooner")}
assert mine == {"sooner", "sooner._version", "sooner.errors", "sooner.store", "sooner.store.slabs"}
assert "google_crc32c" not in before
assert not {"scipy", "json", "asyncio"} & before
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(stored.coded.block_source(2)),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == b""
    assert float(done.stdout) == pytest.approx(stored.expected[2].sum())
