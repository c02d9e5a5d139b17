"""The anytime estimate: its error against the outputs that came, its mean, and its spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes import PolarCode
from sooner.figures.decodability import papers_polar_code
from sooner.figures.panels import new_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sooner._types import Array, Mask, RNGLike
    from sooner.plots._matplotlib import Axes

__all__ = [
    "AnytimeTable",
    "ConcentrationTable",
    "UnbiasednessTable",
    "anytime_table",
    "concentration_table",
    "draw_anytime",
    "draw_concentration",
    "draw_unbiasedness",
    "unbiasedness_table",
]

_DRAWS = 8
"""Of each code: random signs and task maps."""

_COLUMNS = 16
"""Of the Gaussian data blocks."""

_LOOKS = {
    "papers' code, unbiased": "C3o",
    "default code, unbiased": "C1s",
    "default code, least squares": "C0^",
    "papers' code, least squares": "C2v",
}


@dataclass(frozen=True, slots=True)
class AnytimeTable:
    """Relative root mean square errors of anytime estimates."""

    n: int
    k: int
    outputs: NDArray[np.intp]
    """Numbers of outputs that came."""
    law: NDArray[np.float64]
    """Error of the papers' estimate by its law, shape like `outputs`."""
    measured: dict[str, NDArray[np.float64]]
    """Measured errors by code and estimate, each of that shape."""

    def rows(self) -> list[dict[str, Any]]:
        """Give the errors.

        Returns
        -------
        list of dict
            One per number of outputs.
        """
        return [
            {"n": self.n, "k": self.k, "outputs": int(m), "unbiased, law": float(self.law[place])}
            | {name: float(errors[place]) for name, errors in self.measured.items()}
            for place, m in enumerate(self.outputs)
        ]


def anytime_table(
    n: int, k: int, outputs: Sequence[int], *, trials: int = 200, rng: RNGLike = 0
) -> AnytimeTable:
    """Measure errors of estimates on Gaussian blocks, over random sets of outputs and signs.

    Parameters
    ----------
    n, k
        Numbers of tasks, a power of two, and of data blocks.
    outputs
        Numbers of outputs to look at, from 1 to n.
    trials
        Random sets for each.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    AnytimeTable
        Law and measurements.

    Notes
    -----
    [B23] (arXiv 2309.00682), eq. (3); the law is in ``docs/theory.md``.

    Examples
    --------
    >>> table = anytime_table(16, 12, [8, 16], trials=4)
    >>> float(table.measured["papers' code, unbiased"][1]) < 1e-12  # all outputs: exact
    True
    """
    generator = np.random.default_rng(rng)
    kinds = {"papers' code": papers_polar_code, "default code": PolarCode}
    draws = {name: [kind(n, k, rng=seed) for seed in range(_DRAWS)] for name, kind in kinds.items()}
    measured = {name: np.empty(len(outputs)) for name in _LOOKS}
    for place, m in enumerate(outputs):
        squares = dict.fromkeys(_LOOKS, 0.0)
        for trial in range(trials):
            data = generator.standard_normal((k, _COLUMNS))
            available = _random_set(generator, n, m)
            for name, codes in draws.items():
                code = codes[trial % _DRAWS]
                received = code.encode(data)
                for method in ("unbiased", "least_squares"):
                    error = _relative_error(code, received, available, data, method)
                    squares[f"{name}, {method.replace('_', ' ')}"] += error**2
        for name, total in squares.items():
            measured[name][place] = np.sqrt(total / trials)
    law = [draws["papers' code"][0].relative_error(m) for m in outputs]
    return AnytimeTable(n, k, np.array(outputs), np.array(law), measured)


