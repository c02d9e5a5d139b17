"""Worker processes of this machine that die, are killed, or cannot be started."""

import logging
import os
import signal
import threading
import time
from concurrent.futures import CancelledError

import numpy as np
import psutil
import pytest

from sooner.errors import WorkerLostError
from sooner.executors import LocalExecutor


def _pid_of(executor):
    (future,) = executor.submit_many(os.getpid, [()])
    return future.result(timeout=10)


def _warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# Deaths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by SIGKILL, probably out of memory"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "was killed by SIGTERM"),
        (lambda: __import__("ctypes").string_at(0), "was killed by SIGSEGV"),
        (lambda: os._exit(0), "ended with exit code 0"),
        (lambda: os._exit(7), "ended with exit code 7"),
    ],
)
def test_a_worker_that_dies_costs_its_task_and_one_line(local, caplog, how, said):
    def task(i):
        if i == 5:
            how()
        return i

    names = [f"block {i}" for i in range(12)]
    futures = local.submit_many(task, [(i,) for i in range(12)], descriptions=names)
    for i, future in enumerate(futures):
        if i == 5:
            with pytest.raises(WorkerLostError, match="block 5 is lost: its worker") as caught:
                future.result(10)
            pid = future.worker.rpartition(":")[2]
            assert said in str(caught.value)
            assert f"(pid {pid})" in str(caught.value)
        else:
            assert future.result(10) == i
    assert _warnings(caplog) == [str(caught.value)]


def test_an_idle_worker_that_dies_is_one_line_and_is_replaced(caplog, processes):
    with LocalExecutor(1) as executor:
        pid = _pid_of(executor)
        worker = psutil.Process(pid)
        os.kill(pid, signal.SIGKILL)
        assert processes.gone([worker])
        futures = executor.submit_many(os.getpid, [()] * 2)  # the first may meet the dead one
        assert futures[1].result(10) != pid
    assert len(_warnings(caplog)) == 1
    assert f"(pid {pid}) was killed by SIGKILL" in _warnings(caplog)[0]


def test_a_result_sent_before_the_end_counts(local):
    def answers_then_dies():
        import os

        threading.Timer(0.05, os._exit, [1]).start()
        return "answer"

    (future,) = local.submit_many(answers_then_dies, [()])
    assert future.result(10) == "answer"


def test_a_task_that_closes_the_workers_socket_is_lost_and_not_waited_for(local):
    def closes():
        import os
        import time

        os.closerange(3, 200)
        time.sleep(3600)

    (future,) = local.submit_many(closes, [()])
    assert isinstance(future.exception(10), WorkerLostError)
    assert _pid_of(local)


def test_sigint_does_not_reach_a_worker(starts, processes):
    def task(path):
        import os
        import pathlib
        import time

        pathlib.Path(path).write_text(f"{os.getpid()}\n", encoding="utf-8")
        time.sleep(0.3)
        return "done"

    with LocalExecutor(1) as executor:
        (future,) = executor.submit_many(task, [(starts.path,)])
        (pid,) = starts.wait(1)
        for process in processes.nurseries():
            os.kill(process.pid, signal.SIGINT)
        assert future.result(10) == "done"
        assert _pid_of(executor) == pid


def test_a_task_that_prints_is_heard_even_if_its_worker_is_killed(capfd):
    with LocalExecutor(1) as executor:
        executor.submit_many(print, [("from a task",)])[0].result(10)
        executor.submit_many(os._exit, [(0,)])[0].exception(10)
    assert "from a task" in capfd.readouterr().out


# Kills -----------------------------------------------------------------------------------------


def test_abandon_kills_what_runs_cancels_what_waits_and_logs_nothing(
    starts, stuck, caplog, processes
):
    with LocalExecutor(2) as executor:
        futures = executor.submit_many(stuck, [(starts.path,)] * 5)
        workers = [psutil.Process(pid) for pid in starts.wait(2)]
        before = time.monotonic()
        assert executor.abandon(futures) == {"killed": 2, "cancelled": 3, "forgotten": 0}
        assert time.monotonic() - before < 0.5
        assert executor.wait(futures, timeout=0) == set(futures)
        assert all(isinstance(f.exception(), CancelledError) for f in futures if not f.cancelled())
        assert processes.gone(workers)
        assert _pid_of(executor) not in {worker.pid for worker in workers}
    assert _warnings(caplog) == []


def test_a_kill_never_meets_the_next_task():
    """Tasks are abandoned around the moment in which they end: no other one may be lost."""
    with LocalExecutor(2) as executor:
        for _ in range(60):
            short = executor.submit_many(time.sleep, [(0.001,)] * 2)
            next_ones = executor.submit_many(abs, [(-1,)] * 4)
            executor.wait(short, timeout=1)
            executor.abandon(short)
            assert [future.result(10) for future in next_ones] == [1] * 4


def test_a_stopped_worker_can_be_killed(starts, stuck, processes):
    with LocalExecutor(1) as executor:
        futures = executor.submit_many(stuck, [(starts.path,)])
        (pid,) = starts.wait(1)
        worker = psutil.Process(pid)
        os.kill(pid, signal.SIGSTOP)
        executor.abandon(futures)
        assert _pid_of(executor) != pid
        assert processes.gone([worker])


def test_a_stopped_worker_does_not_hold_up_the_others_or_close(starts, stuck, processes):
    executor = LocalExecutor(2)
    executor.submit_many(stuck, [(starts.path,)])
    (pid,) = starts.wait(1)
    worker = psutil.Process(pid)
    os.kill(pid, signal.SIGSTOP)
    big = np.zeros(1_000_000)
    futures = executor.submit_many(np.sum, [(big,)] * 4)
    assert [future.result(10) for future in futures] == [0.0] * 4
    before = time.monotonic()
    executor.close()
    assert time.monotonic() - before < 1
    assert processes.gone([worker])


