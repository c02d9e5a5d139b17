"""The public surface, and what importing and running the package does not do."""

import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import sooner
import sooner.errors

OPTIONAL = {
    "click", "rich", "matplotlib", "sklearn", "PIL", "hypothesis", "scipy", "pytest", "pebble",
    "asyncio", "distributed", "ray", "lithops", "obstore", "zarr", "h5py", "gymnasium",
}  # fmt: skip


def run(script, **options):
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=60, check=True, **options,
    )  # fmt: skip


def test_all_is_sorted_complete_and_importable():
    names = [name for name in sooner.__all__ if not name.startswith("__")]
    assert sooner.__all__ == sorted(
        sooner.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n)
    )
    assert set(dir(sooner)) == set(sooner.__all__)
    assert len(names) < 50
    for name in names:
        assert getattr(sooner, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sooner.nothing


def test_every_error_is_public_in_the_tree_and_a_builtin():
    tree = sooner.errors.__doc__
    for name in sooner.errors.__all__:
        error = getattr(sooner.errors, name)
        assert issubclass(error, sooner.SoonerError)
        assert name in tree
        builtin = [base for base in error.__mro__ if base.__module__ == "builtins"]
        assert builtin[0] is not Exception or name == "SoonerError"


def test_every_public_name_has_an_example():
    without = [
        name
        for name in sooner.__all__
        if inspect.isclass(getattr(sooner, name)) or inspect.isfunction(getattr(sooner, name))
        if not issubclass(
            getattr(sooner, name) if inspect.isclass(getattr(sooner, name)) else int, Exception
        )
        if ">>>" not in (inspect.getdoc(getattr(sooner, name)) or "")
    ]
    assert without == []


def test_import_is_light_and_has_no_side_effects():
    script = (
        "import os, sys, threading; before = dict(os.environ); t = set(sys.modules)\n"
        "import sooner; sooner.PolarCode; sooner.LocalExecutor; sooner.matvec; sooner.open_coded\n"
        "assert dict(os.environ) == before; assert threading.active_count() == 1\n"
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - t}))"
    )
    imported = set(run(script).stdout.split())
    assert not imported & OPTIONAL, imported & OPTIONAL


def test_a_run_writes_no_file_but_the_store_and_ends_at_once(tmp_path):
    script = (
        "import numpy as np, sooner, time\n"
        "A = np.ones((300, 2000))\n"
        "coded = sooner.encode(A, sooner.PolarCode(8, 6), store='A.coded')\n"
        "executor = sooner.LocalExecutor(max_workers=8)\n"
        "job = sooner.matvec(coded, A[0], executor=executor, delays=[0] * 6 + [1e6] * 2)\n"
        "assert abs(job.result() - 2000).max() < 1e-6\n"
        "again = sooner.matvec(coded, A[0], executor=executor, delays=[1e6] * 8)\n"
        "print(time.time(), flush=True)\n"  # and neither closed nor left
    )
    temporary = tmp_path / "tmp"
    work = tmp_path / "work"
    temporary.mkdir()
    work.mkdir()
    before = set(psutil.pids())
    done = run(script, cwd=work, env={**os.environ, "TMPDIR": str(temporary)})
    assert time.time() - float(done.stdout) < 2
    assert [path.name for path in work.iterdir()] == ["A.coded"]
    assert list(temporary.iterdir()) == []
    ours = [
        p.info for p in psutil.process_iter(["pid", "cmdline"])
        if p.pid not in before and "sooner" in " ".join(p.info["cmdline"] or [])
        and str(work) in " ".join(p.info["cmdline"] or [])
    ]  # fmt: skip
    assert ours == []
    coded = sooner.open_coded(work / "A.coded")
    np.testing.assert_allclose(coded.code.decode(
        np.stack([coded.block(i) for i in range(8)]), np.ones(8, bool)
    ), np.ones((6, 50, 2000)), atol=1e-9)  # fmt: skip


def test_no_module_is_longer_than_it_should_be_or_called_utils():
    source = Path(sooner.__file__).parent
    for path in source.rglob("*.py"):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 420, f"{path.relative_to(source)} has {lines} lines"
        assert path.stem not in {"utils", "helpers", "common", "misc"}
