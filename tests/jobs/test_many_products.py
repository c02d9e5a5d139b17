"""A thousand products in a loop leave nothing behind."""

import gc
import os
import threading

import numpy as np
import psutil

import sooner


def held(process):
    """What a leak would make grow."""
    return {
        "descriptors": process.num_fds(),
        "threads": threading.active_count(),
        "processes": len(process.children(recursive=True)),
        "maps": len(process.memory_maps(grouped=False)),
    }


def test_a_thousand_products_leave_nothing_behind(tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    rng = np.random.default_rng(0)
    A = rng.standard_normal((64, 9_000))
    coded = sooner.encode(A, sooner.PolarCode(8, 6), store=tmp_path / "A.coded")
    process = psutil.Process(os.getpid())
    with sooner.LocalExecutor(max_workers=4) as executor:
        before = None
        for number in range(1000):
            x = rng.standard_normal(9_000)  # large enough to be broadcast, not sent along
            with sooner.matvec(coded, x, executor=executor) as job:
                y = job.result(timeout=60)
            if number == 50:
                gc.collect()
                before = held(process)
        np.testing.assert_allclose(y, A @ x, rtol=1e-8, atol=1e-8)
        gc.collect()
        after = held(process)
    assert list(temporary.iterdir()) == []
    for what, count in before.items():
        assert after[what] <= count + 12, f"{what} grew from {count} to {after[what]}"
