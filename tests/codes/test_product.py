"""Product codes: the grid, Alg. 3 and its completion, estimates, A @ B itself."""

import functools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import (
    ARIKAN,
    MDSCode,
    PolarCode,
    ProductCode,
    Replication,
    SideBySide,
    TwoOperandCode,
    Uncoded,
    from_spec,
)
from sooner.errors import NotDecodableError
from sooner.testing.codes import check_code

PAPERS = {"late_parities": 0, "decoder": "sequential"}


@functools.cache
def polar_grid(side, k, **options):
    return ProductCode(PolarCode(side, k, rng=1), PolarCode(side, k, rng=2), **options)


@pytest.mark.parametrize(
    "code",
    [
        ProductCode(Uncoded(1), Uncoded(1)),
        ProductCode(PolarCode(4, 3), PolarCode(4, 2)),
        polar_grid(8, 6),
        polar_grid(8, 6, decoder="peeling"),
        ProductCode(PolarCode(8, 5, **PAPERS), PolarCode(8, 6, kernel=ARIKAN)),
        ProductCode(PolarCode(6, 4, systematic=True), PolarCode(5, 4)),
        ProductCode(MDSCode(6, 4), PolarCode(8, 5)),
        ProductCode(MDSCode(5, 3), Uncoded(3), decoder="peeling"),
        ProductCode(SideBySide([PolarCode(4, 3), PolarCode(4, 2)]), Replication(5, 3)),
    ],
    ids=repr,
)
def test_the_public_check(code):
    check_code(code, orders=2)


def test_the_public_check_at_256_tasks():
    check_code(polar_grid(16, 12), orders=1)


