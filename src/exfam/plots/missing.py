"""Scores by how much is missing."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from exfam.checks import ExfamError
from exfam.plots.style import draw_curves, make_figure, plain_axes

__all__ = ["missing_curves"]


def missing_curves(
    shares: Float[np.ndarray, "shares"],
    scores: Mapping[str, Float[np.ndarray, "_"]],
    *,
    metric: str,
    references: Mapping[str, float] | None = None,
    width: float = 8.0,
) -> Figure:
    """A score of each model by the share of cells that were hidden from it.

    `shares`: in [0, 1]
    `scores`: by model; NaN where there is none
    `metric`: what the scores are, such as "accuracy"
    `references`: label -> score, drawn as dashed lines, such as that of the most frequent label
    `width`: of the figure, in inches (default 8.0)

    Raises ExfamError without models, for shares outside [0, 1], and unless each model has a score
    for each share.

    >>> shares = np.array([0.0, 0.5])
    >>> figure = missing_curves(shares, {"trees": np.array([0.8, 0.6])}, metric="accuracy")
    >>> figure.axes[0].get_xlabel()
    'share of cells hidden'
    """
    if not len(shares) or not ((shares >= 0) & (shares <= 1)).all():
        raise ExfamError(f"`shares` must be in [0, 1], got {shares.tolist()}.")
    if not scores:
        raise ExfamError("`scores` must hold at least one model to draw, got none.")
    for name, values in scores.items():
        if len(values) != len(shares):
            raise ExfamError(
                f"`scores` must be one a share, got {len(values)} of {name!r} for {len(shares)}."
            )
    order = np.argsort(shares)
    figure = make_figure(width=width, height=4.0)
    axes = plain_axes(figure.subplots())
    curves = {name: values[order] for name, values in scores.items()}
    draw_curves(axes, shares[order], curves, references=references)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("share of cells hidden")
    axes.set_ylabel(metric)
    return figure
