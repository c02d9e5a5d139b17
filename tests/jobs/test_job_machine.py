"""Whatever happens to its tasks, a job ends, in time, and exact means exact.

A state machine on the virtual clock: the fate of the tasks is drawn, and so is what the caller does
meanwhile.
"""

import contextlib
import math

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import sooner
from sooner import policy
from sooner.errors import JobStoppedError, JobTimeoutError, NotDecodableError, WrongOutputError
from sooner.executors import VirtualExecutor

NEVER = math.inf
N, K = 16, 12

rng = np.random.default_rng(3)
A, x = rng.standard_normal((50, 4)), rng.standard_normal(4)
CODED = {
    "polar": sooner.encode(A, sooner.PolarCode(N, K, rng=0)),
    "systematic": sooner.encode(A, sooner.PolarCode(N, K, systematic=True, rng=0)),
    "side by side": sooner.encode(A, sooner.SideBySide([sooner.PolarCode(8, 6)] * 2)),
    "replication": sooner.encode(A, sooner.Replication(N, K)),
}

ordinals = st.sets(st.integers(0, 4 * N), max_size=2 * N)


class FaultyExecutor(VirtualExecutor):
    """Tasks raise, return wrong numbers, are lost, and are announced again after their end."""

    def __init__(self, run_times, *, raising, damaged, **options):
        super().__init__(run_times, **options)
        self.raising, self.damaged = raising, damaged
        self.n, self.ended = 0, set()

    def submit_many(self, fn, args, **options):
        def faulty(ordinal, *arguments):
            if ordinal in self.raising:
                raise ZeroDivisionError(f"task number {ordinal}")
            output = fn(*arguments)
            return output._replace(value=output.value + 1.0) if ordinal in self.damaged else output

        first, self.n = self.n, self.n + len(args)
        numbered = [(first + i, *arguments) for i, arguments in enumerate(args)]
        return super().submit_many(faulty, numbered, **options)

    def wait(self, futures, timeout=None):
        self.ended |= super().wait(futures, timeout)
        return set(self.ended)


class JobMachine(RuleBasedStateMachine):
    """A caller who waits, looks and iterates, in any order."""

    @initialize(
        name=st.sampled_from(sorted(CODED)),
        run_times=st.lists(st.floats(0, 100) | st.just(NEVER), min_size=N, max_size=3 * N),
        slots=st.none() | st.integers(1, N + 2),
        lost=ordinals,
        raising=ordinals,
        damaged=st.sets(st.integers(0, N - 1), max_size=1),
        verify_extra=st.integers(0, 4),
        rules=st.fixed_dictionaries({
            "policy": st.sampled_from(policy.POLICIES),
            "retries": st.integers(0, 2),
            "losses": st.integers(0, 3),
            "timeout": st.just(200.0),
        }),
        deadline=st.none() | st.floats(0, 300),
    )
    def start(
        self, name, run_times, slots, lost, raising, damaged, verify_extra, rules, deadline
    ):  # fmt: skip
        self.executor = FaultyExecutor(
            run_times, slots=slots, lost=lost, raising=raising, damaged=damaged
        )
        self.rules, self.deadline, self.damaged = rules, deadline, damaged
        self.job = sooner.matvec(
            CODED[name], x, executor=self.executor, deadline=deadline,
            verify_extra=verify_extra, **rules,
        )  # fmt: skip
        self.n_seen = 0

    @rule()
    def look(self):
        estimate = self.job.estimate
        assert estimate.n_available >= self.n_seen - len(self.damaged)
        assert estimate.value.shape == (50,)
        self.n_seen = estimate.n_available

    @rule(seconds=st.floats(0, 50))
    def wait(self, seconds):
        before = self.executor.now()
        with contextlib.suppress(JobTimeoutError, NotDecodableError, WrongOutputError):
            self.job.result(timeout=seconds)
        assert self.executor.now() <= before + seconds + 1e-9

    @precondition(lambda self: not self.job.done())
    @rule()
    def go_on(self):
        with contextlib.suppress(NotDecodableError, WrongOutputError):
            next(iter(self.job))

    def teardown(self):
        if not hasattr(self, "job"):
            return
        try:
            outcome = self.job.result()
        except (NotDecodableError, JobTimeoutError, WrongOutputError) as error:
            outcome = error
        assert self.job.done()
        if self.deadline is not None:
            assert self.job.estimate.elapsed <= self.deadline + 1e-9 or self.job.estimate.exact
        self.check(outcome)
        attempts = [record.task for record in self.job.trace]
        allowed = 1 + self.rules["retries"] + self.rules["losses"]
        assert max(map(attempts.count, range(N))) <= allowed
        assert all(record.outcome != "running" for record in self.job.trace)
        self.job.cancel()
        assert not self.executor._n_busy

    def check(self, outcome):
        if isinstance(outcome, JobTimeoutError):
            assert self.deadline is not None
            assert not isinstance(outcome, JobStoppedError)
            assert outcome.estimate.value.shape == (50,)
        elif isinstance(outcome, NotDecodableError):
            assert outcome.n_needed >= 1
            came = {record.task for record in self.job.trace if record.outcome == "ok"}
            assert set(outcome.missing) == set(range(N)) - came
        elif isinstance(outcome, WrongOutputError):
            assert self.damaged
        else:
            assert self.job.trace.decodable is not None
            # A wrong output is seen where there are outputs to spare, and only there.
            if not self.damaged or self.job.checked.n_spare >= 4:
                np.testing.assert_allclose(outcome, A @ x, rtol=1e-8, atol=1e-8)


TestJobMachine = JobMachine.TestCase
TestJobMachine.settings = settings(max_examples=150, stateful_step_count=8, deadline=None)
