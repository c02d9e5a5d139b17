"""Where the answer goes, and what is refused for lack of room."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.executors import VirtualExecutor


def product(m, width, dtype="f8", **options):
    rng = np.random.default_rng(0)
    A, X = rng.standard_normal((m, 3)).astype(dtype), rng.standard_normal((3, width)).astype(dtype)
    coded = sooner.encode(A, sooner.PolarCode(16, 12, rng=0))
    job = sooner.matmat(coded, X, executor=VirtualExecutor([1.0]), **options)
    return job, A @ X


@given(st.sampled_from([0, 1, 11, 12, 24, 50]), st.sampled_from([0, 1, 5]))
def test_the_answer_goes_into_an_array(m, width):
    out = np.full((m, width), np.nan)
    job, expected = product(m, width, out=out)
    assert job.result() is out
    np.testing.assert_allclose(out, expected, atol=1e-9)
    assert job.result() is out
    strided = np.full((2 * m, 2 * width), np.nan)[::2, ::2]
    assert product(m, width, out=strided)[0].result() is strided
    np.testing.assert_allclose(strided, expected, atol=1e-9)


@pytest.mark.parametrize("m", [0, 1, 12, 50])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_the_answer_goes_into_a_file_that_numpy_reads(tmp_path, m, dtype):
    path = tmp_path / "y.npy"
    job, expected = product(m, 4, dtype, out=path)
    y = job.result()
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.load(path), y)
    assert [file.name for file in tmp_path.iterdir()] == ["y.npy"]


def test_the_answer_goes_into_a_memory_map(tmp_path):
    out = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", "f8", (50, 4))
    job, expected = product(50, 4, out=out)
    job.result()
    out.flush()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-9)
    assert [file.name for file in tmp_path.iterdir()] == ["y.npy"]


def test_a_job_without_an_answer_leaves_no_file(tmp_path):
    job, _ = product(50, 4, out=tmp_path / "y.npy", deadline=0.5)
    with pytest.raises(sooner.JobTimeoutError) as caught:
        job.result()
    assert caught.value.estimate.value.shape == (50, 4)
    job.cancel()
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_an_answers_place_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"out must have shape \(50, 4\) and dtype float64"):
        product(50, 4, out=np.empty((50, 5)))
    with pytest.raises(ValueError, match="must have shape"):
        product(50, 4, out=np.empty((50, 4), dtype="f4"))
    with pytest.raises(ValueError, match=r"path of a \.npy file"):
        product(50, 4, out=tmp_path / "y.txt")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(ValueError, match=r"path of a \.npy file"):
        product(50, 4, out=tmp_path / "folder.npy")
    read_only = np.empty((50, 4))
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="out must be an array that can be written"):
        product(50, 4, out=read_only)


def test_a_file_has_the_permissions_of_any_other(tmp_path):
    product(50, 4, out=tmp_path / "y.npy")[0].result()
    (tmp_path / "other").touch()
    assert (tmp_path / "y.npy").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_disk_that_is_full_is_said_before_a_task_is_sent(tmp_path, monkeypatch):
    def full(descriptor, offset, length):
        del descriptor, offset, length
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    executor = VirtualExecutor([1.0])
    coded = sooner.encode(np.ones((60, 3)), sooner.PolarCode(16, 12))
    with pytest.raises(OSError, match="No space left"):
        sooner.matvec(coded, np.ones(3), executor=executor, out=tmp_path / "y.npy")
    assert executor._n_submitted == 0
    assert not list(tmp_path.iterdir())


def test_situation_26_an_answer_that_cannot_fit_is_refused_with_the_numbers(tmp_path):
    # 12 outputs of 5 rows x 1000 doubles, and the answer of the same size.
    executor = VirtualExecutor([1.0])
    coded = sooner.encode(np.ones((60, 3)), sooner.PolarCode(16, 12))
    X = np.ones((3, 1000))
    with pytest.raises(MemoryError, match=r"1 MB on the driver \(12 outputs of 0\.0 MB, and"):
        sooner.matmat(coded, X, executor=executor, max_memory=900_000)
    assert executor._n_submitted == 0
    for options in ({"max_memory": 960_000}, {"max_memory": 1, "out": tmp_path / "y.npy"}):
        y = sooner.matmat(coded, X, executor=executor, **options).result()
        np.testing.assert_allclose(y, 3.0)
    half = np.empty((60, 1000))
    sooner.matmat(coded, X, executor=executor, max_memory=480_000, out=half).result()


LIMITED = """
import resource, sys, numpy as np, sooner
from sooner.executors import VirtualExecutor

coded = sooner.encode(np.ones((4096, 2), "f4"), sooner.PolarCode(64, 48, rng=0))
X = np.ones((2, 16384), "f4")
limit = 1 << 29  # the answer has 256 MB, the outputs as much


def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def product(**options):
    return sooner.matmat(coded, X, executor=VirtualExecutor([1.0]), policy="on_lag", **options)


before = anonymous()
y = product(out=sys.argv[1]).result()
assert abs(y[::999] - 2).max() < 1e-3
used = (anonymous() - before) >> 20
del y
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    product()
    refused = False
except MemoryError as error:
    refused = str(error)
print(used, refused)
"""


def test_situation_26_with_a_file_the_driver_needs_memory_for_neither(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "y.npy"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    used, _, refused = result.stdout.strip().partition(" ")
    assert int(used) < 64  # a few outputs and the tiles of the decoder, not 512 MB
    assert "and 537 MB may be used" in refused
