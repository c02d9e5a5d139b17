"""Where the outputs and the answer of a job lie: in memory, or in files next to ``out``.

A job in memory needs room for k outputs and for the answer, which is as large.  With ``out`` a
file, both are memory-mapped files: the answer is decoded tile by tile from one to the other.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib import format as npy

from sooner._machine import usable_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from sooner._types import Array
    from sooner.jobs.work import Work

    Out: TypeAlias = Array | str | os.PathLike[str] | None

__all__ = ["Space"]


class Space:
    """Arrays for the outputs of a job and for its answer.

    Parameters
    ----------
    work
        What the tasks compute.
    n
        Number of tasks.
    k
        Number of data blocks.
    out
        Where the answer goes: an array of its shape and dtype, the path of a ``.npy`` file, or
        None for a new array.
    max_memory
        Bytes that the outputs and the answer may take; None is what this process may use at all.

    Raises
    ------
    MemoryError
        If the job cannot fit into memory, or its files onto the disk.
    ValueError
        If `out` is an array of another shape or dtype or cannot be written, or no ``.npy`` file.
    """

    def __init__(
        self, work: Work, n: int, k: int, *, out: Out = None, max_memory: int | None = None
    ) -> None:
        self._work = work
        self._shape = (k, *work.shape)
        self._array = out if isinstance(out, np.ndarray) else None
        self._path = None if out is None or self._array is not None else Path(os.fspath(out))  # type: ignore[arg-type]
        self._check_out()
        file = self._array.filename if isinstance(self._array, np.memmap) else self._path
        # None as well for a map of a file without a name, which is somewhere on a disk all the same
        folder = None if file is None else Path(file).absolute().parent
        nbytes = k * work.nbytes
        if folder is None or not nbytes:
            # Blocks side by side are decoded into an array of their own.
            copies = 1 + (self._array is None) + (work.block_columns > 1)
            _check_memory(nbytes, k, max_memory, copies)
            # Rows of outputs that never come cost no memory.
            self.outputs: Array = np.empty((n, *work.shape), dtype=work.dtype)
        else:
            _check_disk(nbytes * (1 + n / k), folder)
            self.outputs = _temporary((n, *work.shape), work.dtype, folder)
        self._folder = folder

    def _check_out(self) -> None:
        work = self._work
        if self._array is not None and (
            self._array.shape != work.answer_shape or self._array.dtype != work.dtype
        ):
            raise ValueError(
                f"out must have shape {work.answer_shape} and dtype {work.dtype}, got "
                f"{self._array.shape} and {self._array.dtype}."
            )
        if self._array is not None and not self._array.flags.writeable:
            raise ValueError("out must be an array that can be written, got a read-only one.")
        if self._path is not None and (self._path.suffix != ".npy" or self._path.is_dir()):
            raise ValueError(f"out must be an array or the path of a .npy file, got {self._path}.")

    def fill(self, decode: Callable[[Array], object]) -> Array:
        """Decode into the answer's place.

        Parameters
        ----------
        decode
            Writes the data blocks' products, shape ``(k, *shape)``, into the array it is given.

        Returns
        -------
        ndarray, shape answer_shape
            The answer; a memory map if ``out`` is a file.
        """
        if self._path is not None and 0 not in self._work.answer_shape:
            return self._fill_file(self._path, decode)
        answer = self._array
        if answer is not None and self._is_where_blocks_go(answer):
            decode(answer.reshape(self._shape))
            return answer
        blocks = self._blocks()
        decode(blocks)
        if answer is not None:
            self._work.place(blocks, answer)
            return answer
        answer = self._work.assemble(blocks)
        if self._path is not None:  # empty, so that there is nothing to map
            np.save(self._path, answer)
        return answer

    def _is_where_blocks_go(self, answer: Array) -> bool:
        """Whether decoded blocks, one after the other, are the answer."""
        rows = self._shape[0] * self._work.shape[0]
        one_below_the_other = self._work.block_columns == 1 and answer.shape[:1] == (rows,)
        return one_below_the_other and answer.flags.c_contiguous

    def _blocks(self) -> Array:
        if self._folder is None or 0 in self._shape:
            return np.empty(self._shape, dtype=self._work.dtype)
        return _temporary(self._shape, self._work.dtype, self._folder)

    def _fill_file(self, path: Path, decode: Callable[[Array], object]) -> Array:
        """Write a .npy file that has its name only when all of it is there."""
        work = self._work
        header = {
            "descr": npy.dtype_to_descr(work.dtype),
            "fortran_order": False,
            "shape": work.answer_shape,
        }
        # Blocks one below the other are decoded where they belong; those that only fill up the
        # last one are cut off.
        direct = work.block_columns == 1
        # Not mkstemp, whose files nobody else may read.
        draft = path.absolute().with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
        try:
            with draft.open("x+b") as file:
                npy.write_array_header_1_0(file, header)
                begin = file.tell()
                _reserve(file.fileno(), begin + math.prod(self._shape) * work.dtype.itemsize)
                shape = self._shape if direct else work.answer_shape
                written: Any = np.memmap(file, work.dtype, "r+", begin, shape)
                if direct:
                    decode(written)
                else:
                    blocks = self._blocks()
                    decode(blocks)
                    work.place(blocks, written)
                written.flush()
                file.truncate(begin + math.prod(work.answer_shape) * work.dtype.itemsize)
            draft.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        answer: Array = npy.open_memmap(path, mode="r+")
        return answer


def _temporary(shape: tuple[int, ...], dtype: np.dtype[Any], folder: Path) -> Array:
    """Give an array in a file without a name, which is gone when nobody uses it any more."""
    with tempfile.TemporaryFile(dir=folder) as file:
        _reserve(file.fileno(), math.prod(shape) * dtype.itemsize)
        return np.memmap(file, dtype, "w+", shape=shape)


def _reserve(descriptor: int, nbytes: int) -> None:
    """Take the room on the disk now: a map that finds the disk full ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, max(1, nbytes))


def _check_memory(nbytes: int, k: int, max_memory: int | None, copies: int) -> None:
    usable = usable_memory() if max_memory is None else max_memory
    needed = nbytes * copies
    if usable is not None and needed > usable:
        beside = ", and as much for the answer" if copies > 1 else ""
        raise MemoryError(
            f"the answer needs {needed / 1e6:.0f} MB on the driver ({k} outputs of "
            f"{nbytes / k / 1e6:.1f} MB{beside}), and {usable / 1e6:.0f} MB may be used. Pass "
            f"out='answer.npy' to have all in files, or multiply by fewer columns at a time."
        )


def _check_disk(nbytes: float, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise MemoryError(
            f"the outputs and the answer need {nbytes / 1e6:.0f} MB of disk in {folder}, which "
            f"has {free / 1e6:.0f} MB free. Pass another place as out, or multiply by fewer "
            f"columns at a time."
        )
