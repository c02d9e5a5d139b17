"""The command as a process: streams, signals, exit codes, nothing left behind."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import time

import numpy as np
import psutil
import pytest

# A product whose tasks take an hour; says when they run.
SLOW = """
import sooner.jobs as jobs
matvec = jobs.matvec
def slow(*args, **options):
    job = matvec(*args, **options, delays=[3600.0] * 8)
    print("running", flush=True)
    return job
jobs.matvec = slow
"""


def test_stdin_and_stdout_carry_arrays_and_nothing_else(run, folder):
    result = run(
        *("multiply", "A.coded", "-", "-o", "-", "--executor", "local:2"),
        stdin=(folder / "x.npy").read_bytes(),
    )
    assert result.returncode == 0
    stream = io.BytesIO(result.stdout)
    np.testing.assert_allclose(np.load(stream), np.load(folder / "Ax.npy"), rtol=1e-12)
    assert stream.read() == b""


def test_a_log_has_lines_and_no_carriage_return(run):
    result = run("multiply", "A.coded", "x.npy", "-o", os.devnull, "--executor", "local:2")
    lines = result.stderr.decode().splitlines()
    assert b"\r" not in result.stderr
    assert b"\x1b" not in result.stderr
    assert "exact after" in lines[-1]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_stops_its_workers_and_says_so(start, signum, code):
    with start(
        *("multiply", "A.coded", "x.npy", "-o", "y.npy"),
        before=SLOW,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"running\n"
        children = psutil.Process(process.pid).children(recursive=True)
        began = time.monotonic()
        process.send_signal(signum)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert time.monotonic() - began < 5
    name = "interrupted" if code == 130 else "terminated"
    (line,) = errors.decode().splitlines()
    assert line.startswith(f"{name}; ")
    assert "the same command with --resume goes on" in line
    assert not psutil.wait_procs(children, timeout=2)[1]


# Phases of a run that say when they begin and then take an hour.
ENCODING = """
import time, sooner.codes.polar as polar
def slow(*args, **options):
    print("running", flush=True)
    time.sleep(3600)
polar.PolarCode.encode = slow
"""
DECODING = ENCODING.replace("encode", "decode")


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("phase", ["encode", "decode"])
def test_situation_5_interrupted_in_any_phase(start, run, tmp_path, phase, signum, code):
    store = tmp_path / "A.coded"
    encode = ("encode", "A.npy", store, "--n", 8, "--k", 6)
    multiply = ("multiply", store, "x.npy", "-o", tmp_path / "y.npy", "--resume")
    if phase == "decode":
        assert run(*encode).returncode == 0
    with start(
        *(encode if phase == "encode" else multiply),
        before=ENCODING if phase == "encode" else DECODING,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"running\n"
        children = psutil.Process(process.pid).children(recursive=True)
        began = time.monotonic()
        process.send_signal(signum)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert time.monotonic() - began < 5
    assert not psutil.wait_procs(children, timeout=2)[1]
    (line,) = [line for line in errors.decode().splitlines() if "the same command" in line]
    assert line.startswith("interrupted; " if code == 130 else "terminated; ")
    # And the line tells the truth.
    if phase == "encode":
        assert run(*encode).returncode == 0
    result = run(*multiply, "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["kept"] == (0 if phase == "encode" else 6)
    assert (tmp_path / "y.npy").exists()


def test_on_a_terminal_one_line_says_whether_it_is_enough(start):
    ours, theirs = pty.openpty()
    with start(
        *("multiply", "A.coded", "x.npy", "-o", os.devnull, "--deadline", "0.5"),
        before=SLOW,
        env={"TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        process.communicate(timeout=30)
    written = b""
    try:
        while chunk := os.read(ours, 4096):
            written += chunk
    except OSError:  # how the end of a terminal looks on Linux
        pass
    os.close(ours)
    assert process.returncode == 3
    assert "0 of ~6 needed (6 running)" in written.decode()


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_the_extra_one_sentence_says_what_to_install(run, package):
    result = run("--version", before=f"import sys; sys.modules[{package!r}] = None\n")
    assert (result.returncode, result.stdout) == (1, b"")
    sentence = 'the sooner command needs click and rich: pip install "sooner[cli]"\n'
    assert result.stderr.decode() == sentence


def test_it_starts_without_what_it_does_not_need(run):
    heavy = "{'scipy', 'matplotlib', 'sklearn', 'rich'}"
    check = (
        f"import atexit, sys\natexit.register(lambda: print(sorted({heavy} & set(sys.modules))))\n"
    )
    assert run("info", "--help", before=check).stdout.endswith(b"[]\n")


def test_a_reader_that_goes_away_is_no_error_message(start):
    reader, writer = os.pipe()
    os.close(reader)
    with start("info", "A.coded", stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (1, b"")


def test_a_dropped_signal_is_not_lost_and_not_reported(run):
    # The signal arrives in a weakref's callback, where Python drops what is raised.
    before = """
import os, signal, weakref
class Target: pass
import sooner.jobs as jobs
matvec = jobs.matvec
def slow(*args, **options):
    job = matvec(*args, **options, delays=[3600.0] * 8)
    target = Target()
    reference = weakref.ref(target, lambda _: signal.raise_signal(signal.SIGINT))
    del target
    return job
jobs.matvec = slow
"""
    result = run("multiply", "A.coded", "x.npy", "-o", os.devnull, before=before)
    assert result.returncode == 130
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(b"interrupted; ")
