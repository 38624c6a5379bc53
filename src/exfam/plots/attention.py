"""Attention weights as heat maps."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from exfam.checks import check_choice
from exfam.estimators.explain import Explanation
from exfam.plots.style import (
    INK,
    ON_DATA,
    SHADES,
    make_figure,
    name_ticks,
    plain_axes,
    shortened,
)

__all__ = ["attention_map", "layer_map"]

_LEVELS = np.linspace(0, 1, 21)
_MOST_LABELS = 40
_MOST_NUMBERS = 8


def attention_map(
    explanation: Explanation, *, part: str | None = None, heads: str = "each"
) -> Figure:
    """Attention weights of one group: a panel for each layer and head, a row for each center.

    `part`: "items" or "values"; the first that the model has unless given. Weights are in [0, 1]
    and each row sums to 1 with softmax attention.
    `heads`: "each", or "mean" for one panel a layer (default "each")

    >>> weights = np.array([[0.0, 1.0], [1.0, 0.0]])[None, None]
    >>> explanation = Explanation("u", ["a", "b"], ["a", "b"], {"values": weights})
    >>> len(attention_map(explanation).axes)  # one panel, one color bar
    2
    """
    chosen = next(iter(explanation.weights)) if part is None else part
    check_choice("part", chosen, explanation.weights)
    check_choice("heads", heads, ["each", "mean"])
    weights = explanation.weights[chosen]
    if heads == "mean":
        weights = weights.mean(axis=1, keepdims=True)
    n_layers, n_heads, n_centers, n_columns = weights.shape
    figure = make_figure(
        width=2.2 + n_heads * _panel(n_columns), height=1.4 + n_layers * _panel(n_centers)
    )
    panels = figure.subplots(n_layers, n_heads, squeeze=False, sharex=True, sharey=True)
    norm = BoundaryNorm(_LEVELS, SHADES.N)
    for (layer, head), axes in np.ndenumerate(panels):
        plain_axes(axes)
        axes.pcolormesh(weights[layer, head], cmap=SHADES, norm=norm, edgecolor="face", lw=0.3)
        of_head = f", head {head + 1}" if heads == "each" else ""
        axes.set_title(f"layer {layer + 1}{of_head}", fontsize=10, color=INK)
        _write_numbers(axes, weights[layer, head])
    _name_cells(panels[0, 0], explanation)
    bar = figure.colorbar(ScalarMappable(norm, SHADES), ax=panels, ticks=[0, 0.5, 1])
    plain_axes(bar.ax)
    bar.outline.set_visible(False)
    bar.minorticks_off()
    bar.set_label("attention weight", color=INK)
    figure.supxlabel("context", color=INK, fontsize=11)
    figure.supylabel("element given its context", color=INK, fontsize=11)
    return figure


def layer_map(explanation: Explanation, *, part: str, layer: int, width: float = 4.6) -> Figure:
    """Attention weights of one layer, averaged over its heads; columns have the rows' numbers.

    `part`: "items" or "values"; `layer` counts from 1.
    `width`: of the figure, in inches (default 4.6)

    >>> weights = np.array([[0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])[None, None]
    >>> told = Explanation("u", ["a", "b"], ["a", "b", "(nothing)"], {"items": weights})
    >>> axes = layer_map(told, part="items", layer=1).axes[0]
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['a  1', 'b  2']
    """
    check_choice("part", part, explanation.weights)
    check_choice("layer", layer, range(1, len(explanation.weights[part]) + 1))
    weights = explanation.weights[part][layer - 1].mean(axis=0)
    n_centers, n_columns = weights.shape
    figure = make_figure(width=width, height=1.1 + 0.24 * n_centers)
    axes = plain_axes(figure.subplots())
    norm = BoundaryNorm(_LEVELS, SHADES.N)
    axes.pcolormesh(weights, cmap=SHADES, norm=norm, edgecolor="face", lw=0.3)
    names = [f"{name}  {number}" for number, name in enumerate(explanation.centers, start=1)]
    name_ticks(axes.yaxis, np.arange(n_centers) + 0.5, names)
    axes.set_ylim(n_centers, 0)
    more = [shortened(name.strip("()"), most=7) for name in explanation.columns[n_centers:]]
    columns = [*map(str, range(1, n_centers + 1)), *more]
    axes.set_xticks(np.arange(n_columns) + 0.5, columns)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    for tick in axes.get_xticklabels()[n_centers:]:
        tick.set_rotation(90)
    bar = plain_axes(figure.colorbar(ScalarMappable(norm, SHADES), ax=axes, ticks=[0, 0.5, 1]).ax)
    bar.set_yticks([0, 0.5, 1], ["0", "½", "1"])
    bar.spines[:].set_visible(False)
    bar.minorticks_off()
    bar.tick_params(length=0)
    axes.set_xlabel("number of the context element")
    return figure


def _panel(n_cells: int) -> float:
    """Inches of one side of a heat map."""
    return float(np.clip(0.48 * n_cells, 1.6, 6.0))


def _write_numbers(axes: Axes, weights: Float[np.ndarray, "center column"]) -> None:
    """Each weight that counts, in percent, where there is room for it."""
    if max(weights.shape) > _MOST_NUMBERS:
        return
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.05:
            color = "white" if weight > 0.45 else ON_DATA
            at = column + 0.5, row + 0.5
            axes.text(*at, f"{weight:.0%}", color=color, ha="center", va="center", fontsize=9)


def _name_cells(axes: Axes, explanation: Explanation) -> None:
    """Names at the cells of panels that share their axes, as many as can be read."""
    for axis, names in ((axes.yaxis, explanation.centers), (axes.xaxis, explanation.columns)):
        step = -(-len(names) // _MOST_LABELS)
        name_ticks(axis, np.arange(len(names))[::step] + 0.5, names[::step])
    axes.set_ylim(len(explanation.centers), 0)
    for panel in axes.figure.axes:
        panel.tick_params(axis="x", rotation=90)
        panel.tick_params(length=0)
