"""How many cores this process may use; said once for workers, encoding and decoding."""

from __future__ import annotations

import os

__all__ = ["usable_cores"]


def usable_cores() -> int:
    """Count the cores that this process may use.

    Returns
    -------
    int
        At least 1; fewer than the machine has when the process is confined to some.

    Examples
    --------
    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
