"""Values shipped once."""

import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from sooner.executors import references
from sooner.executors._wire import pack, unpack
from sooner.executors.local import LocalExecutor
from sooner.executors.references import (
    InlineReference,
    ObjectReference,
    SharedReference,
    SharedValues,
    inline,
)

arrays = nps.arrays(
    dtype=nps.boolean_dtypes()
    | nps.integer_dtypes()
    | nps.floating_dtypes()
    | nps.complex_number_dtypes()
    | nps.byte_string_dtypes(),
    shape=nps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)


@given(value=st.lists(arrays | st.integers() | st.text(), max_size=4) | arrays)
def test_packing_is_undone_by_unpacking(value):
    packed = b"".join(pack(value))
    _assert_equal(unpack(packed), value)
    _assert_equal(unpack(bytearray(packed)), value)


def _assert_equal(found, value):
    if isinstance(value, list):
        assert len(found) == len(value)
        for one, other in zip(found, value, strict=True):
            _assert_equal(one, other)
    elif isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    else:
        assert found == value


@given(array=arrays)
def test_arrays_of_any_kind_arrive_read_only(array):
    for view in (array, array.T, array[..., ::-1] if array.ndim else array):
        for reference in (inline(view), ObjectReference(view)):
            found = reference.load()
            np.testing.assert_array_equal(found, view)
            assert not found.flags.writeable


def test_arrays_that_unpickle_as_copies_are_read_only_too():
    for array in (np.array(["NaT"], dtype="datetime64[s]"), np.array([None, "a"])):
        assert not inline(array).load().flags.writeable


@pytest.fixture(params=["memory file", "temporary file"])
def values(request, monkeypatch, tmp_path):
    if request.param == "temporary file":
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = SharedValues()
    yield shared
    shared.close()
    assert not list(tmp_path.iterdir()), "a file is left"


def test_large_values_are_mapped_once_and_not_copied(values):
    array = np.arange(50_000.0).reshape(100, 500)
    reference = values.put(array)
    assert isinstance(reference, SharedReference)
    assert len(pickle.dumps(reference)) < 300
    again = pickle.loads(pickle.dumps(reference))
    found = again.load()
    np.testing.assert_array_equal(found, array)
    assert found is reference.load()
    assert not found.flags.owndata
    assert not found.flags.writeable
    assert found.flags.aligned


@pytest.mark.parametrize(
    "value",
    [
        np.asfortranarray(np.arange(40_000.0).reshape(200, 200)),
        np.arange(160_000.0)[::4],
        np.arange(80_000)[::-1].reshape(100, 800).T[:, ::2],
    ],
)
def test_strided_arrays_are_read_only_too(values, value):
    found = values.put(value).load()
    np.testing.assert_array_equal(found, value)
    assert not found.flags.writeable


def test_small_values_travel_inside(values):
    assert isinstance(values.put(np.zeros(100)), InlineReference)
    assert values.put({"a": 1}).load() == {"a": 1}


def test_released_values_are_gone_and_their_descriptors_too(values):
    process = psutil.Process()
    before = process.num_fds()
    reference = values.put(np.ones(20_000))
    reference.load()
    values.release(reference)
    values.release(reference)
    assert process.num_fds() == before
    with pytest.raises(LookupError, match="must not be released before it is loaded"):
        reference.load()


def test_a_path_used_again_is_not_taken_for_the_old_value(values):
    old = values.put(np.zeros(20_000))
    values.release(old)
    new = values.put(np.ones(20_000))
    stale = SharedReference(new.path, old.token)
    with pytest.raises(LookupError, match="must not be released"):
        stale.load()
    assert new.load()[0] == 1


def test_few_values_are_kept(values):
    kept = [values.put(np.full(20_000, float(i))) for i in range(5)]
    loaded = [reference.load()[0] for reference in kept]
    assert loaded == [0, 1, 2, 3, 4]
    assert set(references._loaded) == {reference.token for reference in kept[-2:]}
    assert kept[0].load()[0] == 0


def test_a_value_that_does_not_fit_is_not_kept(values, monkeypatch):
    process = psutil.Process()
    before = process.num_fds()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(references, "_write_all", full)
    with pytest.raises(OSError, match="No space left"):
        values.put(np.ones(20_000))
    assert process.num_fds() == before


def test_without_proc_there_is_a_temporary_file(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "exists", lambda _: False)
    shared = SharedValues()
    reference = shared.put(np.ones(20_000))
    assert Path(reference.path).parent == tmp_path
    assert reference.load()[0] == 1
    shared.close()
    assert not list(tmp_path.iterdir())


def test_references_of_others_are_passed_over(values):
    values.release(ObjectReference(1))
    values.release(SharedReference("/nowhere", b"x" * 16))


def test_workers_share_one_copy():
    def facts(reference):
        array = reference.load()
        return float(array.sum()), array.flags.writeable, array is reference.load()

    with LocalExecutor(2) as executor:
        reference = executor.broadcast(np.ones(100_000))
        futures = executor.submit_many(facts, [(reference,)] * 6)
        assert {future.result(10) for future in futures} == {(100_000.0, False, True)}
        executor.release(reference)
        late = executor.submit_many(facts, [(pickle.loads(pickle.dumps(reference)),)] * 2)
        assert all(
            future.exception(10) is None or isinstance(future.exception(10), LookupError)
            for future in late
        )
