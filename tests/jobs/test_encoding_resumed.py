"""An encoding that was killed goes on where it stopped, and ends in the same bits."""

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

from sooner.codes import PolarCode, Uncoded
from sooner.errors import StoreExistsError, StoreNotFoundError
from sooner.jobs.encoding import encode
from sooner.store import open_coded

CODE = PolarCode(8, 6, rng=0)
A = np.random.default_rng(0).standard_normal((300, 7))


@pytest.fixture(autouse=True)
def many_slabs(monkeypatch):
    """Blocks of 50 rows in slabs of 4."""
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 4 * 7 * 8)


class Rows:
    """A matrix that counts what is read of it, and may stop its reader for good."""

    def __init__(self, array, last=None):
        self._array, self._last = array, last
        self.shape, self.dtype = array.shape, array.dtype
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        if self.reads == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._array[index]


def fork():
    with warnings.catch_warnings():  # from Python 3.12 on: other tests have left threads
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def killed(folder, last, A=A, code=CODE, **options):
    """Encode in a child, which is killed at its read number `last`."""
    child = fork()
    if not child:
        try:
            encode(Rows(A, last), code, folder, max_memory=2000, exponents=False, **options)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def contents(coded):
    """All that an encoding is, but for its generation and time."""
    fields = json.loads(coded.manifest.to_json())
    for name in ("generation", "created", "checksum"):
        del fields[name]
    names = [block.pop("name") for block in fields["blocks"]]
    return fields, [(coded._location.folder / name).read_bytes() for name in names]


@pytest.fixture
def whole(tmp_path):
    return contents(encode(A, CODE, tmp_path / "whole"))


def only_the_store_is_left(folder, coded):
    names = {block.name for block in coded.manifest.blocks}
    return {path.name for path in folder.iterdir()} == names | {"manifest.json"}


@pytest.mark.parametrize("last", [30, 100, 150])
def test_it_goes_on_at_the_slab_where_it_stopped(tmp_path, whole, last, caplog):
    killed(tmp_path / "A", last)
    with pytest.raises(StoreNotFoundError):
        open_coded(tmp_path / "A")
    rows, seen = Rows(A), []
    with caplog.at_level(logging.INFO, "sooner"):
        coded = encode(
            rows,
            CODE,
            tmp_path / "A",
            max_memory=2000,
            progress=lambda done, total: seen.append((done, total)),
        )
    assert contents(coded) == whole
    assert only_the_store_is_left(tmp_path / "A", coded)
    assert seen == [(slab, 13) for slab in range(1, 14)]
    assert "taking up an encoding that was interrupted" in caplog.text


def test_killed_again_and_again(tmp_path, whole):
    for last in range(20, 150, 20):
        killed(tmp_path / "A", last)
    coded = encode(A, CODE, tmp_path / "A")
    assert contents(coded) == whole
    assert only_the_store_is_left(tmp_path / "A", coded)


def test_what_is_damaged_meanwhile_is_written_again(tmp_path, whole):
    killed(tmp_path / "A", 120)
    grown = sorted((tmp_path / "A").glob("*.npy.tmp"))
    spoilt = bytearray(grown[2].read_bytes())
    spoilt[128 + 5 * 56] ^= 1  # slab 1
    grown[2].write_bytes(spoilt)
    coded = encode(A, CODE, tmp_path / "A")
    assert contents(coded) == whole


