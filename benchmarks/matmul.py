"""A @ B with both matrices in stores, two workers killed and two stopped, beside NumPy.

    python benchmarks/matmul.py [--size 6000 4000 6000] [--out FOLDER]

Says the error against NumPy, and the driver's peak of anonymous memory against what `matmul`
states: about three times the answer in memory, next to nothing with out=FILE.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from measuring import report

import sooner

ROWS, COLUMNS = sooner.PolarCode(8, 6, rng=0), sooner.PolarCode(8, 6, rng=0)
WORKERS = 8


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, nargs=3, default=(6000, 4000, 6000))
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path, help="folder for the results")
    args = parser.parse_args(argv)
    m, inner, columns = args.size
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((m, inner)), rng.standard_normal((inner, columns))
    with report(args.out, "matmul") as say, tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        expected = A @ B
        say(f"{m} x {inner} times {inner} x {columns}, NumPy {time.perf_counter() - began:.1f} s")
        sooner.encode(A, ROWS, f"{folder}/A")
        sooner.encode(B, COLUMNS, f"{folder}/B", axis=1)
        del A, B
        operands = sooner.open_coded(f"{folder}/A"), sooner.open_coded(f"{folder}/B")
        for out in (None, f"{folder}/C.npy"):
            error, seconds, peak, lost = run(operands, out, expected)
            answer = expected.nbytes / 1e6
            say(
                f"answer of {answer:.0f} MB {'in a file' if out else 'in memory'}: {seconds:.1f} s "
                f"on {WORKERS} workers, relative error {error:.1e}, {lost} tasks lost, driver's "
                f"peak {peak / 1e6:.0f} MB more than before, {peak / 1e6 / answer:.2f} answers"
            )


def run(operands, out, expected):
    """Multiply while two workers are killed and two are stopped."""
    with sooner.LocalExecutor(max_workers=WORKERS) as executor, Peak() as peak:
        began = time.perf_counter()
        with sooner.matmul(*operands, executor=executor, out=out, policy="at_once") as job:
            harm(job)
            product = job.result(timeout=600)
            seconds = time.perf_counter() - began
        lost = sum(record.outcome == "lost" for record in job.trace)
    error = np.linalg.norm(product - expected) / np.linalg.norm(expected)
    return error, seconds, peak.most, lost


def harm(job):
    """SIGKILL for two workers and SIGSTOP for two, once four have a task."""
    pids = []
    while len(pids) < 4:
        job.done()
        pending = list(job._launcher._pending)
        pids = [int(f.worker.partition(":")[2]) for f in pending if f.worker and f.running()]
        time.sleep(0.01)
    for pid, signum in zip(pids, [signal.SIGKILL] * 2 + [signal.SIGSTOP] * 2, strict=False):
        os.kill(pid, signum)


class Peak:
    """The most anonymous memory that this process had, beyond what it began with."""

    def __enter__(self):
        self._least, self.most, self._over = anonymous(), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._over.wait(0.01):
            self.most = max(self.most, anonymous() - self._least)

    def __exit__(self, *exc_info):
        self._over.set()
        self._thread.join()


def anonymous():
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) << 10
    raise OSError("the system does not say how much anonymous memory a process has")


if __name__ == "__main__":
    main()
