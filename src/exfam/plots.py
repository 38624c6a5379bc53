"""Pictures: one function a figure, each returning a `matplotlib.figure.Figure` to show or save.

Lines and words have the color INK, so that a page can repaint them for dark screens; data have
colors that read on light and dark.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from exfam.checks import ExfamError, check_choice
from exfam.estimators.explain import Explanation
from exfam.training.history import History

__all__ = ["INK", "attention_map", "learning_curve", "means_by_case", "result_bars"]

INK = "#24292f"
_ON_DATA = "#10151c"
_COLORS = ("#2f7ed8", "#e07a2f", "#3aa76d", "#b05cc6", "#c9a227")
_MUTED = "#8b949e"
_SHADES = LinearSegmentedColormap.from_list(
    "weights", ["#eef3fb", "#9cc3ee", "#2f7ed8", "#173f7a", "#0b1f40"]
)
_LEVELS = np.linspace(0, 1, 21)
_MOST_LABELS = 40
_MOST_NUMBERS = 8


def attention_map(explanation: Explanation, *, part: str | None = None) -> Figure:
    """Attention weights of one group: a panel for each layer and head, a row for each center.

    `part`: "items" or "values"; the first that the model has unless given. Weights are in [0, 1]
    and each row sums to 1 with softmax attention.

    >>> weights = np.array([[0.0, 1.0], [1.0, 0.0]])[None, None]
    >>> explanation = Explanation("u", ["a", "b"], ["a", "b"], {"values": weights})
    >>> len(attention_map(explanation).axes)  # one panel, one color bar
    2
    """
    chosen = next(iter(explanation.weights)) if part is None else part
    check_choice("part", chosen, explanation.weights)
    weights = explanation.weights[chosen]
    n_layers, n_heads, n_centers, n_columns = weights.shape
    figure = _figure(
        width=2.2 + n_heads * _panel(n_columns), height=1.4 + n_layers * _panel(n_centers)
    )
    panels = figure.subplots(n_layers, n_heads, squeeze=False, sharex=True, sharey=True)
    norm = BoundaryNorm(_LEVELS, _SHADES.N)
    for (layer, head), axes in np.ndenumerate(panels):
        _plain(axes)
        axes.pcolormesh(weights[layer, head], cmap=_SHADES, norm=norm, edgecolor="face", lw=0.3)
        axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=10, color=INK)
        _write_numbers(axes, weights[layer, head])
    _name_cells(panels[0, 0], explanation)
    bar = figure.colorbar(ScalarMappable(norm, _SHADES), ax=panels, ticks=[0, 0.5, 1])
    _plain(bar.ax)
    bar.outline.set_visible(False)
    bar.minorticks_off()
    bar.set_label("attention weight", color=INK)
    figure.supxlabel("context", color=INK, fontsize=11)
    figure.supylabel("element given its context", color=INK, fontsize=11)
    return figure


def learning_curve(history: History, *, references: Mapping[str, float] | None = None) -> Figure:
    """Training and validation loss by epoch, in nats an element; a ring marks the epoch kept.

    `references`: label -> loss, drawn as dashed lines, such as the best possible one.
    Raises ExfamError for a history without epochs.

    >>> from exfam.training.history import Epoch
    >>> history = History((Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True),), "max_epochs")
    >>> learning_curve(history).axes[0].get_xlabel()
    'epoch'
    """
    if not len(history):
        raise ExfamError("`history` must hold at least one epoch to draw, got none.")
    figure = _figure(width=7.0, height=3.8)
    axes = _plain(figure.subplots())
    told = history.to_dict()
    curves = {"training": told["train_nats"], "validation": told["validation_nats"]}
    for (name, curve), color in zip(curves.items(), (_COLORS[1], _COLORS[0]), strict=True):
        numbers = np.array(curve, dtype=float)
        if np.isfinite(numbers).any():
            axes.plot(told["epoch"], numbers, ".-", color=color, label=name)
    if history.best is not None:
        kept = curves["validation"][history.rows.index(history.best)]
        (ring,) = axes.plot(history.best.epoch, kept, "o", color=_COLORS[0], ms=11, label="kept")
        ring.set_fillstyle("none")
    _draw_references(axes.axhline, references)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss (nats per element)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend_above(axes)
    return figure


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
    figure = _figure(width=7.0, height=1.4 + 0.17 * len(cases) * (1 + len(predicted)))
    axes = _plain(figure.subplots())
    spread = 0.16 * (len(predicted) - 1)
    offsets = np.linspace(-spread, spread, len(predicted))
    for (name, mean), offset, color in zip(
        predicted.items(), offsets, cycle(_COLORS), strict=False
    ):
        low, high = np.array([np.quantile(mean[where], [0.05, 0.95]) for where in here]).T
        axes.hlines(rows + offset, low, high, color=color, lw=5, alpha=0.4)
        center = [mean[where].mean() for where in here]
        axes.plot(center, rows + offset, "o", color=color, ms=6, label=name)
    truth = [true[where].mean() for where in here]
    axes.vlines(truth, rows - 0.32, rows + 0.32, color=INK, lw=2)
    axes.plot([], [], "|", color=INK, ms=11, mew=2, label="true mean")
    _name_rows(axes, cases)
    axes.set_xlabel("mean" + (f" ({unit})" if unit else ""))
    axes.grid(axis="x", color=_MUTED, alpha=0.3)
    _legend_above(axes)
    return figure


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
    figure = _figure(width=7.0, height=1.4 + 0.34 * len(values))
    axes = _plain(figure.subplots())
    rows = np.arange(len(values))
    axes.barh(rows, values, height=0.62, color=_COLORS[0], alpha=0.85)
    ends = values if spread is None else values + spread
    if spread is not None:
        axes.errorbar(values, rows, xerr=spread, fmt="none", ecolor=INK, capsize=3)
    if paper is not None:
        axes.plot(paper, rows, "D", color=_COLORS[1], ms=7, label="paper")
        ends = np.fmax(ends, paper)
    for row, value, end in zip(rows, values, ends, strict=True):
        _write_beside(axes, f"{value:.3f}", x=float(end), y=int(row))
    _draw_references(axes.axvline, references)
    _name_rows(axes, labels)
    axes.set_xlim(min(0.0, 1.12 * values.min()), 1.12 * max(0.0, ends.max()))
    axes.set_xlabel(metric)
    _legend_above(axes)
    return figure


def _figure(*, width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _panel(n_cells: int) -> float:
    """Inches of one side of a heat map."""
    return float(np.clip(0.48 * n_cells, 1.6, 6.0))


def _plain(axes: Axes) -> Axes:
    """Axes in INK on no background, open at the top and the right."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(INK)
    axes.tick_params(colors=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    return axes


def _write_numbers(axes: Axes, weights: Float[np.ndarray, "center column"]) -> None:
    """Each weight that counts, in percent, where there is room for it."""
    if max(weights.shape) > _MOST_NUMBERS:
        return
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.05:
            color = "white" if weight > 0.45 else _ON_DATA
            at = column + 0.5, row + 0.5
            axes.text(*at, f"{weight:.0%}", color=color, ha="center", va="center", fontsize=9)


def _name_cells(axes: Axes, explanation: Explanation) -> None:
    """Names at the cells of panels that share their axes, as many as can be read."""
    for axis, names in ((axes.yaxis, explanation.centers), (axes.xaxis, explanation.columns)):
        step = -(-len(names) // _MOST_LABELS)
        axis.set_ticks(np.arange(len(names))[::step] + 0.5, names[::step])
    axes.set_ylim(len(explanation.centers), 0)
    for panel in axes.figure.axes:
        panel.tick_params(axis="x", rotation=90)
        panel.tick_params(length=0)


def _write_beside(axes: Axes, text: str, *, x: float, y: int) -> None:
    axes.annotate(text, (x, y), (8, 0), textcoords="offset points", va="center", color=INK)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names at the rows, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _draw_references(line: Callable[..., Line2D], references: Mapping[str, float] | None) -> None:
    for label, value in (references or {}).items():
        line(value, color=_MUTED, ls="--", lw=1.5, label=label)


def _legend_above(axes: Axes) -> None:
    """A legend in one line above the axes, if anything has a name."""
    handles, names = axes.get_legend_handles_labels()
    if names:
        axes.legend(
            handles, names, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(names),
            frameon=False, labelcolor=INK, borderaxespad=0.3, handletextpad=0.5,
        )  # fmt: skip
