"""What a model predicts of one column given another alone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from exfam.checks import ExfamError
from exfam.plots import style

_WIDTH, _HEIGHT = 4.6, 3.0
_MOST_LETTERS = 22


def conditional_band(
    given: Sequence[str] | Float[np.ndarray, "points"],
    center: Float[np.ndarray, "points"],
    low: Float[np.ndarray, "points"],
    high: Float[np.ndarray, "points"],
    *,
    x: str = "",
    y: str = "",
    ax: Axes | None = None,
) -> style.Drawn:
    """Predicted numbers with their intervals, along another number or for labels given.

    `x`, `y`: names of the two columns. Raises ExfamError unless there is one of each a point.

    >>> grid = np.array([1.0, 2.0])
    >>> figure = conditional_band(grid, grid, grid - 1, grid + 1, x="rooms", y="price")
    >>> figure.axes[0].get_ylabel()
    'price'
    """
    style.check_as_many("center", len(center), len(given), of="points")
    figure, axes = style.one_panel(width=_WIDTH, height=_HEIGHT, ax=ax)
    at = _points(axes, given)
    if isinstance(given, np.ndarray):
        axes.fill_between(at, low, high, color=style.COLORS[0], alpha=0.2, lw=0)
        axes.plot(at, center, color=style.COLORS[0], lw=2)
    else:
        axes.vlines(at, low, high, color=style.COLORS[0], lw=5, alpha=0.3)
        axes.plot(at, center, "o", color=style.COLORS[0], ms=6)
    _named(axes, x, y)
    return style.drawn(figure, ax)


def conditional_shares(
    given: Sequence[str] | Float[np.ndarray, "points"],
    probability: Float[np.ndarray, "points labels"],
    labels: Sequence[str],
    *,
    x: str = "",
    y: str = "",
    ax: Axes | None = None,
) -> style.Drawn:
    """Predicted probabilities of labels, along a number or for labels given; a line for each.

    Raises ExfamError for more labels than there are colors, five, or another number of them.

    >>> figure = conditional_shares(["a", "b"], np.array([[0.2, 0.8], [0.5, 0.5]]), ["no", "yes"])
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['no', 'yes']
    """
    if len(labels) > len(style.COLORS) or len(labels) != probability.shape[1]:
        raise ExfamError(
            f"`labels` must name each column of `probability`, at most {len(style.COLORS)}, got "
            f"{len(labels)} names for {probability.shape[1]}. Draw the most frequent ones."
        )
    style.check_as_many("probability", len(probability), len(given), of="points")
    figure, axes = style.one_panel(width=_WIDTH, height=_HEIGHT, ax=ax)
    at = _points(axes, given)
    line = "-" if isinstance(given, np.ndarray) else "o"
    for k in range(len(labels)):
        axes.plot(at, probability[:, k], line, color=style.COLORS[k], lw=2, ms=6, label=str(k))
    axes.set_ylim(-0.03, 1.03)
    legend = axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=len(labels), frameon=False,
        labelcolor=style.INK, fontsize=9, handlelength=1.2, columnspacing=1.0,
    )  # fmt: skip
    most = max(4, 40 // len(labels))
    for text, label in zip(legend.get_texts(), labels, strict=True):
        style.write_name(text, style.shortened(label, most=most))
    _named(axes, x, f"p({style.shortened(y, most=_MOST_LETTERS - 3)})" if y else "probability")
    return style.drawn(figure, ax)


def _points(axes: Axes, given: Sequence[str] | np.ndarray) -> np.ndarray:
    """Where the points are on the axis, whose names are turned if they are long."""
    axes.grid(axis="y", color=style.MUTED, alpha=0.3)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.tick_params(axis="y", length=0)
    if isinstance(given, np.ndarray):
        axes.xaxis.set_major_locator(MaxNLocator(5))
        return given
    at = np.arange(float(len(given)))
    names = [style.shortened(name, most=_MOST_LETTERS) for name in given]
    style.name_ticks(axes.xaxis, at, names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    if sum(len(name) for name in names) > 36:
        axes.tick_params(axis="x", rotation=35)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    return at


def _named(axes: Axes, x: str, y: str) -> None:
    style.write_name(axes.xaxis.label, style.shortened(x, most=50))
    style.write_name(axes.yaxis.label, style.shortened(y, most=_MOST_LETTERS))
