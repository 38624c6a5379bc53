"""Pictures that papers show: scores by size, setting or layer, matrices and vectors."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from exfam.checks import ExfamError, check_positive
from exfam.plots.style import (
    COLORS,
    INK,
    MUTED,
    SIGNED,
    drawable,
    legend_beside,
    line_of,
    make_figure,
    name_ticks,
    plain_axes,
)

_MARKERS = "os^DvP*X"


def rate_curve(
    n_groups: Float[np.ndarray, "sizes"],
    losses: Mapping[str, Float[np.ndarray, "sizes"]],
    *,
    slope: float,
    slope_name: str,
    metric: str,
    spread: Float[np.ndarray, "sizes"] | None = None,
) -> Figure:
    """Losses by the number of groups, both on logarithmic scales, beside a line of a known slope.

    `losses`: name -> loss at each size; the dashed line starts at the first of the first name, as
        its own height is not known
    `spread`: half-lengths of error bars of the first name (default None)

    Raises ExfamError unless there is a loss at two sizes at least, and all are above 0.

    >>> sizes = np.array([10.0, 100.0])
    >>> figure = rate_curve(sizes, {"fitted": 1 / sizes}, slope=-0.5, slope_name="rate term",
    ...     metric="excess loss")
    >>> figure.axes[0].lines[-1].get_ydata().round(4).tolist()
    [0.1, 0.0316]
    """
    if len(n_groups) < 2 or not losses:
        raise ExfamError(
            f"`losses` must hold a loss at 2 sizes at least to draw, got {len(n_groups)} sizes of "
            f"{len(losses)} losses."
        )
    for name, loss in losses.items():
        if not (loss > 0).all():
            raise ExfamError(
                f"`losses` must be above 0 on a logarithmic scale, got {loss.min():g} of {name!r}."
            )
    order = np.argsort(n_groups)
    figure = make_figure(width=7.6, height=4.2)
    axes = plain_axes(figure.subplots())
    for number, (name, loss) in enumerate(losses.items()):
        style, color = line_of(number)
        axes.plot(n_groups[order], loss[order], style, marker="o", color=color, label=name)
    first = next(iter(losses.values()))
    if spread is not None:
        axes.errorbar(n_groups, first, yerr=spread, fmt="none", ecolor=COLORS[0], capsize=3)
    sizes = n_groups[order]
    along = first[order][0] * (sizes / sizes[0]) ** slope
    axes.plot(sizes, along, ls="--", color=MUTED, label=slope_name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("groups")
    axes.set_ylabel(metric)
    legend_beside(axes)
    return figure


def agreement_curves(
    sizes: Float[np.ndarray, "sizes"],
    curves: Mapping[str, Float[np.ndarray, "points columns"]],
    *,
    size_name: str,
    metric: str = "share of variance explained",
    width: float = 8.0,
) -> Figure:
    """A line for each comparison, with a band of its spread, on a logarithmic scale of sizes.

    `sizes`: above 0
    `curves`: by name, a row a size: agreement, at most 1, and its spread; the axis ends at -1
    `size_name`: of the axis of sizes
    `metric`: of the other axis (default "share of variance explained")
    `width`: of the figure, in inches (default 8.0)

    Raises ExfamError without curves, for sizes that are not above 0, and unless each curve has two
    figures for each size.

    >>> curves = {"contexts, seeds": np.array([[0.6, 0.1], [0.9, 0.02]])}
    >>> axes = agreement_curves(np.array([100.0, 400.0]), curves, size_name="groups").axes[0]
    >>> axes.get_xlabel(), axes.get_xscale()
    ('groups', 'log')
    """
    if not curves:
        raise ExfamError("`curves` must hold at least one comparison to draw, got none.")
    if not len(sizes) or not (sizes > 0).all():
        raise ExfamError(f"`sizes` must be above 0, got {sizes.tolist()}.")
    for name, curve in curves.items():
        if curve.shape != (len(sizes), 2):
            raise ExfamError(
                "`curves` must have agreement and spread for each of "
                f"{len(sizes)} sizes, got shape {curve.shape} of {name!r}."
            )
    order = np.argsort(sizes)
    figure = make_figure(width=width, height=4.2)
    axes = plain_axes(figure.subplots())
    for number, (name, curve) in enumerate(curves.items()):
        style, color = line_of(number)
        value, spread = curve[order].T
        axes.plot(sizes[order], value, style, marker="o", color=color, label=name)
        axes.fill_between(sizes[order], value - spread, value + spread, color=color, alpha=0.2)
    axes.axhline(1.0, color=INK, lw=0.8)
    axes.set_xscale("log")
    axes.set_xticks(sizes[order], [f"{size:,.4g}" for size in sizes[order]])
    axes.minorticks_off()
    lowest = min(float(curve[:, 0].min()) for curve in curves.values())
    axes.set_ylim(max(-1.0, min(0.0, lowest)) - 0.05, 1.05)
    axes.set_xlabel(size_name)
    axes.set_ylabel(metric)
    legend_beside(axes)
    return figure


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


def score_points(
    series: Mapping[str, Float[np.ndarray, "_ 3"]],
    *,
    setting_name: str,
    metric: str,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """Points with error bars, a color a series.

    `series`: label -> a row a point: the setting, the score, and the half-length of its error bar,
        such as a standard deviation over seeds; NaN for none
    `setting_name`, `metric`: of the axes
    `references`: label -> score, drawn as lines across, their figures in the legend

    Raises ExfamError if there is no point to draw.

    >>> points = np.array([[0.1, 0.74, 0.01], [0.9, 0.75, 0.01]])
    >>> axes = score_points({"MR": points}, setting_name="locality", metric="accuracy").axes[0]
    >>> axes.get_xlabel(), [text.get_text() for text in axes.get_legend().get_texts()]
    ('locality', ['MR'])
    """
    if not any(len(points) for points in series.values()):
        raise ExfamError("`series` must hold at least one point to draw, got none.")
    figure = make_figure(width=7.6, height=4.2)
    axes = plain_axes(figure.subplots())
    for number, (label, points) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        setting, score, spread = points[np.argsort(points[:, 0], kind="stable")].T
        marker = _MARKERS[number % len(_MARKERS)]
        axes.errorbar(setting, score, yerr=spread, fmt=marker, color=color, capsize=3, label=label)
    for number, (label, value) in enumerate((references or {}).items()):
        style = ("--", ":", "-.")[number % 3]
        axes.axhline(value, color=INK, ls=style, lw=1.2, label=f"{label}: {value:.3f}")
    axes.set_xlabel(setting_name)
    axes.set_ylabel(metric)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, labelcolor=INK)
    return figure


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


def matrix_map(matrix: Float[np.ndarray, "rows columns"], *, label: str) -> Figure:
    """The entries of a matrix by color, 0 in between; the first row at the top.

    Raises ExfamError for an empty matrix.

    >>> matrix_map(np.eye(3), label="Q").axes[0].get_title()
    'Q'
    """
    if not matrix.size:
        raise ExfamError(f"`matrix` must have an entry to draw, got shape {matrix.shape}.")
    figure = make_figure(width=5.4, height=4.6)
    axes = plain_axes(figure.subplots())
    most = float(np.abs(matrix).max())
    image = axes.imshow(matrix, cmap=SIGNED, vmin=-most, vmax=most, interpolation="nearest")
    axes.set_title(label, fontsize=10, color=INK)
    axes.set_xlabel("column", color=INK)
    axes.set_ylabel("row", color=INK)
    plain_axes(figure.colorbar(image, ax=axes).ax)
    return figure


def vector_map(
    vectors: Mapping[str, Float[np.ndarray, "items dim"]], names: Sequence[str]
) -> Figure:
    """Vectors of items side by side: a panel for each kind of vector, a row for each item.

    Raises ExfamError unless every kind has one vector a name.

    >>> figure = vector_map({"key": np.eye(2), "value": -np.eye(2)}, ["a", "b"])
    >>> [axes.get_title() for axes in figure.axes]  # two panels, one color bar
    ['key', 'value', '']
    """
    for kind, each in vectors.items():
        if len(each) != len(names):
            raise ExfamError(
                f"`names` must be one for each vector, got {len(names)} names for "
                f"{len(each)} vectors of {kind!r}."
            )
    widths = [each.shape[1] for each in vectors.values()]
    figure = make_figure(width=4.0 + 0.18 * sum(widths), height=1.2 + 0.16 * len(names))
    panels = figure.subplots(1, len(vectors), squeeze=False, sharey=True, width_ratios=widths)[0]
    largest = max(float(np.abs(each).max(initial=0.0)) for each in vectors.values())
    norm = Normalize(-largest, largest)
    for axes, (kind, each) in zip(panels, vectors.items(), strict=True):
        plain_axes(axes).pcolormesh(each, cmap=SIGNED, norm=norm)
        axes.set_title(kind, fontsize=10, color=INK)
        axes.tick_params(length=0)
        axes.set_xticks([])
    name_ticks(panels[0].yaxis, np.arange(len(names)) + 0.5, names)
    panels[0].tick_params(axis="y", labelsize=7)
    panels[0].set_ylim(len(names), 0)
    bar = plain_axes(figure.colorbar(ScalarMappable(norm, SIGNED), ax=panels).ax)
    bar.tick_params(length=0)
    figure.supxlabel("dimension", color=INK, fontsize=11)
    figure.supylabel("item", color=INK, fontsize=11)
    return figure
