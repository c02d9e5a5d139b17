"""What decoders and plans promise, against exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import ARIKAN, HADAMARD, PolarCode, modular, transform
from sooner.codes.decoder import ErasureState
from sooner.codes.program import ZERO, ProgramBuilder
from sooner.errors import NotDecodableError


def generator_matrix(code):
    """What each output is of the data blocks, exactly (the entries are dyadic)."""
    return code.encode(np.eye(code.k))


def draw_code(data, decoder="inactivation", largest=40):
    n = data.draw(st.integers(1, largest))
    return PolarCode(
        n,
        data.draw(st.integers(1, n)),
        kernel=data.draw(st.sampled_from([HADAMARD, ARIKAN])),
        decoder=decoder,
        rng=data.draw(st.integers(0, 1000)),
    )


def draw_available(data, n):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    return rng.random(n) < data.draw(st.floats(0.3, 1.0))


def told(code, available):
    decoder = code.decoder()
    for index in np.flatnonzero(available):
        decoder.add(index)
    return decoder


def exact_rank(matrix):
    rows = [[Fraction(float(value)) for value in row] for row in matrix]
    rank = 0
    for column in range(len(matrix[0]) if len(matrix) else 0):
        pivot = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for r in range(rank + 1, len(rows)):
            factor = rows[r][column] / rows[rank][column]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[rank], strict=True)]
        rank += 1
    return rank


@given(st.data())
def test_inactivation_decodes_exactly_what_linear_algebra_determines(data):
    code = draw_code(data, largest=24)
    available = draw_available(data, code.n)
    decoder = told(code, available)
    received = generator_matrix(code)[available]
    rank = exact_rank(received)
    assert decoder.decodable == (rank == code.k)
    for block, determined in enumerate(decoder.determined):
        unit = np.eye(code.k)[[block]]
        assert determined == (exact_rank(np.vstack([received, unit])) == rank)


@given(st.data())
def test_sequential_decoding_is_exact_on_symbols(data):
    """The plan run on exact fractions, told the generator's rows, gives the identity."""
    code = draw_code(data, decoder="sequential", largest=32)
    available = draw_available(data, code.n)
    decoder = told(code, available)
    if not decoder.decodable:
        decoder = told(code, np.ones(code.n, bool))
    plan = decoder.plan()
    assert plan.n_unknowns == 0
    symbols = np.vectorize(Fraction, otypes=[object])(generator_matrix(code))
    slots = np.full((plan.data.n_slots, code.k), Fraction(10**9), dtype=object)
    slots[plan.reads] = symbols[plan.reads]
    # coefs are floats: powers of two, so fractions of them are exact
    transform.run_tile(exact(plan.data), slots)
    first = plan.data.n_inputs
    np.testing.assert_array_equal(slots[first : first + code.k], np.eye(code.k, dtype=int))


def exact(program):
    import dataclasses

    runs = tuple(
        dataclasses.replace(run, coefs=np.vectorize(Fraction, otypes=[object])(run.coefs))
        for run in program.runs
    )
    return dataclasses.replace(program, runs=runs)


@given(st.data())
def test_integers_come_back_exactly_from_the_sequential_decoder(data):
    code = draw_code(data, decoder="sequential")
    available = draw_available(data, code.n)
    if not told(code, available).decodable:
        available[:] = True
    rng = np.random.default_rng(0)
    blocks = rng.integers(-(2**40), 2**40, size=(code.k, 3)).astype(float)
    np.testing.assert_array_equal(code.decode(code.encode(blocks), available), blocks)


@given(st.data())
def test_order_of_arrival_never_matters_and_larger_sets_stay_decodable(data):
    code = draw_code(data, decoder=data.draw(st.sampled_from(["inactivation", "sequential"])))
    available = draw_available(data, code.n)
    order = np.flatnonzero(available)
    shuffled = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(order)
    first, second = code.decoder(), code.decoder()
    for i, j in zip(order, shuffled, strict=True):
        was = first.decodable
        first.add(i)
        assert first.decodable or not was
        second.add(j)
    assert first.decodable == second.decodable
    assert first.n_missing == second.n_missing
    np.testing.assert_array_equal(first.determined, second.determined)
    if first.decodable:
        for one, other in zip(first.plan().data.runs, second.plan().data.runs, strict=True):
            np.testing.assert_array_equal(one.ins, other.ins)
            np.testing.assert_array_equal(one.outs, other.outs)
            np.testing.assert_array_equal(one.coefs, other.coefs)