def test_what_a_killed_task_had_started_is_killed_too(starts, local, processes):
    def starts_another(path):
        import subprocess
        import sys

        code = f"import os, time; open({path!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(99)"
        subprocess.run([sys.executable, "-c", code], check=False)

    futures = local.submit_many(starts_another, [(starts.path,)])
    (pid,) = starts.wait(1)
    child = psutil.Process(pid)
    local.abandon(futures)
    assert processes.gone([child])


def test_cancelling_a_queued_future_skips_it(starts, stuck):
    with LocalExecutor(1) as executor:
        running, queued, last = executor.submit_many(stuck, [(starts.path,)] * 3)
        starts.wait(1)
        assert not running.cancel(), "a running task is for abandon"
        assert queued.cancel()
        assert executor.wait({queued}, timeout=1) == {queued}
        executor.abandon([running])
        starts.wait(1)
        assert last.running()
        assert not starts_more(starts)


def starts_more(starts):
    try:
        starts.wait(1, timeout=0.1)
    except AssertionError:
        return False
    return True


def test_nothing_grows_over_many_rounds(starts, stuck, processes):
    process = psutil.Process()

    def sizes():
        return process.num_fds(), process.num_threads()

    with LocalExecutor(3) as executor:
        counts = []
        for round_ in range(25):
            reference = executor.broadcast(np.full(20_000, float(round_)))
            quick = executor.submit_many(lambda r: float(r.load()[0]), [(reference,)] * 4)
            slow = executor.submit_many(stuck, [(starts.path,)])
            assert [future.result(10) for future in quick] == [round_] * 4
            starts.wait(1)
            executor.abandon(slow)
            executor.release(reference)
            executor.submit_many(abs, [(1,)])[0].result(10)
            counts.append(sizes())
        assert max(counts[10:]) <= max(counts[:10]), f"descriptors, threads: {counts}"
        assert len(processes.nurseries()) <= 1 + 3 + 1, "one may be ending at this moment"
    assert not processes.nurseries()


# The nursery -----------------------------------------------------------------------------------


def _nursery(processes):
    (parent,) = [p for p in processes.nurseries() if p.ppid() == os.getpid()]
    return parent


def test_a_nursery_that_dies_is_started_again_once(starts, stuck, caplog, processes):
    with LocalExecutor(2) as executor:
        running = executor.submit_many(stuck, [(starts.path,)] * 2)
        queued = executor.submit_many(abs, [(-3,)])
        starts.wait(2)
        first = processes.nurseries()
        os.kill(_nursery(processes).pid, signal.SIGKILL)
        for future in running:
            assert isinstance(future.exception(10), WorkerLostError)
            assert "the process that starts the workers" in str(future.exception())
        assert queued[0].result(10) == 3
        assert processes.gone(first), "the workers die with it"
        assert len(_warnings(caplog)) == 1
        assert "2 tasks are lost, and it is started again" in _warnings(caplog)[0]

        last = executor.submit_many(stuck, [(starts.path,)] * 3)
        starts.wait(2)
        os.kill(_nursery(processes).pid, signal.SIGKILL)
        for future in last:
            assert isinstance(future.exception(10), WorkerLostError)
        with pytest.raises(RuntimeError, match=r"broken: .* for the second time"):
            executor.submit_many(abs, [(1,)])
    assert not processes.nurseries()


def test_a_python_that_is_not_there_is_told(monkeypatch, caplog):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with LocalExecutor(1) as executor:
        (future,) = executor.submit_many(abs, [(1,)])
        with pytest.raises(WorkerLostError, match=r"no worker can be started: .*/nowhere"):
            future.result(10)
        with pytest.raises(RuntimeError, match="the executor is broken"):
            executor.submit_many(abs, [(1,)])
    assert len(_warnings(caplog)) == 1


def test_a_nursery_that_cannot_fork_fails_tasks_until_it_can(caplog, processes):
    import resource

    with LocalExecutor(2) as executor:
        (future,) = executor.submit_many(os._exit, [(0,)])
        future.exception(10)
        limits = resource.prlimit(_nursery(processes).pid, resource.RLIMIT_NOFILE)
        resource.prlimit(_nursery(processes).pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        futures = executor.submit_many(abs, [(1,)] * 3)
        for future in futures:
            with pytest.raises(WorkerLostError, match="could be started: Too many open files"):
                future.result(10)
        resource.prlimit(_nursery(processes).pid, resource.RLIMIT_NOFILE, limits)
        assert executor.submit_many(abs, [(-1,)])[0].result(10) == 1
    assert any("not all 2 workers can be started" in line for line in _warnings(caplog))


def test_a_driver_with_too_many_open_files_goes_on_with_the_workers_it_has(caplog, starts, stuck):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with LocalExecutor(8) as executor:
        _pid_of(executor)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 3, limits[1]))
        try:
            futures = executor.submit_many(time.sleep, [(0.01,)] * 20)
            assert [future.result(10) for future in futures] == [None] * 20
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        executor.submit_many(stuck, [(starts.path,)] * 8)
        assert len(set(starts.wait(8))) == 8, "with the limit gone, all can be started"
    (line,) = [line for line in _warnings(caplog) if "workers can be started" in line]
    assert "not all 8 workers can be started: too many open files" in line
