"""The same suite and the same coded products on every engine."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import psutil
import pytest

import sooner
from sooner.errors import JobTimeoutError, NotDecodableError
from sooner.executors import as_executor
from sooner.testing import check_executor

ALL = ["local", "threads", "processes", "loky", "dask", "ray", "lithops"]
THAT_LOSE_WORKERS_WELL = ["local", "dask", "ray"]
N, K = 16, 12
PATIENCE = 60.0  # seconds in which anything here ends, or it never will


def engines(*names):
    return pytest.mark.parametrize("engine", names, indirect=True)


@pytest.fixture
def matrix():
    return np.random.default_rng(0).standard_normal((240, 50))


@pytest.fixture
def coded(matrix, tmp_path):
    return sooner.encode(matrix, sooner.PolarCode(N, K, rng=0), store=tmp_path / "A.coded")


def spread(task, seconds):
    """Delays of all tasks: those of some are `seconds`."""
    delays = np.zeros(N)
    delays[list(task)] = seconds
    return delays.tolist()


@engines(*ALL)
def test_it_keeps_the_promises_of_an_executor(engine):
    check_executor(engine.make, owns_processes=engine.name == "local")


@engines("dask", "ray", "lithops")
def test_it_is_found_by_what_the_user_has(engine):
    with engine.make() as executor:
        assert type(executor).__name__.lower() == f"{engine.name}executor"
        assert engine.name in repr(executor).lower() or "client" in repr(executor).lower()
        assert executor.slots == 4
        assert as_executor(executor) is executor
        with pytest.raises(ValueError, match="descriptions must name each task, got 1 for 2"):
            executor.submit_many(abs, [(1,), (2,)], descriptions=["one"])


@engines("dask", "ray")
def test_other_versions_on_workers_are_named_before_a_task_fails(engine, monkeypatch, caplog):
    import sooner.executors._engine as shared

    told = []
    real = shared.name_mismatch
    for module in ("_dask_cluster", "ray"):
        monkeypatch.setattr(
            f"sooner.executors.{module}.name_mismatch", lambda *a: told.append(a) or real(*a)
        )
    with engine.make() as executor:
        if engine.name == "dask":
            executor._cluster._compared = False
        executor.submit_many(abs, [(1,)])[0].result(timeout=PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while not told and time.monotonic() < deadline:
            executor.submit_many(abs, [(1,)])[0].result(timeout=PATIENCE)
    ((name, here, workers),) = told
    assert name.lower() == engine.name
    assert here["numpy"] == np.__version__
    assert not caplog.records, "these are the same"
    real(name, here, [dict(here) | {"numpy": "1.0", "sooner": None}])
    assert f"a worker has sooner missing (here {here['sooner']}), numpy 1.0" in caplog.text
    assert len(list(workers)) >= 1


@engines(*ALL, "lithops-s3")
def test_a_coded_product_is_exact_and_does_not_wait_for_stragglers(engine, coded, matrix):
    with engine.make() as executor:
        for stragglers in ((3, 9), (0, 15)):
            x = np.random.default_rng(stragglers[0]).standard_normal(50)
            with sooner.matvec(
                coded, x, executor=executor, delays=spread(stragglers, 3600.0)
            ) as job:
                np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ x, atol=1e-9)
            ended = {record.task for record in job.trace if record.outcome == "ok"}
            assert not ended & set(stragglers)
            workers = {record.worker for record in job.trace if record.outcome == "ok"}
            assert all(":" in worker for worker in workers)


@engines("local", "dask", "ray", "lithops", "lithops-s3")
def test_a_wide_product_with_a_large_operand_and_blocks_that_travel(engine, matrix):
    wide = np.random.default_rng(1).standard_normal((50, 400))  # 160 kB: shipped, not inlined
    coded = sooner.encode(matrix, sooner.PolarCode(N, K, rng=0))
    with engine.make() as executor, sooner.matmat(coded, wide, executor=executor) as job:
        np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ wide, atol=1e-9)


@engines("local", "dask", "ray")
def test_stragglers_of_many_products_leave_the_slots_to_the_next(engine, coded, matrix):
    # Two tasks of each product never end: with four slots, the third product would have none.
    with engine.make() as executor:
        for round_ in range(8):
            x = np.full(50, float(round_))
            stragglers = (round_, 15 - round_)
            with sooner.matvec(
                coded, x, executor=executor, delays=spread(stragglers, 3600.0)
            ) as job:
                np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ x, atol=1e-9)


@engines("local", "dask", "ray")
def test_late_answers_of_earlier_products_do_no_harm(engine, coded, matrix):
    target = matrix @ np.ones(50)
    ours, numpys = np.zeros(50), np.zeros(50)
    with engine.make() as executor:
        for round_ in range(4):
            late = spread((round_, round_ + 5), 0.2)
            with sooner.matvec(coded, ours, executor=executor, delays=late) as job:
                ours -= 1e-3 * matrix.T @ (job.result(timeout=PATIENCE) - target)
            numpys -= 1e-3 * matrix.T @ (matrix @ numpys - target)
    np.testing.assert_allclose(ours, numpys, atol=1e-12)


@engines("local", "dask", "ray", "lithops")
def test_the_deadline_holds_and_carries_an_estimate(engine, coded, matrix):
    slow = spread(range(4, N), 3600.0)
    with engine.make() as executor:
        with sooner.matvec(coded, np.ones(50), executor=executor, delays=slow) as job:
            began = time.monotonic()
            with pytest.raises(JobTimeoutError, match=r"0\.5 s") as caught:
                job.result(timeout=0.5)
        assert time.monotonic() - began < 3
        assert caught.value.estimate.value.shape == (240,)
        assert not caught.value.estimate.exact


def working_processes(engine, executor, processes):
    """The worker processes that run tasks on this machine."""
    if engine.name == "local":
        found = processes.nurseries()
        parents = {process.pid for process in found}
        return [process for process in found if process.ppid() in parents]
    if engine.name == "dask":
        return [psutil.Process(pid) for pid in executor._client.run(os.getpid).values()]
    family = psutil.Process().children(recursive=True)
    return [process for process in family if process.name().startswith("ray::_run")]


@pytest.mark.parametrize("share", ["one", "half", "all"])
@engines(*THAT_LOSE_WORKERS_WELL)
def test_workers_killed_in_mid_job_cost_no_answer(engine, share, coded, matrix, processes):
    x = np.linspace(-1.0, 1.0, 50)
    with engine.make() as executor:
        with sooner.matvec(coded, x, executor=executor, delays=[0.4] * N, retries=8) as job:
            victims = []
            for _ in job:
                victims = working_processes(engine, executor, processes)
                if len(victims) >= 2:
                    break
            count = {"one": 1, "half": len(victims) // 2, "all": len(victims)}[share]
            for victim in victims[:count]:
                victim.send_signal(signal.SIGKILL)
            np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ x, atol=1e-9)
        with sooner.matvec(coded, x, executor=executor) as job:  # and it is fit for the next
            np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ x, atol=1e-9)


class _Wrapped:
    """An executor, to be spoilt in one place; closed by its own user."""

    def __init__(self, executor):
        self._executor = executor

    def __getattr__(self, name):
        return getattr(self._executor, name)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass


class _OutOfMemory(_Wrapped):
    """The first so many tasks are killed as the system does it, the first time that they run."""

    def __init__(self, executor, count):
        super().__init__(executor)
        self._count = count

    def submit_many(self, fn, args, **kwargs):
        def run(doomed, *arguments):  # in here, so that it travels by value
            import os

            if doomed:
                os.kill(os.getpid(), 9)
            return fn(*arguments)

        count, self._count = self._count, 0
        doomed = [(i < count, *each) for i, each in enumerate(args)]
        return self._executor.submit_many(run, doomed, **kwargs)


@pytest.mark.parametrize("count", [1, 4, 5])
@engines("local", "ray", "lithops")
def test_tasks_that_are_killed_for_their_memory_are_erasures(engine, count, coded, matrix):
    x = np.linspace(0.0, 1.0, 50)
    with (
        engine.make() as executor,
        sooner.matvec(coded, x, executor=_OutOfMemory(executor, count)) as job,
    ):
        np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ x, atol=1e-9)
    first = [record for record in job.trace if record.task < count and record.attempt == 0]
    # Some may have been abandoned when the others were enough.
    assert {record.outcome for record in first} <= {"lost", "abandoned"}
    assert sum(record.outcome == "lost" for record in first) >= max(0, count - (N - K))


class _Bombs(_Wrapped):
    """An executor that ships what ends the worker when a task loads it."""

    def broadcast(self, value):
        class Bomb:  # in here, so that it travels by value
            def load(self):
                import os

                os._exit(0)

        return Bomb()


@engines("local", "ray")
def test_workers_that_always_vanish_end_the_job_with_a_reason(engine, coded):
    retries = 1 if engine.name == "local" else 0  # Ray's workers take half a second to start
    with (
        engine.make() as executor,
        sooner.matvec(coded, np.ones(50), executor=_Bombs(executor), retries=retries) as job,
        pytest.raises(NotDecodableError, match=r"no answer \d+ times") as caught,
    ):
        job.result(timeout=PATIENCE)
    assert caught.value.n_available == 0
    assert caught.value.n_needed == K
    assert caught.value.missing == tuple(range(N))


def test_a_cluster_without_workers_ends_the_job_with_a_reason(clusters, coded):
    from sooner.executors.dask import DaskExecutor

    with (
        clusters(0) as client,
        DaskExecutor(client, patience=0.3) as executor,
        sooner.matvec(coded, np.ones(50), executor=executor, retries=1) as job,
        pytest.raises(NotDecodableError, match=r"no answer \d+ times"),
    ):
        job.result(timeout=PATIENCE)
    assert "had no worker for 0.3 s" in job.trace.records[0].error
