"""A small coded matrix in a folder, and two ways to run the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import sooner
from sooner.cli.commands import sooner as command

MAIN = "from sooner.cli import main; main()"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A.npy, x.npy and A.coded with 8 blocks of which 6 suffice; only read."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((50, 4)), rng.standard_normal(4)
    np.save(folder / "A.npy", A)
    np.save(folder / "x.npy", x)
    np.save(folder / "Ax.npy", A @ x)
    sooner.encode(A, sooner.PolarCode(8, 6, rng=0), folder / "A.coded")
    return folder


@pytest.fixture
def invoke(folder, monkeypatch):
    """Run the command in this process; relative paths are those of the folder."""
    monkeypatch.chdir(folder)

    def invoke(*arguments, **options):
        return CliRunner().invoke(command, [str(argument) for argument in arguments], **options)

    return invoke


@pytest.fixture
def start(folder):
    """Start the command as a process of its own, after the Python code in `before`."""

    def start(*arguments, before="", env=None, **options):
        # Workers that start in the folder must find the package as this process does.
        paths = {"PYTHONPATH": str(Path(sooner.__file__).parent.parent)}
        return subprocess.Popen(
            [sys.executable, "-c", before + MAIN, *map(str, arguments)],
            cwd=folder,
            env=os.environ | paths | (env or {}),
            **options,
        )

    return start


@pytest.fixture
def run(start):
    """Run it to its end; gives what it wrote and its exit code."""

    def run(*arguments, before="", stdin=b""):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with start(*arguments, before=before, **pipes) as process:
            stdout, stderr = process.communicate(stdin, timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    return run
