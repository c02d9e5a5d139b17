"""The fingerprint changes with the matrix, and with nothing else."""

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sooner.store.fingerprint import Fingerprint


def fingerprint(A, k=1, cuts=()):
    taken = Fingerprint(A.shape, A.dtype, k)
    for block, rows in enumerate(np.split(A, k)):
        for panel in np.split(rows, sorted(cuts)):
            taken.update(block, panel)
    return taken.hexdigest()


@given(
    hnp.arrays(st.sampled_from(["?", "u1", "<i8", "<f4", "<c16"]), (12, 3)),
    st.sampled_from([1, 2, 3, 6]),
    st.sets(st.integers(0, 12)),
)
@settings(deadline=None, max_examples=50)
def test_panels_strides_and_byte_order_do_not_matter(A, k, cuts):
    same = np.asfortranarray(A.astype(A.dtype.newbyteorder(">")))
    assert fingerprint(same, k, [cut for cut in cuts if cut < 12 // k]) == fingerprint(A, k)


@given(hnp.arrays("u1", (4, 3)), st.integers(0, 11), st.integers(1, 255))
@settings(deadline=None, max_examples=50)
def test_every_value_matters(A, position, change):
    other = A.copy()
    other.flat[position] ^= change
    assert fingerprint(other) != fingerprint(A)


def test_shape_type_order_and_blocks_matter():
    A = np.arange(8, dtype=np.uint8).reshape(4, 2)
    others = [A.reshape(2, 4), A.view(np.int8), A[::-1], A.astype(np.uint16), A[:, ::-1]]
    assert len({fingerprint(A), fingerprint(A, 2), *map(fingerprint, others)}) == 7


def test_it_can_be_computed_without_sooner():
    A = np.arange(8.0).reshape(4, 2)
    halves = b"".join(hashlib.sha256(half.tobytes()).digest() for half in (A[:2], A[2:]))
    assert fingerprint(A, 2) == hashlib.sha256(b"4 2 <f8 2\n" + halves).hexdigest()
