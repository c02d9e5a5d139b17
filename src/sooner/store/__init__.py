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

__all__ = ["CodedMatrix", "MemoryStore", "open_coded"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "memory" if name == "MemoryStore" else "coded_matrix"
    return getattr(import_module(f"{__name__}.{home}"), name)
