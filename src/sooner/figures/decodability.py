"""When codes can decode: histograms of decodability times, and of the outputs that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sooner.codes import LTCode, MDSCode, PolarCode, PolynomialCode, ProductCode
from sooner.figures.panels import new_axes
from sooner.simulate import decodability_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sooner._types import RNGLike
    from sooner.codes import Code
    from sooner.plots._matplotlib import Axes
    from sooner.runtimes import RunTimes

__all__ = [
    "DecodabilityTable",
    "codes_of_one_operand",
    "codes_of_two_operands",
    "decodability_table",
    "draw_decodability",
    "draw_overhead",
    "papers_polar_code",
]

_BINS = 60

_SHOWN = 0.995
"""Share of all times that the axis reaches; the later ones are in its last bin."""


@dataclass(frozen=True, slots=True)
class DecodabilityTable:
    """When each code could decode, on the same run times for all of them."""

    n: int
    """Number of tasks."""
    k: int
    """Number of data blocks."""
    seconds: dict[str, NDArray[np.float64]]
    """Decodability times by name of the code, each of shape (trials,)."""
    outputs: dict[str, NDArray[np.intp]]
    """How many outputs had come by then."""

    def rows(self) -> list[dict[str, Any]]:
        """Give mean and 99 % quantile per code.

        Returns
        -------
        list of dict
            One per code.
        """
        return [
            {
                "n": self.n,
                "k": self.k,
                "code": name,
                "mean_seconds": float(seconds.mean()),
                "p99_seconds": float(np.quantile(seconds, 0.99)),
                "mean_outputs_over_k": float(self.outputs[name].mean() / self.k),
                "p99_outputs_over_k": float(np.quantile(self.outputs[name], 0.99) / self.k),
            }
            for name, seconds in self.seconds.items()
        ]


def papers_polar_code(
    n: int,
    k: int,
    *,
    decoder: Literal["sequential", "inactivation"] = "sequential",
    rng: RNGLike = 0,
) -> PolarCode:
    """Make the polar code of the papers: their choice of channels and their decoder.

    Parameters
    ----------
    n, k
        Numbers of tasks and of data blocks.
    decoder
        Theirs is sequential; inactivation decodes whatever determines the answer.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    PolarCode
        The code.
    """
    return PolarCode(n, k, erasure_prob=1 - k / n, late_parities=0, decoder=decoder, rng=rng)


def codes_of_one_operand(n: int, k: int, *, rng: int = 0) -> dict[str, Code]:
    """Make the codes of [B19] Figure 6, with sooner's default beside them.

    Parameters
    ----------
    n, k
        Numbers of tasks and of data blocks.
    rng
        Seed.

    Returns
    -------
    dict
        Names and codes.
    """
    return {
        "MDS": MDSCode(n, k, rng=rng),
        "polar, sooner's default": PolarCode(n, k, rng=rng),
        "polar, the papers'": papers_polar_code(n, k, rng=rng),
        "LT, peeling": LTCode(n, k, rng=rng, decoder="peeling"),
    }


def codes_of_two_operands(side: int, k: int, *, rng: int = 0) -> dict[str, Code]:
    """Make the codes of [B19] Figure 7 for A @ B: ``side**2`` tasks, ``k**2`` data blocks.

    Parameters
    ----------
    side
        Coded blocks of each operand.
    k
        Data blocks of each operand.
    rng
        Seed.

    Returns
    -------
    dict
        Names and codes.
    """
    papers = [papers_polar_code(side, k, rng=2 * rng + operand) for operand in range(2)]
    default = [PolarCode(side, k, rng=2 * rng + operand) for operand in range(2)]
    return {
        "MDS": MDSCode(side**2, k**2, rng=rng),
        "polynomial": PolynomialCode(side**2, k, k, rng=rng),
        "2-D polar, sooner's default": ProductCode(*default),
        "2-D polar, Alg. 3 completed": ProductCode(*papers),
        "2-D polar, Alg. 3 alone": ProductCode(*papers, decoder="peeling"),
    }


def decodability_table(
    codes: Mapping[str, Code], run_times: RunTimes, *, trials: int = 1000, rng: RNGLike = 0
) -> DecodabilityTable:
    """Draw run times, and see when each code can decode.

    Parameters
    ----------
    codes
        Names and codes, all with the same n and k.
    run_times
        Of independent tasks; those of a measured file are pooled.
    trials
        How many draws of all n tasks.
    rng
        Seed or generator (SPEC 7).

    Returns
    -------
    DecodabilityTable
        Times and numbers of outputs.

    Raises
    ------
    ValueError
        If the codes differ in n or k.

    Notes
    -----
    Figures 6 and 7 of [B19] (arXiv 1901.06811).

    Examples
    --------
    >>> from sooner.runtimes import ShiftedExponential
    >>> table = decodability_table(
    ...     codes_of_one_operand(16, 10), ShiftedExponential(1.0, 0.5), trials=50
    ... )
    >>> set(table.outputs["MDS"].tolist())
    {10}
    """
    sizes = {(code.n, code.k) for code in codes.values()}
    if len(sizes) != 1:
        raise ValueError(f"codes must all have the same n and k, got (n, k) of {sorted(sizes)}.")
    [(n, k)] = sizes
    drawn = run_times.sample(np.random.default_rng(rng), (trials, n))
    order = np.argsort(np.argsort(drawn, axis=1, kind="stable"), axis=1) + 1.0
    ordered = np.sort(drawn, axis=1)
    # Told of places instead of seconds, a code answers with the number of outputs: ties in
    # measured run times count once each.
    outputs = {
        name: decodability_times(code, order).astype(np.intp) for name, code in codes.items()
    }
    seconds = {
        name: np.take_along_axis(ordered, counts[:, None] - 1, axis=1)[:, 0]
        for name, counts in outputs.items()
    }
    return DecodabilityTable(n, k, seconds, outputs)


def draw_decodability(table: DecodabilityTable, *, ax: Axes | None = None) -> Axes:
    """Draw a histogram of decodability times per code, one above the other.

    Parameters
    ----------
    table
        From `decodability_table`.
    ax
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.
    """
    ax = new_axes() if ax is None else ax
    everything = np.concatenate(list(table.seconds.values()))
    bins = np.linspace(everything.min(), np.quantile(everything, _SHOWN), _BINS + 1)
    for place, (name, seconds) in enumerate(table.seconds.items()):
        counts, _ = np.histogram(np.minimum(seconds, bins[-1]), bins)
        base = -place
        colour = f"C{place}"
        ax.stairs(base + 0.85 * counts / counts.max(), bins, baseline=base, fill=True, color=colour)
        ax.plot([seconds.mean()] * 2, [base, base + 0.85], color="black", linewidth=1)
        right: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "ha": "right"}
        ax.text(0.98, base + 0.62, name, color=colour, fontsize="small", **right)
        ax.text(0.98, base + 0.36, f"mean {seconds.mean():.2f} s", fontsize="x-small", **right)
    ax.set_yticks([])
    ax.set_xlim(bins[0], bins[-1] + 0.2 * (bins[-1] - bins[0]))
    ax.set_xlabel("seconds until decodable (last bin: that or later)")
    ax.set_title(f"n = {table.n}, k = {table.k}", fontsize="medium")
    return ax


def draw_overhead(table: DecodabilityTable, *, ax: Axes | None = None) -> Axes:
    """Draw which share of the trials a number of outputs is enough for.

    Parameters
    ----------
    table
        From `decodability_table`.
    ax
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.
    """
    ax = new_axes() if ax is None else ax
    for name, outputs in table.outputs.items():
        shares = np.arange(1, len(outputs) + 1) / len(outputs)
        mean = outputs.mean() / table.k
        ax.step(np.sort(outputs) / table.k, shares, where="post", label=f"{name}: mean {mean:.3f}")
    ax.set(xlabel="outputs over k", ylim=(0, 1.02))
    ax.set_ylabel("share of the trials")
    ax.set_title(f"n = {table.n}, k = {table.k}", fontsize="medium")
    ax.legend(fontsize="small", loc="lower right", frameon=False)
    return ax
