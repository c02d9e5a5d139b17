"""The examples in a small setting; each needs packages that only it uses."""

import importlib.util
import logging
from pathlib import Path

import numpy as np
import pytest

import sooner

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name, *packages):
    for package in packages:
        pytest.importorskip(package, reason=f"examples/{name}.py needs {package}")
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.ERROR, logger="sooner")


def test_cartpole_is_balanced_while_a_fifth_never_answers():
    rl = example("rl", "gymnasium")
    _, after, result = rl.train("CartPole", rl.unreliable(), generations=6)
    assert result.nfailed > 0
    assert after >= 475  # mean of 20 episodes


def test_swimmer_learns_to_swim():
    rl = example("rl", "gymnasium", "mujoco")
    before, after, _ = rl.train("Swimmer", rl.unreliable(), generations=3)
    assert before < 5
    assert after > before + 10


def test_the_attack_fools_the_classifier_within_its_queries(tmp_path):
    attack = example("attack", "PIL", "onnxruntime", "rapidocr_onnxruntime")
    image, probabilities = attack.text(), attack.load_classifier()
    assert probabilities(image)[0] > 0.99
    executor = sooner.VirtualExecutor([1.0] * 9 + [float("inf")])
    result = attack.attack(image, 0, executor, queries=1500)
    after = attack.changed(image, result.x)
    assert result.nfev <= 1500
    assert probabilities(after)[0] < probabilities(after)[1]
    assert np.abs(after - image).max() <= attack.BOUND + 1e-12


def test_the_attack_has_a_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need it").use("agg")
    attack = example("attack", "PIL")
    attack.picture(tmp_path / "attack.png", attack.text(), attack.text("never"))
    assert (tmp_path / "attack.png").stat().st_size > 1000
