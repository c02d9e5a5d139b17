"""Worker processes of this machine: starting, results, errors, closing."""

import gc
import itertools
import logging
import os
import threading
import time
import weakref
from concurrent.futures import CancelledError

import numpy as np
import pytest

from sooner.errors import WorkerLostError
from sooner.executors import Executor, LocalExecutor
from sooner.executors.local import usable_cores


def _pid_of(executor):
    (future,) = executor.submit_many(os.getpid, [()])
    return future.result(timeout=10)


def _warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# Starting ------------------------------------------------------------------------------------


def test_it_is_an_executor_with_the_usable_cores(processes):
    executor = LocalExecutor()
    assert isinstance(executor, Executor)
    assert executor.slots == usable_cores() == len(os.sched_getaffinity(0))
    assert repr(executor) == f"LocalExecutor(max_workers={executor.slots})"
    assert executor.capabilities.can_kill
    assert executor.capabilities.survives_lost_worker
    assert not executor.capabilities.shares_memory
    assert not processes.nurseries(), "nothing runs before the first task"


def test_without_cores_of_its_own_it_counts_the_machines(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == os.cpu_count()


def test_sixty_four_workers_run_within_three_seconds(starts, stuck):
    with LocalExecutor(64) as executor:
        before = time.monotonic()
        futures = executor.submit_many(stuck, [(starts.path,)] * 64)
        pids = starts.wait(64)
        assert time.monotonic() - before < 3
        assert len(set(pids)) == 64
        assert executor.abandon(futures) == {"killed": 64, "cancelled": 0, "forgotten": 0}


@pytest.mark.parametrize("wrong", [0, -1])
def test_max_workers_is_checked(wrong):
    with pytest.raises(ValueError, match="max_workers must be at least 1"):
        LocalExecutor(wrong)


def test_a_system_that_cannot_fork_is_told_what_to_use(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(RuntimeError, match=r"as_executor\(concurrent\.futures\.ProcessPool"):
        LocalExecutor()


def test_workers_have_one_blas_thread_and_the_drivers_environment_is_untouched(local):
    before = dict(os.environ)
    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
    futures = local.submit_many(os.getenv, [(name,) for name in names])
    assert [future.result(10) for future in futures] == ["1", "1", "1"]
    assert dict(os.environ) == before


def test_workers_draw_different_random_numbers():
    def draw():
        import random
        import time

        import numpy as np

        time.sleep(0.1)  # so that each worker gets one
        return random.random(), np.random.random_sample()  # ruff: ignore[numpy-legacy-random]

    with LocalExecutor(3) as executor:
        executor.submit_many(np.random.default_rng, [()])[0].result(10)  # numpy.random is loaded
        futures = executor.submit_many(draw, [()] * 3)
        draws = {future.result(10) for future in futures}
    assert len({a for a, _ in draws}) == len({b for _, b in draws}) == 3


# Results and errors ----------------------------------------------------------------------------


def test_large_arguments_and_results_go_both_ways(local):
    array = np.arange(2_000_000.0)
    futures = local.submit_many(np.negative, [(array,), (array[::2],), (array[:0],)])
    for future, given in zip(futures, (array, array[::2], array[:0]), strict=True):
        result = future.result(20)
        assert np.array_equal(result, -given)
        assert result.flags.writeable
        assert result.flags.aligned


def test_arguments_are_taken_as_they_are_at_submission(local):
    array = np.zeros(5)
    futures = local.submit_many(np.sum, [(array,)] * 50)
    array += 1
    assert {future.result(10) for future in futures} == {0.0}


def test_functions_and_classes_by_value(local):
    class Point:
        def __init__(self, x):
            self.x = x

    def moved(point):
        return Point(point.x + offset)

    offset = 10
    (future,) = local.submit_many(moved, [(Point(1),)])
    result = future.result(10)
    assert isinstance(result, Point)
    assert result.x == 11


def test_an_exception_has_the_text_of_its_remote_traceback(local):
    def raises(x):
        return 1 / x

    (future,) = local.submit_many(raises, [(0,)])
    error = future.exception(10)
    assert isinstance(error, ZeroDivisionError)
    assert "in raises" in str(error.__cause__)
    assert "return 1 / x" in str(error.__cause__) or "line" in str(error.__cause__)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_ends_a_program_ends_only_its_task(error):
    def raises():
        raise error

    with LocalExecutor(1) as executor:
        pid = _pid_of(executor)
        (future,) = executor.submit_many(raises, [()])
        assert type(future.exception(10)) is type(error)
        assert _pid_of(executor) == pid


def test_an_exception_that_does_not_survive_pickling_still_arrives(local):
    class Stubborn(Exception):
        def __init__(self, code, reason):
            super().__init__(f"{code}: {reason}")

        def __reduce__(self):
            return Stubborn, (1,)

    class Unpicklable(Exception):
        def __reduce__(self):
            raise TypeError("never")

    def raises(kind, *args):
        raise kind(*args)

    stubborn, unpicklable = local.submit_many(
        raises, [(Stubborn, 7, "no"), (Unpicklable, "what it says")]
    )
    assert "Stubborn: 7: no" in str(stubborn.exception(10))
    assert "Unpicklable: what it says" in str(unpicklable.exception(10))
    assert "in raises" in str(unpicklable.exception(10).__cause__)


def test_what_cannot_be_pickled_is_refused_before_any_task_is_sent(local, processes):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"args\[1\] must be picklable to reach a worker process"):
        local.submit_many(repr, [(1,), (lock,)])
    with pytest.raises(TypeError, match="fn must be picklable to reach a worker process"):
        local.submit_many(lambda: lock, [()])
    with pytest.raises(TypeError, match="a value to broadcast must be picklable, got lock"):
        local.broadcast(lock)
    assert not processes.nurseries(), "nothing was started for them"


def test_a_result_that_cannot_be_pickled_fails_alone(local):
    bad, good = local.submit_many(lambda make: make(), [(threading.Lock,), (dict,)])
    with pytest.raises(TypeError, match="a task's result must be picklable, got one of type lock"):
        bad.result(10)
    assert good.result(10) == {}


def test_a_result_that_cannot_be_unpickled_fails_alone(local):
    def bad():
        class Breaks:
            def __reduce__(self):
                return int, ("no number",)

        return Breaks()

    (future,) = local.submit_many(bad, [()])
    with pytest.raises(RuntimeError, match=r"the result of task 0 of 1 \(bad\) could not be unpi"):
        future.result(10)
    assert _pid_of(local)


def test_a_function_that_workers_cannot_import_fails_its_tasks_with_that_error(local):
    def lost():
        return 1

    class Elsewhere:
        def __reduce__(self):
            return __import__, ("a_module_that_is_nowhere",)

        def __call__(self):
            return 1

    for _ in range(2):
        futures = local.submit_many(Elsewhere(), [()] * 3)
        for future in futures:
            with pytest.raises(ModuleNotFoundError, match="a_module_that_is_nowhere"):
                future.result(10)
    assert local.submit_many(lost, [()])[0].result(10) == 1


def test_memory_limits_raise_inside_the_task(local):
    def hungry():
        import resource

        import numpy as np

        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, resource.RLIM_INFINITY))
        return np.ones(1 << 30)

    (future,) = local.submit_many(hungry, [()])
    assert isinstance(future.exception(20), MemoryError)


