"""Outputs of a job that outlive it: what an interrupted product need not compute again."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib import format as npy

from sooner.errors import StoreError, StoreNotFoundError
from sooner.store.location import as_location
from sooner.store.slabs import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from sooner._types import Array
    from sooner.store import CodedMatrix
    from sooner.store.location import StoreLike

__all__ = ["KeptOutputs"]

_log = logging.getLogger(__name__)

_CRC_BYTES = 4


class KeptOutputs:
    """A task's output per object: the bytes of a ``.npy`` file, then their CRC-32C.

    What is missing, damaged or of another product is computed again, and never taken.

    Parameters
    ----------
    store
        Where: a folder or a URL.
    n
        Number of tasks.
    shape
        Of an output.
    dtype
        Of an output.
    operands
        What is multiplied, coded matrices and arrays: outputs of others have other names.

    Examples
    --------
    >>> import sooner
    >>> coded, x = sooner.encode(np.eye(4), sooner.Uncoded(2)), np.ones(4)
    >>> store = sooner.MemoryStore()
    >>> kept = KeptOutputs.of_product(store, coded, x)
    >>> kept.save(1, np.ones(2))
    >>> [(task, value.tolist()) for task, value in kept.load()]
    [(1, [1.0, 1.0])]
    """

    def __init__(
        self,
        store: StoreLike,
        n: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        operands: Sequence[CodedMatrix | Array],
    ) -> None:
        self._location = as_location(store)
        self._n, self._shape, self._dtype = n, shape, dtype
        digest = hashlib.blake2b(digest_size=12)
        for operand in operands:
            if isinstance(operand, np.ndarray):
                digest.update(f"{operand.shape} {operand.dtype.str}".encode())
                digest.update(operand.tobytes())
            else:
                digest.update(json.dumps([operand.fingerprint, operand.code.spec()]).encode())
        self._key = digest.hexdigest()
        self._full = False

    @classmethod
    def of_product(cls, store: StoreLike, A: CodedMatrix, x: Array) -> KeptOutputs:
        """Those of the product of a coded matrix and an array.

        Parameters
        ----------
        store
            Where: a folder or a URL.
        A
            The coded matrix.
        x
            Shape (columns,) or (columns, width).

        Returns
        -------
        KeptOutputs
            The outputs.
        """
        x = np.asarray(x, dtype=x.dtype.newbyteorder("="))
        shape = (A.block_rows, *x.shape[1:])
        return cls(store, A.code.n, shape, np.result_type(A.dtype, x.dtype), (A, x))

    def __str__(self) -> str:
        return str(self._location)

    def _name(self, task: int) -> str:
        return f"output-{self._key}-{task:06d}.npy"

    def load(self) -> Iterator[tuple[int, Array]]:
        """Read what an earlier run has kept.

        Yields
        ------
        task : int
            Which task.
        value : ndarray
            Its output.
        """
        for task in range(self._n):
            try:
                data = self._location.read(self._name(task))
            except StoreNotFoundError:
                continue
            except StoreError as error:
                _log.warning("task %d of %d is computed again: %s", task, self._n, error)
                continue
            value = self._parse(data)
            if value is None:
                _log.warning(
                    "task %d of %d is computed again: its kept output %s is damaged",
                    *(task, self._n, self._name(task)),
                )
            else:
                yield task, value

    def _parse(self, data: bytes) -> Array | None:
        content, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
        if not content or checksum(np.frombuffer(content, np.uint8)).to_bytes(4, "little") != crc:
            return None
        value: Array = npy.read_array(io.BytesIO(content), allow_pickle=False)
        return value if (value.shape, value.dtype) == (self._shape, self._dtype) else None

    def save(self, task: int, value: Array) -> None:
        """Keep an output; one that cannot be kept costs a warning, not the job.

        Parameters
        ----------
        task
            Which task.
        value
            Its output.
        """
        if self._full:
            return
        stream = io.BytesIO()
        npy.write_array(stream, np.asarray(value), allow_pickle=False)
        stream.write(checksum(np.frombuffer(stream.getbuffer(), np.uint8)).to_bytes(4, "little"))
        try:
            self._location.write(self._name(task), stream.getvalue())
        except StoreError as error:
            self._full = True  # and said once
            _log.warning("outputs are not kept from task %d of %d on: %s", task, self._n, error)

    def drop(self, task: int) -> None:
        """Forget an output that turned out to be wrong.

        Parameters
        ----------
        task
            Which task.
        """
        self._location.discard([self._name(task)])

    def discard(self) -> None:
        """Remove the outputs of this product: its answer is where it belongs."""
        self._location.discard([self._name(task) for task in range(self._n)])