def draw_anytime(table: AnytimeTable, *, ax: Axes | None = None) -> Axes:
    """Draw the errors against the share of the outputs.

    Parameters
    ----------
    table
        From `anytime_table`.
    ax
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.
    """
    ax = new_axes() if ax is None else ax
    shares = table.outputs / table.n
    ax.plot(shares, table.law, "k-", linewidth=1, label="papers' code, unbiased: law")
    for name, look in _LOOKS.items():
        # What decodes exactly is estimated exactly: zero up to rounding.
        errors = np.where(table.measured[name] < 1e-6, 0.0, table.measured[name])
        ax.plot(shares, errors, look, markersize=4, label=f"{name}: measured", mfc="none")
    ax.axvline(table.k / table.n, color="grey", linestyle="--", linewidth=1)
    ax.text(table.k / table.n, 1.55, " k outputs", fontsize="small", color="grey")
    ax.axhline(1, color="grey", linestyle=":", linewidth=1)
    ax.text(1.0, 1.02, "answering zero", fontsize="small", color="grey", ha="right")
    ax.set(xlabel="share of the outputs", ylabel="relative error", xlim=(0, 1.01), ylim=(0, 1.7))
    ax.set_title(f"n = {table.n}, k = {table.k}", fontsize="medium")
    ax.legend(fontsize="x-small", frameon=False, loc="lower left")
    return ax


@dataclass(frozen=True, slots=True)
class UnbiasednessTable:
    """Error of the mean of several estimates of the same answer."""

    n: int
    k: int
    m: int
    """Outputs of which each estimate was made."""
    averaged: NDArray[np.intp]
    """Numbers of estimates in the mean."""
    errors: dict[str, NDArray[np.float64]]
    """Relative errors of the mean, by method, shape like `averaged`."""
    law: NDArray[np.float64]
    """What they are for an unbiased estimate: the error of one over the root of the number."""

    def rows(self) -> list[dict[str, Any]]:
        """Give the errors.

        Returns
        -------
        list of dict
            One per number of estimates.
        """
        return [
            {"n": self.n, "k": self.k, "m": self.m, "averaged": int(count)}
            | {"law": float(self.law[place])}
            | {name: float(errors[place]) for name, errors in self.errors.items()}
            for place, count in enumerate(self.averaged)
        ]


def unbiasedness_table(
    n: int, k: int, m: int, *, draws: int = 4096, rng: RNGLike = 0
) -> UnbiasednessTable:
    """Average estimates of one answer over random sets: only a bias would stay.

    Parameters
    ----------
    n, k
        Numbers of tasks, a power of two, and of data blocks.
    m
        Outputs that come.
    draws
        Sets at the most.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    UnbiasednessTable
        Errors of the means of 1, 2, 4, … estimates.

    Examples
    --------
    >>> unbiasedness_table(16, 12, 8, draws=16).averaged.tolist()
    [1, 2, 4, 8, 16]
    """
    generator = np.random.default_rng(rng)
    codes = [papers_polar_code(n, k, rng=seed) for seed in range(_DRAWS)]
    data = generator.standard_normal((k, _COLUMNS))
    outputs = [code.encode(data) for code in codes]
    averaged = 2 ** np.arange(int(draws).bit_length())
    methods = ("unbiased", "least_squares")
    sums = {method: np.zeros_like(data) for method in methods}
    errors: dict[str, list[float]] = {method: [] for method in methods}
    for count in range(1, int(averaged[-1]) + 1):
        which = count % _DRAWS
        available = _random_set(generator, n, m)
        for method in methods:
            estimate = codes[which].estimate(outputs[which], available, method=method)
            sums[method] += estimate.value
            if count in averaged:
                errors[method].append(_norm_ratio(sums[method] / count - data, data))
    law = codes[0].relative_error(m) / np.sqrt(averaged)
    named = {name.replace("_", " "): np.array(values) for name, values in errors.items()}
    return UnbiasednessTable(n, k, m, averaged, named, law)