def test_tasks_of_a_dropped_executor_are_done_and_then_its_processes_end(processes):
    futures = LocalExecutor(2).submit_many(pow, [(i, 2) for i in range(20)])
    gc.collect()
    assert [future.result(10) for future in futures] == [i * i for i in range(20)]
    left = processes.nurseries()
    gc.collect()
    assert processes.gone(left)


def test_futures_are_not_kept():
    with LocalExecutor(2) as executor:
        (future,) = executor.submit_many(np.zeros, [(1000,)])
        executor.wait([future], 10)
        again = executor.submit_many(abs, [(1,)] * 4)  # both workers have moved on
        while again:
            again = set(again) - executor.wait(again, 10)
        kept = weakref.ref(future)
        del future
        gc.collect()
        assert kept() is None


# Several users, closing ------------------------------------------------------------------------


def test_threads_share_an_executor(local):
    wrong = []

    def job(k):
        for _ in range(20):
            futures = local.submit_many(pow, [(k + i, 2) for i in range(10)])
            pending = {future: (k + i) ** 2 for i, future in enumerate(futures)}
            while pending:
                done = local.wait(pending, 10)
                wrong.extend(f for f in done if f.result() != pending.pop(f))

    threads = [threading.Thread(target=job, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert not wrong


def test_close_ends_everything_and_can_be_repeated(starts, stuck, processes):
    executor = LocalExecutor(2)
    futures = executor.submit_many(stuck, [(starts.path,)] * 3)
    starts.wait(2)
    running = processes.nurseries()
    assert len(running) == 3
    before = time.monotonic()
    executor.close()
    assert time.monotonic() - before < 1
    assert processes.gone(running, timeout=0.1)
    assert all(future.done() for future in futures)
    with pytest.raises(CancelledError):
        futures[0].result()
    executor.close()
    with pytest.raises(RuntimeError, match="it was closed"):
        executor.submit_many(abs, [(1,)])
    with pytest.raises(RuntimeError, match="it was closed"):
        executor.broadcast(1)
    assert executor.abandon(futures) == {"killed": 0, "cancelled": 0, "forgotten": 0}


def test_close_from_a_callback_does_not_lock_up(processes):
    executor = LocalExecutor(1)
    closed = threading.Event()
    (future,) = executor.submit_many(time.sleep, [(0.05,)])

    def close(_):
        executor.close()
        closed.set()

    future.add_done_callback(close)
    assert closed.wait(10)
    assert processes.gone(processes.nurseries())


def test_closing_an_executor_that_never_ran_anything():
    executor = LocalExecutor()
    executor.close()
    with pytest.raises(RuntimeError, match="it was closed"):
        executor.submit_many(abs, [()])


def test_no_tasks_need_no_process():
    with LocalExecutor(1) as executor:
        assert executor.submit_many(abs, []) == []
        assert executor.wait([], timeout=None) == set()


def test_modules_of_sooner_are_loaded_before_the_fork():
    def loaded():
        import sys

        return "sooner.runtimes" in sys.modules

    from sooner.runtimes import ShiftedExponential

    with LocalExecutor(1) as executor:
        assert not executor.submit_many(loaded, [()])[0].result(10)
    with LocalExecutor(1) as executor:
        executor.submit_many(ShiftedExponential, [(1.0, 1.0)])[0].result(10)
        executor.submit_many(os._exit, [(0,)])[0].exception(10)
        assert executor.submit_many(loaded, [()])[0].result(10), "the new worker has it"


def test_a_fault_in_the_supervising_thread_fails_tasks_instead_of_hanging(monkeypatch, caplog):
    from sooner.executors import _supervisor

    def fails(*_):
        raise ArithmeticError("a bug")

    monkeypatch.setattr(_supervisor, "_claim", fails)
    with LocalExecutor(1) as executor:
        (future,) = executor.submit_many(abs, [(1,)])
        with pytest.raises(WorkerLostError, match="please report the log"):
            future.result(10)
        with pytest.raises(RuntimeError, match="the executor is broken"):
            executor.submit_many(abs, [(1,)])
    assert "ArithmeticError: a bug" in caplog.text


def test_futures_are_no_arguments_for_tasks(local):
    futures = local.submit_many(abs, [(1,)])
    with pytest.raises(TypeError, match=r"args\[0\] must be picklable"):
        local.submit_many(repr, [(futures[0],)])
    assert futures[0].result(10) == 1


def test_a_worker_gets_the_tasks_again_that_it_has_done(tmp_path):
    def place():
        time.sleep(0.02)  # at once, a worker would be idle before the others are asked
        return os.getpid()

    names = [f"block {i}" for i in range(12)]
    with LocalExecutor(max_workers=4) as executor:
        where = []
        for _ in range(6):
            futures = executor.submit_many(place, [()] * 12, descriptions=names)
            where.append([future.result(timeout=20) for future in futures])
    moved = [
        sum(a != b for a, b in zip(one, other, strict=True))
        for one, other in itertools.pairwise(where[1:])
    ]
    # Any worker may take any task rather than idle, but most go where they were.
    assert sum(moved) < 0.5 * 12 * len(moved)


def test_tasks_without_a_worker_of_their_own_are_taken_by_any():
    with LocalExecutor(max_workers=2) as executor:
        for names in (["a", "b"], ["c", "d"], ["a"] * 40):
            futures = executor.submit_many(abs, [(-1,)] * len(names), descriptions=names)
            assert [future.result(timeout=20) for future in futures] == [1] * len(names)
