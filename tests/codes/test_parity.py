"""Spare outputs find a wrong one, and accuse no other."""

import numpy as np
import pytest

from sooner.codes import PolarCode, Replication
from sooner.codes.parity import judge


def first_decodable(code, extra, rng):
    decoder = code.decoder()
    order = rng.permutation(code.n).tolist()
    count = next(m for m, i in enumerate(order, 1) if decoder.add(i))
    return np.array(order[: count + extra])


@pytest.mark.parametrize("relative_size", [1e-3, 1e-6])
@pytest.mark.parametrize(
    ("extra", "detected", "located"), [(1, 0.9, 0), (2, 0.95, 0.8), (4, 1, 0.95)]
)
def test_rates_of_detection_and_location(extra, detected, located, relative_size):
    rng = np.random.default_rng(0)
    code = PolarCode(128, 96)
    seen = found = 0
    draws = 40
    for _ in range(draws):
        received = first_decodable(code, extra, rng)
        outputs = code.encode(rng.standard_normal((96, 8)))[received]
        wrong = int(rng.integers(received.size))
        outputs[wrong] *= 1 + relative_size
        verdict = judge(code.generator[received], outputs)
        seen += not verdict.clean
        found += verdict.suspect == wrong
        assert verdict.suspect in {None, wrong}, "an innocent output is accused"
    assert seen / draws >= detected
    assert found / draws >= located


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_clean_outputs_are_never_accused(dtype):
    rng = np.random.default_rng(1)
    code = PolarCode(64, 48)
    coded = code.encode(rng.standard_normal((48, 5, 300)).astype(dtype))
    worst = 0.0
    for _ in range(400):
        outputs = coded @ rng.standard_normal(300).astype(dtype)
        received = first_decodable(code, int(rng.integers(0, 6)), rng)
        verdict = judge(code.generator[received], outputs[received])
        assert verdict.clean
        assert verdict.suspect is None
        worst = max(worst, verdict.residual)
    assert worst < 0.3  # there is room to the limit


@pytest.mark.parametrize(
    ("dtype", "size"), [("f4", 1e-30), ("f4", 1e30), ("c8", 1e-25), ("f8", 1e-200), ("f8", 1e200)]
)
def test_squares_that_are_zero_or_infinite_hide_nothing_and_accuse_nobody(dtype, size):
    rng = np.random.default_rng(2)
    code = PolarCode(16, 8)
    outputs = code.encode((rng.standard_normal((8, 5)) * size).astype(dtype))
    assert judge(code.generator, outputs).clean
    outputs[3] *= outputs.dtype.type(1.01)
    assert judge(code.generator, outputs).suspect == 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_infinities_of_one_output_are_its_fault_and_those_of_all_nobodys(value):
    code = PolarCode(16, 8)
    outputs = code.encode(np.random.default_rng(3).standard_normal((8, 5)))
    outputs[:, 2] = value  # as for an infinite column of the operand
    assert judge(code.generator, outputs).clean
    outputs[3, 1] = value
    assert judge(code.generator, outputs).suspect == 3
    one_to_spare = np.arange(16) % 16 < 9
    verdict = judge(code.generator[one_to_spare], outputs[one_to_spare])
    assert (verdict.clean, verdict.suspect) == (False, 3)
    outputs[4, 0] = value
    assert judge(code.generator, outputs).suspect is None


def test_cancellation_is_no_fault():
    # Columns whose products cancel have the rounding of the large ones.
    rng = np.random.default_rng(0)
    code = PolarCode(32, 20)
    blocks = rng.standard_normal((20, 4, 200)) * 1e6
    blocks[:, 0, 100:] = -blocks[:, 0, :100]  # this row times a constant is nearly zero
    outputs = code.encode(blocks) @ np.ones(200)
    assert judge(code.generator, outputs).clean


def test_with_nothing_to_spare_nothing_is_checked():
    code = PolarCode(16, 12)
    outputs = np.ones((12, 3))
    verdict = judge(code.generator[:12], outputs)
    assert (verdict.n_spare, verdict.clean, verdict.suspect) == (0, True, None)


def test_copies_check_each_other_and_three_tell_which():
    code = Replication(9, 3)
    generator = code.encode(np.eye(3))
    outputs = code.encode(np.arange(12.0).reshape(3, 4) + 1)
    outputs[4, 2] += 1e-3
    assert judge(generator, outputs).suspect == 4
    assert judge(generator[:6], outputs[:6]).suspect is None  # two copies: either may be wrong
    assert not judge(generator[:6], outputs[:6]).clean
