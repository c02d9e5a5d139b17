"""Tables of the papers' figures at small sizes, the pictures of them, and the command."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from click.testing import CliRunner

from sooner import Uncoded
from sooner.cli.commands import sooner as command
from sooner.codes import polarized_run_times
from sooner.figures import (
    FIGURES,
    Settings,
    anytime_table,
    codes_of_one_operand,
    codes_of_two_operands,
    concentration_table,
    decodability_table,
    draw,
    draw_anytime,
    draw_decodability,
    draw_polarization,
    names_for,
    papers_polar_code,
    polarization_table,
    read_coding_times,
    run_locally,
    run_virtually,
    unbiasedness_table,
)
from sooner.plots._matplotlib import Figure
from sooner.runtimes import Empirical, ShiftedExponential

RUN_TIMES = ShiftedExponential(1.0, 0.5)
KEPT = """\
   n  scheme             outputs  encode s  decode s prepare ms rel. error
  16  polar, default           8     0.010    0.0037        1.3    2.0e-15
  32  polar, default          16     0.023    0.0089        2.1    1.8e-15
  16  Vandermonde, real        8     0.009    0.0135        0.2    3.8e-13
  32  Vandermonde, real       16     0.035    0.0309        0.1    3.3e+08
error: of the data from the coded blocks
"""


@pytest.fixture
def kept(tmp_path):
    file = tmp_path / "kept.txt"
    file.write_text(KEPT, encoding="utf-8")
    return file


def test_mds_decodes_at_exactly_k_and_the_default_between_it_and_the_papers_code():
    table = decodability_table(codes_of_one_operand(64, 40), RUN_TIMES, trials=60)
    outputs = table.outputs
    assert set(outputs["MDS"].tolist()) == {40}
    default, papers = outputs["polar, sooner's default"], outputs["polar, the papers'"]
    assert (default >= 40).all()
    assert default.mean() < papers.mean() < outputs["LT, peeling"].mean()
    for name, seconds in table.seconds.items():
        assert (seconds >= table.seconds["MDS"]).all(), name


def test_completing_algorithm_3_never_decodes_later():
    table = decodability_table(codes_of_two_operands(8, 6), RUN_TIMES, trials=40)
    alone, completed = (table.outputs[f"2-D polar, Alg. 3 {how}"] for how in ("alone", "completed"))
    assert (completed <= alone).all()
    assert set(table.outputs["polynomial"].tolist()) == {36}
    assert (completed >= 36).all()


def test_run_times_that_tie_count_each_output_once():
    table = decodability_table({"uncoded": Uncoded(4)}, Empirical([2.0]), trials=3)
    assert table.outputs["uncoded"].tolist() == [4, 4, 4]
    assert table.seconds["uncoded"].tolist() == [2, 2, 2]


def test_codes_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="same n and k"):
        decodability_table({"a": Uncoded(4), "b": Uncoded(8)}, RUN_TIMES)


def test_ranking_decodes_the_papers_code_no_later_than_their_decoder():
    codes = {how: papers_polar_code(64, 48, decoder=how) for how in ("sequential", "inactivation")}
    table = decodability_table(codes, RUN_TIMES, trials=40)
    assert (table.outputs["inactivation"] <= table.outputs["sequential"]).all()


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 3), (4, 5)])
def test_polarized_distributions_have_the_mean_of_a_task_and_order_at_the_ends(sizes):
    table = polarization_table(RUN_TIMES, sizes, trials=2000)
    assert table.channels.shape == (2000, np.prod(sizes))
    assert (np.diff(table.channels, axis=0) >= 0).all()
    # A stage only sorts: together the channels know what the tasks know, and when.
    assert table.channels.mean() == pytest.approx(RUN_TIMES.mean, rel=0.02)
    middle = np.median(table.channels, axis=0)
    assert middle[0] == middle.max()
    assert middle[-1] == middle.min()
    assert middle[-1] < np.median(table.tasks) < middle[0]
    assert polarized_run_times(np.arange(np.prod(sizes)), sizes=sizes)[0] == np.prod(sizes) - 1


def test_the_unbiased_error_follows_its_law_and_least_squares_is_below():
    table = anytime_table(64, 48, [24, 32, 48, 64], trials=64)
    measured = table.measured["papers' code, unbiased"]
    np.testing.assert_allclose(measured[:3], table.law[:3], rtol=0.08)
    assert measured[3] < 1e-12
    assert table.law[3] == 0
    for kind in ("papers' code", "default code"):
        least_squares = table.measured[f"{kind}, least squares"]
        assert (least_squares[:3] < table.measured[f"{kind}, unbiased"][:3]).all()
        # The solution of minimum norm: a share m / k of the energy at most is found.
        assert (
            least_squares[:3] >= np.sqrt(np.maximum(1 - table.outputs[:3] / 48, 0)) - 0.05
        ).all()


def test_the_mean_of_unbiased_estimates_approaches_the_answer_and_that_of_others_does_not():
    table = unbiasedness_table(32, 24, 16, draws=512)
    unbiased, other = table.errors["unbiased"], table.errors["least squares"]
    assert 0.7 < unbiased[-1] / table.law[-1] < 1.4
    assert other[0] < unbiased[0]
    assert other[-1] > 3 * unbiased[-1]


def test_errors_concentrate_around_the_law_as_n_grows():
    table = concentration_table([16, 256], trials=200)
    small, large = table.ratios[16], table.ratios[256]
    assert large.std() < small.std() / 2
    assert np.sqrt(np.mean(large**2)) == pytest.approx(1, abs=0.05)


def test_a_virtual_run_of_the_papers_shape_has_its_sizes_and_stops_when_decodable():
    trace = run_virtually((38_400, 3_000_000), 64, 48, RUN_TIMES.scaled(60.0), columns=2)
    assert trace.meta["plan"]["block"] == 800 * 3_000_000 * 8
    assert 60 < trace.decodable <= trace.decoded
    assert 48 <= trace.n_available < 64
    answered = sorted(record.available for record in trace if record.outcome == "ok")
    assert trace.decodable == answered[-1]


def test_a_local_run_is_exact(tmp_path):
    trace = run_locally(
        (64, 8), 16, 12, RUN_TIMES.scaled(0.02), str(tmp_path / "A.coded"), max_workers=4
    )
    assert trace.meta["largest_error"] < 1e-12
    assert 12 <= trace.n_available <= 16


def test_kept_times_are_read_and_other_files_refused(kept, tmp_path):
    times = read_coding_times(kept)
    assert [(each.n, each.scheme) for each in times[:2]] == [
        (16, "polar, default"),
        (32, "polar, default"),
    ]
    assert times[0].decode == pytest.approx(0.0037 + 0.0013)
    (tmp_path / "other.txt").write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="reed_solomon"):
        read_coding_times(tmp_path / "other.txt")


@pytest.mark.parametrize(
    ("drawing", "table"),
    [
        (draw_decodability, decodability_table(codes_of_one_operand(8, 4), RUN_TIMES, trials=9)),
        (draw_polarization, polarization_table(RUN_TIMES, [2], trials=9)),
        (draw_anytime, anytime_table(8, 4, [4], trials=2)),
    ],
)
def test_pictures_are_drawn_where_they_are_told(drawing, table):
    ax = Figure().add_subplot()
    assert drawing(table, ax=ax) is ax
    assert drawing(table) is not ax


def test_without_kept_times_there_is_no_figure_4():
    assert set(FIGURES) - set(names_for(Settings())) == {"figure-4"}
    with pytest.raises(ValueError, match="--coding-times"):
        draw("figure-4", Settings())


def test_the_command_writes_every_picture_with_its_numbers(kept, tmp_path):
    out = tmp_path / "new" / "pictures"
    arguments = ["figures", "--small", "--out", str(out), "--coding-times", str(kept)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    for name in FIGURES:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
        with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            assert list(csv.DictReader(file)), name


def test_the_command_draws_one_figure_from_measured_run_times(tmp_path):
    (tmp_path / "times.csv").write_text("7.0,8.0,9.0\n", encoding="utf-8")
    arguments = ["figures", "figure-5", "--small", "--out", str(tmp_path)]
    result = CliRunner().invoke(command, [*arguments, "--run-times", str(tmp_path / "times.csv")])
    assert result.exit_code == 0, result.output
    with (tmp_path / "figure-5.csv").open(encoding="utf-8", newline="") as file:
        assert all(7 <= float(row["median"]) <= 9 for row in csv.DictReader(file))
    assert not (tmp_path / "figure-6.png").exists()


def test_an_unknown_figure_is_a_usage_error_that_names_the_known_ones(tmp_path):
    result = CliRunner().invoke(command, ["figures", "figure-99", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "figure-8-local" in result.output
