"""Results side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import (
    COLORS,
    INK,
    draw_references,
    legend_above,
    make_figure,
    name_rows,
    plain_axes,
    write_beside,
)

__all__ = ["result_bars"]


def result_bars(
    labels: Sequence[str],
    values: Float[np.ndarray, "results"],
    *,
    metric: str,
    spread: Float[np.ndarray, "results"] | None = None,
    paper: Float[np.ndarray, "results"] | None = None,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """Horizontal bars of one metric with their figures, from the top in the order given.

    `spread`: half-lengths of error bars, such as standard deviations over seeds.
    `paper`: figures that a paper prints, as diamonds; NaN where there is none.
    `references`: label -> value, drawn as dashed lines, such as the best possible one.
    Raises ExfamError unless there is one label a value.

    >>> figure = result_bars(["EFA", "marginal"], np.array([1.03, 2.2]), metric="MSE")
    >>> figure.axes[0].get_xlabel()
    'MSE'
    """
    if len(labels) != len(values):
        raise ExfamError(
            f"`labels` must be one a value, got {len(labels)} labels for {len(values)} values."
        )
    figure = make_figure(width=7.0, height=1.4 + 0.34 * len(values))
    axes = plain_axes(figure.subplots())
    rows = np.arange(len(values))
    axes.barh(rows, values, height=0.62, color=COLORS[0], alpha=0.85)
    ends = values if spread is None else values + spread
    if spread is not None:
        axes.errorbar(values, rows, xerr=spread, fmt="none", ecolor=INK, capsize=3)
    if paper is not None:
        axes.plot(paper, rows, "D", color=COLORS[1], ms=7, label="paper")
        ends = np.fmax(ends, paper)
    for row, value, end in zip(rows, values, ends, strict=True):
        write_beside(axes, f"{value:.3f}", x=float(end), y=float(row))
    draw_references(axes.axvline, references)
    name_rows(axes, labels)
    axes.set_xlim(min(0.0, 1.12 * values.min()), 1.12 * max(0.0, ends.max()))
    axes.set_xlabel(metric)
    legend_above(axes)
    return figure
