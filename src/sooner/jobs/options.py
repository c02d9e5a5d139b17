"""What a product is asked for besides its operands, and how its job begins."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner.codes.estimate import METHODS
from sooner.executors import as_executor
from sooner.jobs.answer import Answer
from sooner.jobs.job import Job
from sooner.jobs.limits import Limits
from sooner.jobs.space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sooner._types import Array
    from sooner.codes.base import Code
    from sooner.jobs.estimate import Estimate
    from sooner.jobs.kept import KeptOutputs
    from sooner.jobs.launcher import Rules
    from sooner.jobs.space import Out
    from sooner.jobs.work import Work
    from sooner.store.location import StoreLike

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a product that do not depend on its operands, checked; see `matvec`."""

    executor: Any
    rules: Rules
    estimator: str
    verify_extra: int
    deadline: float | None
    rtol: float | None
    callback: Callable[[Estimate], Any] | None
    out: Out
    keep: StoreLike
    max_memory: int | None
    delays: Sequence[float] | None

    def __post_init__(self) -> None:
        _checks.integer(self.verify_extra, "verify_extra", at_least=0)
        _checks.one_of(self.estimator, "estimator", METHODS)
        if self.max_memory is not None:
            _checks.integer(self.max_memory, "max_memory", at_least=1)
        for name in ("deadline", "rtol"):
            if getattr(self, name) is not None:
                _checks.not_negative(getattr(self, name), name)
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be a function of an estimate, got {self.callback!r}.")

    def start(
        self,
        code: Code,
        work: Work,
        arguments: Callable[..., tuple[Any, ...]] | None = None,
        *,
        broadcast: Array | None = None,
        gram: Array | None = None,
        kept: KeptOutputs | None = None,
    ) -> Job:
        """Start a job; nothing is sent when something does not fit.

        Parameters
        ----------
        code
            The code.
        work
            What the tasks compute, their arguments aside.
        arguments
            Gives those of a task, from its index and the reference to what is broadcast; a pause
            in seconds is added as the last one.  None if there is nothing to compute.
        broadcast
            What all tasks need.
        gram
            Inner products of the data blocks.
        kept
            Where outputs outlive the job.

        Returns
        -------
        Job
            Under way already.

        Raises
        ------
        ValueError
            If there are not as many delays as tasks.
        """
        pauses = [0.0] * code.n if self.delays is None else [float(d) for d in self.delays]
        if len(pauses) != code.n or not all(pause >= 0 for pause in pauses):
            raise ValueError(
                f"delays must hold {code.n} numbers, one per task and none negative, got "
                f"{self.delays!r}."
            )
        space = Space(work, code.n, code.k, out=self.out, max_memory=self.max_memory)
        runner = as_executor(self.executor)
        references = [] if broadcast is None else [runner.broadcast(broadcast)]
        if arguments is not None:
            args = [(*arguments(task, *references), pause) for task, pause in enumerate(pauses)]
            work = dataclasses.replace(work, args=args)
        answer = Answer(
            code,
            work,
            estimator=self.estimator,
            gram=gram,
            verify_extra=self.verify_extra,
            space=space,
        )
        return Job(
            code,
            work,
            runner,
            answer=answer,
            limits=Limits(
                math.inf if self.deadline is None else self.deadline, self.rtol, self.callback
            ),
            rules=self.rules,
            kept=kept,
            references=references,
            owns_executor=runner is not self.executor and not hasattr(self.executor, "submit"),
        )
