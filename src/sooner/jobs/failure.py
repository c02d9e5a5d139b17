"""The error of a job that cannot end well: what came, what is missing, what went wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from sooner.errors import (
    JobStoppedError,
    JobTimeoutError,
    NotDecodableError,
    TaskFailedError,
    WrongOutputError,
)

if TYPE_CHECKING:
    from sooner.codes.base import Decoder
    from sooner.jobs.estimate import Estimate
    from sooner.trace import Trace

__all__ = ["failure", "not_exact"]


def failure(
    trace: Trace, decoder: Decoder, first_error: BaseException | None
) -> NotDecodableError | WrongOutputError:
    """Make the error that a job ends with when too many tasks failed too often.

    Parameters
    ----------
    trace
        What happened to each task.
    decoder
        What is available.
    first_error
        The first exception that a task raised; it becomes the cause, remote traceback and all.

    Returns
    -------
    NotDecodableError or WrongOutputError
        A `TaskFailedError` if any task raised.
    """
    if decoder.decodable:
        return WrongOutputError(
            f"the {int(np.count_nonzero(decoder.available))} available outputs of {trace.n} "
            "contradict each other, too few are spare to tell which are wrong, and no more will "
            "come. Ask for more spare outputs with verify_extra, and look at the workers."
        )
    raised = [record.error or "" for record in trace if record.outcome == "raised"]
    kinds = Counter(error.partition(":")[0] for error in raised)
    lost = sum(record.outcome == "lost" for record in trace)
    counts = [f"{kind} {count} times" for kind, count in kinds.most_common()]
    if lost:
        counts.append(f"no answer {lost} times")
    missing = np.flatnonzero(~decoder.available).tolist()
    n_available = trace.n - len(missing)
    message = (
        f"{n_available} of {trace.n} outputs are available, at least {decoder.n_missing} more are "
        f"needed, and no task that could give them is left ({', '.join(counts)})."
    )
    if raised:
        message += f" The first error: {raised[0]}"
    error = (TaskFailedError if raised else NotDecodableError)(
        message, n_available=n_available, missing=missing, n_needed=decoder.n_missing
    )
    error.__cause__ = first_error
    return error


def not_exact(
    estimate: Estimate, decoder: Decoder, reason: str, *, in_time: bool
) -> JobTimeoutError | JobStoppedError:
    """Make the error of a result that is asked for when the answer is not exact.

    Parameters
    ----------
    estimate
        What there is instead.
    decoder
        What is available.
    reason
        Why nobody waits any longer.
    in_time
        Whether that is something else than the time.

    Returns
    -------
    JobTimeoutError or JobStoppedError
        The error; it carries the estimate.
    """
    kind = JobStoppedError if in_time else JobTimeoutError
    missing = (
        f"at least {decoder.n_missing} more are needed" if decoder.n_missing else "they suffice"
    )
    return kind(
        f"the answer is not exact and {reason}: {estimate.n_available} of "
        f"{decoder.available.size} outputs came, {missing}. Wait longer, or use the estimate that "
        "this error carries.",
        estimate=estimate,
    )
