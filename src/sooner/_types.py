"""Names for the shapes and values that pass between modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""An array of numbers, of any dtype and shape."""

Mask: TypeAlias = NDArray[np.bool_]
"""A boolean array, such as the available outputs, shape (n,)."""

Indices: TypeAlias = NDArray[np.intp]
"""An array of indices."""

RNGLike: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None
"""What ``rng=`` accepts (SPEC 7): a seed, a generator, or None for fresh entropy."""

Stop: TypeAlias = Callable[[], bool] | None
"""Asked between tiles of a long computation: True ends it.  Codes read no clock themselves."""
