"""Sockets of the driver: none of them may ever block the thread that serves them all."""

from __future__ import annotations

import contextlib
import selectors
from typing import TYPE_CHECKING

from sooner.executors._wire import FRAME_HEAD

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["Channel", "FrameReader"]

_READ_SIZE = 1 << 16


class Channel:
    """A socket in a selector; it keeps what could not be sent yet.

    Parameters
    ----------
    connection
        The socket; the channel closes it.
    selector
        Where it is registered.
    on_readable
        Called when there is something to read, or an end to notice.
    """

    def __init__(
        self,
        connection: socket.socket,
        selector: selectors.BaseSelector,
        on_readable: Callable[[], None],
    ) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.closed = False
        self._selector = selector
        self._on_readable = on_readable
        self._unsent = bytearray()
        selector.register(connection, selectors.EVENT_READ, self._on_ready)

    def send(self, data: bytes) -> None:
        """Send now what the socket takes, and the rest when it takes more.

        Parameters
        ----------
        data
            What to send.
        """
        if self.closed:
            return
        if self._unsent:
            self._unsent += data
            return
        sent = self._try_send(data)
        if sent < len(data):
            self._unsent += memoryview(data)[sent:]
            self._want(selectors.EVENT_READ | selectors.EVENT_WRITE)

    def close(self) -> None:
        """Forget what is unsent and close the socket; a second time does nothing."""
        if not self.closed:
            self.closed = True
            self._unsent.clear()
            with contextlib.suppress(KeyError, ValueError, OSError):
                self._selector.unregister(self.connection)
            self.connection.close()

    def _on_ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE and not self.closed:
            with memoryview(self._unsent) as view:
                sent = self._try_send(view)
            del self._unsent[:sent]
            if not self._unsent:
                self._want(selectors.EVENT_READ)
        if events & selectors.EVENT_READ and not self.closed:
            self._on_readable()

    def _want(self, events: int) -> None:
        self._selector.modify(self.connection, events, self._on_ready)

    def _try_send(self, data: bytes | memoryview) -> int:
        try:
            return self.connection.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # the other end is gone, which reading will tell
            return len(data)


class FrameReader:
    """Reads one result at a time from a socket that does not block."""

    def __init__(self) -> None:
        self._head = b""
        self._frame: bytearray | None = None
        self._filled = 0

    def read(self, connection: socket.socket) -> bytearray | None:
        """Read what there is.

        Parameters
        ----------
        connection
            From a worker.

        Returns
        -------
        bytearray or None
            A whole result, or None when there is more to come.

        Raises
        ------
        BlockingIOError
            If there is nothing to read now.
        EOFError
            If the worker's end is closed.
        """
        try:
            if self._frame is None:
                self._start(connection.recv(_READ_SIZE))
            else:
                with memoryview(self._frame) as view, view[self._filled :] as rest:
                    count = connection.recv_into(rest)
                if count == 0:
                    raise EOFError
                self._filled += count
        except BlockingIOError:
            raise
        except OSError as error:
            raise EOFError from error
        frame = self._frame
        if frame is None or self._filled < len(frame):
            return None
        self._frame = None
        return frame

    def _start(self, data: bytes) -> None:
        if not data:
            raise EOFError
        data = self._head + data
        if len(data) < FRAME_HEAD.size:
            self._head = data
            return
        self._head = b""
        (length,) = FRAME_HEAD.unpack_from(data)
        self._filled = len(data) - FRAME_HEAD.size  # one task in flight: no second result follows
        self._frame = bytearray(length)
        self._frame[: self._filled] = memoryview(data)[FRAME_HEAD.size :]
