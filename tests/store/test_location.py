"""Where stores are, and that their manifest is written in one step."""

import errno
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from sooner.codes import Uncoded
from sooner.errors import StoreError, StoreExistsError
from sooner.jobs.encoding import encode
from sooner.store import MemoryStore, open_coded
from sooner.store.local import LocalFolder
from sooner.store.location import as_location

A = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize("name", ["ftp://bucket/A", "S3://bucket/A", "memory://A", ""])
def test_places_that_do_not_exist(name):
    with pytest.raises(ValueError, match=f"store must be a path to a local folder.*got '{name}'"):
        as_location(name)


@pytest.mark.parametrize("place", [3, b"A", ["A"], A])
def test_what_is_no_place(place):
    with pytest.raises(TypeError, match=r"store must be a path .* or None or .*MemoryStore\(\)"):
        as_location(place)


def test_options_that_nobody_reads(tmp_path):
    with pytest.raises(
        ValueError, match=r"storage_options are for stores behind a URL.*got \['region'\] for"
    ):
        open_coded(tmp_path, storage_options={"region": "x"})
    assert str(as_location(tmp_path, {})) == str(tmp_path)


def test_paths_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coded = encode(A, Uncoded(2), "deep/er/A.coded")
    assert coded.location == str(tmp_path / "deep/er/A.coded")
    assert open_coded(tmp_path / "deep/er/A.coded") == coded
    monkeypatch.chdir("/")
    assert np.array_equal(coded.block(1), A[2:])


def test_other_files_in_the_folder_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    encode(A, Uncoded(2), tmp_path)
    encode(A, Uncoded(2), tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "A").write_text("mine")
    for place in (tmp_path / "A", tmp_path / "A" / "B"):
        with pytest.raises(StoreError, match="cannot be a store, which must be a folder"):
            encode(A, Uncoded(2), place)
    assert (tmp_path / "A").read_text() == "mine"


def test_files_have_the_users_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    encode(A, Uncoded(2), tmp_path / "A")
    usual = (tmp_path / "usual").stat().st_mode
    assert {path.stat().st_mode for path in (tmp_path / "A").iterdir()} == {usual}


@pytest.mark.parametrize("mode", ["ab", "rb+", "xb"])
def test_a_disk_that_fails_while_writing(tmp_path, monkeypatch, mode):
    opened = Path.open

    def failing(path, *args, **options):
        if mode in {*args, *options.values()}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(StoreError, match=r"cannot be written: No space left on device\."):
        encode(A, Uncoded(2), tmp_path / "A")
    assert not (tmp_path / "A").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_disk_that_fails_at_the_last_step(tmp_path, monkeypatch, overwrite):
    step = "replace" if overwrite else "link"
    works = getattr(os, step)

    def failing(source, target):
        if Path(target).name == "manifest.json":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        works(source, target)

    monkeypatch.setattr(os, step, failing)
    with pytest.raises(StoreError, match=r"manifest.json cannot be written: Input/output error\."):
        encode(A, Uncoded(2), tmp_path / "A", overwrite=overwrite)
    assert not (tmp_path / "A").exists()


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def no_links(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    folder = LocalFolder(tmp_path)
    folder.commit(b"first", overwrite=False)
    with pytest.raises(StoreExistsError, match="already"):
        folder.commit(b"second", overwrite=False)
    assert folder.read_manifest() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_disk_that_takes_little_at_a_time_and_no_hints(tmp_path, monkeypatch):
    def no_hints(*_):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    class Sluggish(io.FileIO):
        def write(self, data):
            return super().write(data[: 1 << 16])

    monkeypatch.setattr(os, "posix_fadvise", no_hints, raising=False)
    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", *args, **options: (
            Sluggish(path, mode) if mode == "ab" else opened(path, mode, *args, **options)
        ),
    )
    large = np.random.default_rng(0).standard_normal((300, 400))
    coded = encode(large, Uncoded(1), tmp_path)
    assert np.array_equal(coded.block(0), large)


def test_a_folder_that_cannot_be_flushed(tmp_path, monkeypatch):
    def no_folders(path, flags):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "open", no_folders)
    encode(A, Uncoded(2), tmp_path)
    monkeypatch.undo()
    assert np.array_equal(open_coded(tmp_path).block(0), A[:2])


def test_memory_stores_are_apart_and_travel_with_their_blocks():
    store = MemoryStore()
    coded = encode(A, Uncoded(2), store)
    assert coded.location.startswith("memory://")
    assert encode(A, Uncoded(2)) != coded
    with pytest.raises(StoreExistsError, match=r"memory://\w+ holds a coded matrix"):
        encode(A, Uncoded(2), store)
    copy = pickle.loads(pickle.dumps(coded))
    assert copy == coded
    assert np.array_equal(copy.block(1), A[2:])
    assert not copy.block(1).flags.writeable
