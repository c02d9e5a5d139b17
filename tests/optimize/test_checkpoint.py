import pickle

import numpy as np
import pytest

import sooner
from sooner.errors import StoreFormatError, StoreNotFoundError
from sooner.optimize import checkpoint

NAN = float("nan")


def step(strategy, values_of):
    candidates = strategy.ask()
    values = values_of(lambda x: np.sum(x**4), candidates)
    values[strategy.generation % len(values), 0] = NAN
    strategy.tell(candidates, values)


VARIANTS = [
    {"code": sooner.PolarCode(8, 6, rng=0), "optimizer": "adam", "rng": 7},
    {"n": 5, "optimizer": "momentum", "bounds": [(None, 1.5)] * 6, "shaping": "ranks"},
    {"n": 9, "directions": "gaussian", "gradient": "average", "maximize": True},
]


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("how", ["pickle", "load", "resume"])
def test_it_goes_on_bit_for_bit_also_in_the_middle_of_a_generation(
    how, options, strategy_of, values_of, tmp_path
):
    through = strategy_of(**options)
    for _ in range(3):
        step(through, values_of)
    candidates = through.ask()
    through.tell(candidates[2], values_of(np.sum, candidates[2]))
    through.save(tmp_path / "es")
    if how == "pickle":
        again = pickle.loads(pickle.dumps(through))
    elif how == "load":
        again = sooner.EvolutionStrategy.load(tmp_path / "es")
    else:
        again = strategy_of(**{**options, "rng": 99})
        again.resume(tmp_path / "es")
    for strategy in (through, again):
        candidates = strategy.ask() if strategy is None else candidates
        strategy.tell(candidates[:2], values_of(np.sum, candidates[:2]))
        for _ in range(3):
            step(strategy, values_of)
    assert through.generation == again.generation == 6
    np.testing.assert_array_equal(through.x, again.x)


def damage(path, how):
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[:-1])
    elif how == "flipped":
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "gone":  # killed between the two renames
        path.unlink()
    else:
        path.write_bytes(content.replace(b'"format": 1', b'"format": 9'))


DAMAGES = ["truncated", "flipped", "empty", "gone", "of another format"]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_one_falls_back_to_the_one_before(how, strategy_of, values_of, tmp_path):
    strategy = strategy_of()
    step(strategy, values_of)
    strategy.save(tmp_path / "es")
    before = strategy.x
    step(strategy, values_of)
    strategy.save(tmp_path / "es")
    damage(tmp_path / "es", how)
    np.testing.assert_array_equal(sooner.EvolutionStrategy.load(tmp_path / "es").x, before)


@pytest.mark.parametrize("how", DAMAGES)
def test_with_none_that_is_whole_it_says_so(how, strategy_of, tmp_path):
    strategy_of().save(tmp_path / "es")
    damage(tmp_path / "es", how)
    with pytest.raises((StoreFormatError, StoreNotFoundError), match="no checkpoint"):
        checkpoint.read(tmp_path / "es")


def test_a_half_written_one_is_not_seen(strategy_of, values_of, tmp_path):
    strategy = strategy_of()
    strategy.save(tmp_path / "es")
    (tmp_path / "es.tmp").write_bytes((tmp_path / "es").read_bytes()[:100])
    assert sooner.EvolutionStrategy.load(tmp_path / "es").generation == 0
    step(strategy, values_of)
    strategy.save(tmp_path / "es")
    assert sooner.EvolutionStrategy.load(tmp_path / "es").n_told == 1


def test_nothing_in_a_file_is_unpickled(tmp_path):
    import io
    import json

    import google_crc32c

    class Trap:
        def __reduce__(self):
            return pytest.fail, ("it was unpickled",)

    archive = io.BytesIO()
    np.savez(archive, x=np.array([Trap()], dtype=object), facts=np.array("{}"))
    content = archive.getvalue()
    head = {"format": 1, "length": len(content), "crc32c": google_crc32c.value(content)}
    (tmp_path / "es").write_bytes(json.dumps(head).encode() + b"\n" + content)
    with pytest.raises(StoreFormatError, match="allow_pickle=False"):
        checkpoint.read(tmp_path / "es")


def test_one_of_another_strategy_is_refused(strategy_of, tmp_path):
    strategy_of().save(tmp_path / "es")
    for other, what in [
        ({"sigma": 0.5}, "sigma"),
        ({"optimizer": "adam"}, "options"),
        ({"d": 7}, "x0"),
        ({"code": sooner.PolarCode(8, 6)}, "code"),
    ]:
        with pytest.raises(ValueError, match=f"it differs in .*{what}"):
            strategy_of(**other).resume(tmp_path / "es")
