"""How long tasks take on somebody's workers: the run times that `sooner.design` starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sooner import _checks
from sooner.codes import Uncoded
from sooner.executors import as_executor
from sooner.jobs.encoding import encode
from sooner.jobs.products import matvec
from sooner.store import CodedMatrix
from sooner.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from sooner.executors import Executor
    from sooner.store.location import StoreLike

__all__ = ["measure"]


@dataclass(frozen=True, slots=True)
class _WaitForAll:
    """Blocks of a matrix as if uncoded, so that a job waits for all of them."""

    blocks: CodedMatrix
    n: int
    """Tasks; the blocks are taken in turn."""

    @property
    def code(self) -> Uncoded:
        return Uncoded(self.n)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.blocks.dtype

    @property
    def block_rows(self) -> int:
        return self.blocks.block_rows

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n * self.block_rows, self.blocks.shape[1])

    def block_source(self, index: int) -> dict[str, Any]:
        return self.blocks.block_source(index % self.blocks.code.n)


def measure(
    A: CodedMatrix | tuple[int, int],
    *,
    executor: Any,
    tasks: int | None = None,
    rounds: int = 3,
    store: StoreLike = None,
    dtype: DTypeLike = "float64",
    deadline: float | None = None,
) -> Trace:
    """Time real tasks on real workers, round after round, and wait for all of them.

    Parameters
    ----------
    A
        A coded matrix, whose own blocks are multiplied; or the shape of a block, (rows, columns),
        to measure before anything is encoded.  A single block of that shape is written then, and
        every task reads it: the first round includes that, as a first product does.
    executor
        Where tasks run: whatever `as_executor` takes.
    tasks
        Tasks per round, at most one for each worker; as many as the executor has unless given,
        or the coded matrix blocks.
    rounds
        How often; what is slow once in a hundred tasks needs some hundred of them to be seen.
    store
        Where the block is written, if `A` is a shape: a folder or URL that workers reach.
    dtype
        Of the block, if `A` is a shape.
    deadline
        Seconds that a round may take.

    Returns
    -------
    Trace
        Of all rounds: task i of round r is task ``r * tasks + i``, ``meta["rounds"]`` says how
        many there are.  `sooner.design` takes it as it is, or the file that `Trace.to_jsonl`
        writes.

    Raises
    ------
    ValueError
        If there are more tasks than workers: run times would include the waiting.
    StoreExistsError
        If there is a coded matrix in `store` already.
    TimeoutError
        If a round takes longer than its deadline.

    Examples
    --------
    >>> trace = measure((100, 50), executor="threads:4", rounds=2)
    >>> trace.n, trace.meta["rounds"], all(record.outcome == "ok" for record in trace)
    (8, 2, True)
    """
    rounds = _checks.integer(rounds, "rounds", at_least=1)
    runner = as_executor(executor)
    try:
        tasks = _tasks(A, runner, tasks)
        if not isinstance(A, CodedMatrix):
            A = _one_block(A, store, dtype)
        together = Trace(
            n=rounds * tasks,
            k=rounds * tasks,
            meta={"rounds": rounds, "block": [A.block_rows, A.shape[1]], "dtype": str(A.dtype)},
        )
        x = np.ones(A.shape[1], dtype=A.dtype)
        for number in range(rounds):
            blocks = cast("CodedMatrix", _WaitForAll(A, tasks))
            with matvec(blocks, x, executor=runner, deadline=deadline) as job:
                job.result()
            _append(together, job.trace, number * tasks)
        return together
    finally:
        if runner is not executor and not hasattr(executor, "submit"):
            runner.close()


def _tasks(A: CodedMatrix | tuple[int, int], runner: Executor, tasks: int | None) -> int:
    slots = runner.slots
    if tasks is None:
        tasks = A.code.n if isinstance(A, CodedMatrix) else slots
    if tasks is None:
        raise ValueError("tasks must be given, since this executor does not know its workers.")
    tasks = _checks.integer(tasks, "tasks", at_least=1)
    if slots is not None and tasks > slots:
        raise ValueError(
            f"each of the {tasks} tasks must have a worker, or run times include the waiting, got "
            f"{slots} workers. Use tasks={slots}, or more workers."
        )
    return tasks


def _one_block(shape: tuple[int, int], store: StoreLike, dtype: DTypeLike) -> CodedMatrix:
    rows, columns = (_checks.integer(size, "shape", at_least=1) for size in shape)
    row = np.random.default_rng(0).standard_normal(columns).astype(dtype)
    return encode(np.broadcast_to(row, (rows, columns)), Uncoded(1), store)


def _append(together: Trace, trace: Trace, first_task: int) -> None:
    """Add a round to those before it, later by what these took."""
    offset = max((record.available or 0.0 for record in together), default=0.0)
    for record in trace:
        moved: dict[str, Any] = {
            name: None if time is None else time + offset
            for name in ("submitted", "handed", "started", "finished", "available")
            for time in [getattr(record, name)]
        }
        together.records.append(replace(record, task=record.task + first_task, **moved))
