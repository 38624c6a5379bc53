"""Predicted means beside true ones."""

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import COLORS, INK, MUTED, legend_above, make_figure, name_rows, plain_axes

__all__ = ["means_by_case"]


def means_by_case(
    predicted: Mapping[str, Float[np.ndarray, "elements"]],
    *,
    true: Float[np.ndarray, "elements"],
    case: Shaped[np.ndarray, "elements"],
    unit: str = "",
) -> Figure:
    """Predicted means beside true ones, a row a case: dot the average, bar 5 % to 95 %.

    `predicted`: name of a model -> its means. `unit` is written at the axis of values.
    Raises ExfamError if there is no model.

    >>> means = {"EFA": np.array([1.1, 2.9])}
    >>> figure = means_by_case(means, true=np.array([1.0, 3.0]), case=np.array(["low", "high"]))
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['low', 'high']
    """
    if not predicted:
        raise ExfamError("`predicted` must hold the means of at least one model, got none.")
    cases = list(dict.fromkeys(case.tolist()))
    here = [case == name for name in cases]
    rows = np.arange(len(cases))
    figure = make_figure(width=7.0, height=1.4 + 0.17 * len(cases) * (1 + len(predicted)))
    axes = plain_axes(figure.subplots())
    spread = 0.16 * (len(predicted) - 1)
    offsets = np.linspace(-spread, spread, len(predicted))
    for (name, mean), offset, color in zip(predicted.items(), offsets, cycle(COLORS), strict=False):
        low, high = np.array([np.quantile(mean[where], [0.05, 0.95]) for where in here]).T
        axes.hlines(rows + offset, low, high, color=color, lw=5, alpha=0.4)
        center = [mean[where].mean() for where in here]
        axes.plot(center, rows + offset, "o", color=color, ms=6, label=name)
    truth = [true[where].mean() for where in here]
    axes.vlines(truth, rows - 0.32, rows + 0.32, color=INK, lw=2)
    axes.plot([], [], "|", color=INK, ms=11, mew=2, label="true mean")
    name_rows(axes, cases)
    axes.set_xlabel("mean" + (f" ({unit})" if unit else ""))
    axes.grid(axis="x", color=MUTED, alpha=0.3)
    legend_above(axes)
    return figure
