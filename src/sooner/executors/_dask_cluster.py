"""What a Dask cluster tells one client: which workers there are, and which tasks have begun.

A client has one handler for each topic, and users make an executor for each product: so there is
one listener for each client, and it tells all executors.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    import distributed

    from sooner.executors.references import SharedValues

__all__ = ["BEGAN", "DaskCluster", "cluster_of"]

BEGAN = "sooner-task-began"
"""Topic and kind of the event by which a task says that it runs."""

_PROBE = b"x" * (1 << 17)


class Listener(Protocol):
    """What wants to know of a cluster's events, in the client's own thread."""

    def on_began(self, event: Mapping[str, Any]) -> None:
        """Take note of a task that began."""

    def on_workers(self, lost: str | None, keys: Set[str]) -> None:
        """Take note that workers came, or that one is lost that had these keys."""


class DaskCluster:
    """What one client knows; it does not keep the client alive."""

    def __init__(self) -> None:
        self.workers: set[str] = set()
        """Addresses."""
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._users: Callable[[Any], Any] | None = None
        self._lock = threading.Lock()
        self._listening = False
        self._mapping: dict[frozenset[str], bool] = {}

    def listen(self, client: distributed.Client, listener: Listener) -> None:
        """Tell a listener of events from now on, as long as it lives.

        Parameters
        ----------
        client
            The client.
        listener
            Who wants to know; not kept alive.
        """
        with self._lock:
            self._listeners.add(listener)
            weakref.finalize(listener, self.leave, weakref.ref(client)).atexit = False
            if self._listening:
                return
            self._listening = True
        users = getattr(client, "_event_handlers", {}).get("all")
        self._users = None if users == self._take else users
        client.subscribe_topic("all", self._take)
        client.subscribe_topic(BEGAN, self._take)
        self.workers = set(client.nthreads())

    def leave(
        self, client: weakref.ref[distributed.Client], listener: Listener | None = None
    ) -> None:
        """Tell a listener nothing any more; without any left, the client does not listen either.

        Parameters
        ----------
        client
            The client, if it lives.
        listener
            Who does not want to know any more; None if it is gone.
        """
        with self._lock:
            if listener is not None:
                self._listeners.discard(listener)
            if list(self._listeners) or not self._listening:  # not len: some may be dead
                return
            self._listening = False
            alive = client()
            if alive is None or alive.status != "running":
                return
            alive.unsubscribe_topic(BEGAN)
            if self._users is None:
                alive.unsubscribe_topic("all")
            else:
                alive.subscribe_topic("all", self._users)

    def _take(self, event: tuple[float, Any]) -> None:
        if self._users is not None:
            self._users(event)
        message = event[1]
        if not isinstance(message, dict):
            return
        kind, lost, keys = message.get("action"), None, set()
        if kind == BEGAN:
            for listener in list(self._listeners):
                listener.on_began(message)
            return
        if kind == "add-worker":
            self.workers.add(message["worker"])
        elif kind == "remove-worker":
            lost, keys = message["worker"], message["processing-tasks"]
            self.workers.discard(lost)
        else:
            return
        for listener in list(self._listeners):
            listener.on_workers(lost, keys)

    def maps_memory_of_driver(
        self, client: distributed.Client, values: SharedValues, own_address: str
    ) -> bool:
        """Whether all workers can map this process's memory; tried once for each set of them.

        Parameters
        ----------
        client
            The client.
        values
            To try it with.
        own_address
            Of this machine.

        Returns
        -------
        bool
            False if one of them is on another machine, or in a container.
        """
        workers = frozenset(self.workers)
        if workers not in self._mapping:
            own = {"127.0.0.1", "localhost", "::1", own_address}
            can = bool(workers) and all(urlsplit(each).hostname in own for each in workers)
            if can:
                probe = values.put(_PROBE)
                found = client.run(probe.load, on_error="return")
                can = all(each == _PROBE for each in found.values())
                values.release(probe)
            self._mapping = {workers: can}
        return self._mapping[workers]


_clusters: weakref.WeakKeyDictionary[distributed.Client, DaskCluster] = weakref.WeakKeyDictionary()


def cluster_of(client: distributed.Client) -> DaskCluster:
    """Give what a client knows of its cluster.

    Parameters
    ----------
    client
        The client.

    Returns
    -------
    DaskCluster
        The same one for the same client.
    """
    return _clusters.setdefault(client, DaskCluster())
