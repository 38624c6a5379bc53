"""What models answer: recommended items, related items, distributions, forecasts."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from exfam.checks import ExfamError
from exfam.plots import style

if TYPE_CHECKING:
    from exfam.efa.recommend import Recommendations, Relations

_MOST_LETTERS = 28
_MOST_GROUPS, _MOST_BARS = 6, 20


def recommendation_bars(recommended: "Recommendations", *, ax: Axes | None = None) -> style.Drawn:
    """Probabilities of the items recommended to each group, at most six groups.

    Raises ExfamError without recommendations.

    >>> from exfam.efa.recommend import Recommendations
    >>> items = np.array([["milk", "tea"]])
    >>> recommended = Recommendations(np.array(["u1"]), items, np.array([[0.6, 0.1]]))
    >>> [axes.get_title(loc="left") for axes in recommendation_bars(recommended).axes]
    ['u1']
    """
    groups = recommended.groups[:_MOST_GROUPS]
    if not len(groups) or not recommended.items.shape[1]:
        raise ExfamError("`recommended` must hold at least one item to draw, got none.")
    n_items = min(recommended.items.shape[1], _MOST_BARS)
    figure = style.make_figure(width=6.4, height=len(groups) * (0.7 + 0.28 * n_items) + 0.3, ax=ax)
    panels = figure.subplots(len(groups), 1, squeeze=False, sharex=True)[:, 0]
    for number, axes in enumerate(panels):
        _bars(
            style.plain_axes(axes),
            recommended.items[number, :n_items],
            recommended.probabilities[number, :n_items],
        )
        title = style.shortened(groups[number], most=_MOST_LETTERS)
        axes.set_title(title, loc="left", fontsize=10, color=style.INK, parse_math=False)
    panels[-1].set_xlabel("probability")
    return style.drawn(figure, ax)


def relation_bars(related: "Relations", *, ax: Axes | None = None) -> style.Drawn:
    """Strengths of the relations of an item, the strongest first, at most twenty.

    Raises ExfamError without related items.

    >>> from exfam.efa.recommend import Relations
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


def _bars(axes: Axes, names: np.ndarray, values: np.ndarray) -> None:
    """A bar for each name, its figure beside it."""
    rows = np.arange(len(names))
    axes.barh(rows, values, height=0.62, color=style.COLORS[0], alpha=0.85)
    style.write_beside(axes, [f"{value:.3g}" for value in values], np.maximum(values, 0.0))
    style.name_rows(axes, [style.shortened(name, most=_MOST_LETTERS) for name in names])
    low, high = min(0.0, float(np.min(values))), max(float(np.max(values)), 1e-6)
    axes.set_xlim(1.1 * low, 1.2 * high)
