"""`minimize`: SciPy's conventions, deadlines on the virtual clock, a real kill."""

import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.optimize import OptimizeResult, OptimizeWarning

import sooner
from sooner import VirtualExecutor

INF = float("inf")
OPTIONS = {"sigma": 1e-3, "learning_rate": 0.3}


def bowl(x, center=0.0):
    return np.sum((x - center) ** 2)


@pytest.mark.parametrize("code", [None, sooner.PolarCode(16, 8, rng=0)])
def test_it_finds_a_minimum_with_the_result_of_scipy(code):
    result = sooner.minimize(
        bowl, np.zeros(8), (3.0,), n=None if code else 8, code=code, maxiter=30,
        executor=VirtualExecutor([1.0]), **OPTIONS,
    )  # fmt: skip
    assert isinstance(result, OptimizeResult)
    np.testing.assert_allclose(result.x, 3.0, atol=1e-4)
    assert result.fun == bowl(result.x, 3.0)
    assert (result.success, result.status, result.nit, result.nfailed) == (True, 0, 30, 0)
    assert result.nfev == 30 * (2 * (16 if code else 8) + 1) + 1
    assert "iterations" in result.message
    np.testing.assert_array_equal(result.x, result.strategy.x)


@pytest.mark.parametrize("workers", [1, 3, None])
def test_the_trajectory_does_not_depend_on_the_workers(workers):
    rng = np.random.default_rng(workers)
    executor = VirtualExecutor(lambda *_: rng.uniform(1, 9), slots=workers)
    result = sooner.minimize(bowl, np.ones(6), executor=executor, maxiter=5, **OPTIONS)
    expected = sooner.minimize(bowl, np.ones(6), executor="threads:1", maxiter=5, **OPTIONS)
    np.testing.assert_array_equal(result.x, expected.x)


def test_a_code_makes_lost_evaluations_cost_no_time():
    def run_time(ordinal, attempt):  # of 16 pairs and the center, three evaluations never end
        return INF if ordinal % 33 in {4, 9, 30} else 1.0

    options = {"maxiter": 10, "deadline": 1e4, "timeout": 100.0, **OPTIONS}
    coded, plain, dropping = (VirtualExecutor(run_time) for _ in range(3))
    code = sooner.PolarCode(16, 8, rng=0)
    result = sooner.minimize(bowl, np.ones(8), code=code, executor=coded, **options)
    sooner.minimize(bowl, np.ones(8), n=16, executor=plain, **options)
    assert coded.now() == pytest.approx(11.0)
    assert plain.now() > 1000.0
    assert result.fun < 0.1
    sooner.minimize(bowl, np.ones(8), n=16, share=0.75, executor=dropping, **options)
    assert dropping.now() == pytest.approx(11.0)


def test_the_deadline_holds_in_the_middle_of_a_generation():
    executor = VirtualExecutor([4.0, 1.0])
    result = sooner.minimize(bowl, np.ones(4), executor=executor, deadline=10.0, **OPTIONS)
    assert executor.now() == pytest.approx(10.0)
    assert (result.success, result.status) == (False, 1)
    assert "deadline" in result.message
    assert result.fun == bowl(result.x)
    assert result.nit == 3


@pytest.mark.parametrize("deadline", [0.0, 5.0])
def test_a_deadline_before_anything_came_gives_the_start(deadline):
    executor = VirtualExecutor([INF])
    result = sooner.minimize(bowl, np.ones(4), executor=executor, deadline=deadline, **OPTIONS)
    assert executor.now() == deadline
    np.testing.assert_array_equal(result.x, np.ones(4))
    assert np.isnan(result.fun)
    assert (result.success, result.nfev) == (False, 0)


def test_situation_8_one_call_of_a_minute_does_not_hold_up_the_deadline():
    start = time.monotonic()
    with sooner.LocalExecutor(2) as executor:
        result = sooner.minimize(
            lambda x: time.sleep(60), np.ones(2), executor=executor, deadline=0.5, **OPTIONS
        )
    assert result.status == 1
    assert time.monotonic() - start < 30  # bounded, on whatever machine


