"""Which channels of the transform carry data: erasure probabilities and a choice by them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.codes.layout import DATA, FROZEN, PARITY, ChannelLayout

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sooner._types import Indices

__all__ = [
    "best_channels",
    "default_erasure_prob",
    "default_late_parities",
    "draw_layout",
    "erasure_probabilities",
]

_DESIGN_FRACTIONS = ((1024, 0.05), (2048, 0.2), (4096, 0.5), (16384, 0.85), (math.inf, 0.95))
"""Design erasure probability over 1 - k / n, by number of tasks: small ones decode from the fewest
outputs, larger ones keep the number of unknowns small (77 instead of 189 at n = 4096)."""


def erasure_probabilities(n: int, erasure_prob: ArrayLike) -> NDArray[np.float64]:
    r"""Erasure probability of each transformed channel of a binary polar transform.

    One stage maps two channels of erasure probabilities a and b to a worse one,
    :math:`1 - (1 - a)(1 - b)` (any erasure hides it), and a better one, :math:`a b` (one of
    two outputs suffices once the first input is known).

    Parameters
    ----------
    n
        Transform size, a power of two.
    erasure_prob
        Probability in [0, 1] that an output is not available: one for all, or shape (n,).

    Returns
    -------
    ndarray, shape (n,)
        Erasure probability of each channel, in decoding order.  Their mean is that of
        `erasure_prob`: a stage moves erasures between channels, it removes none.

    Raises
    ------
    ValueError
        If `n` is no power of two, or `erasure_prob` has another shape or leaves [0, 1].

    Notes
    -----
    Exact for independent erasures and every 2 x 2 kernel that polarizes.  Section II-B of
    "Straggler resilient serverless computing based on polar codes" (arXiv 1901.06811).

    Examples
    --------
    The paper's worked example: the last two of four channels get the data.

    >>> erasure_probabilities(4, 0.5)
    array([0.9375, 0.5625, 0.4375, 0.0625])
    """
    n = _checks.power_of_two(n, "n")
    given = np.asarray(erasure_prob, dtype=np.float64)
    if given.shape not in {(), (n,)}:
        raise ValueError(
            f"erasure_prob must be one number or have shape ({n},), got {given.shape}."
        )
    if not ((given >= 0) & (given <= 1)).all():  # also false for NaN
        raise ValueError(f"erasure_prob must lie between 0 and 1, got {given.tolist()}.")
    probabilities = np.broadcast_to(given, (n,)).copy()
    half = n // 2
    while half:
        pairs = probabilities.reshape(-1, 2, half)
        a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0] = a + b - a * b
        pairs[:, 1] = a * b
        half //= 2
    return probabilities


def best_channels(probabilities: ArrayLike, count: int) -> Indices:
    """Indices of the channels that are least likely to be erased.

    Parameters
    ----------
    probabilities
        Erasure probability of each channel, shape (n,).
    count
        How many to choose.

    Returns
    -------
    ndarray of int, shape (count,)
        Their indices, ascending.  Of equal channels the later one is taken: more is known when
        its turn comes.

    Raises
    ------
    ValueError
        If there are not so many channels.

    Examples
    --------
    >>> best_channels(erasure_probabilities(4, 0.5), 2)
    array([2, 3])
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if not 0 <= count <= values.size:
        raise ValueError(f"count must lie in 0 … {values.size}, got {count}.")
    later_first = np.argsort(values[::-1], kind="stable")
    return np.sort(values.size - 1 - later_first[:count])


def default_late_parities(n: int, k: int, decoder: str) -> int:
    """Late parities that a code gets unless told otherwise.

    Parameters
    ----------
    n
        Number of tasks.
    k
        Number of data blocks.
    decoder
        ``"inactivation"`` or ``"sequential"``, which cannot use them.

    Returns
    -------
    int
        Twelve up to n = 512 and eight beyond, where fewer suffice; 20 for a punctured code; or
        as many as there are channels left.

    Examples
    --------
    >>> default_late_parities(64, 48, "inactivation"), default_late_parities(100, 75, "sequential")
    (12, 0)
    """
    if decoder == "sequential":
        return 0
    size = 1 << (n - 1).bit_length()
    wanted = 20 if n < size else 12 if n <= 512 else 8
    return min(wanted, size - k)


def default_erasure_prob(n: int, k: int, decoder: str) -> float:
    """Design erasure probability that a code gets unless told otherwise.

    Parameters
    ----------
    n
        Number of tasks.
    k
        Number of data blocks.
    decoder
        ``"inactivation"`` or ``"sequential"``.

    Returns
    -------
    float
        The papers' ``1 - k / n`` for the sequential decoder, a fraction of it for inactivation.
    """
    rate_loss = 1 - k / n
    if decoder == "sequential":
        return rate_loss
    fraction = next(share for largest, share in _DESIGN_FRACTIONS if n <= largest)
    return fraction * rate_loss


def draw_layout(
    n: int,
    k: int,
    *,
    erasure_prob: ArrayLike,
    late_parities: int,
    systematic: bool,
    hadamard: bool,
    rng: np.random.Generator,
) -> ChannelLayout:
    """Draw map, signs and parities, and choose the channels by erasure probability.

    Parameters
    ----------
    n
        Number of tasks.
    k
        Number of data blocks.
    erasure_prob
        For all tasks, or one for each, shape (n,).
    late_parities
        Number of channels, the last of the chosen, that carry random combinations.
    systematic
        Whether the first k outputs stand at the rows of the transform that have the numbers
        of the data channels, so that they determine the data.
    hadamard
        Whether the kernel is HADAMARD; ARIKAN otherwise.
    rng
        Where randomness comes from.

    Returns
    -------
    ChannelLayout
        A code; whether all its outputs decode is for the caller to see.

    Raises
    ------
    ValueError
        If `erasure_prob` has another shape or leaves [0, 1].
    """
    size = 1 << (n - 1).bit_length()
    given = np.asarray(erasure_prob, dtype=np.float64)
    if given.shape not in {(), (n,)}:
        raise ValueError(
            f"erasure_prob must be one number or have shape ({n},), got {given.shape}."
        )
    order = rng.permutation(size)
    by_row = np.ones(size)  # what is punctured is erased for certain
    by_row[order[:n]] = given
    chosen = best_channels(erasure_probabilities(size, by_row), k + late_parities)
    data, parities = chosen[:k], chosen[k:]
    if systematic:
        # Puncture and number anew, the rows with the numbers of the data channels first.
        rest = rng.permutation(np.setdiff1d(np.arange(size), data))
        order = np.concatenate([rng.permutation(data), rest])
    kinds = np.full(size, FROZEN, dtype=np.uint8)
    kinds[data] = DATA
    kinds[parities] = PARITY
    return ChannelLayout(
        kinds.tobytes(),
        order[:n],
        _parity_coefficients(late_parities, k, rng),
        rng.choice([-1.0, 1.0], size=k),
        hadamard,
    )


def _parity_coefficients(rows: int, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Random signs times two neighbouring powers of two, of energy 1 per row in the mean."""
    # Powers of two keep integers exact and ranks provable; two different ones make small
    # matrices generic, which signs alone are not.
    low = 2.0 ** np.floor(-np.log2(k) / 2)
    share = (1 / k - low**2) / (3 * low**2)  # of the entries that are twice as large
    magnitudes = np.where(rng.random((rows, k)) < share, 2 * low, low)
    coefficients: NDArray[np.float64] = magnitudes * rng.choice([-1.0, 1.0], size=(rows, k))
    return coefficients
