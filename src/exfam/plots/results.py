"""What models answer: recommended items, related items, distributions, forecasts."""

import numpy as np
from jaxtyping import Int64
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import MaxNLocator

from exfam.checks import ExfamError
from exfam.efa.recommend import Recommendations
from exfam.efa.related import Relations
from exfam.efa.similar import Similar
from exfam.fields.draws import Forecast, Sensing
from exfam.plots import style
from exfam.plots.attention import position_matrices
from exfam.plots.communities import association_map
from exfam.plots.rows import interval_rows
from exfam.positions import PositionAttention
from exfam.scores.prediction import Prediction
from exfam.tables.answers.conditional import TableConditional
from exfam.tables.answers.similarity import ColumnSimilarity
from exfam.tables.community.community_answers import Associations, CommunityPrediction
from exfam.tables.shift.report import ShiftReport

_MOST_LETTERS = 28
_MOST_GROUPS, _MOST_BARS = 6, 20
_MOST_DOTS, _MOST_SITES = 60, len(style.COLORS)
# Central intervals that are drawn over each other, the widest first.
_LEVELS = (0.95, 0.8, 0.5)


def recommendation_bars(recommended: Recommendations, *, ax: Axes | None = None) -> style.Drawn:
    """Probabilities of the items recommended to each group, at most six groups.

    Raises ExfamError without recommendations.

    >>> from exfam.efa.recommend import Recommendations
    >>> items = np.array([["milk", "tea"]])
    >>> recommended = Recommendations(np.array(["u1"]), items, np.array([[0.6, 0.1]]))
    >>> [axes.get_title(loc="left") for axes in recommendation_bars(recommended).axes]
    ['u1']
    """
    if not recommended.probabilities.size or not len(recommended.groups):
        raise ExfamError("`recommended` must hold at least one item to draw, got none.")
    return _bars_of(
        recommended.groups, recommended.items, recommended.probabilities, "probability", ax
    )


def similar_bars(similar: Similar, *, ax: Axes | None = None) -> style.Drawn:
    """Cosines of what is most similar to each item or group, of six at most.

    Raises ExfamError where nothing is similar.

    >>> from exfam.efa.similar import Similar
    >>> labels = np.array([["milk", "tea"]])
    >>> similar = Similar("item", np.array(["cocoa"]), labels, np.array([[0.6, 0.1]]), "vectors")
    >>> similar_bars(similar).axes[0].get_xlabel()
    'cosine of vectors'
    """
    some = np.flatnonzero(~np.isnan(similar.similarity).all(1))
    if not len(some):
        raise ExfamError("`similar` must hold at least one cosine to draw, got none.")
    number = similar.similarity[some]
    return _bars_of(similar.of[some], similar.labels[some], number, f"cosine of {similar.by}", ax)


def _bars_of(
    titles: np.ndarray, names: np.ndarray, values: np.ndarray, label: str, ax: Axes | None
) -> style.Drawn:
    """A panel of bars for each of the first titles; none where a value is NaN."""
    titles, n = titles[:_MOST_GROUPS], min(names.shape[1], _MOST_BARS)
    figure = style.make_figure(width=6.4, height=len(titles) * (0.7 + 0.28 * n) + 0.3, ax=ax)
    panels = figure.subplots(len(titles), 1, squeeze=False, sharex=True)[:, 0]
    for axes, title, own, value in zip(panels, titles, names[:, :n], values[:, :n], strict=False):
        there = ~np.isnan(value)
        _bars(style.plain_axes(axes), own[there], value[there])
        title = style.shortened(title, most=_MOST_LETTERS)
        axes.set_title(title, loc="left", fontsize=10, color=style.INK, parse_math=False)
    shown = values[: len(titles), :n]
    low, high = min(0.0, float(np.nanmin(shown))), max(float(np.nanmax(shown)), 1e-6)
    panels[-1].set(xlabel=label, xlim=(1.1 * low, 1.2 * high))
    return style.drawn(figure, ax)


