"""Scores with their spread by a number that a model has, such as how local its attention is."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import COLORS, INK, make_figure, plain_axes

__all__ = ["score_points"]

_MARKERS = "os^DvP*X"


def score_points(
    series: Mapping[str, Float[np.ndarray, "_ 3"]],
    *,
    setting_name: str,
    metric: str,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """Points with error bars, a color a series.

    `series`: label -> a row a point: the setting, the score, and the half-length of its error bar,
        such as a standard deviation over seeds; NaN for none
    `setting_name`, `metric`: of the axes
    `references`: label -> score, drawn as lines across, their figures in the legend

    Raises ExfamError if there is no point to draw.

    >>> points = np.array([[0.1, 0.74, 0.01], [0.9, 0.75, 0.01]])
    >>> axes = score_points({"MR": points}, setting_name="locality", metric="accuracy").axes[0]
    >>> axes.get_xlabel(), [text.get_text() for text in axes.get_legend().get_texts()]
    ('locality', ['MR'])
    """
    if not any(len(points) for points in series.values()):
        raise ExfamError("`series` must hold at least one point to draw, got none.")
    figure = make_figure(width=7.6, height=4.2)
    axes = plain_axes(figure.subplots())
    for number, (label, points) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        setting, score, spread = points[np.argsort(points[:, 0], kind="stable")].T
        marker = _MARKERS[number % len(_MARKERS)]
        axes.errorbar(setting, score, yerr=spread, fmt=marker, color=color, capsize=3, label=label)
    for number, (label, value) in enumerate((references or {}).items()):
        style = ("--", ":", "-.")[number % 3]
        axes.axhline(value, color=INK, ls=style, lw=1.2, label=f"{label}: {value:.3f}")
    axes.set_xlabel(setting_name)
    axes.set_ylabel(metric)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, labelcolor=INK)
    return figure
