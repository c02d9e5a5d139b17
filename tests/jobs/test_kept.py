"""Outputs that outlive an interruption."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.executors import VirtualExecutor

IN_ORDER = [float(i) for i in range(1, 17)]


def interrupted(coded, x, keep, deadline):
    job = sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER), keep=keep, deadline=deadline)
    with pytest.raises(sooner.JobTimeoutError):
        job.result()


@given(n_came=st.integers(0, 11))
def test_only_missing_tasks_run_and_the_answer_is_as_exact(problem, n_came):
    coded, A, x = problem
    store = sooner.MemoryStore()
    interrupted(coded, x, store, n_came + 0.5)
    job = sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER), keep=store)
    assert job.estimate.n_available == n_came
    assert {record.task for record in job.trace} == set(range(n_came, 16))
    assert job.trace.meta.get("kept", 0) == n_came
    resumed = job.result()
    whole = sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER)).result()
    np.testing.assert_array_equal(resumed, whole)
    np.testing.assert_allclose(resumed, A @ x, atol=1e-10)


def test_when_all_outputs_are_kept_no_task_runs(problem):
    coded, A, x = problem
    store = sooner.MemoryStore()
    sooner.matvec(coded, x, executor=VirtualExecutor(IN_ORDER), keep=store).result()
    job = sooner.matvec(coded, x, executor=VirtualExecutor([float("inf")]), keep=store)
    assert len(job.trace) == 0
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-10)


def test_outputs_of_another_product_are_never_taken(problem, tmp_path):
    coded, A, x = problem
    interrupted(coded, x, tmp_path, 8.5)
    others = [
        (coded, x + 1),
        (coded, x.astype(np.float32)),
        (sooner.encode(A, sooner.PolarCode(16, 12, rng=9)), x),
        (sooner.encode(2 * A, coded.code), x),
    ]
    for matrix, vector in others:
        job = sooner.matvec(matrix, vector, executor=VirtualExecutor([1.0]), keep=tmp_path)
        assert job.estimate.n_available == 0
        job.cancel()


def test_a_kept_output_that_is_damaged_is_computed_again(problem, tmp_path, caplog):
    coded, A, x = problem
    interrupted(coded, x, tmp_path, 8.5)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 8
    np.testing.assert_array_equal(np.load(files[3]), coded.block(3) @ x)  # NumPy reads them
    files[1].write_bytes(b"")
    files[2].write_bytes(files[2].read_bytes()[:-1])
    content = bytearray(files[3].read_bytes())
    content[200] ^= 1
    files[3].write_bytes(content)
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), keep=tmp_path)
    assert job.estimate.n_available == 5
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-10)
    assert caplog.text.count("is damaged") == 3


def test_kept_outputs_can_be_removed_and_no_others_are(problem, tmp_path):
    coded, _, x = problem
    (tmp_path / "mine.txt").write_text("stays")
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), keep=tmp_path)
    job.result()
    assert len(list(tmp_path.iterdir())) > 12
    job.kept.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_wrong_output_is_not_kept(problem):
    coded, A, x = problem
    store = sooner.MemoryStore()
    sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), keep=store).result()
    kept = sooner.jobs.kept.KeptOutputs.of_product(store, coded, x)
    kept.save(2, np.ones(coded.block_rows))  # wrong, with a right checksum
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), keep=store, verify_extra=4)
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-10)
    assert job.checked.wrong == (2,)
    assert 2 not in {task for task, _ in kept.load()}


def test_a_place_that_cannot_be_written_costs_one_warning(problem, tmp_path, caplog):
    coded, A, x = problem
    (tmp_path / "file").write_text("not a folder")
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), keep=tmp_path / "file")
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-10)
    assert caplog.text.count("are not kept") == 1


KILLED = """
import os, signal, sys, numpy as np, sooner
from sooner.executors import VirtualExecutor

def die(estimate):
    if estimate.n_available == 7:
        os.kill(os.getpid(), signal.SIGKILL)

coded = sooner.open_coded(sys.argv[1])
executor = VirtualExecutor([float(i) for i in range(1, 17)])
x = np.load(sys.argv[2])
sooner.matvec(coded, x, executor=executor, keep=sys.argv[3], callback=die).result()
"""


def test_situation_18_a_driver_killed_at_60_percent_runs_only_what_is_missing(tmp_path):
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((50, 4)), rng.standard_normal(4)
    np.save(tmp_path / "x.npy", x)
    coded = sooner.encode(A, sooner.PolarCode(16, 12, rng=0), tmp_path / "A.coded")
    script = [sys.executable, "-c", KILLED, tmp_path / "A.coded", tmp_path / "x.npy"]
    process = subprocess.run([*script, tmp_path / "kept"], check=False, timeout=60)
    assert process.returncode == -signal.SIGKILL
    moved = tmp_path / "another place"
    (tmp_path / "kept").rename(moved)
    job = sooner.matvec(coded, x, executor=VirtualExecutor([1.0]), keep=moved)
    assert {record.task for record in job.trace} == set(range(7, 16))
    np.testing.assert_allclose(job.result(), A @ x, atol=1e-10)
