"""The two pictures of the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from sooner.demo.comparison import Measured, Product
    from sooner.demo.photographs import PatchMatrix
    from sooner.jobs import Estimate

__all__ = ["draw_picture", "draw_timeline"]


def draw_timeline(measured: Measured, slowest: float, path: Path) -> None:
    """Draw what each task of the coded product did.

    Parameters
    ----------
    measured
        The coded product.
    slowest
        Seconds that the slowest task would have taken.
    path
        File to write.
    """
    from sooner.plots import timeline

    ax = timeline(measured.trace)
    outcome = measured.outcome
    killed = "One worker was killed; the" if outcome.workers_lost else "The"
    ax.set_title(
        f"A coded product on {outcome.n} workers, exact after {outcome.time_to_exact:.2f} s.\n"
        f"{killed} slowest task would have taken {slowest:.1f} s.",
        loc="left",
        fontsize="medium",
    )
    cast("Figure", ax.figure).savefig(path)


def draw_picture(measured: Measured, product: Product, patches: PatchMatrix, path: Path) -> None:
    """Draw the photograph rebuilt from each estimate, the last of which is exact.

    Parameters
    ----------
    measured
        The coded product.
    product
        With NumPy's answer, to measure the errors.
    patches
        The way from a product back to the photograph.
    path
        File to write.
    """
    from sooner.plots import picture_strip

    axes = picture_strip(
        [patches.rebuild(estimate.value, product.X) for estimate in measured.estimates],
        [_title(estimate, measured, product) for estimate in measured.estimates],
        columns=2,
    )
    figure = cast("Figure", axes[0].figure)
    figure.suptitle(
        "A photograph rebuilt from the coded product A X while its tasks answer\n"
        "(errors are those of A X; in the picture, overlapping patches average them)",
        fontsize="medium",
    )
    # The licence asks for it: the picture travels without this program.
    figure.supxlabel("photograph by danielbuechele, CC BY 2.0", fontsize="x-small")
    figure.savefig(path)


def _title(estimate: Estimate, measured: Measured, product: Product) -> str:
    came = f"{estimate.n_available} of {measured.outcome.n} outputs"
    if estimate.exact:
        return f"{came}, {measured.outcome.time_to_exact:.2f} s: exact to rounding"
    error = product.relative_error(estimate.value)
    expected = f"{estimate.relative_error:.0%} predicted"
    return f"{came}, {estimate.elapsed:.2f} s: error {error:.0%} ({expected})"
