"""Coded matrices at rest: one ``.npy`` per coded block, and a manifest that is written last.

Workers import only `sooner.store.slabs`, which needs NumPy and the standard library; so the names
below are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sooner.store.coded_matrix import CodedMatrix, open_coded
    from sooner.store.memory import MemoryStore
    from sooner.store.repairing import Repair, repair
    from sooner.store.verification import Verification, verify

__all__ = [
    "CodedMatrix",
    "MemoryStore",
    "Repair",
    "Verification",
    "open_coded",
    "repair",
    "verify",
]

_HOME_OF = {
    "CodedMatrix": "coded_matrix",
    "MemoryStore": "memory",
    "Repair": "repairing",
    "Verification": "verification",
    "open_coded": "coded_matrix",
    "repair": "repairing",
    "verify": "verification",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
