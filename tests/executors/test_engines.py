"""The same suite and the same coded products on every engine, in situations that users met."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
import time

import numpy as np
import psutil
import pytest

import sooner
from sooner.errors import JobTimeoutError, NotDecodableError, TaskFailedError
from sooner.executors import as_executor
from sooner.executors._bounded import Shipped
from sooner.executors._completions import Completions, settle
from sooner.testing import check_executor

ALL = ["local", "threads", "processes", "loky", "dask", "ray", "lithops", "lithops-s3"]
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
    check_executor(engine.make, patience=PATIENCE, owns_processes=engine.name == "local")


@engines("dask", "ray", "lithops")
def test_it_is_found_by_what_the_user_has(engine):
    with engine.make() as executor:
        assert type(executor).__name__.lower() == f"{engine.name}executor"
        assert engine.name in repr(executor).lower() or "client" in repr(executor).lower()
        # Lithops runs one product after the other here, so redundant tasks must not come later.
        assert executor.slots == (None if engine.name == "lithops" else 4)
        assert as_executor(executor) is executor
        with pytest.raises(ValueError, match="descriptions must name each task, got 1 for 2"):
            executor.submit_many(abs, [(1,), (2,)], descriptions=["one"])


@engines("dask", "ray", "lithops")
def test_other_versions_on_workers_are_named(engine, monkeypatch, caplog):
    installed = importlib.metadata.version
    monkeypatch.setattr(
        "importlib.metadata.version", lambda name: "1.0" if name == "numpy" else installed(name)
    )
    monkeypatch.setattr("sooner.executors._engine._compared", set())
    with engine.make() as executor:
        deadline = time.monotonic() + PATIENCE
        while "a worker has" not in caplog.text and time.monotonic() < deadline:
            executor.submit_many(abs, [(1,)])[0].result(timeout=PATIENCE)
    told = f"{engine.name.title()}: a worker has numpy {np.__version__} (here 1.0); tasks may fail"
    assert caplog.text.count(told) == 1


@engines("dask", "ray", "lithops")
def test_workers_of_the_same_versions_are_not_mentioned(engine, monkeypatch, caplog):
    monkeypatch.setattr("sooner.executors._engine._compared", set())
    with engine.make() as executor:
        for _ in range(3):
            executor.submit_many(abs, [(1,)])[0].result(timeout=PATIENCE)
    assert not caplog.records


@engines(*ALL)
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
def test_an_exception_brings_the_traceback_of_its_worker(engine):
    def divide(x):  # in here, so that it travels by value
        return x / 0

    with engine.make() as executor:
        error = executor.submit_many(divide, [(1,)])[0].exception(timeout=PATIENCE)
    assert isinstance(error, ZeroDivisionError)
    assert "in divide" in str(error.__cause__)


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


class _Unruly(_Wrapped):
    """Each answer comes twice, in random order; those of one product even during the next."""

    def __init__(self, executor):
        super().__init__(executor)
        self._completions = Completions()
        self._expected = {}  # the engine's future to ours, of all products
        self._rng = np.random.default_rng(0)
        self.n_late = self.n_twice = 0

    def submit_many(self, fn, args, **kwargs):
        late = {theirs for theirs, ours in self._expected.items() if ours.cancelled()}
        while late:  # so that they all come during this product
            late -= self._executor.wait(late, PATIENCE)
        theirs = self._executor.submit_many(fn, args, **kwargs)
        ours = [self._completions.new_future(each.description) for each in theirs]
        self._expected.update(zip(theirs, ours, strict=True))
        return ours

    def wait(self, futures, timeout=None):
        while not (done := self._completions.wait(futures, timeout=0)) and self._expected:
            arrived = set()
            while len(arrived) < min(2, len(self._expected)):
                arrived |= self._executor.wait(self._expected.keys() - arrived, PATIENCE)
            answers = 2 * [(self._expected.pop(each), each.result(timeout=0)) for each in arrived]
            self._rng.shuffle(answers)
            for ours, answer in answers:
                self.n_late += ours.cancelled()
                self.n_twice += not settle(ours, answer)
        return done

    def abandon(self, futures):
        return {"cancelled": sum(each.cancel() for each in futures)}


@engines("local", "dask", "ray")
def test_late_duplicate_and_disordered_answers_of_earlier_products_do_no_harm(
    engine, coded, matrix
):
    """Situation 16: a least squares trajectory stays NumPy's."""
    target = matrix @ np.ones(50)
    ours, numpys = np.zeros(50), np.zeros(50)
    with engine.make() as executor:
        unruly = _Unruly(executor)
        for round_ in range(4):
            late = spread((round_, round_ + 5), 0.2)
            with sooner.matvec(coded, ours, executor=unruly, delays=late, policy="at_once") as job:
                ours -= 1e-3 * matrix.T @ (job.result(timeout=PATIENCE) - target)
            numpys -= 1e-3 * matrix.T @ (matrix @ numpys - target)
    np.testing.assert_allclose(ours, numpys, atol=1e-12)
    assert unruly.n_late > 0
    assert unruly.n_twice > 4 * K


@engines("local", "dask", "ray", "lithops")
def test_the_deadline_holds_and_carries_an_estimate(engine, coded, matrix):
    """Situation 8."""
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
        with sooner.matvec(coded, x, executor=executor, delays=[0.4] * N, losses=8) as job:
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


class _Dooms(_Wrapped):
    """The first so many tasks meet their doom, the first time that they run."""

    def __init__(self, executor, count, doom):
        super().__init__(executor)
        self._count, self._doom = count, doom

    def submit_many(self, fn, args, **kwargs):
        doom = self._doom

        def run(doomed, *arguments):  # in here, so that it travels by value
            return doom(fn, arguments) if doomed else fn(*arguments)

        count, self._count = self._count, 0
        doomed = [(i < count, *each) for i, each in enumerate(args)]
        return self._executor.submit_many(run, doomed, **kwargs)


