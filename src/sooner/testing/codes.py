"""What every code must satisfy, as one public check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from sooner.codes import from_spec
from sooner.codes.base import Code, TwoOperandCode
from sooner.errors import NotDecodableError

if TYPE_CHECKING:
    from sooner._types import Array, Mask, RNGLike
    from sooner.codes.base import Decoder

__all__ = ["check_code"]

_TOLERANCE = 1e-7
"""Of float64 data.  A random set may be ill conditioned; a wrong decoder is off by 1, not 1e-7."""


def check_code(code: Code, *, orders: int = 5, rng: RNGLike = 0) -> None:
    """Check all that a code promises; raise ``AssertionError`` with the reason if it fails.

    All outputs decode; decoding inverts encoding for every decodable set on the way of random
    orders of arrival; one that is not decodable is refused, with a lower bound of what is
    missing; adding twice changes nothing; a larger set stays decodable; the order of arrival
    changes neither the answer nor a bit of the result; what is determined decodes to the data;
    outputs that are not available, or that the plan does not read, may hold NaN; the encoder is
    linear and works column by column; the spec rebuilds the code.  Of a code for two operands,
    tasks that multiply what its factors encoded give what its encoder says.

    Parameters
    ----------
    code
        What to check.
    orders
        Random orders of arrival to try.
    rng
        Seed or generator of orders and data.

    Examples
    --------
    >>> from sooner.codes import Uncoded
    >>> check_code(Uncoded(5))
    """
    generator = np.random.default_rng(rng)
    assert isinstance(code, Code), f"{code!r} must follow the protocol sooner.codes.Code"
    assert 1 <= code.k <= code.n, f"k must lie in 1 … n, got k={code.k}, n={code.n}"
    data = generator.standard_normal((code.k, 3, 2))
    outputs = code.encode(data)
    _check_encoder(code, data, outputs)
    _check_operands(code, generator)
    for _ in range(orders):
        _check_arrivals(code, data, outputs, generator.permutation(code.n))
    _check_spec(code, outputs, data)


def _check_encoder(code: Code, data: Array, outputs: Array) -> None:
    assert outputs.shape == (code.n, 3, 2), f"encode gave {outputs.shape}"
    np.testing.assert_allclose(
        code.encode(2 * data + 1),
        2 * outputs + code.encode(np.ones_like(data)),
        rtol=1e-9,
        atol=1e-9 * max(1.0, float(np.abs(outputs).max())),
        err_msg="the encoder must be linear",
    )
    np.testing.assert_array_equal(
        code.encode(data[:, 1:2]), outputs[:, 1:2], err_msg="a slab must encode as in the whole"
    )
    given = np.empty_like(outputs)
    assert code.encode(data, out=given) is given, "encode must return out"
    np.testing.assert_array_equal(given, outputs, err_msg="out= must get the coded blocks")
    complex_outputs = code.encode(data.astype(np.complex128) * (1 + 2j))
    np.testing.assert_allclose(complex_outputs, outputs * (1 + 2j), rtol=1e-12, atol=1e-12)


def _check_operands(code: Code, rng: np.random.Generator) -> None:
    operands = [code.task_operands(index) for index in range(code.n)]
    assert {len(blocks) for blocks in operands} == {code.operands}, "one block for each operand"
    if code.operands == 1:
        assert operands == [(index,) for index in range(code.n)], "task i multiplies coded block i"
        return
    assert isinstance(code, TwoOperandCode), f"{code!r} must have factors"
    of_a, of_b = code.factors
    a, b = rng.standard_normal((of_a.k, 2, 3)), rng.standard_normal((of_b.k, 3, 2))
    coded_a, coded_b = of_a.encode(a), of_b.encode(b)
    np.testing.assert_allclose(
        np.array([coded_a[i] @ coded_b[j] for i, j in operands]),
        code.encode((a[:, None] @ b).reshape(code.k, 2, 2)),
        rtol=1e-9,
        atol=1e-9 * max(1.0, float(np.abs(coded_a).max() * np.abs(coded_b).max())),
        err_msg="tasks must give what the encoder says",
    )


def _check_arrivals(code: Code, data: Array, outputs: Array, order: Array) -> None:
    decoder = code.decoder()
    available = np.zeros(code.n, dtype=np.bool_)
    was_decodable = False
    every = -(-code.n // 16)  # sets to look at in full, beside those about the threshold
    for count, index in enumerate(order.tolist(), 1):
        answer = decoder.add(index)
        available[index] = True
        assert answer == decoder.decodable, "add must say whether the set is decodable"
        assert decoder.add(index) == answer, "adding an output twice must change nothing"
        np.testing.assert_array_equal(decoder.available, available)
        assert answer or not was_decodable, "a larger set must stay decodable"
        assert (decoder.n_missing == 0) == answer, "n_missing is 0 exactly when decodable"
        if not was_decodable and (answer or count % every == 0 or count in {code.k - 1, code.k}):
            _check_set(code, data, outputs, decoder, available)
        was_decodable = answer
    assert was_decodable, f"all {code.n} outputs must decode"
    _check_set(code, data, outputs, decoder, available)


def _check_set(code: Code, data: Array, outputs: Array, decoder: Decoder, available: Mask) -> None:
    determined = decoder.determined
    assert determined.shape == (code.k,), f"determined has shape {determined.shape}"
    if not decoder.decodable:
        assert not determined.all(), "all blocks are determined, but the set is not decodable"
        needed = _needed_to_decode(code, outputs, available)
        assert needed is not None, "decode must refuse a set that is not decodable"
        assert needed == decoder.n_missing, "the error must say how many outputs are missing"
        return
    assert determined.all(), "all blocks of a decodable set are determined"
    plan = decoder.plan()
    assert available[plan.reads].all(), "the plan reads what is not available"
    erased = outputs.copy()
    erased[~available] = np.nan
    result = code.decode(erased, available)
    np.testing.assert_allclose(result, data, rtol=_TOLERANCE, atol=_TOLERANCE)
    read_only = np.full_like(outputs, np.nan)
    read_only[plan.reads] = outputs[plan.reads]
    np.testing.assert_array_equal(
        code.decode(read_only, available), result, err_msg="decode reads more than the plan says"
    )
    again = code.decoder()
    for index in np.flatnonzero(available).tolist():  # another order
        again.add(index)
    assert again.decodable, "the order of arrival must not matter"
    np.testing.assert_array_equal(again.plan().reads, plan.reads)


def _needed_to_decode(code: Code, outputs: Array, available: Mask) -> int | None:
    """How many more outputs the refusal asks for; None if decoding went through."""
    try:
        code.decode(outputs, available)
    except NotDecodableError as error:
        return error.n_needed
    return None


def _check_spec(code: Code, outputs: Array, data: Array) -> None:
    rebuilt = from_spec(json.loads(json.dumps(code.spec())))
    assert (rebuilt.n, rebuilt.k) == (code.n, code.k), "the spec must rebuild the code"
    np.testing.assert_array_equal(
        rebuilt.encode(data), outputs, err_msg="a rebuilt code must encode bit for bit the same"
    )