@given(st.integers(0, 7), st.randoms(use_true_random=False))
def test_one_arrival_settles_one_channel_as_the_full_transform_says(levels, random):
    size = 2**levels
    order = list(range(size))
    random.shuffle(order)
    state, known = ErasureState(size), np.zeros(size, bool)
    for count, position in enumerate(order, 1):
        channel = state.add(position)
        known[position] = True
        settled, half = known.copy(), size // 2
        while half:
            pairs = settled.reshape(-1, 2, half)
            a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
            pairs[:, 0], pairs[:, 1] = a & b, a | b
            half //= 2
        np.testing.assert_array_equal(np.frombuffer(state.settled, np.uint8) == 1, settled)
        assert settled[channel]
        assert settled.sum() == count


def test_the_plan_says_what_it_reads_and_costs():
    code = PolarCode(64, 48, late_parities=0, decoder="sequential")
    plan = told(code, np.arange(64) != 5).plan()
    assert 5 not in plan.reads
    assert plan.reads.size <= 63
    assert plan.n_unknowns == 0
    assert plan.condition == 1
    assert plan.cost < 64 * 6 * 2
    assert plan.n_operations > 0
    tight = PolarCode(64, 48)
    order = np.random.default_rng(3).permutation(64)
    decoder = tight.decoder()
    count = next(m for m, i in enumerate(order, 1) if decoder.add(i))
    plan = decoder.plan()
    assert 0 < plan.n_unknowns <= 20
    assert plan.n_unknowns == decoder.n_unknowns
    assert plan.reads.size <= count
    assert plan.condition > 1


def test_refinement_follows_the_condition():
    import dataclasses

    plan = told(PolarCode(16, 12), np.arange(16) >= 4).plan()
    steps = [
        dataclasses.replace(plan, condition=condition).n_refinements(np.dtype(dtype))
        for condition, dtype in [(5, "f8"), (1e4, "f8"), (1e3, "f4"), (1e6, "f4")]
    ]
    assert steps == [0, 1, 1, 2]


def test_asking_too_early_says_how_many_more():
    code = PolarCode(64, 48)
    available = np.arange(64) < 40
    with pytest.raises(
        NotDecodableError, match=r"40 of 64 outputs are available .* least 8 more"
    ) as e:
        code.decode(np.ones((64, 2)), available)
    assert e.value.n_needed == 8
    assert e.value.missing == tuple(range(40, 64))
    with pytest.raises(NotDecodableError):
        told(code, available).plan()


def test_plans_are_kept_by_set():
    code = PolarCode(32, 20)
    available = np.arange(32) > 5
    assert code.plan(available) is code.plan(available.copy())


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5), st.integers(-30, 30))
def test_residues_are_those_of_exact_fractions(numbers, shift):
    values = np.array([float(Fraction(number) * Fraction(2) ** shift) for number in numbers])
    expected = [number * pow(2, shift, modular.PRIME) % modular.PRIME for number in numbers]
    assert modular.residues(values).tolist() == expected


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_rank_modulo_the_prime_is_the_rank(rows, columns, seed):
    rng = np.random.default_rng(seed)
    inner = int(rng.integers(0, 4))
    matrix = rng.integers(-3, 4, (rows, inner)) @ rng.integers(-3, 4, (inner, columns))
    assert modular.rank(matrix % modular.PRIME) == exact_rank(matrix.astype(float))


