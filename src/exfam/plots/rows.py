"""Results in rows: bars, differences with their intervals, means by case, experts."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from exfam.checks import ExfamError
from exfam.plots import style

_MOST_OUTPUTS = len(style.COLORS)
_MOST_LETTERS = 28


def result_bars(
    labels: Sequence[str],
    values: Float[np.ndarray, "results"],
    *,
    metric: str,
    spread: Float[np.ndarray, "results"] | None = None,
    paper: Float[np.ndarray, "results"] | None = None,
    ax: Axes | None = None,
) -> style.Drawn:
    """Horizontal bars of one metric with their figures, from the top in the order given.

    `spread`: half-lengths of error bars, such as standard deviations over seeds.
    `paper`: figures that a paper prints, as diamonds; NaN where there is none.
    Raises ExfamError unless there is one label a value.

    >>> figure = result_bars(["EFA", "marginal"], np.array([1.03, 2.2]), metric="MSE")
    >>> figure.axes[0].get_xlabel()
    'MSE'
    """
    style.check_as_many("labels", len(labels), len(values), of="values")
    figure, axes = style.one_panel(width=7.0, height=1.4 + 0.34 * len(values), ax=ax)
    rows = np.arange(len(values))
    axes.barh(rows, values, height=0.62, color=style.COLORS[0], alpha=0.85)
    ends = values if spread is None else values + spread
    if spread is not None:
        axes.errorbar(values, rows, xerr=spread, fmt="none", ecolor=style.INK, capsize=3)
    if paper is not None:
        axes.plot(paper, rows, "D", color=style.COLORS[1], ms=7, label="paper")
        ends = np.fmax(ends, paper)
    style.write_beside(axes, [f"{value:.3f}" for value in values], ends)
    style.name_rows(axes, labels)
    limits = min(0.0, 1.12 * values.min()), 1.12 * max(0.0, ends.max())
    axes.set(xlim=limits, xlabel=metric)
    style.legend_above(axes)
    return style.drawn(figure, ax)


def interval_rows(
    labels: Sequence[str],
    intervals: Float[np.ndarray, "rows 3"],
    *,
    metric: str,
    ax: Axes | None = None,
) -> style.Drawn:
    """A row for each difference: a dot at its mean, a line over its interval, zero drawn upright.

    `intervals` are low end, mean and high end of each. Raises ExfamError unless there is one label
    a row.

    >>> figure = interval_rows(["marginal"], np.array([[0.1, 0.2, 0.3]]), metric="nats")
    >>> figure.axes[0].lines[-1].get_xdata().tolist()
    [0.2]
    """
    style.check_as_many("labels", len(labels), len(intervals), of="intervals")
    figure, axes = style.one_panel(width=4.6, height=1.0 + 0.34 * len(labels), ax=ax)
    rows = np.arange(len(labels))
    low, mean, high = intervals.T
    axes.axvline(0.0, color=style.INK, lw=1)
    axes.hlines(rows, low, high, color=style.COLORS[0], lw=5, alpha=0.4)
    axes.plot(mean, rows, "o", color=style.COLORS[0], ms=6)
    style.name_rows(axes, labels)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=style.MUTED, alpha=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(metric)
    return style.drawn(figure, ax)


def means_by_case(
    predicted: Mapping[str, Float[np.ndarray, "elements"]],
    *,
    true: Float[np.ndarray, "elements"],
    case: Shaped[np.ndarray, "elements"],
    unit: str = "",
    width: float = 7.0,
    ax: Axes | None = None,
) -> style.Drawn:
    """Predicted means beside true ones, a row a case: dot the average, bar 5 % to 95 %.

    `predicted`: name of a model -> its means. `unit` is written at the axis of values, `width`
    is that of the figure in inches.
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
    height = 1.4 + 0.17 * len(cases) * (1 + len(predicted))
    figure, axes = style.one_panel(width=width, height=height, ax=ax)
    spread = 0.16 * (len(predicted) - 1)
    offsets = np.linspace(-spread, spread, len(predicted))
    for (name, mean), offset, color in zip(
        predicted.items(), offsets, cycle(style.COLORS), strict=False
    ):
        low, high = np.array([np.quantile(mean[where], [0.05, 0.95]) for where in here]).T
        axes.hlines(rows + offset, low, high, color=color, lw=5, alpha=0.4)
        center = [mean[where].mean() for where in here]
        axes.plot(center, rows + offset, "o", color=color, ms=6, label=name)
    truth = [true[where].mean() for where in here]
    axes.vlines(truth, rows - 0.32, rows + 0.32, color=style.INK, lw=2)
    axes.plot([], [], "|", color=style.INK, ms=11, mew=2, label="true mean")
    style.name_rows(axes, cases)
    axes.set_xlabel("mean" + (f" ({unit})" if unit else ""))
    axes.grid(axis="x", color=style.MUTED, alpha=0.3)
    style.legend_above(axes)
    return style.drawn(figure, ax)