def draw_unbiasedness(table: UnbiasednessTable, *, ax: Axes | None = None) -> Axes:
    """Draw the error of the mean against the number of estimates in it.

    Parameters
    ----------
    table
        From `unbiasedness_table`.
    ax
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.
    """
    ax = new_axes() if ax is None else ax
    ax.loglog(table.averaged, table.law, "k-", linewidth=1, label="unbiased: law")
    for look, (name, errors) in zip(("C3o", "C0^"), table.errors.items(), strict=True):
        ax.loglog(table.averaged, errors, look, markersize=4, label=f"{name}: measured", mfc="none")
    ax.set(xlabel="estimates in the mean", ylabel="relative error of the mean")
    ax.set_title(f"n = {table.n}, k = {table.k}, {table.m} outputs each", fontsize="medium")
    ax.legend(fontsize="small", frameon=False)
    return ax


@dataclass(frozen=True, slots=True)
class ConcentrationTable:
    """Error of single estimates over what the law says of their root mean square."""

    share: float
    """Outputs that came, over n."""
    ratios: dict[int, NDArray[np.float64]]
    """Error over law by n, each of shape (trials,)."""

    def rows(self) -> list[dict[str, Any]]:
        """Give the spread per size.

        Returns
        -------
        list of dict
            One per n.
        """
        return [
            {
                "n": n,
                "share": self.share,
                "root_mean_square": float(np.sqrt(np.mean(ratios**2))),
                "standard_deviation": float(ratios.std()),
                "p99": float(np.quantile(ratios, 0.99)),
            }
            for n, ratios in self.ratios.items()
        ]


def concentration_table(
    sizes: Sequence[int], *, share: float = 0.5, trials: int = 1000, rng: RNGLike = 0
) -> ConcentrationTable:
    """Measure the error of single estimates of one column, rate 3/4.

    Parameters
    ----------
    sizes
        Numbers of tasks, powers of two.
    share
        Of the outputs that come.
    trials
        Estimates per size.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    ConcentrationTable
        Errors over the law's.

    Examples
    --------
    >>> [len(ratios) for ratios in concentration_table([16, 64], trials=8).ratios.values()]
    [8, 8]
    """
    generator = np.random.default_rng(rng)
    found = {}
    for n in sizes:
        k, m = 3 * n // 4, round(share * n)
        codes = [papers_polar_code(n, k, rng=seed) for seed in range(_DRAWS)]
        ratios = np.empty(trials)
        for trial in range(trials):
            code, data = codes[trial % _DRAWS], generator.standard_normal((k, 1))
            available = _random_set(generator, n, m)
            error = _relative_error(code, code.encode(data), available, data, "unbiased")
            ratios[trial] = error / code.relative_error(m)
        found[n] = ratios
    return ConcentrationTable(share, found)


def draw_concentration(table: ConcentrationTable, *, ax: Axes | None = None) -> Axes:
    """Draw histograms of the errors over the law's.

    Parameters
    ----------
    table
        From `concentration_table`.
    ax
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.
    """
    ax = new_axes() if ax is None else ax
    everything = np.concatenate(list(table.ratios.values()))
    low, high = np.quantile(everything, (0.001, 0.999)).tolist()
    bins = np.linspace(low, high, 50).tolist()
    for n, ratios in table.ratios.items():
        label = f"n = {n}: deviation {ratios.std():.1%}"
        ax.hist(ratios, bins, density=True, histtype="step", linewidth=1.5, label=label)
    ax.axvline(1, color="black", linewidth=1)
    ax.set(xlabel="error of one estimate over the law", ylabel="density")
    ax.set_title(f"{table.share:.0%} of the outputs, rate 3/4", fontsize="medium")
    ax.legend(fontsize="small", frameon=False)
    return ax


def _random_set(rng: np.random.Generator, n: int, m: int) -> Mask:
    available = np.zeros(n, dtype=bool)
    available[rng.permutation(n)[:m]] = True
    return available


def _relative_error(
    code: PolarCode, outputs: Array, available: Mask, data: Array, method: str
) -> float:
    return _norm_ratio(code.estimate(outputs, available, method=method).value - data, data)


def _norm_ratio(part: Array, whole: Array) -> float:
    return float(np.linalg.norm(part) / np.linalg.norm(whole))
