"""From what the user has to an executor."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import sooner.executors
from sooner.executors import LocalExecutor, PoolExecutor, VirtualExecutor, as_executor
from sooner.executors.local import usable_cores


@pytest.mark.parametrize(
    ("name", "kind", "slots"),
    [
        (None, LocalExecutor, usable_cores()),
        ("local", LocalExecutor, usable_cores()),
        ("local:8", LocalExecutor, 8),
        ("processes:3", LocalExecutor, 3),
        ("threads:4", PoolExecutor, 4),
        ("threads", PoolExecutor, ThreadPoolExecutor()._max_workers),
    ],
)
def test_names(name, kind, slots):
    with as_executor(name) as executor:
        assert type(executor) is kind
        assert executor.slots == slots


def test_executors_pass_through_and_pools_are_wrapped():
    executor = VirtualExecutor([1.0])
    assert as_executor(executor) is executor
    with ThreadPoolExecutor(1) as pool:
        wrapped = as_executor(pool)
        assert wrapped.submit_many(abs, [(-1,)])[0].result(10) == 1
        wrapped.close()
        assert pool.submit(abs, -2).result(10) == 2, "the pool stays the user's"
    with as_executor(lambda: ThreadPoolExecutor(2)) as made:
        assert made.slots == 2


@pytest.mark.parametrize("wrong", ["cluster", "local:", "local:0", "local:many", "threads:-1", ""])
def test_names_that_are_none(wrong):
    with pytest.raises(ValueError, match=r"executor must be 'local', .* as in 'local:8', got '"):
        as_executor(wrong)


@pytest.mark.parametrize("wrong", [8, object(), [1]])
def test_what_is_no_executor(wrong):
    message = r"a concurrent\.futures\.Executor, a function that makes one, None, or a name such as"
    with pytest.raises(TypeError, match=message):
        as_executor(wrong)


def test_what_the_package_does_not_have():
    assert sooner.executors.__all__ == sorted(sooner.executors.__all__)
    for name in sooner.executors.__all__:
        assert getattr(sooner.executors, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = sooner.executors.Nothing
