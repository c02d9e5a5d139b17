"""The examples, in their small settings."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(monkeypatch):
    """Runs an example's main function, without a window."""
    import matplotlib as mpl

    monkeypatch.setattr(mpl, "rcParams", mpl.rcParams.copy())
    mpl.use("agg")

    def run(name, *arguments):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # of the packages that it shows
            spec.loader.exec_module(module)
            return module.main([*map(str, arguments)])

    yield run
    import matplotlib.pyplot as plt

    plt.close("all")


def test_least_squares(example, tmp_path, capsys):
    table = tmp_path / "times.csv"
    seconds = np.r_[np.linspace(1, 1.2, 60), 5.0, 9.0, 20.0, 40.0]
    table.write_text("worker,func_end_s\n" + "".join(f"{i},{t}\n" for i, t in enumerate(seconds)))
    results = example("least_squares", "--run-times", table, "--out", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(results)
    costs = [cost for _, _, cost, _ in results.values()]
    np.testing.assert_allclose(costs, costs[0], rtol=1e-9)  # whatever the scheme, the same steps
    assert all(accuracy > 0.7 for *_, accuracy in results.values())
    times = {name: seconds for name, (seconds, *_) in results.items()}
    assert times["polar, rate 0.75"] < times["every block twice"] < times["uncoded"]


def test_pca(example, tmp_path):
    found = example("pca", "--small", "--workers", "threads:2", "--out", tmp_path / "picture.png")
    assert set(found) == {"svds", "eigsh", "NumPy"}
    for values, components in found.values():
        assert values < 1e-8
        assert components < 1e-8
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["least_squares", "pca"])
def test_an_example_fits_two_screens(name):
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 100
