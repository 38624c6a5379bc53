"""What each layer of an encoder knows, a panel a task."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from exfam.checks import ExfamError, check_positive
from exfam.plots.style import INK, drawable, line_of, make_figure, plain_axes

__all__ = ["layer_curves"]


def layer_curves(
    accuracies: Mapping[str, Mapping[str, Float[np.ndarray, "layers"]]],
    *,
    references: Mapping[str, float] | None = None,
    columns: int = 5,
) -> Figure:
    """Accuracy by layer, a panel a task and a line a model, which has the same color everywhere.

    `accuracies`: task -> model -> one a layer, from the first; NaN where there is none
    `references`: task -> accuracy of chance, as a dashed line
    `columns`: panels side by side at most (default 5)

    Raises ExfamError without a line. Source: Chen, Varoquaux & Suchanek (2023), Figure A2.

    >>> figure = layer_curves({"Tense": {"contextual": np.array([0.6, 0.7])}})
    >>> figure.axes[0].get_title(), figure.get_supxlabel()
    ('Tense', 'layer')
    """
    check_positive("columns", columns)
    if not any(accuracies.values()):
        raise ExfamError("`accuracies` must hold at least one line to draw, got none.")
    models = list(dict.fromkeys(model for lines in accuracies.values() for model in lines))
    n_columns = min(columns, len(accuracies))
    n_rows = -(-len(accuracies) // n_columns)
    figure = make_figure(width=1.2 + 1.9 * n_columns, height=1.2 + 1.9 * n_rows)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    panels = grid.ravel()
    for axes, (task, lines) in zip(panels, accuracies.items(), strict=False):
        plain_axes(axes).set_title(drawable(task), fontsize=9, color=INK, parse_math=False)
        for model, values in lines.items():
            style, color = line_of(models.index(model))
            layers = np.arange(1, len(values) + 1)
            axes.plot(layers, values, style, marker="o", ms=3, color=color, label=drawable(model))
        if references and task in references:
            axes.axhline(references[task], color=INK, ls="--", lw=1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.tick_params(labelsize=7)
    for axes in panels[len(accuracies) :]:
        axes.set_axis_off()
    handles = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=3, frameon=False,
        labelcolor=INK,
    )  # fmt: skip
    figure.supxlabel("layer", color=INK, fontsize=10)
    figure.supylabel("accuracy", color=INK, fontsize=10)
    return figure
