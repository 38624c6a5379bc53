"""Attention weights as heat maps: of elements, and between positions."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap, Normalize

from exfam.checks import ExfamError, check_choice, check_positive
from exfam.efa.explain import Explanation
from exfam.plots import style
from exfam.positions import position_scores

_SHORT = {"(nothing)": "∅", "(mask)": "?"}
_LEVELS = np.linspace(0, 1, 21)
_MOST_LABELS = 40
_MOST_NUMBERS = 8
_MANY_COLUMNS = 10


def attention_map(
    explanation: Explanation,
    *,
    part: str | None = None,
    heads: str = "each",
    ax: Axes | None = None,
) -> style.Drawn:
    """Attention weights of one group: a panel for each layer and head, a row for each center.

    `part`: "items" or "values"; the first that the model has unless given. Weights are in [0, 1]
    and each row sums to 1 with softmax attention.
    `heads`: "each", or "mean" for one panel a layer

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
    figure = style.make_figure(
        width=2.2 + n_heads * _panel(n_columns), height=1.4 + n_layers * _panel(n_centers), ax=ax
    )
    panels = figure.subplots(n_layers, n_heads, squeeze=False, sharex=True, sharey=True)
    norm = BoundaryNorm(_LEVELS, style.SHADES.N)
    for (layer, head), axes in np.ndenumerate(panels):
        style.plain_axes(axes)
        axes.pcolormesh(
            weights[layer, head], cmap=style.SHADES, norm=norm, edgecolor="face", lw=0.8
        )
        of_head = f", head {head + 1}" if heads == "each" else ""
        axes.set_title(f"layer {layer + 1}{of_head}", fontsize=10, color=style.INK)
        _write_numbers(axes, weights[layer, head])
    _name_cells(panels[0, 0], explanation)
    bar = style.color_bar(ScalarMappable(norm, style.SHADES), panels, ticks=[0, 0.5, 1])
    bar.set_label("attention weight", color=style.INK)
    figure.supxlabel("context", color=style.INK, fontsize=11)
    figure.supylabel("element given its context", color=style.INK, fontsize=11)
    return style.drawn(figure, ax)


def layer_map(
    explanation: Explanation,
    *,
    part: str,
    layer: int,
    ax: Axes | None = None,
) -> style.Drawn:
    """Attention weights of one layer, averaged over its heads; columns have the rows' numbers.

    The column ∅ is that of "(nothing)", ? that of "(mask)", the hidden element itself. The darkest
    shade is the largest weight that an element has in any layer of the part, or more.
    `part`: "items" or "values"; `layer` counts from 1.

    >>> weights = np.array([[0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])[None, None]
    >>> explanation = Explanation("u", ["a", "b"], ["a", "b", "(nothing)"], {"items": weights})
    >>> axes = layer_map(explanation, part="items", layer=1).axes[0]
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['1', '2', '∅']
    """
    check_choice("part", part, explanation.weights)
    check_choice("layer", layer, range(1, len(explanation.weights[part]) + 1))
    of_layers = explanation.weights[part].mean(axis=1)
    weights = of_layers[layer - 1]
    n_centers, n_columns = weights.shape
    figure, axes = style.one_panel(width=4.6, height=1.0 + 0.24 * n_centers, ax=ax)
    largest = max(float(of_layers[..., :n_centers].max()), 1e-6)
    norm = Normalize(0.0, largest)
    axes.pcolormesh(weights, cmap=style.SHADES, norm=norm, edgecolor="face", lw=0.8)
    names = [f"{name}\u2002{number}" for number, name in enumerate(explanation.centers, start=1)]
    style.name_ticks(axes.yaxis, np.arange(n_centers) + 0.5, names)
    axes.set_ylim(n_centers, 0)
    more = [_SHORT.get(name, name) for name in explanation.columns[n_centers:]]
    numbers = [str(number) for number in range(1, n_centers + 1)]
    axes.set_xticks(np.arange(n_columns) + 0.5, numbers + more)
    axes.tick_params(length=0)
    axes.tick_params(axis="x", labelsize=10 if n_columns < _MANY_COLUMNS else 8.5)
    axes.spines[["left", "bottom"]].set_visible(False)
    steps = LinearSegmentedColormap.from_list("steps", style.SHADES(_LEVELS), N=len(_LEVELS))
    bar = style.color_bar(ScalarMappable(norm, steps), axes)
    bar.ax.set_yticks([0.0, largest], ["0", f"{largest:.2f}"])
    bar.ax.tick_params(length=0)
    axes.set_xlabel("number of the context element")
    return style.drawn(figure, ax)


