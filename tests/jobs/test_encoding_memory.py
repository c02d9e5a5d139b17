"""A matrix larger than the memory is encoded and multiplied within it."""

import subprocess
import sys
import textwrap

import numpy as np
import psutil
import pytest

import sooner
from sooner.jobs.encoding import encode
from sooner.store import slabs


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA and /proc are Linux's")
def test_a_matrix_above_the_limit_of_memory_goes_through_512_tasks(tmp_path):
    """A quarter of a gigabyte of a sparse file, in a process and workers that may take less."""
    script = """
        import pathlib, re, resource, sys
        import numpy as np
        import sooner

        rows, columns = 8_192, 4_096
        path = pathlib.Path(sys.argv[1], "A.bin")
        with path.open("wb") as file:
            file.truncate(rows * columns * 8)  # takes no place
        A = np.memmap(path, np.float64, "r+", shape=(rows, columns))
        A[::500, 7] = np.arange(1, 18)
        A.flush()
        code = sooner.PolarCode(512, 384, rng=0)
        sooner.encode(A[:2, :2], code)  # what is loaded once is not counted

        status = pathlib.Path("/proc/self/status").read_text()
        used = int(re.search(r"VmData:\\s+(\\d+) kB", status)[1]) << 10
        limit = used + (96 << 20)  # threads take 8 each
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            np.ones(rows * columns)
        except MemoryError:
            print("limited")
        coded = sooner.encode(A, code, sys.argv[1] + "/coded", max_memory=24 << 20)
        x = np.arange(columns) % 13.0
        with sooner.matvec(coded, x, executor="local:2") as job:
            y = job.result(timeout=90)
        expected = np.zeros(rows)
        expected[::500] = np.arange(1, 18) * x[7]
        assert np.allclose(y, expected)
        print(limit >> 20, coded.nbytes >> 20, job.trace.n)
    """
    limited, figures = run(script, tmp_path).splitlines()
    assert limited == "limited"
    _, stored, n = map(int, figures.split())
    assert (stored, n) == (352, 512)


def test_pages_of_a_large_block_are_given_back(tmp_path, monkeypatch):
    columns = 1 << 12
    A = np.ones((1 << 11, columns))  # 64 MiB in one block, slabs of 4 MiB
    coded = encode(A, sooner.Uncoded(1), tmp_path)
    process = psutil.Process()

    def growth():
        before = process.memory_info().shared
        largest = total = 0
        for _, rows in slabs.iter_slabs(coded.block_source(0)):
            total += rows.sum()
            largest = max(largest, process.memory_info().shared - before)
        assert total == A.size
        return largest

    assert growth() > 48 << 20
    monkeypatch.setattr(slabs, "_RESIDENT_BYTES", 1 << 20)
    assert growth() < 16 << 20


def test_a_slab_is_what_a_task_needs_at_a_time():
    coded = encode(np.ones((3_000, 1_000)), sooner.Uncoded(2))
    assert coded.slab_rows * 1_000 * 8 <= 1 << 22
    assert (coded.slab_rows + 1) * 1_000 * 8 > 1 << 22
