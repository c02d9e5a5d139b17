"""What each command says, writes and exits with; in this process, on threads."""

from __future__ import annotations

import functools
import io
import json
import logging
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import click
import numpy as np
import pytest

import sooner
from sooner.cli.commands import sooner as command
from sooner.trace import TaskRecord, Trace


def test_version(invoke):
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, sooner.__version__ + "\n")


def leaves(group, path=()):
    for name, child in group.commands.items():
        if isinstance(child, click.Group):
            yield from leaves(child, (*path, name))
        else:
            yield (*path, name), child


LEAVES = {" ".join(path): (path, leaf) for path, leaf in leaves(command)}


@pytest.mark.parametrize(("path", "leaf"), list(LEAVES.values()), ids=list(LEAVES))
def test_every_command_has_help_with_an_example_and_every_option_says_what_it_is(
    path, leaf, invoke
):
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert f"Example: sooner {' '.join(path)}" in result.stdout
    assert all(p.help or p.name == "dtype" for p in leaf.params if isinstance(p, click.Option))


def test_encode_then_info_then_multiply_gives_the_product(invoke, tmp_path):
    result = invoke("encode", "A.npy", tmp_path / "A.coded", "--n", 8, "--k", 6)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "A.npy 50 x 4 float64, 1.6 kB -> " in result.stderr
    assert "8 blocks of 9 x 4 float64, 2.3 kB" in result.stderr

    facts = json.loads(invoke("info", tmp_path / "A.coded", "--json").stdout)
    assert (facts["shape"], facts["n"], facts["k"], facts["dtype"]) == ([50, 4], 8, 6, "float64")
    assert sooner.codes.from_spec(facts["code"]).n == 8

    y, trace = tmp_path / "y.npy", tmp_path / "run.jsonl"
    result = invoke(
        *("multiply", tmp_path / "A.coded", "x.npy", "-o", y),
        *("--executor", "threads:2", "--trace", trace),
    )
    assert (result.exit_code, result.stdout) == (0, "")
    assert "exact after" in result.stderr
    np.testing.assert_allclose(np.load(y), np.load("Ax.npy"), rtol=1e-12)
    assert Trace.from_jsonl(trace).decoded is not None


def test_info_for_people(invoke):
    result = invoke("info", "A.coded")
    assert result.exit_code == 0
    assert "matrix      50 x 4 float64\n" in result.stdout
    assert "code        PolarCode, 8 tasks of which about 6 suffice\n" in result.stdout
    assert "blocks      8 of 9 x 4\n" in result.stdout


def test_a_matrix_of_vectors_is_one_product(invoke, tmp_path):
    np.save(tmp_path / "X.npy", np.eye(4)[:, :3])
    result = invoke(
        *("multiply", "A.coded", tmp_path / "X.npy", "-o", tmp_path / "Y.npy", "--json"),
        *("--executor", "threads:2", "--quiet"),
    )
    facts = json.loads(result.stdout)
    assert (facts["exact"], facts["n"], facts["k"], facts["relative_error"]) == (True, 8, 6, 0.0)
    assert facts["output"] == str(tmp_path / "Y.npy")
    assert not result.stderr
    np.testing.assert_allclose(np.load(tmp_path / "Y.npy"), np.load("A.npy")[:, :3], atol=1e-12)


@pytest.fixture
def slow(monkeypatch):
    """Three of the eight tasks never end, so at most five outputs come: not enough."""
    slow = functools.partial(sooner.jobs.matvec, delays=[0.0] * 5 + [3600.0] * 3)
    monkeypatch.setattr(sooner.jobs, "matvec", slow)


