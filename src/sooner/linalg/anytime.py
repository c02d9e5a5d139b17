"""Gradients from the first outputs: products of increments, estimated beside an exact reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sooner import _checks
from sooner.linalg.operator import CodedLinearOperator

if TYPE_CHECKING:
    from sooner._types import Array
    from sooner.jobs import Job

__all__ = ["Anytime", "EstimatingOperator"]


@dataclass(frozen=True, slots=True)
class Anytime:
    """How `gradient_descent` takes products from the first outputs instead of waiting.

    A product estimated from a part of the outputs has an error in proportion to the product.  Of
    the iterate itself that stays large, however near the solution is, and the descent stalls.  Of
    the iterate's distance from a reference, whose product is known exactly, it shrinks with the
    distance; so that is what is estimated, and the reference renewed now and then.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Notes
    -----
    "Randomized polar codes for anytime distributed machine learning" proposes the estimates for
    gradients, in the plain form (``increments=False``).

    Examples
    --------
    >>> Anytime(outputs=0.5)
    Anytime(outputs=0.5, refresh=5, increments=True)
    """

    outputs: float = 0.6
    """Part of the n outputs that a product waits for; fewer if they decode."""
    refresh: int = 5
    """Every so many iterations the product is exact, and the reference is renewed."""
    increments: bool = True
    """False estimates products of the iterate itself: the plain form, which stalls."""

    def shortening(self, n: int, k: int, products: int) -> float:
        """By how much a step has to be shorter, so that the errors die out.

        An estimate that is right in the mean, with relative error e, takes steps up to
        ``1 / (1 + e**2)`` times those of exact gradients.

        Parameters
        ----------
        n, k
            Tasks and data blocks.
        products
            How many make up a gradient.

        Returns
        -------
        float
            A factor, at most 1.
        """
        return min(1.0, math.ceil(self.outputs * n) / k) ** products

    def __post_init__(self) -> None:
        _checks.probability(self.outputs, "outputs")
        _checks.positive(self.outputs, "outputs")
        _checks.integer(self.refresh, "refresh", at_least=1)


class EstimatingOperator(CodedLinearOperator):
    """An operator whose products are estimates, from the first outputs.

    Least squares from m outputs are a projection of the product on m of k dimensions, drawn at
    random; times k / m they are right in the mean, with k / m - 1 as the square of the relative
    error.  An estimate that is too small in the mean would not do: the descent would go too far,
    and farther at every reference.

    Parameters
    ----------
    operator
        The exact one.
    outputs
        Part of the n outputs to wait for.
    """

    def __init__(self, operator: CodedLinearOperator, outputs: float) -> None:
        self.__dict__.update(operator.__dict__)
        self._options = {**self._options, "estimator": "least_squares"}
        self._outputs = outputs

    def _outcome(self, job: Job) -> Array:
        code = self.A.code
        enough = math.ceil(self._outputs * code.n)
        for estimate in job:
            if estimate.exact:
                return estimate.value
            if estimate.n_available >= enough:
                return max(1.0, code.k / estimate.n_available) * estimate.value
        return job.result()  # its time is over, which this says