def test_situation_19_when_nothing_ever_comes_it_ends_and_says_why(caplog):
    def broken(x):
        raise ArithmeticError("no such thing")

    with pytest.warns(OptimizeWarning, match="generation 0 was lost"):
        result = sooner.minimize(broken, np.ones(3), executor="threads:2", maxiter=50, **OPTIONS)
    assert (result.success, result.status, result.nit) == (False, 2, 3)
    assert "no such thing" in result.message
    assert "ArithmeticError 15" in caplog.text


def test_callbacks_are_called_the_way_they_want():
    points, results = [], []
    sooner.minimize(bowl, np.ones(2), executor="threads:1", maxiter=3, callback=points.append,
                    **OPTIONS)  # fmt: skip

    def callback(intermediate_result):
        results.append(intermediate_result)
        if intermediate_result.nit == 2:
            raise StopIteration

    stopped = sooner.minimize(bowl, np.ones(2), executor="threads:1", callback=callback, **OPTIONS)
    assert [result.nit for result in results] == [1, 2]
    np.testing.assert_array_equal(points[:2], [result.x for result in results])
    assert results[1].fun < results[0].fun
    assert (stopped.status, stopped.nit, stopped.success) == (99, 2, False)
    assert stopped.fun < results[1].fun


def test_the_last_point_is_evaluated_again_if_that_failed():
    executor = VirtualExecutor([1.0], lost={9, 10})  # after a generation of 4 pairs and a center
    result = sooner.minimize(bowl, np.ones(2), n=4, executor=executor, maxiter=1, **OPTIONS)
    assert (result.nfailed, result.nfev) == (2, 10)
    np.testing.assert_array_equal(result.x, result.strategy.x)


SCRIPT = """
import os, signal, sys
import numpy as np
import sooner

def callback(intermediate_result):
    if intermediate_result.nit == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

result = sooner.minimize(
    lambda x: np.sum((x - 1) ** 4), np.zeros(8), sigma=0.1, learning_rate=0.05, maxiter=12,
    code=sooner.PolarCode(12, 8, rng=0), optimizer="adam", rng=5,
    executor=sooner.VirtualExecutor([1.0] * 19 + [float("inf")] * 5 + [2.0]),  # by generation
    checkpoint=sys.argv[1], callback=callback,
)
print(result.x.tobytes().hex(), result.nit, result.nfev)
"""


def run(checkpoint, kill_at):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(checkpoint), str(kill_at)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_situation_18_after_kill_9_at_generation_7_it_goes_on_bit_for_bit(tmp_path):
    through = run(tmp_path / "through", -1)
    killed = run(tmp_path / "killed", 7)
    assert killed.returncode == -9
    assert not killed.stdout
    resumed = run(tmp_path / "killed", -1)
    assert resumed.stdout == through.stdout
    assert len(through.stdout) > 128


def test_more_generations_go_on_from_a_checkpoint(tmp_path):
    options = {"executor": "threads:1", **OPTIONS}
    parts = {**options, "checkpoint": tmp_path / "es"}
    sooner.minimize(bowl, np.ones(3), maxiter=2, **parts)
    result = sooner.minimize(bowl, np.ones(3), maxiter=4, **parts)
    through = sooner.minimize(bowl, np.ones(3), maxiter=4, **options)
    np.testing.assert_array_equal(result.x, through.x)
    assert result.nit == 4
    assert result.nfev == through.nfev
    again = sooner.minimize(bowl, np.zeros(3), maxiter=4, **parts)  # nothing is left to do
    np.testing.assert_array_equal(again.x, through.x)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    options = {"executor": "threads:1", "maxiter": 1, "checkpoint": tmp_path / "es"}
    sooner.minimize(bowl, np.ones(2), **options, **OPTIONS)
    with pytest.raises(ValueError, match="it differs in sigma"):
        sooner.minimize(bowl, np.ones(2), sigma=0.5, learning_rate=0.3, **options)


def test_an_executor_that_was_given_stays_open():
    with sooner.LocalExecutor(1) as executor:
        for _ in range(2):
            result = sooner.minimize(bowl, np.ones(2), executor=executor, maxiter=1, **OPTIONS)
            assert result.success
