"""How fast a loss falls with the number of groups."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import COLORS, MUTED, legend_beside, line_of, make_figure, plain_axes

__all__ = ["rate_curve"]


def rate_curve(
    n_groups: Float[np.ndarray, "sizes"],
    losses: Mapping[str, Float[np.ndarray, "sizes"]],
    *,
    slope: float,
    slope_name: str,
    metric: str,
    spread: Float[np.ndarray, "sizes"] | None = None,
) -> Figure:
    """Losses by the number of groups, both on logarithmic scales, beside a line of a known slope.

    `losses`: name -> loss at each size; the dashed line starts at the first of the first name, as
        its own height is not known
    `spread`: half-lengths of error bars of the first name (default None)

    Raises ExfamError unless there is a loss at two sizes at least, and all are above 0.

    >>> sizes = np.array([10.0, 100.0])
    >>> figure = rate_curve(sizes, {"fitted": 1 / sizes}, slope=-0.5, slope_name="rate term",
    ...     metric="excess loss")
    >>> figure.axes[0].lines[-1].get_ydata().round(4).tolist()
    [0.1, 0.0316]
    """
    if len(n_groups) < 2 or not losses:
        raise ExfamError(
            f"`losses` must hold a loss at 2 sizes at least to draw, got {len(n_groups)} sizes of "
            f"{len(losses)} losses."
        )
    for name, loss in losses.items():
        if not (loss > 0).all():
            raise ExfamError(
                f"`losses` must be above 0 on a logarithmic scale, got {loss.min():g} of {name!r}."
            )
    order = np.argsort(n_groups)
    figure = make_figure(width=7.6, height=4.2)
    axes = plain_axes(figure.subplots())
    for number, (name, loss) in enumerate(losses.items()):
        style, color = line_of(number)
        axes.plot(n_groups[order], loss[order], style, marker="o", color=color, label=name)
    first = next(iter(losses.values()))
    if spread is not None:
        axes.errorbar(n_groups, first, yerr=spread, fmt="none", ecolor=COLORS[0], capsize=3)
    sizes = n_groups[order]
    along = first[order][0] * (sizes / sizes[0]) ** slope
    axes.plot(sizes, along, ls="--", color=MUTED, label=slope_name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("groups")
    axes.set_ylabel(metric)
    legend_beside(axes)
    return figure
