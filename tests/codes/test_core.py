"""The compiled core against NumPy, which defines what it does: equal to the last bit."""

from __future__ import annotations

import contextlib
import logging
import signal
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import PolarCode, transform
from sooner.codes.kernel import ARIKAN, HADAMARD, Kernel
from sooner.codes.program import ZERO, ProgramBuilder

VARIANTS = transform.core_variants()
core = pytest.importorskip("sooner.codes._core", reason="built without a C compiler")


@contextlib.contextmanager
def using(variant, **settings):
    """Run with one variant, or with NumPy (False), and other sizes of tiles and pieces."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setattr(transform, name, value)
        transform.use_core(variant)
        try:
            yield
        finally:
            transform.use_core(True)


coefficients = st.one_of(
    st.sampled_from([1.0, -1.0, 0.5, -0.25, 2.0]), st.floats(-4, 4, allow_subnormal=False)
)


@st.composite
def programs(draw):
    """Any program: butterflies, dense products, zeros, results of all kinds."""
    builder = ProgramBuilder(draw(st.integers(1, 9)))
    values = [(slot, 1.0) for slot in range(builder.n_inputs)] + [ZERO]
    for _ in range(draw(st.integers(0, 6))):
        builder.barrier()
        made = []
        for _ in range(draw(st.integers(1, 4))):
            operands = [
                (slot, coef * draw(coefficients))
                for slot, coef in draw(st.lists(st.sampled_from(values), min_size=8, max_size=8))
            ]
            if draw(st.integers(0, 5)) == 0:
                matrix = np.array(
                    draw(st.lists(st.lists(coefficients, min_size=8, max_size=8), max_size=6))
                ).reshape(-1, 8)
                made += builder.dense(matrix, operands)
            else:
                made += builder.butterfly(operands[: draw(st.sampled_from([1, 2, 4, 8]))])
        values += made
    return builder.build(draw(st.lists(st.sampled_from(values), min_size=1, max_size=9)))


def plain(array):
    return array


def padded_rows(array):
    wide = np.zeros((len(array), array[0].size + 3), array.dtype)
    view = wide[:, 1:-2].reshape(array.shape)
    return view if np.shares_memory(view, wide) else wide[:, 1:-2]


def fortran(array):
    return np.asfortranarray(array)


def backwards(array):
    return array[..., ::-1].copy()[..., ::-1]


def rows_backwards(array):
    return array[::-1].copy()[::-1]


def part_of_more(array):
    more = np.zeros((*array.shape[:-1], array.shape[-1] + 2), array.dtype)
    return more[..., 1:-1]


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)
    return raw[1:].view(array.dtype).reshape(array.shape)


def swapped(array):
    return array.astype(array.dtype.newbyteorder())


LAYOUTS = [plain, padded_rows, fortran, backwards, rows_backwards, part_of_more, misaligned]


def laid_out(array, layout):
    """The same numbers in another layout."""
    other = layout(array)
    if other.shape != array.shape:
        other = other.reshape(array.shape)
    other[...] = array
    return other


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8).tobytes()


@given(
    program=programs(),
    dtype=st.sampled_from("fdFD"),
    columns=st.one_of(st.integers(0, 70), st.integers(0, 1500)),
    depth=st.integers(1, 3),
    layouts=st.tuples(st.sampled_from([*LAYOUTS, swapped]), st.sampled_from(LAYOUTS)),
    threads=st.integers(1, 3),
    tile_bytes=st.sampled_from([128, 256, 512]),
    seed=st.integers(0, 2**32),
)
def test_the_core_is_numpy_to_the_last_bit(
    program, dtype, columns, depth, layouts, threads, tile_bytes, seed
):
    rng = np.random.default_rng(seed)
    shape = (program.n_inputs, *(1,) * (2 - depth), *(3, 1)[: depth - 1], columns)
    inputs = rng.integers(-99, 99, shape) / 7
    inputs = (inputs + (1j * rng.permutation(inputs) if dtype in "FD" else 0)).astype(dtype)
    inputs = laid_out(inputs, layouts[0])
    expected = np.empty((program.n_results, *shape[1:]), dtype)
    with using(False):
        transform.run(program, inputs, out=expected)
    settings = {
        "_tile_bytes": lambda _: tile_bytes,
        "_PIECE_BYTES": int(rng.choice([1, 5000, 1 << 21])),
        "_LOOP_COLUMNS": int(rng.choice([1, 4096])),
    }
    for variant in VARIANTS:
        out = laid_out(np.full(expected.shape, np.nan, dtype), layouts[1])
        before = bits(inputs)
        with using(variant, **settings):
            assert transform.run(program, inputs, out=out, threads=threads) is out
        assert bits(out) == bits(expected)
        assert bits(inputs) == before


@given(st.data())
def test_codes_give_the_same_bits_on_every_way(data):
    n = data.draw(st.integers(1, 70))
    k = data.draw(st.integers(1, n))
    code = PolarCode(n, k, kernel=data.draw(st.sampled_from([HADAMARD, ARIKAN, Kernel.dct(3)])))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    blocks = rng.standard_normal((k, 3, data.draw(st.integers(1, 99))))
    blocks = blocks.astype(data.draw(st.sampled_from("fdFD")))
    available = np.ones(n, bool)
    available[rng.permutation(n)[: data.draw(st.integers(0, n - k))]] = False
    decoder = code.decoder()
    for index in np.flatnonzero(available).tolist():
        decoder.add(index)
    available |= not decoder.decodable
    with using(False):
        outputs = code.encode(blocks)
        outputs[~available] = np.nan
        decoded = code.decode(outputs, available)
    for variant in VARIANTS:
        with using(variant):
            assert bits(code.encode(blocks)[available]) == bits(outputs[available])
            assert bits(code.decode(outputs, available, threads=2)) == bits(decoded)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_results_that_bypass_the_cache_are_the_same(dtype):
    code = PolarCode(64, 48)
    blocks = np.random.default_rng(0).standard_normal((48, 40_003)).astype(dtype)
    with using(False):
        expected = code.encode(blocks)
    for variant in VARIANTS:
        with using(variant):
            assert bits(code.encode(blocks, threads=3)) == bits(expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float64, ">f8", bool])
def test_promotion_while_encoding_copies_pieces_alone(dtype):
    code = PolarCode(16, 12)
    blocks = np.random.default_rng(0).integers(0, 2, (12, 300, 1000)).astype(dtype)
    expected = code.encode(blocks.astype(np.float32))
    out = np.empty((16, 300, 1000), np.float32)
    tracemalloc.start()
    transform.run(code._encoder, blocks, out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(out, expected)
    assert peak < 5 << 20 < blocks.size * 4


def test_complex_numbers_are_not_cut_to_reals():
    program = PolarCode(4, 3)._encoder
    with pytest.raises(TypeError, match="Cannot cast"):
        transform.run(program, np.ones((3, 5), complex), out=np.empty((4, 5)))


def test_rows_that_are_not_read_need_not_be_there():
    builder = ProgramBuilder(5)
    program = builder.build(builder.butterfly([(0, 1.0), (1, 1.0)]))
    out = np.empty((2, 3))
    transform.run(program, np.ones((2, 3)), out=out)
    np.testing.assert_array_equal(out, [[2] * 3, [0] * 3])
    with pytest.raises(ValueError, match="an input that is not there"):
        transform.run(program, np.ones((1, 3)), out=out)


def test_encoding_in_place():
    code = PolarCode(8, 8)
    blocks = np.random.default_rng(0).standard_normal((8, 3000))
    expected = code.encode(blocks)
    np.testing.assert_array_equal(code.encode(blocks, out=blocks), expected)


def small_program():
    builder = ProgramBuilder(2)
    total, difference = builder.butterfly([(0, 1.0), (1, 1.0)])
    builder.barrier()
    builder.butterfly([total, difference])
    return builder.build([total, builder.dense(np.ones((1, 2)), [total, difference])[0]])


def call(program, **changes):
    heads, slots, coefs = program.flat
    arguments = {
        "heads": heads, "slots": slots, "coefs": coefs,
        "n_inputs": program.n_inputs, "n_slots": program.n_slots,
        "inputs": np.ones((2, 100)), "out": np.empty((2, 100)), "threads": 1, "stop": None,
        "tile_bytes": 512, "poll_bytes": 1, "variant": 0,
    }  # fmt: skip
    assert changes.keys() <= arguments.keys()
    return core.run(*(arguments | changes).values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: {"slots": p.flat[1] + 1}, "a slot|a result|never written"),
        (lambda p: {"slots": p.flat[1] - 2}, "reads a slot that does not exist"),
        (lambda p: {"slots": p.flat[1] * 0}, "not scratch or a result"),
        (lambda p: {"slots": p.flat[1] * 0 + p.n_slots}, "reads a slot that does not exist"),
        (lambda p: {"slots": p.flat[1][:-1]}, "end before"),
        (lambda p: {"coefs": p.flat[2][:-1]}, "end before"),
        (lambda p: {"slots": p.flat[1].view(np.int8)[:-1]}, "not of int32"),
        (lambda p: {"heads": p.flat[0] * 3}, "neither butterflies"),
        (lambda p: {"heads": p.flat[0] * -1}, "neither butterflies"),
        (lambda p: {"heads": p.flat[0][:0]}, "never written"),
        (lambda p: {"heads": np.tile(p.flat[0], (2, 1)), "slots": np.tile(p.flat[1], 2),
                    "coefs": np.tile(p.flat[2], 2)}, "written twice"),
        (lambda p: {"slots": np.where(np.arange(p.flat[1].size) == 6, 2, p.flat[1])},
         "reads a result"),
        (lambda p: {"inputs": np.ones((1, 100))}, "an input that is not there"),
        (lambda p: {"n_inputs": -1}, "do not fit"),
        (lambda p: {"n_inputs": 2**62}, "do not fit"),
        (lambda p: {"n_slots": 3}, "do not fit"),
        (lambda p: {"n_slots": 2**40}, "do not fit"),
        (lambda p: {"n_slots": -1}, "do not fit"),
        (lambda p: {"threads": 0}, "do not fit"),
        (lambda p: {"tile_bytes": 100}, "do not fit"),
        (lambda p: {"tile_bytes": 1 << 20}, "do not fit"),
        (lambda p: {"variant": len(VARIANTS)}, "do not fit"),
        (lambda p: {"inputs": np.ones((2, 99))}, "do not fit"),
        (lambda p: {"inputs": np.ones((2, 100), np.float32)}, "do not fit"),
        (lambda p: {"inputs": np.ones((2, 100), np.int64)}, "inputs must be rows of float32"),
        (lambda p: {"inputs": np.ones((2, 200))[:, ::2]}, "inputs must be rows of float32"),
        (lambda p: {"out": np.ones((2, 100), ">f8")}, "out must be rows of float32"),
        (lambda p: {"out": np.broadcast_to(1.0, (2, 100))}, "read-only"),
    ],
)  # fmt: skip
def test_malformed_calls_are_refused(change, message):
    program = small_program()
    assert call(program)
    with pytest.raises(ValueError, match=message):
        call(program, **change(program))


@given(st.data())
def test_a_damaged_program_is_refused_or_stays_within_its_bounds(data):
    program = data.draw(programs())
    heads, slots, coefs = (array.copy() for array in program.flat)
    numbers = st.one_of(st.integers(-3, 20), st.integers(-(2**31), 2**31 - 1))
    for array in (heads.reshape(-1), slots):
        for _ in range(data.draw(st.integers(0, 3))):
            if array.size:
                array[data.draw(st.integers(0, array.size - 1))] = data.draw(numbers)
    inputs, out = np.ones((program.n_inputs, 70)), np.empty((program.n_results, 70))
    with contextlib.suppress(ValueError):
        call(program, inputs=inputs, out=out, heads=heads, slots=slots, coefs=coefs)
    np.testing.assert_array_equal(inputs, 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_core_stops_between_tiles(threads, monkeypatch):
    monkeypatch.setattr(transform, "_SCRATCH_BYTES", 1 << 14)
    code = PolarCode(16, 12)
    asked = iter([False, True][threads - 1 :])  # a second thread might be done by the second time
    with pytest.raises(InterruptedError, match="stopped between two tiles"):
        code.encode(np.ones((12, 30_000)), threads=threads, stop=lambda: next(asked))
    assert list(asked) == []


def test_an_error_of_stop_is_raised():
    def stop():
        raise LookupError("no clock")

    with pytest.raises(LookupError, match="no clock"):
        PolarCode(4, 3).encode(np.ones((3, 5)), stop=stop)


def test_a_signal_interrupts_the_core(monkeypatch):
    monkeypatch.setattr(transform, "_SCRATCH_BYTES", 1 << 10)

    def interrupt():
        signal.raise_signal(signal.SIGINT)
        return False

    with pytest.raises(KeyboardInterrupt):
        PolarCode(4, 3).encode(np.ones((3, 90_000)), stop=interrupt)


def test_without_the_core_numpy_runs_and_the_log_says_so_once(monkeypatch, caplog):
    code = PolarCode(8, 6)
    blocks = np.random.default_rng(0).standard_normal((6, 50))
    expected = code.encode(blocks)
    monkeypatch.setattr(transform, "_core", None)
    monkeypatch.setattr(transform._Choice, "variant", None)
    monkeypatch.setattr(transform._Choice, "noted", False)
    assert transform.core_variants() == ()
    with caplog.at_level(logging.WARNING):
        assert bits(code.encode(blocks)) == bits(expected)
        code.encode(blocks)
    assert [record.message for record in caplog.records] == [
        "the compiled core of sooner is not there; the same results take several times longer. "
        "Install sooner again where there is a C compiler."
    ]
    with pytest.raises(ValueError, match=r"variant must be False or one of \(\)"):
        transform.use_core(True)


def test_a_variant_must_exist():
    with pytest.raises(ValueError, match="got 'sse9'"):
        transform.use_core("sse9")