@pytest.mark.usefixtures("slow")
def test_at_the_deadline_the_estimate_is_written_and_the_code_is_3(invoke, tmp_path):
    y, trace = tmp_path / "y.npy", tmp_path / "run.jsonl"
    result = invoke(
        *("multiply", "A.coded", "x.npy", "-o", y, "--executor", "local:8"),
        *("--deadline", 3, "--trace", trace),
    )
    assert (result.exit_code, result.stdout) == (3, "")
    assert "5 of 8 outputs by 3." in result.stderr
    assert "estimate written, relative error " in result.stderr
    assert "3 tasks stopped" in result.stderr
    assert np.load(y).shape == (50,)
    outcomes = [record.outcome for record in Trace.from_jsonl(trace)]
    assert (outcomes.count("ok"), outcomes.count("abandoned")) == (5, 3)


def test_a_run_that_stopped_goes_on_with_resume_and_begins_afresh_without(invoke, tmp_path, folder):
    y, store = tmp_path / "y.npy", tmp_path / "A.coded"
    shutil.copytree(folder / "A.coded", store)
    command = ("multiply", store, "x.npy", "-o", y, "--executor", "threads:8", "--json")
    stopped = json.loads(invoke(*command, "--rtol", 1).stdout)
    assert 0 < stopped["n_available"] < 6
    kept = len(list((store / "outputs").iterdir()))
    assert kept == stopped["n_available"]
    resumed = json.loads(invoke(*command, "--resume").stdout)
    assert (resumed["exact"], resumed["kept"]) == (True, kept)
    np.testing.assert_allclose(np.load(y), np.load(folder / "Ax.npy"), rtol=1e-12)
    assert not list((store / "outputs").iterdir())
    invoke(*command, "--rtol", 1)
    assert json.loads(invoke(*command).stdout)["kept"] == 0
    invoke(*command, "--rtol", 1, "--no-keep")
    assert not list((store / "outputs").iterdir())


def test_a_pipe_is_written_to_and_not_replaced(invoke, tmp_path, folder):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        result = invoke("multiply", folder / "A.coded", "x.npy", "-o", pipe)
        assert result.exit_code == 0
        y = np.load(io.BytesIO(read.result(timeout=60)))
    assert pipe.is_fifo()
    np.testing.assert_allclose(y, np.load(folder / "Ax.npy"), rtol=1e-12)


@pytest.mark.parametrize("option", ["-o", "--trace"])
def test_a_folder_that_is_not_there_is_found_missing_before_a_task_is_sent(
    invoke, tmp_path, folder, option
):
    places = {"-o": tmp_path / "y.npy"} | {option: tmp_path / "nowhere" / "file"}
    given = [word for pair in places.items() for word in pair]
    result = invoke("multiply", folder / "A.coded", "x.npy", *given)
    assert result.exit_code == 2
    assert f"{option} must be in a folder that exists" in result.stderr
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.usefixtures("slow")
def test_an_estimate_from_nothing_is_one_too(invoke, tmp_path):
    y = tmp_path / "y.npy"
    result = invoke(
        *("multiply", "A.coded", "x.npy", "-o", y, "--executor", "local:1"),
        *("--deadline", 0, "--json"),
    )
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["exact"], facts["n_available"]) == (3, False, 0)
    assert np.isfinite(np.load(y)).all()


def test_too_many_lost_blocks_end_with_code_4_and_the_trace(invoke, tmp_path, folder):
    shutil.copytree(folder / "A.coded", tmp_path / "A.coded")
    for path in sorted((tmp_path / "A.coded").rglob("*.npy"))[:4]:
        path.unlink()
    result = invoke(
        *("multiply", tmp_path / "A.coded", "x.npy", "-o", tmp_path / "y.npy"),
        *("--executor", "threads:2", "--quiet", "--trace", tmp_path / "run.jsonl"),
    )
    assert result.exit_code == 4
    assert " of 8 outputs are available" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "y.npy").exists()
    assert len(Trace.from_jsonl(tmp_path / "run.jsonl").failures) >= 3  # 8 - 3 < k: hopeless


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nowhere"], "nowhere"),
        (["multiply", "A.coded", "Ax.npy", "-o", "y.npy"], "x must have shape (4,)"),
        (["multiply", "A.coded", "missing.npy", "-o", "y.npy"], "missing.npy"),
        (["multiply", "A.coded", "A.coded/manifest.json", "-o", "y.npy"], "must be a .npy file"),
        (["multiply", "A.coded", "x.npy", "-o", "y.npy", "--executor", "mars"], "got 'mars'"),
        (["encode", "A.npy", "A.coded", "--n", "8", "--k", "6"], "A.coded"),
        (["encode", "A.npy", "new", "--n", "8", "--k", "9"], "k must"),
        (["plot", "timeline", "A.coded/manifest.json", "-o", "t.png"], "must be a trace"),
    ],
)
def test_other_errors_are_one_line_and_code_1(arguments, message, invoke):
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")


