"""Differences with their intervals."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from exfam.checks import ExfamError
from exfam.plots.style import COLORS, INK, MUTED, make_figure, name_rows, plain_axes

__all__ = ["interval_rows"]


def interval_rows(
    labels: Sequence[str],
    intervals: Float[np.ndarray, "rows 3"],
    *,
    metric: str,
    width: float = 4.6,
) -> Figure:
    """A row for each difference: a dot at its mean, a line over its interval, zero drawn upright.

    `intervals`: low end, mean, high end of each
    `width`: of the figure, in inches (default 4.6)

    Raises ExfamError unless there is one label a row.

    >>> figure = interval_rows(["marginal"], np.array([[0.1, 0.2, 0.3]]), metric="nats")
    >>> figure.axes[0].lines[-1].get_xdata().tolist()
    [0.2]
    """
    if len(labels) != len(intervals):
        raise ExfamError(
            f"`labels` must be one a row, got {len(labels)} labels for {len(intervals)} intervals."
        )
    figure = make_figure(width=width, height=1.0 + 0.34 * len(labels))
    axes = plain_axes(figure.subplots())
    rows = np.arange(len(labels))
    low, mean, high = intervals.T
    axes.axvline(0.0, color=INK, lw=1)
    axes.hlines(rows, low, high, color=COLORS[0], lw=5, alpha=0.4)
    axes.plot(mean, rows, "o", color=COLORS[0], ms=6)
    name_rows(axes, labels)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=MUTED, alpha=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(metric)
    return figure
