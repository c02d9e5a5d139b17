"""Reading the user's matrix panel by panel, whatever it is made of; never the whole of it."""

from __future__ import annotations

import mmap
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sooner._types import Array

__all__ = ["Panels", "checked_dtype"]

_FLOATS = frozenset({np.float16, np.float32, np.float64, np.complex64, np.complex128})


class Panels:
    """A matrix that is read a panel at a time.

    NumPy arrays of any strides and byte order are looked at in place; objects that have
    ``shape``, ``dtype`` and slices (HDF5 and Zarr datasets, dask arrays) are sliced, and each
    slice made an array; so are pandas frames of numbers; anything else, such as a list of rows,
    is made an array at once.

    Parameters
    ----------
    A
        The matrix.

    Raises
    ------
    TypeError
        If it does not hold numbers, or numbers of more than 64 bits a component.
    ValueError
        If it does not have two dimensions, or has masked entries.

    Examples
    --------
    >>> panels = Panels([[1, 2], [3, 4], [5, 6]])
    >>> panels.shape
    (3, 2)
    >>> panels.read(1, 3, 0, 2)
    array([[3, 4],
           [5, 6]])
    """

    def __init__(self, A: Any) -> None:
        if isinstance(A, np.ma.MaskedArray) and np.ma.is_masked(A):
            raise ValueError(
                "A must not have masked entries, since encoding adds rows to each other. "
                "Fill them, for example A.filled(0)."
            )
        if hasattr(A, "iloc") and hasattr(A, "dtypes") and len(A.shape) == 2:
            A = _Frame(A)
        if isinstance(A, np.ndarray) or not _is_sliceable(A):
            A = np.asarray(A)  # a view of subclasses such as np.matrix and np.memmap
        self._matrix = A
        self.threadsafe = isinstance(A, np.ndarray)
        self.dtype: np.dtype[np.generic] = checked_dtype(np.dtype(A.dtype))
        self.shape: tuple[int, int] = _checked_shape(A.shape)

    @property
    def chunks(self) -> tuple[int, int]:
        """Rows and columns that are read together, whichever of them are wanted."""
        chunks = getattr(self._matrix, "chunks", None)
        if isinstance(self._matrix, np.ndarray):
            down, right = self._matrix.strides
            by_columns = _is_mapped(self._matrix) and abs(down) < abs(right)
            return (max(1, mmap.PAGESIZE // max(1, abs(down))), 1) if by_columns else (1, 1)
        if not isinstance(chunks, tuple) or len(chunks) != 2:  # none, or not known
            return 1, 1
        # dask has a tuple of sizes for each axis
        rows, columns = (
            max(size, default=1) if isinstance(size, tuple) else size for size in chunks
        )
        return max(1, int(rows)), max(1, int(columns))

    def transposed(self) -> Panels:
        """Give the transpose, read in place as well.

        Returns
        -------
        Panels
            Its rows are the columns of this matrix.

        Examples
        --------
        >>> Panels([[1, 2], [3, 4], [5, 6]]).transposed().read(0, 2, 1, 3)
        array([[3, 5],
               [4, 6]])
        """
        if isinstance(self._matrix, np.ndarray):
            return Panels(self._matrix.T)
        return Panels(_Transposed(self))

    def read(self, first_row: int, last_row: int, first_column: int, last_column: int) -> Array:
        """Give a panel.

        Parameters
        ----------
        first_row, last_row
            Its rows, from the first to before the last.
        first_column, last_column
            Its columns, likewise.

        Returns
        -------
        ndarray
            The panel, maybe a view; not to be written to.

        Raises
        ------
        TypeError
            If slicing the matrix gives something else than it promised.
        """
        rows = slice(first_row, last_row)
        whole = (first_column, last_column) == (0, self.shape[1])
        index = rows if whole else (rows, slice(first_column, last_column))
        panel: Array = np.asarray(self._matrix[index])
        shape = (last_row - first_row, last_column - first_column)
        if panel.shape != shape or panel.dtype != self.dtype:
            raise TypeError(
                f"rows {first_row} to {last_row - 1} of A must be an array of shape {shape} and "
                f"dtype {self.dtype}, got shape {panel.shape} and dtype {panel.dtype} from a "
                f"{type(self._matrix).__name__}. Pass a NumPy array."
            )
        return panel


class _Transposed:
    """The transpose of a matrix that is only sliced."""

    def __init__(self, panels: Panels) -> None:
        self._panels = panels
        self.shape, self.dtype = panels.shape[::-1], panels.dtype
        # What says nothing of chunks is stored by rows as a rule: here, by columns.
        rows, columns = panels.chunks
        page = mmap.PAGESIZE // panels.dtype.itemsize
        self.chunks = (page, 1) if rows == columns == 1 else (columns, rows)

    def __getitem__(self, index: Any) -> Array:
        rows, columns = index if isinstance(index, tuple) else (index, slice(self.shape[1]))
        first, last, _ = columns.indices(self.shape[1])
        return self._panels.read(first, last, rows.start, rows.stop).T


class _Frame:
    """A pandas frame of numbers, looked at as an array without being made one."""

    def __init__(self, frame: Any) -> None:
        for name, dtype in frame.dtypes.items():
            if not isinstance(dtype, np.dtype) or dtype.kind not in "biufc":
                raise TypeError(
                    f"the columns of A must hold numbers, got column {name!r} of dtype {dtype}. "
                    f"Leave it out, or convert it, for example "
                    f"A.astype({{{name!r}: 'float64'}})."
                )
        self._frame = frame
        self.shape: tuple[int, int] = frame.shape
        # what all columns fit into, as pandas would find it for the whole frame
        self.dtype = np.result_type(*frame.dtypes) if frame.shape[1] else np.dtype(np.float64)

    def __getitem__(self, index: Any) -> Array:
        part = self._frame.iloc[index]
        values: Array = part.to_numpy(dtype=self.dtype)
        return values


def _is_mapped(array: Array) -> bool:
    """Whether an array lies in a file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return isinstance(base, mmap.mmap)


def _is_sliceable(A: Any) -> bool:
    """Whether `A` says what it is before it is read, and can be read in parts."""
    return (
        isinstance(getattr(A, "shape", None), tuple)
        and isinstance(getattr(A, "dtype", None), np.dtype)
        and hasattr(A, "__getitem__")
    )


def checked_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Refuse what holds no numbers, or more precise ones than blocks can.

    Parameters
    ----------
    dtype
        Of a matrix.

    Returns
    -------
    dtype
        The same.

    Raises
    ------
    TypeError
        If it cannot be encoded.
    """
    if dtype.kind not in "biu" and dtype.type not in _FLOATS:
        raise TypeError(
            f"A must hold booleans, integers, or real or complex numbers of at most 64 bits a "
            f"component, got dtype {dtype}. Convert it first, for example A.astype(np.float64); "
            f"of a structured array, pass its fields as columns."
        )
    return dtype


def _checked_shape(shape: tuple[Any, ...]) -> tuple[int, int]:
    if len(shape) != 2:
        advice = "For a single column, pass A[:, None]." if len(shape) == 1 else ""
        if len(shape) > 2:
            advice = "Flatten it, for example A.reshape(len(A), -1)."
        raise ValueError(f"A must have two dimensions, got shape {shape}. {advice}".rstrip())
    try:
        return operator.index(shape[0]), operator.index(shape[1])
    except TypeError:
        raise ValueError(
            f"the shape of A must be known before it is read, got {shape}. "
            f"Compute it first, for example A.compute_chunk_sizes() of a dask array."
        ) from None
