"""All checks, one after the other; what one finds does not hide what the next would."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from sooner import _checks
from sooner.doctor import buckets, engines, network, packages, storage
from sooner.doctor.engines import ENGINES
from sooner.doctor.finding import Finding, check
from sooner.executors.worker import run_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sooner.executors import Executor

__all__ = ["ENGINES", "examine", "examine_store"]

_LATE = "Can it be reached from here?"


def examine(
    *,
    engine: str = "local",
    address: str | None = None,
    store: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    timeout: float = 10.0,
) -> Iterator[Finding]:
    """Look at everything that a coded product needs, one check after the other.

    Parameters
    ----------
    engine
        One of `ENGINES`.  Lithops is configured by its own file.
    address
        Of a Dask scheduler or a Ray cluster; None for the one that Ray finds.
    store
        Folder or URL that coded matrices will be in: something small is written there, read back,
        multiplied by the workers, and removed.  None for no store.
    storage_options
        Of a store behind a URL.
    timeout
        Seconds that each check may take.

    Yields
    ------
    Finding
        As each check ends.

    Raises
    ------
    ValueError
        If `engine` is none of them.

    Examples
    --------
    >>> all(finding.ok for finding in examine(engine="local"))
    True
    """
    _checks.positive(timeout, "timeout")
    _checks.one_of(engine, "engine", ENGINES)
    options = dict(storage_options or {})
    remote = store is not None and "://" in store
    needed = {engine} | ({"s3"} if remote else set())
    yield check("python", timeout, packages.versions)
    for name in packages.EXTRAS:
        look = functools.partial(packages.extra, name, needed=name in needed)
        yield check(name, timeout, look)
    kept = store
    if store is not None:
        for finding in examine_store(store, options, timeout):
            yield finding
            if not finding.ok:
                kept = None
    also = ("obstore",) if remote else ()
    yield from _examine_engine(engine, address, kept, options, also, timeout)


def examine_store(store: str, options: Mapping[str, Any], timeout: float) -> Iterator[Finding]:
    """Look at a store alone.

    Parameters
    ----------
    store, options, timeout
        As in `examine`.

    Yields
    ------
    Finding
        As each check ends.
    """
    half = timeout / 2  # for one question, so that it is known which one had no answer
    if "://" in store:
        if store.startswith("s3"):
            look = functools.partial(buckets.find_credentials, options, half)
            yield check("credentials", timeout, look, late=_LATE)
        if endpoint := buckets.endpoint_of(store, options):
            for name, ask in (("proxy", network.ask_proxy), ("endpoint", network.ask_clock)):
                yield check(name, timeout, functools.partial(ask, endpoint, half), late=_LATE)
        options = buckets.in_haste(options, timeout)
        look = functools.partial(buckets.ask_bucket, store, options)
        bucket = check("bucket", timeout, look, late=_LATE)
        yield bucket
        if not bucket.ok:
            return  # writing would fail for the same reason, and take its time
    look = functools.partial(storage.write_and_read_back, store, options)
    yield check("store", timeout, look, late=_LATE)


def _examine_engine(
    engine: str,
    address: str | None,
    store: str | None,
    options: Mapping[str, Any],
    also: tuple[str, ...],
    timeout: float,
) -> Iterator[Finding]:
    found: list[Executor] = []
    stack = contextlib.ExitStack()

    def connect() -> str:
        executor = engines.connect(engine, address, timeout / 2, stack)
        found.append(executor)
        return f"{executor!r}: {executor.slots or 'an unknown number of'} slots"

    try:
        yield check("engine", timeout, connect, late=_LATE)
        if found:
            late = "Are the workers alive, and free?"
            look = functools.partial(engines.compare_workers, found[0], also=also)
            yield check("workers", timeout, look, late=late)
            look = functools.partial(engines.multiply, found[0], store, options)
            yield check("product", timeout, look, late=late)
    finally:
        with contextlib.suppress(Exception):  # it has been said what is wrong
            run_bounded(timeout, stack.close)
