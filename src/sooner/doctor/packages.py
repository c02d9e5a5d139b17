"""Versions and extras, of this process and of workers."""

from __future__ import annotations

import platform
from importlib import metadata

from sooner.doctor.finding import CheckFailedError

__all__ = ["EXTRAS", "extra", "version", "versions"]

EXTRAS = {
    "cli": ("click", "rich"),
    "plots": ("matplotlib",),
    "demo": ("scikit-learn", "pillow"),
    "s3": ("obstore",),
    "dask": ("distributed",),
    "ray": ("ray",),
    "lithops": ("lithops",),
}
"""What each extra installs."""


def version(name: str) -> str | None:
    """Version of an installed distribution; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions() -> str:
    """Versions of Python and of what sooner always needs."""
    names = ("sooner", "numpy", "scipy", "cloudpickle")
    return f"Python {platform.python_version()}, {_listed(names)}"


def extra(name: str, *, needed: bool) -> str:
    """Versions of what an extra installs, or how to install it.

    Parameters
    ----------
    name
        Of the extra.
    needed
        Whether it is wrong that something is not installed.

    Returns
    -------
    str
        What there is.

    Raises
    ------
    CheckFailedError
        If something is not installed, and needed.
    """
    missing = [package for package in EXTRAS[name] if version(package) is None]
    if not missing:
        return _listed(EXTRAS[name])
    advice = f'{" and ".join(missing)} not installed: pip install "sooner[{name}]"'
    if needed:
        raise CheckFailedError(advice)
    return f"{advice}, if wanted"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {version(name)}" for name in names)