def test_a_builder_drops_what_nobody_needs():
    builder = ProgramBuilder(n_inputs=4)
    total, _ = builder.butterfly([(0, 1.0), (1, -1.0)])
    builder.barrier()
    builder.butterfly([(2, 1.0), (3, 1.0)])  # nobody asks for this one
    program = builder.build([total, (1, 2.0), ZERO])
    assert program.reads.tolist() == [0, 1]
    out = np.empty((3, 2))
    transform.run(program, np.array([[1.0, 2], [3, 4], [np.nan] * 2, [np.nan] * 2]), out=out)
    np.testing.assert_array_equal(out, [[-2, -2], [6, 8], [0, 0]])


@pytest.mark.parametrize("columns", [0, 1, 5, 3000])
def test_tiles_do_not_show(columns, monkeypatch):
    monkeypatch.setattr(transform, "_SCRATCH_BYTES", 1 << 14)
    code = PolarCode(16, 12)
    blocks = np.random.default_rng(0).standard_normal((12, columns))
    outputs = code.encode(blocks)
    expected = generator_matrix(code) @ blocks
    np.testing.assert_allclose(outputs, expected, atol=1e-12)
    np.testing.assert_allclose(code.decode(outputs, np.arange(16) > 3), blocks, atol=1e-8)


def test_a_long_computation_can_be_stopped_between_tiles(monkeypatch):
    monkeypatch.setattr(transform, "_SCRATCH_BYTES", 1 << 14)
    code = PolarCode(16, 12)
    asked = iter([False, False, True])
    with pytest.raises(InterruptedError, match="stopped between two tiles"):
        code.encode(np.ones((12, 3000)), stop=lambda: next(asked))


def test_blocks_that_are_no_plain_rows():
    code = PolarCode(16, 12)
    blocks = np.random.default_rng(0).standard_normal((12, 6, 4))
    strided = np.asfortranarray(blocks)[:, ::-2, 1:]
    out = np.full((6, 16, 3, 3), np.nan).transpose(1, 0, 2, 3)[:, :3, :, 0]
    result = code.encode(strided, out=out)
    assert result is out
    np.testing.assert_array_equal(out, code.encode(np.ascontiguousarray(strided)))
    out = np.full((3, 3, 12), np.nan).T
    code.decode(result, np.arange(16) > 2, out=out)
    np.testing.assert_allclose(out, strided, atol=1e-9)


@given(st.data())
def test_the_syndrome_form_decodes_the_same(data):
    code = draw_code(data)
    available = draw_available(data, code.n)
    decoder = told(code, available)
    if not decoder.decodable:
        decoder = told(code, np.ones(code.n, bool))
    blocks = np.random.default_rng(0).standard_normal((code.k, 4))
    plan = decoder.syndrome_plan()
    assert decoder.available[plan.reads].all()
    outputs = np.where(decoder.available[:, None], code.encode(blocks), np.nan)
    result = plan.run(outputs, out=np.empty_like(blocks))
    np.testing.assert_allclose(result, blocks, atol=1e-6)


def test_an_ill_conditioned_plan_takes_the_syndrome_form(monkeypatch):
    from sooner.codes import decoder as module

    code = PolarCode(64, 48)
    available = np.arange(64) >= 16
    plain = code.plan(available)
    monkeypatch.setattr(module, "_ILL_CONDITIONED", 0.0)
    other = PolarCode(64, 48).plan(available)
    assert other.condition <= plain.condition
    assert other.n_unknowns == 16 or other.condition == plain.condition


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_single_precision_is_decoded_in_double_where_it_must_be(dtype, monkeypatch):
    import dataclasses

    from sooner.codes import plan as module

    monkeypatch.setattr(module, "_CHUNK", 4096)
    code = PolarCode(64, 48)
    available = np.arange(64) >= 16
    plan = dataclasses.replace(code.plan(available), condition=1e6)
    blocks = np.random.default_rng(0).standard_normal((48, 5, 30)).astype(dtype)
    outputs = code.encode(blocks)
    outputs[~available] = np.nan
    out = np.empty_like(blocks)
    assert plan.run(outputs, out=out) is out
    np.testing.assert_allclose(out, blocks, atol=1e-3)
    strided = np.empty((48, 30, 5), dtype=dtype).transpose(0, 2, 1)
    plan.run(outputs, out=strided)
    np.testing.assert_array_equal(strided, out)