def test_tasks_multiply_one_coded_block_of_each_operand():
    rows, columns = PolarCode(8, 5, rng=1), MDSCode(6, 4, rng=2)
    code = ProductCode(rows, columns)
    assert isinstance(code, TwoOperandCode)
    assert (code.n, code.k, code.operands, code.factors) == (48, 20, 2, (rows, columns))
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((5 * 7, 11)), rng.standard_normal((11, 4 * 3))
    coded_A = rows.encode(A.reshape(5, 7, 11))
    coded_B = columns.encode(np.stack(np.hsplit(B, 4)))
    outputs, available = np.full((48, 7, 3), np.nan), np.zeros(48, dtype=bool)
    decoder = code.decoder()
    for i in rng.permutation(48).tolist():
        row, column = code.task_operands(i)
        assert (row, column) == (i // 6, i % 6)
        outputs[i] = coded_A[row] @ coded_B[column]
        available[i] = True
        if decoder.add(i):
            break
    blocks = code.decode(outputs, available).reshape(5, 4, 7, 3)
    np.testing.assert_allclose(blocks.transpose(0, 2, 1, 3).reshape(35, 12), A @ B, atol=1e-9)


class Transposed(ProductCode):
    """A mistake that the public check must find."""

    def task_operands(self, index):
        return super().task_operands(index)[::-1]


def test_the_public_check_multiplies_what_the_factors_encode():
    with pytest.raises(AssertionError, match="tasks must give what the encoder says"):
        check_code(Transposed(PolarCode(4, 2, rng=1), PolarCode(4, 3, rng=2)))


GRIDS = [
    ProductCode(PolarCode(4, 3, rng=3), PolarCode(4, 2, rng=4)),
    ProductCode(MDSCode(4, 2), MDSCode(5, 3, generator="gaussian")),
    ProductCode(PolarCode(4, 3, **PAPERS), PolarCode(4, 3, **PAPERS)),
    ProductCode(Replication(4, 3), MDSCode(4, 3)),
]


@given(st.sampled_from(GRIDS), st.data())
def test_completed_decodes_exactly_what_is_determined(code, data):
    available = np.array(data.draw(st.lists(st.booleans(), min_size=code.n, max_size=code.n)))
    decoder = code.told(available)
    rows = code.generator[available]
    rank = np.linalg.matrix_rank(rows) if available.any() else 0
    assert decoder.decodable == (rank == code.k)
    assert decoder.n_missing == code.k - rank
    fixed = [np.linalg.matrix_rank(np.vstack([rows, unit])) == rank for unit in np.eye(code.k)]
    np.testing.assert_array_equal(decoder.determined, fixed)
    peeling = ProductCode(*code.factors, decoder="peeling").told(available)
    assert decoder.decodable or not peeling.decodable
    assert not (peeling.determined & ~decoder.determined).any()
    blocks = np.random.default_rng(0).standard_normal((code.k, 2))
    estimate = code.estimate(code.encode(blocks), available, method="least_squares")
    np.testing.assert_allclose(estimate.value[fixed], blocks[fixed], atol=1e-7)
    assert (estimate.relative_error == 0) == decoder.decodable


def stalled(code, rng):
    """A decodable set at which Alg. 3 stalls."""
    peeling = ProductCode(*code.factors, decoder="peeling")
    for _ in range(50):
        decoder, other = code.decoder(), peeling.decoder()
        for index in rng.permutation(code.n).tolist():
            other.add(index)
            if decoder.add(index):
                break
        if not other.decodable:
            return decoder.available, peeling
    raise AssertionError("Alg. 3 never stalls")


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("code", [polar_grid(8, 6), polar_grid(16, 12)], ids=["8x8", "16x16"])
def test_a_stalled_grid_is_completed(code, dtype):
    rng = np.random.default_rng(4)
    available, peeling = stalled(code, rng)
    blocks = rng.standard_normal((code.k, 3, 5)).astype(dtype)
    blocks[1] *= np.array(1j if blocks.dtype.kind == "c" else -1, dtype)
    outputs = code.encode(blocks)
    with pytest.raises(NotDecodableError, match="do not determine"):
        peeling.decode(outputs, available)
    outputs[~available] = np.nan
    plan = code.plan(available)
    assert 1 <= plan.n_unknowns <= 12
    decoded = code.decode(outputs, available)
    assert decoded.dtype == blocks.dtype
    limit = 50 * np.finfo(dtype).eps * np.linalg.cond(code.generator[available])
    assert np.linalg.norm(decoded - blocks) < limit * np.linalg.norm(blocks)


def needed(code, trials, rng):
    """Outputs over k until decodable, in random orders."""
    counts = []
    for _ in range(trials):
        decoder = code.decoder()
        order = rng.permutation(code.n).tolist()
        counts.append(next(m for m, i in enumerate(order, 1) if decoder.add(i)) / code.k)
    return np.array(counts)


def test_the_completed_decoder_needs_little_more_than_k():
    factors = PolarCode(16, 12, rng=1), PolarCode(16, 12, rng=2)
    rng = np.random.default_rng(0)
    completed = needed(ProductCode(*factors), 15, rng).mean()
    peeling = needed(ProductCode(*factors, decoder="peeling"), 8, rng).mean()
    assert 1 <= completed < 1.035 < peeling < 1.2


def test_a_plan_is_a_value_kept_for_its_set():
    code = polar_grid(8, 6)
    available, _ = stalled(code, np.random.default_rng(5))
    assert code.plan(available) is code.plan(available.copy())
    assert set(code.plan(available).reads) <= set(np.flatnonzero(available))
    plan = code.plan(np.ones(64, dtype=bool))
    assert plan.n_unknowns == 0


@pytest.mark.parametrize(
    ("make", "m"),
    [
        (lambda rng: ProductCode(PolarCode(4, 3, rng=rng), PolarCode(8, 3, rng=rng)), 9),
        # Punctured: the tasks are a grid within the transform, not a random subset of it.
        (lambda rng: ProductCode(PolarCode(6, 3, rng=rng), PolarCode(5, 2, rng=rng)), 9),
        (lambda rng: ProductCode(PolarCode(2, 1, rng=rng), PolarCode(6, 4, rng=rng)), 3),
    ],
)
def test_the_unbiased_estimate_has_the_error_of_its_law(make, m):
    rng = np.random.default_rng(1)
    squares, laws = [], []
    for _ in range(300):
        code = make(rng)
        blocks = np.arange(1.0, code.k + 1)[:, None] ** 2  # any blocks
        available = np.isin(np.arange(code.n), rng.permutation(code.n)[:m])
        estimate = code.estimate(code.encode(blocks), available, method="unbiased")
        squares.append(np.sum((estimate.value - blocks) ** 2) / np.sum(blocks**2))
        laws.append(estimate.relative_error**2)
    assert np.sqrt(np.mean(squares)) == pytest.approx(np.sqrt(np.mean(laws)), rel=0.1)


def test_the_law_without_puncturing_is_that_of_one_code_with_all_channels():
    code = polar_grid(16, 12)
    channels = np.prod([1 + factor.relative_error(1) ** 2 for factor in code.factors])
    for m in (1, 40, 200, 256):
        law = np.sqrt((channels - 1) * (256 - m) / (m * 255))
        assert code.relative_error(m) == pytest.approx(law, abs=1e-6)
    scaled = code.relative_error(80, method="scaled")
    assert scaled == pytest.approx(np.sin(np.arctan(code.relative_error(80))))
    assert code.relative_error(0) == 1


@pytest.mark.parametrize(
    "code",
    [
        polar_grid(16, 12),
        polar_grid(12, 9),  # punctured
        ProductCode(PolarCode(16, 12, systematic=True), MDSCode(12, 9)),
    ],
    ids=repr,
)
def test_the_error_bar_of_least_squares_is_honest(code):
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(10):
        blocks = rng.standard_normal((code.k, 40))
        available = np.isin(np.arange(code.n), rng.permutation(code.n)[: code.k // 2])
        estimate = code.estimate(code.encode(blocks), available, method="least_squares")
        error = np.linalg.norm(estimate.value - blocks) / np.linalg.norm(blocks)
        law = code.relative_error(code.k // 2, method="least_squares")
        assert error == pytest.approx(law, rel=0.1)
        ratios.append(estimate.relative_error / error)
    assert np.median(ratios) == pytest.approx(1, abs=0.06)


def test_exponents_of_the_factors_are_those_of_the_product():
    plain = polar_grid(8, 6)
    of_rows, of_columns = np.array([0, 30, 0, -20, 5, 0]), np.array([40, 0, 0, 0, -3, 0])
    exponents = (of_rows[:, None] + of_columns).ravel()
    code = plain.with_scales(exponents)
    blocks = np.ldexp(np.random.default_rng(0).standard_normal((36, 3)), exponents[:, None])
    outputs = code.encode(blocks)
    available, _ = stalled(plain, np.random.default_rng(5))
    np.testing.assert_allclose(code.decode(outputs, available), blocks, rtol=1e-7)
    rebuilt = from_spec(json.loads(json.dumps(code.spec())))
    np.testing.assert_array_equal(rebuilt.encode(blocks), outputs)
    with pytest.raises(ValueError, match="without exponents"):
        code.estimate(outputs, available, method="unbiased")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ProductCode(4, Uncoded(2)), TypeError, r"rows must be a code such as"),
        (
            lambda: ProductCode(Uncoded(2), polar_grid(8, 6)),
            ValueError,
            r"columns must be a code for one operand, got ProductCode",
        ),
        (
            lambda: ProductCode(Uncoded(2), Uncoded(2), decoder="sequential"),
            ValueError,
            r"decoder must be one of 'inactivation', 'peeling'",
        ),
        (
            lambda: ProductCode(Uncoded(2), Uncoded(2)).relative_error(1),
            ValueError,
            r"unbiased estimate of a product needs two polar codes",
        ),
        (lambda: polar_grid(8, 6).with_scales(np.zeros(5)), ValueError, r"have shape \(36,\)"),
        (
            lambda: polar_grid(8, 6).with_scales(np.arange(36) ** 2),
            ValueError,
            r"must be sums of one for each block of A",
        ),
        (lambda: polar_grid(8, 6).decoder().add(64), IndexError, r"0 … 63, got 64"),
        (lambda: polar_grid(8, 6).task_operands(-1), IndexError, r"0 … 63, got -1"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
