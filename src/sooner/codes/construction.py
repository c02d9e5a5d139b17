"""Which channels of the transform carry data: a choice by erasure probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sooner import _checks
from sooner.codes.kernel import is_binary
from sooner.codes.layout import DATA, FROZEN, PARITY, ChannelLayout
from sooner.codes.polarization import erasure_probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from sooner._types import Indices
    from sooner.codes.kernel import Kernel

__all__ = [
    "best_channels",
    "chosen_decoder",
    "default_erasure_prob",
    "default_late_parities",
    "draw_layout",
]

_DESIGN_FRACTIONS = ((1024, 0.05), (2048, 0.2), (4096, 0.5), (16384, 0.85), (math.inf, 0.95))
"""Design erasure probability over 1 - k / n, by number of tasks: small ones decode from the fewest
outputs, larger ones keep the number of unknowns small (77 instead of 189 at n = 4096)."""

_LARGER_KERNELS = 0.8
"""The same for kernels other than 2 x 2: the best in ``benchmarks/larger_kernels.py``."""


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


def chosen_decoder(kernels: Sequence[Kernel], decoder: str | None) -> str:
    """Check which decoder a code gets, or choose one.

    Parameters
    ----------
    kernels
        Kernels of its transform.
    decoder
        ``"inactivation"``, ``"sequential"`` or None.

    Returns
    -------
    str
        What was given; else ``"inactivation"`` for HADAMARD and ARIKAN, ``"sequential"`` for
        others.

    Raises
    ------
    ValueError
        If there is no such decoder for these kernels.

    Examples
    --------
    >>> from sooner.codes import HADAMARD, Kernel
    >>> chosen_decoder([HADAMARD], None), chosen_decoder([HADAMARD, Kernel.dct(5)], None)
    ('inactivation', 'sequential')
    """
    binary = is_binary(kernels)
    if decoder is None:
        return "inactivation" if binary else "sequential"
    _checks.one_of(decoder, "decoder", ("inactivation", "sequential"))
    if decoder == "inactivation" and not binary:
        raise ValueError(
            "decoder must be 'sequential' for kernels other than HADAMARD and ARIKAN, since "
            f"ranks are proved modulo a prime, got {decoder!r}."
        )
    return decoder


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


def default_erasure_prob(n: int, k: int, decoder: str, kernels: Sequence[Kernel]) -> float:
    """Design erasure probability that a code gets unless told otherwise.

    Parameters
    ----------
    n
        Number of tasks.
    k
        Number of data blocks.
    decoder
        ``"inactivation"`` or ``"sequential"``.
    kernels
        Kernels of its transform.

    Returns
    -------
    float
        The papers' ``1 - k / n`` for the sequential decoder, a fraction of it for inactivation
        and for larger kernels.
    """
    rate_loss = 1 - k / n
    if decoder == "sequential":
        return rate_loss if is_binary(kernels) else _LARGER_KERNELS * rate_loss
    fraction = next(share for largest, share in _DESIGN_FRACTIONS if n <= largest)
    return fraction * rate_loss


def draw_layout(
    n: int,
    k: int,
    *,
    erasure_prob: ArrayLike,
    late_parities: int,
    systematic: bool,
    kernels: tuple[Kernel, ...],
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
    kernels
        Kernels of the transform, the slowest radix first.
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
    sizes = [kernel.size for kernel in kernels]
    size = math.prod(sizes)
    given = np.asarray(erasure_prob, dtype=np.float64)
    if given.shape not in {(), (n,)}:
        raise ValueError(
            f"erasure_prob must be one number or have shape ({n},), got {given.shape}."
        )
    order = rng.permutation(size)
    by_row = np.ones(size)  # what is punctured is erased for certain
    by_row[order[:n]] = given
    probabilities = erasure_probabilities(size, by_row, sizes=sizes)
    chosen = best_channels(probabilities, k + late_parities)
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
        kernels,
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
