"""Public checks that every new code, executor and operator passes, ours or a stranger's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sooner.testing.adjoint import check_adjoint
    from sooner.testing.codes import check_code
    from sooner.testing.executors import check_executor

__all__ = ["check_adjoint", "check_code", "check_executor"]

_HOMES = {"check_adjoint": "adjoint", "check_code": "codes", "check_executor": "executors"}


def __getattr__(name: str) -> Any:
    """Import a check when it is first asked for: workers import this package, too."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
