"""Worker processes seen from outside: whole programs, and how they end."""

import os
import signal
import time

import psutil
import pytest

FLAT = """
    import os, time
    import numpy as np
    from sooner.executors import LocalExecutor

    class Point:
        def __init__(self, x):
            self.x = x

    offset = 10

    def moved(point):
        return Point(point.x + offset)

    executor = LocalExecutor(2)
    futures = executor.submit_many(moved, [(Point(i),) for i in range(4)])
    executor.submit_many(os._exit, [(0,)])[0].exception(20)     # a replacement starts later
    futures += executor.submit_many(moved, [(Point(i),) for i in range(4)])
    results = [future.result(20) for future in futures]
    assert all(type(point) is Point for point in results)
    print(*[point.x for point in results])
    executor.close()
"""


@pytest.mark.parametrize("how", ["file", "stdin", "-c"])
def test_a_flat_script_works_beside_files_named_like_pythons_own(tmp_path, how, scripts):
    for name in ("signal", "queue", "socket_", "numpy_"):
        (tmp_path / f"{name}.py").write_text("print('a module of the user was imported')\n")
    done = scripts.run(FLAT, cwd=tmp_path, how=how)
    assert done.returncode == 0, done.stderr
    # The driver imports the user's signal.py, as Python has it; workers must not.
    lines = done.stdout.splitlines()
    assert lines[-1] == "10 11 12 13 10 11 12 13"
    assert len(lines) <= 2, done.stdout


