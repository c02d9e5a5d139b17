"""What this process may use of its machine: cores and memory; said once for all layers."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["usable_cores", "usable_memory"]

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),  # version 2
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),  # version 1
)


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


def usable_memory() -> int | None:
    """Bytes of memory that this process may ever use.

    Returns
    -------
    int or None
        The least of the machine's memory, the container's and the process's limit; None where the
        system does not say.

    Examples
    --------
    >>> usable_memory() > 1 << 20
    True
    """
    limits: list[int] = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            limits.append(int(path.read_text(encoding="ascii")))
    with contextlib.suppress(ImportError):  # there is none on Windows
        import resource

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            soft, _ = resource.getrlimit(kind)
            limits += [] if soft == resource.RLIM_INFINITY else [soft]
    return min(limits, default=None)