@pytest.mark.parametrize("end", ["file", "journal", "header", "nothing of the journal"])
def test_what_is_missing_is_written_again(tmp_path, whole, end):
    killed(tmp_path / "A", 120)
    grown = sorted((tmp_path / "A").glob("*.npy.tmp"))
    journal = next((tmp_path / "A").glob("*.journal"))
    if end == "file":
        grown[3].unlink()
    elif end == "header":
        grown[3].write_bytes(b"")
    else:
        kept = journal.read_bytes()[: -len(journal.read_bytes()) // 3]
        journal.write_bytes(kept if end == "journal" else b"")
    coded = encode(A, CODE, tmp_path / "A")
    assert contents(coded) == whole


def test_a_matrix_that_changed_meanwhile_is_not_mixed_with_what_it_was(tmp_path, whole, caplog):
    changed = A.copy()
    changed[53, 2] += 1  # in a slab that is written
    killed(tmp_path / "A", 120, A=changed)
    with caplog.at_level(logging.INFO, "sooner"):
        coded = encode(A, CODE, tmp_path / "A")
    assert "the matrix has changed since the interruption" in caplog.text
    assert contents(coded) == whole
    assert only_the_store_is_left(tmp_path / "A", coded)


@pytest.mark.parametrize(
    ("other", "code"), [(A, Uncoded(8)), (A, PolarCode(8, 6, rng=1)), (A[:-1], CODE)]
)
def test_another_encoding_is_not_taken_up(tmp_path, whole, other, code):
    killed(tmp_path / "A", 120, A=other, code=code)
    coded = encode(A, CODE, tmp_path / "A")
    assert contents(coded) == whole
    assert only_the_store_is_left(tmp_path / "A", coded)


@pytest.mark.parametrize("step", ["rename a block", "link the manifest", "remove the journal"])
def test_killed_at_the_end(tmp_path, whole, monkeypatch, step):
    child = fork()
    if not child:
        replace, unlink = type(tmp_path).replace, type(tmp_path).unlink
        renamed = []

        def deadly_replace(path, target):
            renamed.append(target)
            if step == "rename a block" and len(renamed) == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            return replace(path, target)

        def deadly_unlink(path, **options):
            if step == "remove the journal" and path.suffix == ".journal":
                os.kill(os.getpid(), signal.SIGKILL)
            return unlink(path, **options)

        def deadly_link(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        type(tmp_path).replace, type(tmp_path).unlink = deadly_replace, deadly_unlink
        if step == "link the manifest":
            os.link = deadly_link
        try:
            encode(A, CODE, tmp_path / "A")
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    if step == "remove the journal":
        assert contents(open_coded(tmp_path / "A")) == whole
        with pytest.raises(StoreExistsError):
            encode(A, CODE, tmp_path / "A")
        first = open_coded(tmp_path / "A")
        coded = encode(A, CODE, tmp_path / "A", overwrite=True)
        assert coded != first
    else:
        coded = encode(A, CODE, tmp_path / "A")
        [draft] = [*(tmp_path / "A").glob("manifest*.tmp")] or [None]
        if draft is not None:
            draft.unlink()
    assert contents(coded) == whole
    assert only_the_store_is_left(tmp_path / "A", coded)


def test_overwriting_is_taken_up_too_and_the_old_store_stays_until_then(tmp_path, whole):
    old = encode(-A, CODE, tmp_path / "A")
    killed(tmp_path / "A", 120, overwrite=True)
    with pytest.raises(StoreExistsError):
        encode(A, CODE, tmp_path / "A")
    assert np.array_equal(open_coded(tmp_path / "A").block(1), old.block(1))
    coded = encode(A, CODE, tmp_path / "A", overwrite=True)
    assert contents(coded) == whole
    assert only_the_store_is_left(tmp_path / "A", coded)


def test_what_a_living_writer_writes_is_left_alone(tmp_path, whole):
    def meanwhile():
        inner.append(encode(A, CODE, tmp_path / "A"))

    class Interrupted(Rows):
        def __getitem__(self, index):
            if self.reads == 100:
                self.reads += 1
                meanwhile()
            return super().__getitem__(index)

    inner = []
    with pytest.raises(StoreExistsError):
        encode(Interrupted(A), CODE, tmp_path / "A", max_memory=2000)
    assert contents(inner[0]) == whole
    assert only_the_store_is_left(tmp_path / "A", inner[0])


def test_without_locks_nothing_is_taken_up_and_nothing_breaks(tmp_path, whole, monkeypatch):
    from sooner.store import journal

    monkeypatch.setattr(journal, "fcntl", None)
    coded = encode(A, CODE, tmp_path / "A")
    assert contents(coded) == whole
    assert only_the_store_is_left(tmp_path / "A", coded)


def test_twenty_kills_at_random_moments(tmp_path):
    """A process that encodes is killed 20 times; what it leaves at last has the same bits."""
    script = """
        import os, random, signal, sys, time
        import numpy as np
        from sooner.codes import PolarCode
        from sooner.jobs.encoding import encode

        A = np.random.default_rng(0).standard_normal((6000, 200))
        code = PolarCode(16, 12, rng=0)
        sys.modules[encode.__module__]._SLAB_BYTES = 200 * 8 * 10
        started = time.perf_counter()
        encode(A, code, sys.argv[1] + "/whole")
        duration = time.perf_counter() - started

        def attempt(delay):
            child = os.fork()
            if not child:
                encode(A, code, sys.argv[1] + "/A", overwrite=True)
                os._exit(0)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            signal.sigtimedwait([signal.SIGCHLD], delay)
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
            return os.waitpid(child, 0)[1] == signal.SIGKILL

        rng = random.Random(int(sys.argv[2]))
        kills = sum(attempt(rng.random() * duration) for _ in range(20))
        assert kills >= 10, kills
        encode(A, code, sys.argv[1] + "/A", overwrite=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path, "0"],
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    coded = open_coded(tmp_path / "A")
    assert contents(coded) == contents(open_coded(tmp_path / "whole"))
    # what was killed before its first slab, or while it removed what it replaced, may stay
    assert not list((tmp_path / "A").glob("*.journal"))