def relation_bars(related: Relations, *, ax: Axes | None = None) -> style.Drawn:
    """Strengths of the relations of an item, the strongest first, at most twenty.

    Raises ExfamError without related items.

    >>> from exfam.efa.related import Relations
    >>> related = Relations("tea", np.array(["milk", "sugar"]), np.array([1.2, 0.7]))
    >>> relation_bars(related).axes[0].get_title(loc="left")
    'tea'
    """
    if not len(related.items):
        raise ExfamError("`related` must hold at least one item to draw, got none.")
    items, strength = related.items[:_MOST_BARS], related.strength[:_MOST_BARS]
    figure, axes = style.one_panel(width=6.4, height=1.0 + 0.28 * len(items), ax=ax)
    _bars(axes, items, strength)
    title = style.shortened(related.item, most=_MOST_LETTERS)
    axes.set_title(title, loc="left", fontsize=10, color=style.INK, parse_math=False)
    axes.set_xlabel("strength")
    return style.drawn(figure, ax)


def sensing_bars(sensing: Sensing, *, ax: Axes | None = None) -> style.Drawn:
    """By how much measuring a missing value would lower the variance of the others; the best first.

    Raises ExfamError without missing values.
    """
    rows = sensing.ranking[:_MOST_BARS]
    if not len(rows):
        raise ExfamError("`sensing` must have at least one missing value to draw, got none.")
    figure, axes = style.one_panel(width=6.4, height=1.0 + 0.28 * len(rows), ax=ax)
    _bars(axes, np.array([f"row {row}" for row in rows], object), sensing.reduction[rows])
    axes.set_xlabel("mean variance falls by")
    return style.drawn(figure, ax)


def forecast_fan(forecast: Forecast, *, ax: Axes | None = None) -> style.Drawn:
    """Means of maps to come with their 90 % intervals, of the first five sites.

    >>> draws = np.random.default_rng(0).normal(size=(20, 3, 2))
    >>> forecast = Forecast(np.arange(3), np.array(["a", "b"]), np.zeros((2, 2)), draws)
    >>> [text.get_text() for text in forecast_fan(forecast).axes[0].get_legend().get_texts()]
    ['a', 'b']
    """
    figure, axes = style.one_panel(width=6.8, height=3.4, ax=ax)
    low, high = forecast.interval()
    for k, site in enumerate(forecast.sites[:_MOST_SITES]):
        ends = low[:, k], high[:, k]
        axes.fill_between(forecast.times, *ends, color=style.COLORS[k], alpha=0.15, lw=0)
        name = style.drawable(style.shortened(site, most=_MOST_LETTERS)).replace("$", "\\$")
        axes.plot(
            forecast.times, forecast.mean[:, k], "o-", ms=4, color=style.COLORS[k], label=name
        )
    if forecast.times.dtype.kind in "iu":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif forecast.times.dtype.kind == "M":
        dates = AutoDateLocator(minticks=2, maxticks=5)
        axes.xaxis.set_major_locator(dates)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(dates))
    axes.set(xlabel="time", ylabel="mean, with 90 % intervals")
    style.legend_beside(axes)
    return style.drawn(figure, ax)


def interval_dots(predicted: Prediction, *, ax: Axes | None = None) -> style.Drawn:
    """Centers of the first sixty rows, with their intervals of 50 %, 80 % and 95 %.

    Raises ExfamError without rows that are predicted.
    """
    shown = np.flatnonzero(~np.isnan(predicted.center))[:_MOST_DOTS]
    if not len(shown):
        raise ExfamError("`predicted` must have at least one distribution to draw, got none.")
    figure, axes = style.one_panel(width=6.8, height=3.2, ax=ax)
    _draw_intervals(axes, predicted, shown)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="row", ylabel="center, with 50, 80 and 95 %")
    return style.drawn(figure, ax)


def conditional_bars(conditional: TableConditional, *, ax: Axes | None = None) -> style.Drawn:
    """The distribution of each column in the first row: labels as bars, numbers as intervals."""
    names = conditional.columns[:_MOST_GROUPS]
    figure = style.make_figure(width=6.4, height=1.7 * len(names) + 0.3, ax=ax)
    for axes, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        style.plain_axes(axes)
        if conditional.model.schema.column(name).labels is not None:
            probability = conditional.probs(name)[0]
            order = np.argsort(-probability, kind="stable")[:8]
            _bars(axes, conditional.labels(name)[order], probability[order])
        else:
            predicted = conditional.predict_dist(name)
            for level, width in zip(_LEVELS, (3, 7, 12), strict=True):
                low, high = predicted.interval(level)
                axes.hlines(0.0, low[0], high[0], color=style.COLORS[0], lw=width, alpha=0.35)
            axes.plot(predicted.center[0], 0.0, "o", color=style.INK, ms=6)
            axes.set(yticks=[], ylim=(-1, 1))
        style.write_name(axes.xaxis.label, style.shortened(name, most=_MOST_LETTERS))
    return style.drawn(figure, ax)


