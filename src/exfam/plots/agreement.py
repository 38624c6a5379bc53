"""How alike fits are by the size of what they were fitted to."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import INK, legend_beside, line_of, make_figure, plain_axes

__all__ = ["agreement_curves"]


def agreement_curves(
    sizes: Float[np.ndarray, "sizes"],
    curves: Mapping[str, Float[np.ndarray, "points columns"]],
    *,
    size_name: str,
    metric: str = "share of variance explained",
    width: float = 8.0,
) -> Figure:
    """A line for each comparison, with a band of its spread, on a logarithmic scale of sizes.

    `sizes`: above 0
    `curves`: by name, a row a size: agreement, at most 1, and its spread; the axis ends at -1
    `size_name`: of the axis of sizes
    `metric`: of the other axis (default "share of variance explained")
    `width`: of the figure, in inches (default 8.0)

    Raises ExfamError without curves, for sizes that are not above 0, and unless each curve has two
    figures for each size.

    >>> curves = {"contexts, seeds": np.array([[0.6, 0.1], [0.9, 0.02]])}
    >>> axes = agreement_curves(np.array([100.0, 400.0]), curves, size_name="groups").axes[0]
    >>> axes.get_xlabel(), axes.get_xscale()
    ('groups', 'log')
    """
    if not curves:
        raise ExfamError("`curves` must hold at least one comparison to draw, got none.")
    if not len(sizes) or not (sizes > 0).all():
        raise ExfamError(f"`sizes` must be above 0, got {sizes.tolist()}.")
    for name, curve in curves.items():
        if curve.shape != (len(sizes), 2):
            raise ExfamError(
                "`curves` must have agreement and spread for each of "
                f"{len(sizes)} sizes, got shape {curve.shape} of {name!r}."
            )
    order = np.argsort(sizes)
    figure = make_figure(width=width, height=4.2)
    axes = plain_axes(figure.subplots())
    for number, (name, curve) in enumerate(curves.items()):
        style, color = line_of(number)
        value, spread = curve[order].T
        axes.plot(sizes[order], value, style, marker="o", color=color, label=name)
        axes.fill_between(sizes[order], value - spread, value + spread, color=color, alpha=0.2)
    axes.axhline(1.0, color=INK, lw=0.8)
    axes.set_xscale("log")
    axes.set_xticks(sizes[order], [f"{size:,.4g}" for size in sizes[order]])
    axes.minorticks_off()
    lowest = min(float(curve[:, 0].min()) for curve in curves.values())
    axes.set_ylim(max(-1.0, min(0.0, lowest)) - 0.05, 1.05)
    axes.set_xlabel(size_name)
    axes.set_ylabel(metric)
    legend_beside(axes)
    return figure
