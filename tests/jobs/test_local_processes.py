"""Jobs on real processes that really die."""

import logging
import os
import resource
import signal
import time

import numpy as np
import psutil
import pytest

import sooner
from sooner.errors import NotDecodableError

N, K = 64, 40


@pytest.fixture(scope="module")
def coded():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((800, 20))
    return sooner.encode(A, sooner.PolarCode(N, K, rng=0)), A, rng.standard_normal(20)


@pytest.fixture
def executor():
    before = set(psutil.Process().children(recursive=True))
    with sooner.LocalExecutor(max_workers=N) as executor:
        yield executor
    left = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(left, timeout=5)
    assert not alive, "closing the executor must leave no process"


def workers_of(job, count):
    """Processes of `count` running tasks, once there are so many."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        job.done()
        pids = [int(f.worker.partition(":")[2]) for f in list(job._launcher._pending) if f.worker]
        if len(pids) >= count:
            return pids[:count]
        time.sleep(0.02)  # only between two looks at real processes
    raise AssertionError(f"{count} tasks did not start within 20 s")


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("n_killed", [1, 8, 20])
def test_killed_workers_cost_their_tasks_and_nothing_else(coded, executor, caplog, n_killed):
    matrix, A, x = coded
    with (
        caplog.at_level(logging.WARNING),
        sooner.matvec(matrix, x, executor=executor, delays=[1.0] * N) as job,
    ):
        killed = workers_of(job, n_killed)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        np.testing.assert_allclose(job.result(timeout=30), A @ x, rtol=1e-9, atol=1e-9)
    lines = warnings_of(caplog)
    assert len(lines) == n_killed, lines
    assert all("SIGKILL" in line and "probably out of memory" in line for line in lines)
    for pid in killed:
        assert sum(f"{pid}" in line for line in lines) == 1
    assert sum(record.outcome == "lost" for record in job.trace) == n_killed


def test_sleepers_are_not_waited_for(coded, executor):
    matrix, A, x = coded
    delays = np.zeros(N)
    delays[: N - K - 4] = 1e6
    started = time.monotonic()
    with sooner.matvec(matrix, x, executor=executor, delays=delays) as job:
        np.testing.assert_allclose(job.result(timeout=30), A @ x, rtol=1e-9, atol=1e-9)
    assert time.monotonic() - started < 20
    outcomes = [record.outcome for record in job.trace]
    assert outcomes.count("abandoned") >= N - K - 4


def test_a_stopped_process_is_a_straggler_like_any_other(coded, executor):
    matrix, A, x = coded
    with sooner.matvec(matrix, x, executor=executor, delays=[0.5] * N) as job:
        for pid in workers_of(job, 5):
            os.kill(pid, signal.SIGSTOP)
        np.testing.assert_allclose(job.result(timeout=30), A @ x, rtol=1e-9, atol=1e-9)


def limit_memory(n_bytes):
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))
    time.sleep(0.2)  # so that every worker gets one of these


def test_blocks_that_do_not_fit_into_memory_end_with_the_reason(coded):
    matrix = sooner.encode(np.ones((4, 1)), sooner.PolarCode(8, 4, rng=0))
    with sooner.LocalExecutor(max_workers=8) as executor:
        limited = set(executor.submit_many(limit_memory, [(10**9,)] * 8))
        while limited:
            limited -= executor.wait(limited, 20)
        # A gigabyte of product per task in an address space of one gigabyte.
        wide = np.broadcast_to(np.float32(1), (1, 2**27)).view()
        job = sooner.matmat(matrix, wide, executor=executor, retries=0)
        with pytest.raises(sooner.TaskFailedError, match="MemoryError"):
            job.result(timeout=60)


def test_more_lost_than_can_be_spared_ends_bounded_and_says_so(coded, executor):
    matrix, _, x = coded
    job = sooner.matvec(matrix, x, executor=executor, delays=[1e6] * N, timeout=0.5, retries=1)
    with pytest.raises(NotDecodableError, match=r"0 of 64 outputs .* at least 40 more"):
        job.result(timeout=60)


def test_the_executor_serves_the_next_job_at_once(coded, executor):
    matrix, A, x = coded
    delays = np.zeros(N)
    delays[::8] = 1e6
    for i in range(5):
        with sooner.matvec(matrix, i * x, executor=executor, delays=delays) as job:
            np.testing.assert_allclose(job.result(timeout=30), i * (A @ x), atol=1e-9)


def test_a_name_makes_an_executor_that_ends_with_the_job(coded):
    matrix, A, x = coded
    before = set(psutil.Process().children(recursive=True))
    with sooner.matvec(matrix, x, executor="local:4") as job:
        np.testing.assert_allclose(job.result(timeout=30), A @ x, atol=1e-9)
    left = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(left, timeout=5)
    assert not alive
