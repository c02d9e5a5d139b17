import numpy as np
import pytest

import sooner


class Rounds(sooner.VirtualExecutor):
    """A virtual executor that counts rounds of tasks and the tasks in them."""

    def __init__(self, run_times=(1.0, 2.0, 1.5, float("inf"), 1.2), **options):
        super().__init__(run_times, **options)
        self.rounds = []

    def submit_many(self, fn, args, **options):
        self.rounds.append(len(args))
        return super().submit_many(fn, args, **options)


@pytest.fixture
def executor():
    return Rounds()


@pytest.fixture
def operator_of(executor):
    """Makes the operator of a matrix, of 16 tasks that run on a virtual clock."""

    def make(A, code=None, *, adjoint=True, **options):
        coded = sooner.encode(A, code or sooner.PolarCode(16, 12, rng=0), adjoint=adjoint)
        return sooner.CodedLinearOperator(coded, executor, **options)

    return make


@pytest.fixture
def matrix():
    """Makes a random matrix of any kind."""

    def make(shape, dtype="f8", seed=0):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal(shape)
        if np.dtype(dtype).kind == "c":
            return (A + 1j * rng.standard_normal(shape)).astype(dtype)
        return A.astype(dtype)

    return make
