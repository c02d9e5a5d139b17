"""What sooner adds to a task on each engine, and what stragglers of earlier products cost.

    python benchmarks/engines.py [--engines local dask ...] [--out FILE]

First: milliseconds per empty task, submit all and take each as it completes, in turns with a bare
loop over the engine's own futures; medians.  Then: 30 coded products in a row, 16 tasks each, with
two that always take 10 s and without, on twice as many slots as this machine has cores.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import logging
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sooner
from sooner.executors import PoolExecutor, as_executor

SLOTS = 2 * (os.cpu_count() or 1)
SIZES = (64, 512)
PRODUCTS = 30
STRAGGLERS = (5, 11)
LONG = 10.0  # seconds


def nothing(_):
    return None


def take_all(futures):
    for future in concurrent.futures.as_completed(futures):
        future.result()


# Each engine: a context manager that gives an executor's maker and the bare loop over n tasks.


@contextlib.contextmanager
def local():
    yield lambda: sooner.LocalExecutor(SLOTS), None  # its own engine: nothing to compare with


@contextlib.contextmanager
def threads():
    with concurrent.futures.ThreadPoolExecutor(SLOTS) as pool:
        yield (
            lambda: PoolExecutor(pool),
            lambda n: take_all([pool.submit(nothing, i) for i in range(n)]),
        )


@contextlib.contextmanager
def processes():
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(SLOTS, mp_context=context) as pool:
        yield (
            lambda: PoolExecutor(pool),
            lambda n: take_all([pool.submit(nothing, i) for i in range(n)]),
        )


@contextlib.contextmanager
def loky():
    from loky.process_executor import ProcessPoolExecutor

    pool = ProcessPoolExecutor(SLOTS, timeout=None)
    try:
        yield (
            lambda: PoolExecutor(pool),
            lambda n: take_all([pool.submit(nothing, i) for i in range(n)]),
        )
    finally:
        pool.shutdown(wait=False, kill_workers=True)


@contextlib.contextmanager
def dask():
    import distributed

    def bare(n):
        futures = client.map(nothing, range(n), pure=False, retries=0)
        for future, _ in distributed.as_completed(futures, with_results=True):
            future.release()

    with (
        distributed.LocalCluster(
            n_workers=SLOTS, threads_per_worker=1, host="127.0.0.1",
            dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        yield lambda: as_executor(client), bare


@contextlib.contextmanager
def ray():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # or it takes the host's address
    import ray as engine

    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        engine.init(
            num_cpus=SLOTS, include_dashboard=False, log_to_driver=False,
            logging_level=logging.CRITICAL, _node_ip_address="127.0.0.1", _temp_dir=folder,
        )  # fmt: skip
        remote = engine.remote(max_retries=0)(nothing)
        try:
            yield (
                lambda: as_executor(engine),
                lambda n: take_all([remote.remote(i).future() for i in range(n)]),
            )
        finally:
            engine.shutdown()


@contextlib.contextmanager
def lithops():
    import lithops as engine

    def bare(n):
        calls = functions.map(nothing, range(n))
        functions.get_result(calls, show_progressbar=False)

    localhost = {"runtime": sys.executable, "worker_processes": SLOTS, "version": 1}
    settings = {
        "backend": "localhost", "storage": "localhost",
        "monitoring_interval": 0.1, "data_cleaner": False,
    }  # fmt: skip
    with engine.FunctionExecutor(
        config={"lithops": settings, "localhost": localhost}, log_level=None
    ) as functions:
        yield lambda: as_executor(functions), bare


ENGINES = {each.__name__: each for each in (local, threads, processes, loky, dask, ray, lithops)}


def milliseconds_per_task(runs, n, repeats):
    """Medians of each of `runs`, which take turns."""
    times = [[] for _ in runs]
    for repeat in range(1 + repeats):  # the first one warms up
        for run, found in zip(runs, times, strict=True):
            began = time.perf_counter()
            run(n)
            if repeat:
                found.append(time.perf_counter() - began)
    return [1e3 * statistics.median(found) / n for found in times]


def through_sooner(executor):
    def run(n):
        pending = set(executor.submit_many(nothing, [(i,) for i in range(n)]))
        while pending:
            done = executor.wait(pending)
            for future in done:
                future.result(timeout=0)
            pending -= done

    return run


def overhead(name, make, bare):
    with make() as executor:
        for n in SIZES if name != "lithops" else SIZES[:1]:
            repeats = 5 if name == "lithops" else 9
            runs = [through_sooner(executor)] + ([] if bare is None else [bare])
            ours, *others = milliseconds_per_task(runs, n, repeats)
            line = f"{name:<10} n={n:<4} sooner {ours:8.3f} ms per task"
            for theirs in others:
                line += f", bare {theirs:8.3f}, added {ours - theirs:+8.3f} ({ours / theirs:.2f}x)"
                allowed = max(0.25 * theirs, 0.15)
                line += "" if ours - theirs < allowed else "   MORE THAN ALLOWED"
            yield line


def isolation(name, make):
    A = np.random.default_rng(0).standard_normal((1600, 500))
    with tempfile.TemporaryDirectory() as folder, make() as executor:
        coded = sooner.encode(A, sooner.PolarCode(16, 12, rng=0), store=folder + "/A")
        seconds = {}
        for stuck in ((), STRAGGLERS):
            # Tasks of 20 ms, so that there is something that a lost slot would delay.
            delays = [LONG if task in stuck else 0.02 for task in range(16)]
            with sooner.matvec(coded, A[0], executor=executor) as job:
                job.result()
            began = time.perf_counter()
            for _ in range(PRODUCTS):
                with sooner.matvec(coded, A[0], executor=executor, delays=delays) as job:
                    job.result(timeout=100)
            seconds[len(stuck)] = time.perf_counter() - began
    calm, stuck = seconds.values()
    return (
        f"{name:<10} {PRODUCTS} products: {calm:6.2f} s without stragglers, {stuck:6.2f} s with "
        f"2 of 16 tasks of {LONG:g} s: {stuck / calm:.2f}x"
    )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = [
        f"sooner {sooner.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"{SLOTS} slots, {time.strftime('%Y-%m-%d')}"
    ]
    print(lines[0], flush=True)
    for name in args.engines:
        with ENGINES[name]() as (make, bare):
            found = list(overhead(name, make, bare))
            if name in {"local", "dask", "ray"}:
                found.append(isolation(name, make))
        print("\n".join(found), flush=True)
        lines += found
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