def presence_bars(predicted: CommunityPrediction, *, ax: Axes | None = None) -> style.Drawn:
    """The most probable species of each site, at most six sites."""
    presence = predicted.presence[:_MOST_GROUPS]
    names = np.array(predicted.species, dtype=object)
    n_bars = min(len(names), 8)
    figure = style.make_figure(width=6.4, height=len(presence) * (0.7 + 0.26 * n_bars), ax=ax)
    panels = figure.subplots(len(presence), 1, squeeze=False, sharex=True)[:, 0]
    for site, (axes, probability) in enumerate(zip(panels, presence, strict=True)):
        order = np.argsort(-probability, kind="stable")[:n_bars]
        _bars(style.plain_axes(axes), names[order], probability[order])
        axes.set_title(f"site {site}", loc="left", fontsize=10, color=style.INK)
    panels[-1].set(xlabel="probability of presence", xlim=(0.0, 1.2))
    return style.drawn(figure, ax)


def association_dots(associations: Associations, *, ax: Axes | None = None) -> style.Drawn:
    """`association_map` of a fit, where pairs whose interval holds 0 are small gray dots."""
    clear = associations.is_clear
    return association_map(associations.correlation, associations.species, clear=clear, ax=ax)


def similarity_map(similar: ColumnSimilarity, *, ax: Axes | None = None) -> style.Drawn:
    """Cosines between the encodings of columns as dots: blue above 0, orange below.

    >>> from exfam.tables.answers.similarity import column_similarity
    >>> similar = column_similarity(np.array([[[1.0, 0.0], [2.0, 0.1]]]), ["a", "b"])
    >>> similarity_map(similar).axes[-1].get_ylabel()
    'cosine'
    """
    return association_map(similar.cosine, similar.names, label="cosine", ax=ax)


def shift_rows(report: ShiftReport, *, ax: Axes | None = None) -> style.Drawn:
    """By column: how much likelier its cells became given their rows, with 95 % intervals."""
    names = [column.name for column in report.columns]
    mean, error = np.array(
        [(column.conditional.difference, column.conditional.error) for column in report.columns]
    ).T
    ends = np.stack([mean - 1.96 * error, mean, mean + 1.96 * error], axis=1)
    return interval_rows(names, ends, metric="nats a cell, new less training rows", ax=ax)


def position_maps(attention: PositionAttention, *, ax: Axes | None = None) -> style.Drawn:
    """`position_matrices` of each layer, the mean over its heads."""
    layers = attention.weights.mean(1).numpy()
    matrices = {f"layer {number}": layer for number, layer in enumerate(layers, start=1)}
    return position_matrices(matrices, ax=ax)


def _draw_intervals(axes: Axes, predicted: Prediction, rows: Int64[np.ndarray, "shown"]) -> None:
    for level in _LEVELS:
        low, high = predicted.interval(level)
        axes.vlines(rows, low[rows], high[rows], color=style.COLORS[0], lw=4, alpha=0.25)
    axes.plot(rows, predicted.center[rows], "o", color=style.COLORS[0], ms=4)
    axes.grid(axis="y", color=style.MUTED, alpha=0.3)


def _bars(axes: Axes, names: np.ndarray, values: np.ndarray) -> None:
    """A bar for each name, its figure beside it."""
    rows = np.arange(len(names))
    axes.barh(rows, values, height=0.62, color=style.COLORS[0], alpha=0.85)
    style.write_beside(axes, [f"{value:.3g}" for value in values], np.maximum(values, 0.0))
    style.name_rows(axes, [style.shortened(name, most=_MOST_LETTERS) for name in names])
    low, high = min(0.0, float(np.min(values))), max(float(np.max(values)), 1e-6)
    axes.set_xlim(1.1 * low, 1.2 * high)
