"""How values travel between driver and workers: pickles with large buffers beside them.

One layout serves the results that workers send, the values that are shared by a memory file, and
those that travel inside a reference: a count, the length of each part, the pickle, then the
buffers, every part at a multiple of 64 bytes.  So an array can be used where it lies.
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FRAME_HEAD", "TASK_HEAD", "dumps", "pack", "unpack"]

FRAME_HEAD = struct.Struct("<Q")
"""Before a result: its length."""

TASK_HEAD = struct.Struct("<QQ")
"""Before a task: length of the function (0: the same as before) and of the arguments."""

_ALIGNMENT = 64
_MAIN = b"__main__"


def dumps(
    value: object, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None
) -> bytes:
    """Pickle `value`, by value where it comes from the user's main module.

    Workers never import that module, so a pickle that names it is of no use there.

    Parameters
    ----------
    value
        Anything that pickle or cloudpickle can take.
    buffer_callback
        Given each large buffer, which then is not in the pickle (PEP 574).

    Returns
    -------
    bytes
        The pickle.
    """
    buffers: list[pickle.PickleBuffer] = []
    take = None if buffer_callback is None else buffers.append
    try:
        data = pickle.dumps(value, 5, buffer_callback=take)
    except Exception:
        data = _MAIN
    if _MAIN in data:
        import cloudpickle

        buffers.clear()
        data = cloudpickle.dumps(value, 5, buffer_callback=take)
    if buffer_callback is not None:
        for buffer in buffers:
            buffer_callback(buffer)
    return data


def pack(value: object) -> list[bytes | memoryview]:
    """Pickle `value` without copying its arrays.

    Parameters
    ----------
    value
        Anything that can be pickled.

    Returns
    -------
    list of bytes-like
        What to write, one after the other.

    Examples
    --------
    >>> unpack(b"".join(pack({"a": 1})))
    {'a': 1}
    """
    buffers: list[pickle.PickleBuffer] = []
    data = dumps(value, buffers.append)
    parts = [memoryview(data), *(buffer.raw() for buffer in buffers)]
    head = struct.pack(f"<{1 + len(parts)}Q", len(parts), *(part.nbytes for part in parts))
    chunks: list[bytes | memoryview] = [head + bytes(-len(head) % _ALIGNMENT)]
    for part in parts:
        chunks += [part, bytes(-part.nbytes % _ALIGNMENT)]
    return chunks


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """Read what `pack` wrote.

    Parameters
    ----------
    data
        The chunks, joined.

    Returns
    -------
    object
        The value; its arrays lie in `data`, and are read-only when that is.
    """
    view = memoryview(data)
    (count,) = struct.unpack_from("<Q", view)
    lengths = struct.unpack_from(f"<{count}Q", view, 8)
    position = 8 * (1 + count)
    parts = []
    for length in lengths:
        position += -position % _ALIGNMENT
        parts.append(view[position : position + length])
        position += length
    return pickle.loads(parts[0], buffers=parts[1:])