@pytest.mark.parametrize("name", ["signal", "queue", "struct"])
def test_a_broken_file_named_like_pythons_own_stops_the_program_at_once(tmp_path, name, scripts):
    (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('the file {name}.py')\n")
    before = time.monotonic()
    done = scripts.run(FLAT, cwd=tmp_path)
    assert time.monotonic() - before < 5
    if done.returncode:  # Python itself takes the user's file
        assert f"the file {name}.py" in done.stderr
    else:
        assert done.stdout.split()[-1] == "13"


def test_modules_beside_the_script_can_be_imported_by_workers(tmp_path, scripts):
    (tmp_path / "mine.py").write_text("def double(x):\n    return 2 * x\n")
    code = """
        import mine
        from sooner.executors import LocalExecutor
        with LocalExecutor(2) as executor:
            print(executor.submit_many(mine.double, [(21,)])[0].result(20))
    """
    done = scripts.run(code, cwd=tmp_path)
    assert done.stdout == "42\n", done.stderr


@pytest.mark.parametrize("ending", ["", "executor.close()", "raise SystemExit(0)", "os._exit(0)"])
def test_a_program_ends_at_once_with_stragglers_running(tmp_path, ending, scripts):
    code = f"""
        import os, sys, time
        from sooner.executors import LocalExecutor
        executor = LocalExecutor(3)
        futures = executor.submit_many(time.sleep, [(3600,)] * 5)
        quick = LocalExecutor(1).submit_many(os.getpid, [()])
        print(quick[0].result(20), time.time(), flush=True)
        {ending}
    """
    done = scripts.run(code, cwd=tmp_path)
    ended = time.time()
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    pid, end_of_script = done.stdout.split()
    assert ended - float(end_of_script) < 2
    assert not psutil.pid_exists(int(pid))


RUNNING = """
    import os, signal, sys, time
    from sooner.executors import LocalExecutor

    executor = LocalExecutor(4)
    pids = [f.result(20) for f in executor.submit_many(os.getpid, [()] * 4)]
    stuck = executor.submit_many(time.sleep, [(3600,)] * 3)
    while sum(future.running() for future in stuck) < 3:
        time.sleep(0.005)
"""


def test_a_killed_driver_leaves_no_process(tmp_path, processes, scripts):
    code = RUNNING + "    print('ready', flush=True)\n    time.sleep(3600)\n"
    with scripts.start(code, cwd=tmp_path) as driver:
        assert driver.stdout.readline() == "ready\n"
        running = processes.nurseries(driver.pid)
        assert len(running) >= 4
        os.kill(running[-1].pid, signal.SIGSTOP)
        driver.kill()
        assert processes.gone(running)


def test_a_killed_driver_whose_child_lives_on_leaves_no_process(tmp_path, processes, scripts):
    code = RUNNING + (
        "    child = os.fork()\n"  # it holds copies of all sockets
        "    if child == 0:\n        time.sleep(3600)\n"
        "    print(child, flush=True)\n    time.sleep(3600)\n"
    )
    with scripts.start(code, cwd=tmp_path) as driver:
        child = psutil.Process(int(driver.stdout.readline()))
        try:
            running = processes.nurseries(driver.pid)
            assert len(running) >= 4
            driver.kill()
            assert processes.gone(running)
            assert child.is_running()
        finally:
            child.kill()


def test_ctrl_c_while_waiting_leaves_no_process_and_the_executor_usable(
    tmp_path, processes, scripts
):
    code = RUNNING + (
        "    try:\n        print('ready', flush=True)\n        executor.wait(stuck)\n"
        "    except KeyboardInterrupt:\n"
        "        print(executor.abandon(stuck)['killed'], flush=True)\n"
        "    print(executor.submit_many(abs, [(-7,)])[0].result(20), flush=True)\n"
        "    with executor:\n        executor.submit_many(time.sleep, [(3600,)])[0].result()\n"
    )
    with scripts.start(code, cwd=tmp_path) as driver:
        assert driver.stdout.readline() == "ready\n"
        os.killpg(driver.pid, signal.SIGINT)
        assert driver.stdout.readline() == "3\n"
        assert driver.stdout.readline() == "7\n"
        running = processes.nurseries(driver.pid)
        os.killpg(driver.pid, signal.SIGINT)
        assert driver.wait(5) == -signal.SIGINT
        assert "KeyboardInterrupt" in driver.stderr.read()
        assert processes.gone(running, timeout=1)


def test_a_forked_child_cannot_use_the_executor_and_does_not_harm_it(tmp_path, scripts):
    code = """
        import os, sys
        from sooner.executors import LocalExecutor

        executor = LocalExecutor(2)
        reference = executor.broadcast(bytes(1_000_000))
        futures = executor.submit_many(abs, [(-1,)])
        futures[0].result(20)
        child = os.fork()
        if child == 0:
            for act in (lambda: executor.submit_many(abs, [(1,)]), lambda: executor.broadcast(1)):
                try:
                    act()
                except RuntimeError as error:
                    print(error, flush=True)
            executor.abandon(futures)
            executor.close()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(executor.submit_many(lambda r: len(r.load()), [(reference,)])[0].result(20))
        executor.close()
    """
    done = scripts.run(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *refusals, last = done.stdout.splitlines()
    assert last == "1000000"
    assert len(refusals) == 2
    assert all("this one was forked from it" in line for line in refusals)


def test_a_driver_that_ignores_its_children_still_learns_how_workers_end(tmp_path, scripts):
    code = """
        import os, signal
        from sooner.executors import LocalExecutor
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        with LocalExecutor(1) as executor:
            print(executor.submit_many(os._exit, [(5,)])[0].exception(20))
    """
    done = scripts.run(code, cwd=tmp_path)
    assert "ended with exit code 5" in done.stdout, done.stderr


def test_workers_run_this_copy_of_sooner(tmp_path, scripts):
    """Also when the driver found it by a path of its own, and another copy is beside the script."""
    (tmp_path / "sooner").mkdir()
    (tmp_path / "sooner" / "__init__.py").write_text("raise ImportError('another sooner')\n")
    code = """
        import sys
        here = sys.path.pop(0)
        import sooner
        sys.path.insert(0, here)
        from sooner.executors import LocalExecutor
        with LocalExecutor(1) as executor:
            file = executor.submit_many(lambda: __import__("sooner").__file__, [()])[0].result(20)
        print(file == sooner.__file__)
    """
    done = scripts.run(code, cwd=tmp_path)
    assert done.stdout == "True\n", done.stderr


def test_importing_the_executors_is_light(tmp_path, scripts):
    code = """
        import sys
        import numpy
        before = set(sys.modules)
        import sooner.executors
        heavy = {"asyncio", "multiprocessing", "subprocess", "ssl", "cloudpickle", "socket"}
        print(sorted(heavy & (set(sys.modules) - before)))
    """
    done = scripts.run(code, cwd=tmp_path)
    assert done.stdout == "[]\n", done.stderr
