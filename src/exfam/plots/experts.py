"""What the cells of a row said of one prediction."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import (
    COLORS,
    MUTED,
    legend_beside,
    make_figure,
    name_rows,
    plain_axes,
    shortened,
    write_beside,
)

_MOST_OUTPUTS = len(COLORS)
_MOST_LETTERS = 28


def expert_bars(
    cells: Sequence[str],
    weights: Float[np.ndarray, "columns"],
    parts: Float[np.ndarray, "columns outputs"],
    *,
    outputs: Sequence[str],
    width: float = 9.6,
) -> Figure:
    """The experts of one row, largest weight first: their weights, what each adds to the outputs.

    `cells`: a name of each, such as "age = 7"
    `weights`: of one head, or the mean over heads; their sum is 1
    `parts`: what each adds to the logits, or to other parameters; the legend has the sums
    `outputs`: their names, at most five
    `width`: of the figure, in inches (default 9.6)

    Parts are drawn less their mean over the outputs if there are several: what is added to all
    logits alike changes no probability.
    Raises ExfamError for other numbers of names, for more outputs, and without cells.

    >>> weights, parts = np.array([0.2, 0.8]), np.array([[0.0, 1.0], [3.0, -1.0]])
    >>> figure = expert_bars(["age = 7", "km = 90"], weights, parts, outputs=["poor", "good"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['km = 90', 'age = 7']
    """
    _check(cells, weights, parts, outputs)
    order = np.argsort(-weights, kind="stable")
    centered = parts - parts.mean(axis=1, keepdims=True) if len(outputs) > 1 else parts
    figure = make_figure(width=width, height=1.6 + 0.5 * len(cells))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6), sharey=True)
    rows = np.arange(len(cells))
    plain_axes(left).barh(rows, weights[order], height=0.6, color=MUTED)
    for row, weight in zip(rows, weights[order], strict=True):
        write_beside(left, f"{weight:.2f}", x=float(weight), y=float(row))
    name_rows(left, [shortened(cells[place], most=_MOST_LETTERS) for place in order])
    left.set_xlim(0, 1.25 * max(float(weights.max()), 1e-3))
    left.set_xlabel("weight")
    thick = 0.75 / len(outputs)
    for number, name in enumerate(outputs):
        at = rows + (number - (len(outputs) - 1) / 2) * thick
        total = float(centered[:, number].sum())
        label = f"{shortened(name, most=_MOST_LETTERS)} (sum {total:+.2f})"
        right.barh(at, centered[order, number], height=thick, color=COLORS[number], label=label)
    plain_axes(right).axvline(0.0, color=MUTED, lw=1)
    right.tick_params(axis="y", length=0)
    right.set_xlabel("adds to the output")
    legend_beside(right)
    return figure


def _check(
    cells: Sequence[str],
    weights: Float[np.ndarray, "columns"],
    parts: Float[np.ndarray, "columns outputs"],
    outputs: Sequence[str],
) -> None:
    if not len(cells):
        raise ExfamError("`cells` must name at least one cell to draw, got none.")
    if not len(cells) == len(weights) == len(parts):
        raise ExfamError(
            f"`cells` must be one a weight and a part, got {len(cells)} names, {len(weights)} "
            f"weights and {len(parts)} parts."
        )
    if not 1 <= len(outputs) <= _MOST_OUTPUTS or len(outputs) != parts.shape[1]:
        raise ExfamError(
            f"`outputs` must name each output, at most {_MOST_OUTPUTS}, got {len(outputs)} names "
            f"for {parts.shape[1]}. Draw those that matter."
        )
