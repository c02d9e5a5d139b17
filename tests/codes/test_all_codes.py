"""Every code passes the public check, and the properties hold for arbitrary parameters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.codes import ARIKAN, HADAMARD, Kernel, PolarCode, Replication, SideBySide, Uncoded
from sooner.testing.codes import check_code

CODES = [
    PolarCode(1, 1),
    PolarCode(2, 1),
    PolarCode(16, 12),
    PolarCode(64, 48),
    PolarCode(64, 64),
    PolarCode(100, 75),
    PolarCode(256, 128),
    PolarCode(64, 48, kernel=ARIKAN),
    PolarCode(64, 40, erasure_prob=0.25, late_parities=0, decoder="sequential"),
    PolarCode(60, 40, decoder="sequential", kernel=ARIKAN),
    PolarCode(32, 20, erasure_prob=np.linspace(0.01, 0.6, 32), decoder="sequential"),
    PolarCode(32, 20, systematic=True),
    PolarCode(50, 36, systematic=True),
    PolarCode(16, 12, systematic=True, late_parities=0),
    PolarCode(12, 8, systematic=True, decoder="sequential"),
    PolarCode(16, 12, kernel=Kernel.dct(4)),
    PolarCode(60, 45, kernel=[Kernel.dct(3), Kernel.dct(4), Kernel.dct(5)]),
    PolarCode(20, 15, kernel=[HADAMARD, ARIKAN, Kernel.dct(5)]),
    PolarCode(20, 12, kernel=Kernel.dct(3)),
    PolarCode(10, 6, kernel=Kernel.dct(10)),
    PolarCode(20, 14, kernel=[Kernel.dct(4), Kernel.dct(5)], systematic=True),
    SideBySide([PolarCode(16, 12), PolarCode(4, 3)]),
    SideBySide([Uncoded(3), Replication(5, 2)]),
    Uncoded(1),
    Uncoded(7),
    Replication(12, 4),
    Replication(7, 3),
]


@pytest.mark.parametrize("code", CODES, ids=repr)
def test_every_code_passes_the_public_check(code):
    check_code(code)


@pytest.mark.parametrize("n", range(1, 131))
def test_every_n_up_to_130(n):
    k = (1, max(1, n // 2), max(1, 3 * n // 4), max(1, 9 * n // 10), n)[n % 5]
    check_code(PolarCode(n, k, rng=n), orders=1)


@given(st.integers(1, 60), st.data())
def test_any_n_and_k(n, data):
    k = data.draw(st.integers(1, n))
    decoder = data.draw(st.sampled_from(["inactivation", "sequential"]))
    kernel = data.draw(st.sampled_from([HADAMARD, ARIKAN]))
    code = PolarCode(n, k, decoder=decoder, kernel=kernel, rng=data.draw(st.integers(0, 99)))
    check_code(code, orders=1, rng=data.draw(st.integers(0, 99)))


@given(st.data())
def test_decoding_inverts_encoding_in_every_dtype(data):
    code = data.draw(st.sampled_from(CODES))
    dtype = data.draw(st.sampled_from(["f4", "f8", "c8", "c16"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    blocks = rng.standard_normal((code.k, 4)).astype(dtype)
    available = rng.random(code.n) < data.draw(st.floats(0.5, 1))
    decoder = code.decoder()
    for index in np.flatnonzero(available):
        decoder.add(index)
    if not decoder.decodable:
        available[:] = True
    result = code.decode(code.encode(blocks), available)
    assert result.dtype == blocks.dtype
    tolerance = 2e-3 if blocks.dtype.char in "fF" else 1e-8
    np.testing.assert_allclose(result, blocks, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PolarCode(8, 9), r"k must satisfy 0 < k <= n, got k=9, n=8"),
        (lambda: PolarCode(8, 0), r"k must be at least 1, got k=0"),
        (lambda: PolarCode(8.5, 2), r"n must be an integer, got 8.5"),
        (lambda: PolarCode(8, 6, late_parities=3), r"k \+ late_parities must not exceed .* 8"),
        (lambda: PolarCode(8, 4, decoder="magic"), r"decoder must be one of 'inactivation'"),
        (lambda: PolarCode(8, 4, kernel=[[1, 1], [0, 1]]), r"kernel must be a Kernel, .* got \[\["),
        (lambda: PolarCode(8, 4, erasure_prob=2), r"erasure_prob must lie between 0 and 1"),
        (lambda: PolarCode(8, 4, erasure_prob=[0.1] * 3), r"have shape \(8,\), got \(3,\)"),
        (
            lambda: PolarCode(8, 4, decoder="sequential", late_parities=1),
            r"late_parities must be 0 for the sequential decoder",
        ),
        (lambda: Replication(2, 3), r"k must satisfy 0 < k <= n"),
        (lambda: SideBySide([]), r"codes must hold at least one code"),
        (lambda: Uncoded(3).encode(np.ones((2, 2))), r"blocks must have shape \(3, ...\)"),
        (lambda: Uncoded(3).encode(np.ones((3, 2), int)), r"blocks must be float32, .* got int64"),
        (
            lambda: Uncoded(3).encode(np.ones((3, 2)), out=np.ones((3, 3))),
            r"out must have shape \(3, 2\)",
        ),
        (lambda: Uncoded(3).decode(np.ones((3, 2)), [True]), r"available must be a boolean array"),
        (lambda: Uncoded(3).decoder().add(3), r"index must lie in 0 … 2, got 3"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_must_hold(call, message):
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        call()