def position_matrices(
    matrices: Mapping[str, Float[np.ndarray, "_ _"]],
    *,
    columns: int = 4,
    panel: float = 2.0,
    ax: Axes | None = None,
) -> style.Drawn:
    """A heat map of each matrix of attention between positions, all shades on one scale.

    Titles have the locality and the symmetry, of both kinds: with and without min-max.

    `matrices`: of encodings, layers or heads, by name; rows sum to 1, or to 0
    `columns`: panels side by side at most
    `panel`: side of a panel, in inches

    Raises ExfamError without a matrix, and for less than 3 positions; DataError for rows that are
    no shares.

    >>> from exfam.positions import encoding_weights
    >>> from exfam.encodings import ALiBi
    >>> figure = position_matrices({"ALiBi": encoding_weights(ALiBi(1), 16)[0].numpy()})
    >>> figure.axes[0].get_title().splitlines()
    ['ALiBi', 'locality .17', 'symmetry 1.00 (raw 1.00)']
    """
    if not matrices:
        raise ExfamError("`matrices` must hold at least one to draw, got none.")
    check_positive("columns", columns)
    titles = [f"{style.drawable(name)}\n{_in_words(rows)}" for name, rows in matrices.items()]
    n_columns = min(columns, len(matrices))
    n_rows = -(-len(matrices) // n_columns)
    figure = style.make_figure(
        width=1.4 + n_columns * panel, height=0.6 + n_rows * (panel + 0.55), ax=ax
    )
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    norm = Normalize(0.0, max(float(matrix.max()) for matrix in matrices.values()))
    for axes, title, matrix in zip(grid.flat, titles, matrices.values(), strict=False):
        style.plain_axes(axes).imshow(matrix, cmap=style.SHADES, norm=norm)
        axes.set_title(title, fontsize=8, color=style.INK, parse_math=False)
        axes.tick_params(length=0, labelsize=7)
    for axes in grid.flat[len(matrices) :]:
        axes.set_axis_off()
    style.color_bar(ScalarMappable(norm, style.SHADES), grid).set_label(
        "attention weight", color=style.INK
    )
    figure.supxlabel("position attended to", color=style.INK, fontsize=10)
    figure.supylabel("position", color=style.INK, fontsize=10)
    return style.drawn(figure, ax)


def _in_words(matrix: Float[np.ndarray, "query key"]) -> str:
    scores = position_scores(torch.as_tensor(matrix))
    locality, symmetry, raw = (
        f"{score.item():.2f}".removeprefix("0")
        for score in (scores.locality, scores.symmetry, scores.raw_symmetry)
    )
    return f"locality {locality}\nsymmetry {symmetry} (raw {raw})"


def _panel(n_cells: int) -> float:
    """Inches of one side of a heat map."""
    return float(np.clip(0.48 * n_cells, 1.6, 6.0))


def _write_numbers(axes: Axes, weights: Float[np.ndarray, "center column"]) -> None:
    """Each weight that counts, in percent, where there is room for it."""
    if max(weights.shape) > _MOST_NUMBERS:
        return
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.05:
            color = "white" if weight > 0.45 else style.ON_DATA
            at = column + 0.5, row + 0.5
            axes.text(*at, f"{weight:.0%}", color=color, ha="center", va="center", fontsize=9)


def _name_cells(axes: Axes, explanation: Explanation) -> None:
    """Names at the cells of panels that share their axes, as many as can be read."""
    for axis, names in ((axes.yaxis, explanation.centers), (axes.xaxis, explanation.columns)):
        step = -(-len(names) // _MOST_LABELS)
        style.name_ticks(axis, np.arange(len(names))[::step] + 0.5, names[::step])
    axes.set_ylim(len(explanation.centers), 0)
    for panel in axes.figure.axes:
        panel.tick_params(axis="x", rotation=90)
        panel.tick_params(length=0)
