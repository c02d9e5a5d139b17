"""Arrays from and to .npy files, where ``-`` is stdin or stdout."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from numpy.lib import format as npy

if TYPE_CHECKING:
    from sooner._types import Array

__all__ = ["BadArrayError", "read_array", "write_array"]


class BadArrayError(click.ClickException):
    """What should be a .npy file of numbers is none."""

    def __init__(self, path: str) -> None:
        name = "stdin" if path == "-" else path
        super().__init__(f"{name} must be a .npy file of numbers, written by numpy.save.")


def read_array(path: str, *, memory_map: bool = False) -> Array:
    """Read an array of numbers.

    Parameters
    ----------
    path
        A .npy file, or ``-`` for stdin.
    memory_map
        Leave the numbers in the file until they are used; not for stdin.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    BadArrayError
        If it is no .npy file of numbers: files that hold Python objects could run code.
    """
    try:
        # Not numpy.load, which also opens archives of many arrays.
        if path == "-":
            stream = io.BytesIO(sys.stdin.buffer.read())
            array = npy.read_array(stream, allow_pickle=False)
        elif memory_map:
            array = npy.open_memmap(path, mode="r")
        else:
            with Path(path).open("rb") as file:
                array = npy.read_array(file, allow_pickle=False)
    except ValueError as error:
        raise BadArrayError(path) from error
    if array.dtype.kind not in "biufc":
        raise BadArrayError(path)
    return array


def write_array(path: str, array: Array) -> None:
    """Write an array in the .npy format.

    Parameters
    ----------
    path
        A file, replaced only when all is written, a pipe or device, or ``-`` for stdout.
    array
        What to write.
    """
    is_device = Path(path).exists() and not Path(path).is_file()
    if path == "-" or is_device:  # which an atomic write would replace by a file
        stream = io.BytesIO()  # it may be a pipe, which NumPy cannot ask for its position
        np.save(stream, array, allow_pickle=False)
        if path == "-":
            sys.stdout.buffer.write(stream.getbuffer())
        else:
            Path(path).write_bytes(stream.getbuffer())
        return
    with click.open_file(path, "wb", atomic=True) as file:
        np.save(file, array, allow_pickle=False)
