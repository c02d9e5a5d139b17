"""What the benchmarks share: interleaved timing against a memcpy, and reports that say where."""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import os
import platform
import subprocess
import sysconfig
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import threadpoolctl

import sooner
from sooner.codes import transform

PIECE = 32 << 20
"""Bytes that memcpy copies at a time: glibc then streams past the caches."""


@contextlib.contextmanager
def report(folder, name):
    """Give a function that prints a line and, in the end, keeps all of them in a dated file."""
    lines = []

    def say(line=""):
        print(line, flush=True)
        lines.append(line)

    try:
        yield say
    finally:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{dt.date.today().isoformat()}-{name}.txt"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def describe_machine(say):
    """Machine, compiler, versions, and the kernel that BLAS chose."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")]
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=False
    ).stdout.partition("\n")[0]
    say(
        f"{dt.datetime.now().isoformat(timespec='minutes')}  {models[0]}, "
        f"{len(models)} processors, load {os.getloadavg()[0]:.1f}, {platform.platform()}"
    )
    say(
        f"{version}; core {transform.core_variants()[-1:]}; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, sooner {sooner.__version__}"
    )
    for pool in threadpoolctl.threadpool_info():
        say(f"{pool['internal_api']} {pool['version']}, kernel {pool.get('architecture')}")


def memcpy(out, source, threads=1):
    """Copy in pieces with the C library, each thread its part."""

    def copy(first, last):
        for start in range(first, last, PIECE):
            size = min(PIECE, last - start)
            ctypes.memmove(out.ctypes.data + start, source.ctypes.data + start, size)

    bounds = [out.nbytes * t // threads for t in range(threads + 1)]
    workers = [threading.Thread(target=copy, args=pair) for pair in pairwise(bounds[1:])]
    for worker in workers:
        worker.start()
    copy(*bounds[:2])
    for worker in workers:
        worker.join()


def interleaved(contenders, rounds):
    """Seconds of each contender, (rounds,) each, taken in turns."""
    seconds = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (work, scale) in contenders.items():
            start = time.perf_counter()
            work()
            seconds[name].append((time.perf_counter() - start) * scale)
    return {name: np.array(values) for name, values in seconds.items()}


def ratios(say, title, seconds, baseline):
    """One line: median over the baseline's, and 10 and 90 % points."""
    base = np.median(seconds[baseline])
    cells = []
    for name, values in seconds.items():
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9]) / base
        cells.append(
            f"{name} {middle:.2f} ({low:.2f}-{high:.2f})"
            if name != baseline
            else f"{name} {base * 1e3:.1f} ms ({low:.2f}-{high:.2f})"
        )
    say(f"{title}  " + "; ".join(cells))
    return {name: float(np.median(values) / base) for name, values in seconds.items()}