def test_an_unexpected_error_says_its_type_and_shows_the_traceback_when_asked(invoke, monkeypatch):
    def fail(store):
        raise KeyError(store)

    monkeypatch.setattr(sooner.store, "open_coded", fail)
    assert invoke("info", "A.coded").stderr == "Error: KeyError: 'A.coded'\n"
    assert isinstance(invoke("--traceback", "info", "A.coded").exception, KeyError)


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["encode", "A.npy", "new", "--n", "8"],
        ["encode", "A.npy", "new", "--n", "0", "--k", "1"],
        ["multiply", "A.coded", "x.npy"],
        ["multiply", "A.coded", "x.npy", "-o", "-", "--json"],
        ["multiply", "A.coded", "x.npy", "-o", "y.npy", "--deadline", "-1"],
    ],
)
def test_wrong_usage_has_code_2(arguments, invoke):
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: sooner" in result.stderr


@pytest.mark.parametrize("content", [b"", b"not an array", b"PK\x03\x04"])
def test_what_is_no_array_is_refused_from_stdin(content, invoke):
    result = invoke("multiply", "A.coded", "-", "-o", "-", input=content)
    assert result.exit_code == 1
    assert "stdin must be a .npy file of numbers" in result.stderr


def test_arrays_of_python_objects_are_never_loaded(invoke, tmp_path):
    np.save(tmp_path / "x.npy", np.array([print, None]), allow_pickle=True)
    result = invoke("multiply", "A.coded", tmp_path / "x.npy", "-o", "-")
    assert result.exit_code == 1
    assert "must be a .npy file of numbers" in result.stderr


def test_encode_passes_its_options_on(invoke, tmp_path):
    A = np.ones((4, 2))
    A[1, 1] = np.nan
    np.save(tmp_path / "A.npy", A)
    arguments = ["encode", tmp_path / "A.npy", tmp_path / "store", "--n", 4, "--k", 2]
    refused = invoke(*arguments)
    assert (refused.exit_code, "row 1" in refused.stderr) == (1, True)
    assert invoke(*arguments, "--nonfinite", "allow", "--dtype", "float32").exit_code == 0
    first = sooner.open_coded(tmp_path / "store")
    assert first.dtype == np.float32
    assert invoke(*arguments, "--nonfinite", "allow", "--overwrite", "--rng", 7).exit_code == 0
    assert sooner.open_coded(tmp_path / "store").code != first.code


def test_plot_timeline_writes_the_picture(invoke, tmp_path):
    record = TaskRecord(0, started=0.0, finished=1.0, available=1.0, outcome="ok")
    Trace(1, 1, [record], decodable=1.0, decoded=1.0).to_jsonl(tmp_path / "run.jsonl")
    picture = tmp_path / "timeline.svg"
    result = invoke("plot", "timeline", tmp_path / "run.jsonl", "-o", picture, "--title", "One")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "<svg" in picture.read_text()


def test_warnings_are_remarks_and_the_logger_is_left_as_it_was(invoke, monkeypatch):
    logger = logging.getLogger("sooner")
    before = logger.handlers[:], logger.level

    def warn(store):
        logging.getLogger("sooner.store").warning("block 3 is damaged")
        logging.getLogger("sooner.store").info("chatter")
        raise OSError("gone")

    monkeypatch.setattr(sooner.store, "open_coded", warn)
    assert invoke("info", "A.coded").stderr == "block 3 is damaged\nError: gone\n"
    assert (logger.handlers, logger.level) == before
