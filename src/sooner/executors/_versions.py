"""What is installed here and on workers: where it differs, pickles may not be understood."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["version_probe", "warn_of_other_versions"]

logger = logging.getLogger(__name__)


def version_probe() -> Callable[[], dict[str, str]]:
    """Make a function that travels by value: where it runs, sooner may be missing.

    Returns
    -------
    callable
        Gives the versions of what must agree, by name, without what is not installed.

    Examples
    --------
    >>> import numpy
    >>> version_probe()()["numpy"] == numpy.__version__
    True
    """

    def find() -> dict[str, str]:
        import platform
        from importlib import metadata

        found = {"Python": platform.python_version()}
        for name in ("sooner", "numpy", "cloudpickle"):
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return found

    return find


def warn_of_other_versions(engine: str, workers: Iterable[Mapping[str, str]]) -> None:
    """Log one line if a worker has something in another version than this process.

    Parameters
    ----------
    engine
        What the workers belong to.
    workers
        What `version_probe` found on each.
    """
    here = version_probe()()
    for there in workers:
        differing = [
            f"{name} {there.get(name, 'missing')} (here {version})"
            for name, version in here.items()
            if there.get(name) != version
        ]
        if differing:
            logger.warning(
                "%s: a worker has %s; tasks may fail. Install the same versions there.",
                engine,
                ", ".join(differing),
            )
            return
