"""The executor of an operator: made when it is first needed, and left behind by pickling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sooner.executors import as_executor

if TYPE_CHECKING:
    from sooner.executors.base import Executor

__all__ = ["Engine"]


class Engine:
    """An executor that several operators share, adapted once.

    Pickling takes along its name (``"local:8"``) if it has one, from which an executor is made
    anew where it is needed; any other holds processes or connections of this process, and stays.

    Parameters
    ----------
    given
        Whatever `as_executor` takes.

    Raises
    ------
    TypeError
        If it takes it not.
    ValueError
        If a name is not known.
    """

    def __init__(self, given: Any) -> None:
        self._name = "local" if given is None else given if isinstance(given, str) else None
        self._executor: Executor | None = as_executor(given)

    @property
    def executor(self) -> Executor:
        """The executor.

        Raises
        ------
        RuntimeError
            If it was left behind.
        """
        if self._executor is None:
            if self._name is None:
                raise RuntimeError(
                    "an unpickled operator must be given an executor, since its own stayed in the "
                    "process that made it. Use CodedLinearOperator(operator.A, executor), or make "
                    "the operator with the name of one, such as 'local:8', which travels."
                )
            self._executor = as_executor(self._name)
        return self._executor

    def close(self) -> None:
        """Close the executor if it was made from a name; the user's own stays open."""
        if self._name is not None and self._executor is not None:
            self._executor.close()
            self._executor = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_name": self._name, "_executor": None}
