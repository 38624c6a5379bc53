"""A score by a setting, such as the number of neighbors."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import COLORS, INK, legend_beside, make_figure, plain_axes

__all__ = ["setting_curve"]


def setting_curve(
    setting: Float[np.ndarray, "points"],
    values: Float[np.ndarray, "points"],
    *,
    name: str,
    setting_name: str,
    metric: str,
    spread: Float[np.ndarray, "points"] | None = None,
    paper: Float[np.ndarray, "points"] | None = None,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """A model's score at each setting, on a logarithmic scale, beside scores that have none.

    `name`: of the model; `setting_name`, `metric`: of the axes
    `spread`: half-lengths of error bars, such as standard deviations over seeds; NaN for none
    `paper`: figures that a paper prints, as hollow diamonds; NaN where there is none
    `references`: label -> value above 0, drawn as lines across, their figures in the legend

    Raises ExfamError unless there is at least one setting, and all values are above 0.

    >>> k = np.array([1.0, 5.0])
    >>> axes = setting_curve(k, np.array([37.0, 22.0]), name="latent factor",
    ...     setting_name="neighbors", metric="MSE", references={"ridge": 8.9}).axes[0]
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['latent factor', 'ridge: 8.90']
    """
    references = references or {}
    if not len(setting):
        raise ExfamError("`setting` must hold at least one setting to draw, got none.")
    for value in [*values.tolist(), *references.values()]:
        if not value > 0:
            raise ExfamError(f"`values` must be above 0 on a logarithmic scale, got {value}.")
    order = np.argsort(setting)
    figure = make_figure(width=7.6, height=4.2)
    axes = plain_axes(figure.subplots())
    axes.plot(setting[order], values[order], ".-", color=INK, label=name)
    if spread is not None:
        axes.errorbar(setting, values, yerr=spread, fmt="none", ecolor=INK, capsize=3)
    if paper is not None:
        (marks,) = axes.plot(setting, paper, "D", color=INK, ms=6, label=f"{name}, paper")
        marks.set_fillstyle("none")
    for number, (label, value) in enumerate(references.items()):
        line = ("--", ":", "-.")[number // len(COLORS) % 3]
        color = COLORS[number % len(COLORS)]
        axes.axhline(value, color=color, ls=line, lw=1.5, label=f"{label}: {value:.2f}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="y", which="both", colors=INK, labelsize="small")
    axes.set_xlabel(setting_name)
    axes.set_ylabel(metric)
    legend_beside(axes)
    return figure