def expert_bars(
    cells: Sequence[str],
    weights: Float[np.ndarray, "_"],
    parts: Float[np.ndarray, "_ outputs"],
    *,
    outputs: Sequence[str],
    ax: Axes | None = None,
) -> style.Drawn:
    """The experts of one row, largest weight first: their weights, what each adds to the outputs.

    `cells`: a name of each, such as "age = 7"
    `weights`: of one head, or the mean over heads; their sum is 1
    `parts`: what each adds to the logits, or to other parameters; the legend has the sums
    `outputs`: their names, at most five

    Parts are drawn less their mean over the outputs if there are several: what is added to all
    logits alike changes no probability.
    Raises ExfamError for other numbers of names, for more outputs, and without cells.

    >>> weights, parts = np.array([0.2, 0.8]), np.array([[0.0, 1.0], [3.0, -1.0]])
    >>> figure = expert_bars(["age = 7", "km = 90"], weights, parts, outputs=["poor", "good"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['km = 90', 'age = 7']
    """
    if not len(cells):
        raise ExfamError("`cells` must name at least one cell to draw, got none.")
    style.check_as_many("weights", len(weights), len(cells), of="cells")
    style.check_as_many("parts", len(parts), len(cells), of="cells")
    if not 1 <= len(outputs) <= _MOST_OUTPUTS or len(outputs) != parts.shape[1]:
        raise ExfamError(
            f"`outputs` must name each output, at most {_MOST_OUTPUTS}, got {len(outputs)} names "
            f"for {parts.shape[1]}. Draw those that matter."
        )
    order = np.argsort(-weights, kind="stable")
    figure = style.make_figure(width=9.6, height=1.6 + 0.5 * len(cells), ax=ax)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6), sharey=True)
    rows = np.arange(len(cells))
    style.plain_axes(left).barh(rows, weights[order], height=0.6, color=style.MUTED)
    style.write_beside(left, [f"{weight:.2f}" for weight in weights[order]], weights[order])
    style.name_rows(left, [style.shortened(cells[index], most=_MOST_LETTERS) for index in order])
    left.set(xlim=(0, 1.25 * max(float(weights.max()), 1e-3)), xlabel="weight")
    centered = parts - parts.mean(axis=1, keepdims=True) if len(outputs) > 1 else parts
    _draw_parts(style.plain_axes(right), centered[order], outputs)
    return style.drawn(figure, ax)


def _draw_parts(
    axes: Axes, parts: Float[np.ndarray, "cells outputs"], outputs: Sequence[str]
) -> None:
    """Bars of all outputs beside each other in each row."""
    thick = 0.75 / len(outputs)
    for number, name in enumerate(outputs):
        at = np.arange(len(parts)) + (number - (len(outputs) - 1) / 2) * thick
        total = float(parts[:, number].sum())
        label = f"{style.shortened(name, most=_MOST_LETTERS)} (sum {total:+.2f})"
        axes.barh(at, parts[:, number], height=thick, color=style.COLORS[number], label=label)
    axes.axvline(0.0, color=style.MUTED, lw=1)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("adds to the output")
    style.legend_beside(axes)
