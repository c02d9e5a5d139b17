"""A @ B with both matrices in stores."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sooner
from sooner.executors import VirtualExecutor
from sooner.jobs import encoding

rng = np.random.default_rng(5)
ROWS, COLUMNS = sooner.PolarCode(8, 6, rng=0), sooner.PolarCode(4, 3, rng=0)


def coded(A, B, rows=ROWS, columns=COLUMNS):
    return sooner.encode(A, rows), sooner.encode(B, columns, axis=1)


def matrices(m=13, inner=5, columns=7, dtype="f8"):
    shape = (m, inner), (inner, columns)
    return [(rng.standard_normal(each) * 3).astype(dtype) for each in shape]


@pytest.fixture(scope="module")
def problem():
    A, B = matrices()
    return *coded(A, B), A @ B


@given(
    st.tuples(*[st.sampled_from([0, 1, 2, 6, 7, 20])] * 3),
    st.sampled_from(["f4", "f8", "c16", "i2"]),
)
def test_any_shape_and_dtype(shape, dtype):
    A, B = matrices(*shape, dtype)
    job = sooner.matmul(*coded(A, B), executor=VirtualExecutor([1.0]))
    expected = A.astype(np.result_type(dtype, "f4")) @ B
    assert job.result().shape == expected.shape
    tolerance = 1e-3 if dtype == "f4" else 1e-8
    np.testing.assert_allclose(job.result(), expected, rtol=tolerance, atol=100 * tolerance)
    if 0 in shape:
        assert len(job.trace) == 0


@pytest.mark.parametrize(
    "codes",
    [
        (sooner.MDSCode(5, 3), sooner.MDSCode(4, 2)),
        (sooner.Replication(6, 3), sooner.PolarCode(4, 3)),
        (ROWS, sooner.Uncoded(3)),  # only A is coded; B lies in pieces in its store
        (sooner.PolarCode(8, 6, systematic=True), sooner.PolarCode(4, 2, systematic=True)),
        (sooner.PolarCode(8, 6, late_parities=0, decoder="sequential"), COLUMNS),
    ],
    ids=repr,
)
@given(st.data())
def test_any_pair_of_codes_in_any_order_of_arrival(codes, data):
    A, B = matrices()
    n = codes[0].n * codes[1].n
    times = data.draw(st.permutations(range(n)))
    executor = VirtualExecutor([1.0 + time for time in times])
    job = sooner.matmul(*coded(A, B, *codes), executor=executor)
    np.testing.assert_allclose(job.result(), A @ B, atol=1e-8)


def test_a_polynomial_code_needs_its_factors():
    code = sooner.PolynomialCode(10, 3, 2)
    A, B = matrices()
    operands = coded(A, B, *code.factors)
    times = [1.0, math.inf, 2.0, 3.0, math.inf, 4.0, 5.0, math.inf, 6.0, math.inf]
    job = sooner.matmul(*operands, code=code, executor=VirtualExecutor(times))
    np.testing.assert_allclose(job.result(), A @ B, atol=1e-8)
    with pytest.raises(ValueError, match="must be encoded with the factors"):
        sooner.matmul(*coded(A, B), code=code, executor=VirtualExecutor([1.0]))
    with pytest.raises(TypeError, match="code must be a code for two operands"):
        sooner.matmul(*operands, code=ROWS, executor=VirtualExecutor([1.0]))


def test_estimates_before_it_is_exact(problem):
    A, B, expected = problem
    job = sooner.matmul(A, B, executor=VirtualExecutor([float(i) for i in range(1, 33)]))
    estimates = list(job)
    assert all(estimate.value.shape == expected.shape for estimate in estimates)
    assert estimates[-1].exact
    errors = [np.linalg.norm(e.value - expected) / np.linalg.norm(expected) for e in estimates]
    assert errors[-1] < 1e-12 < errors[0]
    assert 0 < estimates[8].relative_error <= 1.5
    total = estimates[-1].functional(np.ones_like(expected))
    assert total.value == pytest.approx(expected.sum())


def test_with_few_slots_a_grid_of_the_first_blocks_goes_first(problem):
    A, B, expected = problem
    job = sooner.matmul(A, B, executor=VirtualExecutor([1.0], slots=4))
    np.testing.assert_allclose(job.result(), expected, atol=1e-9)
    assert len(job.trace) <= 6 * 3 + 4
    rows, columns = zip(*(divmod(record.task, 4) for record in job.trace.records[:18]), strict=True)
    assert (max(rows), max(columns)) == (5, 2)


def test_a_wrong_output_is_found(problem):
    A, B, expected = problem

    class Corrupting(VirtualExecutor):
        def submit_many(self, fn, args, **options):
            def wrong(place, *arguments):
                output = fn(*arguments)
                return output._replace(value=output.value + (place == 5))

            return super().submit_many(wrong, [(i, *a) for i, a in enumerate(args)], **options)

    job = sooner.matmul(A, B, executor=Corrupting([1.0]), verify_extra=8)
    np.testing.assert_allclose(job.result(), expected, atol=1e-9)
    assert job.checked.wrong == (job.trace.records[5].task,)


@pytest.mark.parametrize("place", ["array", "file", "view"])
def test_the_answer_goes_where_it_is_wanted(problem, tmp_path, place):
    A, B, expected = problem
    out = {
        "array": np.empty(expected.shape),
        "view": np.empty(expected.shape[::-1]).T,
        "file": tmp_path / "C.npy",
    }[place]
    job = sooner.matmul(A, B, executor=VirtualExecutor([1.0]), out=out)
    np.testing.assert_allclose(job.result(), expected, atol=1e-9)
    if place == "file":
        np.testing.assert_array_equal(np.load(out), job.result())
        assert list(tmp_path.iterdir()) == [out]
    else:
        assert job.result() is out


def test_kept_outputs_are_taken_up_and_those_of_other_operands_are_not(problem):
    A, B, expected = problem
    store = sooner.MemoryStore()
    times = [float(i) for i in range(1, 33)]
    job = sooner.matmul(A, B, executor=VirtualExecutor(times), keep=store, deadline=9.5)
    with pytest.raises(sooner.JobTimeoutError):
        job.result()
    resumed = sooner.matmul(A, B, executor=VirtualExecutor(times), keep=store)
    assert resumed.estimate.n_available == 9
    np.testing.assert_allclose(resumed.result(), expected, atol=1e-9)
    C = sooner.encode(rng.standard_normal((5, 7)), COLUMNS, axis=1)
    other = sooner.matmul(A, C, executor=VirtualExecutor(times), keep=store)
    assert other.estimate.n_available == 0


def test_kept_outputs_of_another_code_with_the_same_factors_are_not_taken():
    A, B = matrices()
    code = sooner.PolynomialCode(10, 3, 2)  # task 1 multiplies blocks 1 and 1, not 0 and 1
    operands = coded(A, B, *code.factors)
    store = sooner.MemoryStore()
    sooner.matmul(*operands, code=code, executor=VirtualExecutor([1.0]), keep=store).result()
    job = sooner.matmul(*operands, executor=VirtualExecutor([1.0]), keep=store)
    assert job.estimate.n_available == 0
    np.testing.assert_allclose(job.result(), A @ B, atol=1e-9)


def test_blocks_of_both_operands_are_read_slab_by_slab(monkeypatch):
    monkeypatch.setattr(encoding, "_SLAB_BYTES", 64)
    A, B = matrices(40, 3, 30)
    one, two = coded(A, B)
    assert one.slab_rows < one.block_rows
    assert two.slab_rows < two.block_rows
    job = sooner.matmul(one, two, executor=VirtualExecutor([1.0]))
    np.testing.assert_allclose(job.result(), A @ B, atol=1e-9)


@pytest.mark.parametrize("sparse", [(True, False), (False, True), (True, True)])
def test_sparse_operands(sparse):
    A = scipy.sparse.random(30, 20, 0.2, random_state=1).toarray()
    B = scipy.sparse.random(20, 25, 0.2, random_state=2).toarray()
    given_a = scipy.sparse.csr_array(A) if sparse[0] else A
    given_b = scipy.sparse.csr_array(B) if sparse[1] else B
    job = sooner.matmul(*coded(given_a, given_b), executor=VirtualExecutor([1.0]))
    np.testing.assert_allclose(job.result(), A @ B, atol=1e-12)


def test_the_transpose_of_what_was_encoded_by_rows_serves_as_well(problem):
    A, _, _ = problem
    B = rng.standard_normal((5, 7))
    by_rows = sooner.encode(B, COLUMNS, adjoint=True)
    job = sooner.matmul(A, by_rows, executor=VirtualExecutor([1.0]))
    one = sooner.matmul(A, sooner.encode(B, COLUMNS, axis=1), executor=VirtualExecutor([1.0]))
    np.testing.assert_allclose(job.result(), one.result(), atol=1e-12)
    with pytest.raises(sooner.MissingAdjointError):
        sooner.matmul(A, sooner.encode(B, COLUMNS), executor=VirtualExecutor([1.0]))


def test_what_does_not_fit_is_refused_before_a_task_is_sent(problem):
    A, B, _ = problem
    executor = VirtualExecutor([1.0])
    other = sooner.encode(np.ones((4, 7)), COLUMNS, axis=1)
    with pytest.raises(ValueError, match=r"got \(13, 5\) and \(4, 7\)"):
        sooner.matmul(A, other, executor=executor)
    with pytest.raises(TypeError, match="B must be a coded matrix, made by encode, got ndarray"):
        sooner.matmul(A, np.ones((5, 7)), executor=executor)
    with pytest.raises(MemoryError, match=r"the answer needs"):
        sooner.matmul(A, B, executor=executor, max_memory=100)
    assert executor._n_submitted == 0


def test_a_stored_matrix_of_columns_is_opened_as_one(tmp_path):
    A, B = matrices()
    sooner.encode(B, COLUMNS, tmp_path / "B", axis=1)
    stored = sooner.open_coded(tmp_path / "B")
    assert (stored.manifest.axis, stored.shape) == (1, B.T.shape)
    job = sooner.matmul(sooner.encode(A, ROWS), stored, executor=VirtualExecutor([1.0]))
    np.testing.assert_allclose(job.result(), A @ B, atol=1e-9)
    with pytest.raises(sooner.errors.NonFiniteError, match="which axis=1 encodes"):
        sooner.encode(np.full((2, 3), np.nan), COLUMNS, axis=1)
