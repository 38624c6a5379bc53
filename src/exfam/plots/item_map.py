"""A map of items with as many names as fit."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.placing import place_names
from exfam.plots.style import COLORS, make_figure, plain_axes

__all__ = ["item_map"]

_MARGIN = 0.06


def item_map(
    points: Float[np.ndarray, "items 2"],
    names: Sequence[str],
    *,
    weight: Float[np.ndarray, "items"] | None = None,
    labels: Sequence[str] = ("", ""),
    width: float = 9.0,
    height: float = 6.0,
) -> Figure:
    """Items as dots in a plane; those named first keep their names where names would overlap.

    `weight`: areas of the dots, such as how often items occur; all alike unless given
    `labels`: of the two axes (default ("", ""))
    `width`: of the figure, in inches (default 9.0)
    `height`: of the figure, in inches (default 6.0)

    Raises ExfamError unless there is one name a point.

    >>> figure = item_map(np.array([[0.0, 0.0], [0.0, 0.0], [5.0, 5.0]]), ["a", "b", "c"])
    >>> len(figure.axes[0].texts)
    3
    """
    if len(names) != len(points):
        raise ExfamError(
            f"`names` must be one a point, got {len(names)} names for {len(points)} points."
        )
    figure = make_figure(width=width, height=height)
    axes = plain_axes(figure.subplots())
    axes.spines[["left", "bottom"]].set_alpha(0.35)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    area = np.full(len(points), 14.0) if weight is None else _areas(weight)
    axes.scatter(points[:, 0], points[:, 1], s=area, color=COLORS[0], alpha=0.55, lw=0)
    _fit_limits(axes, points)
    figure.draw_without_rendering()
    # The layout is final: names are placed where it left the dots.
    figure.set_layout_engine("none")
    place_names(axes, points, names, np.sqrt(area) / 2)
    return figure


def _areas(weight: Float[np.ndarray, "items"]) -> Float[np.ndarray, "items"]:
    largest = weight.max(initial=0.0)
    return 6.0 + 80.0 * weight / (largest if largest > 0 else 1.0)


def _fit_limits(axes: Axes, points: Float[np.ndarray, "items 2"]) -> None:
    """Room around the dots, more at the right, where most names go."""
    if not len(points):
        return
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    axes.set_xlim(low[0] - _MARGIN * span[0], high[0] + 2.5 * _MARGIN * span[0])
    axes.set_ylim(low[1] - _MARGIN * span[1], high[1] + _MARGIN * span[1])