@pytest.fixture
def killed():
    """End the process of a task as a system does that has no memory left."""

    def killed(fn, arguments):
        import os

        os.kill(os.getpid(), 9)

    return killed


@pytest.fixture
def no_room():
    """Run a task with less address space left than a block takes."""

    def no_room(fn, arguments):
        import resource
        from pathlib import Path

        used = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), limits[1]))
        try:
            return fn(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)

    return no_room


def check_erasures(trace, count, outcome):
    """The first attempt of so many tasks ended like this, or was abandoned as not needed."""
    first = [record for record in trace if record.task < count and record.attempt == 0]
    assert {record.outcome for record in first} <= {outcome, "abandoned"}
    bad = [record for record in first if record.outcome == outcome]
    assert len(bad) >= max(0, count - (N - K))
    return bad


@pytest.mark.parametrize("count", [1, 4, 5])
@engines("local", "ray", "lithops")
def test_tasks_that_are_killed_for_their_memory_are_erasures(engine, count, coded, matrix, killed):
    """Situation 1."""
    x = np.linspace(0.0, 1.0, 50)
    with (
        engine.make() as executor,
        sooner.matvec(coded, x, executor=_Dooms(executor, count, killed), policy="at_once") as job,
    ):
        np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ x, atol=1e-9)
    check_erasures(job.trace, count, "lost")


@pytest.mark.skipif(sys.platform != "linux", reason="address space is bounded on Linux only")
@pytest.mark.parametrize("count", [1, 4, 5])
@engines("local", "dask")
def test_blocks_that_do_not_fit_into_memory_are_erasures(engine, count, tmp_path, no_room):
    """Situation 1, where the block really does not fit: the first four can be spared."""
    large = np.random.default_rng(2).standard_normal((240, 25_000))  # blocks of 4 MB
    coded = sooner.encode(large, sooner.PolarCode(N, K, rng=0), store=tmp_path / "large.coded")
    x = np.linspace(0.0, 1.0, 25_000)
    with (
        engine.make() as executor,
        sooner.matvec(coded, x, executor=_Dooms(executor, count, no_room), policy="at_once") as job,
    ):
        if count > N - K:
            with pytest.raises(TaskFailedError, match="Cannot allocate memory"):
                job.result(timeout=PATIENCE)
        else:
            np.testing.assert_allclose(job.result(timeout=PATIENCE), large @ x, atol=1e-9)
    for record in check_erasures(job.trace, count, "raised"):
        assert "memory" in record.error.lower()


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
    """Situation 3."""
    losses = 1 if engine.name == "local" else 0  # Ray's workers take half a second to start
    with (
        engine.make() as executor,
        sooner.matvec(coded, np.ones(50), executor=_Bombs(executor), losses=losses) as job,
        pytest.raises(NotDecodableError, match=r"no answer \d+ times") as caught,
    ):
        job.result(timeout=PATIENCE)
    assert caught.value.n_available == 0
    assert caught.value.n_needed == K
    assert caught.value.missing == tuple(range(N))


def test_a_cluster_without_workers_ends_the_job_with_a_reason(clusters, coded, caplog):
    """Situation 3: nobody waits for ever for the first worker."""
    from sooner.executors.dask import DaskExecutor

    with (
        clusters(0) as client,
        DaskExecutor(client, patience=0.3) as executor,
        sooner.matvec(coded, np.ones(50), executor=executor, losses=1) as job,
        pytest.raises(NotDecodableError, match=r"no answer \d+ times"),
    ):
        job.result(timeout=PATIENCE)
    assert "had no worker for 0.3 s" in job.trace.records[0].error
    told = "Dask has no worker that could run a task; tasks fail when none comes within 0.3 s."
    assert told in caplog.text


def test_tasks_wait_for_a_first_worker_that_comes_in_time(clusters, coded, matrix):
    from sooner.executors.dask import DaskExecutor

    with (
        clusters(0) as client,
        DaskExecutor(client, patience=PATIENCE) as executor,
        sooner.matvec(coded, np.ones(50), executor=executor) as job,
    ):
        client.cluster.scale(1)
        np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ np.ones(50), atol=1e-9)


def test_tasks_that_no_node_has_processors_for_end_the_job_with_a_reason(ray_engine, coded):
    from sooner.executors.ray import RayExecutor  # not before the engine has its settings

    with (
        RayExecutor(num_cpus=1000, patience=0.3) as executor,
        sooner.matvec(coded, np.ones(50), executor=executor, losses=0) as job,
    ):
        assert executor.slots is None
        with pytest.raises(NotDecodableError, match=r"no answer \d+ times"):
            job.result(timeout=PATIENCE)
    assert "Ray had no worker for 0.3 s" in job.trace.records[0].error


@engines("dask-elsewhere")
def test_x_is_a_task_where_workers_do_not_see_the_drivers_memory(engine, matrix, tmp_path):
    wide = np.random.default_rng(1).standard_normal((50, 400))  # 160 kB: not with each task
    coded = sooner.encode(matrix, sooner.PolarCode(N, K, rng=0), store=tmp_path / "A.coded")
    with engine.make() as executor:
        reference = executor.broadcast(wide)
        assert isinstance(reference, Shipped)
        executor.release(reference)
        with sooner.matmat(coded, wide, executor=executor, delays=[0.2] * N, losses=8) as job:
            next(iter(job))
            # All but one, so also those that have x: Dask makes it again.
            for pid in list(executor._client.run(os.getpid).values())[1:]:
                os.kill(pid, signal.SIGKILL)
            np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ wide, atol=1e-9)
