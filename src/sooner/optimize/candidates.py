"""Points to evaluate: they know who they are, and become arrays only where they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sooner._types import Array
    from sooner.optimize.directions import Directions

__all__ = ["CENTER", "Candidates", "Center", "read_bounds"]

CENTER = -1
"""The id of the point that a generation starts from."""


@dataclass(frozen=True, slots=True)
class Center:
    """What a generation starts from; with its directions and an id this makes a point."""

    x: NDArray[np.float64]
    """The point, shape (d,)."""
    sigma: float
    """Step of a direction's unit."""
    generation: int
    """Which generation, from 0."""
    lower: NDArray[np.float64] | None = None
    """Bounds that no point leaves, shape (d,); None for none."""
    upper: NDArray[np.float64] | None = None
    """Likewise."""

    def point(self, directions: Directions, number: int) -> NDArray[np.float64]:
        """Make a point; in a worker and in the driver it is the same bit for bit.

        Parameters
        ----------
        directions
            Of all generations.
        number
            Its id: of direction i, 2 i forwards and 2 i + 1 backwards; or `CENTER`.

        Returns
        -------
        ndarray, shape (d,)
            The point.
        """
        if number == CENTER:
            return self.x.copy()
        index, backwards = divmod(number, 2)
        step = self.sigma * directions.one(self.generation, index)
        return self.clipped(self.x - step if backwards else self.x + step)

    def clipped(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring points between the bounds.

        Parameters
        ----------
        points
            Shape (..., d).

        Returns
        -------
        ndarray, shape (..., d)
            The points.
        """
        if self.lower is None or self.upper is None:
            return points
        return np.clip(points, self.lower, self.upper)


class Candidates:
    """Points of one generation to evaluate: antithetic pairs, or a part of them.

    ``numpy.asarray`` makes the points, of shape ``(n, 2, d)`` for a whole generation: along
    direction i one step forwards and one backwards.  A part, such as ``candidates[3:5]`` or
    ``candidates[7, 0]``, knows which points it holds.

    Parameters
    ----------
    directions
        Of all generations.
    center
        What this one starts from.
    ids
        Which points, any shape.

    Examples
    --------
    >>> from sooner.optimize import EvolutionStrategy
    >>> candidates = EvolutionStrategy([0.0, 0.0], sigma=0.1, learning_rate=0.1, n=8).ask()
    >>> candidates.shape, candidates[2].ids.tolist(), len(candidates[3:5])
    ((8, 2, 2), [4, 5], 2)
    """

    def __init__(
        self, directions: Directions, center: Center, ids: NDArray[np.intp] | None = None
    ) -> None:
        self.directions = directions
        self.center = center
        self.ids = np.arange(2 * directions.n).reshape(-1, 2) if ids is None else ids
        """Ids, of the shape of the values: ``(n, 2)`` for a whole generation."""

    @property
    def generation(self) -> int:
        """Which generation they are of, from 0."""
        return self.center.generation

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of points."""
        return (*self.ids.shape, self.directions.dimension)

    def __getitem__(self, key: Any) -> Candidates:
        return Candidates(self.directions, self.center, np.asarray(self.ids[key]))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Candidates]:
        return (self[place] for place in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("copy must not be False: the points are made when they are asked for.")
        points = [
            self.center.point(self.directions, number) for number in self.ids.ravel().tolist()
        ]
        return np.array(points, dtype=dtype or np.float64).reshape(self.shape)

    def __repr__(self) -> str:
        return f"<Candidates of generation {self.generation}, shape {self.shape}>"


def read_bounds(
    bounds: Any, x0: NDArray[np.float64]
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Read bounds as SciPy takes them.

    Parameters
    ----------
    bounds
        A `scipy.optimize.Bounds`, pairs of lower and upper bound, or None.
    x0
        A point between them, shape (d,).

    Returns
    -------
    tuple of ndarray or None
        Lower and upper bounds, shape (d,); None twice without bounds.

    Raises
    ------
    ValueError
        If their number is another, or x0 is not between them.

    Examples
    --------
    >>> read_bounds([(0, 1), (None, 2)], np.ones(2))
    (array([  0., -inf]), array([1., 2.]))
    """
    if bounds is None:
        return None, None
    if hasattr(bounds, "lb"):
        lower, upper, _ = np.broadcast_arrays(bounds.lb, bounds.ub, x0)
    else:
        pairs = [
            (-np.inf if low is None else low, np.inf if high is None else high)
            for low, high in bounds
        ]
        lower, upper = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    lower, upper = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    if lower.shape != x0.shape or not ((lower <= x0) & (x0 <= upper)).all():
        raise ValueError(
            f"bounds must be {x0.size} pairs of lower and upper bound with x0 between them, "
            f"got {bounds!r}."
        )
    return lower, upper
