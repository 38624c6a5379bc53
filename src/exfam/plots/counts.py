"""How often values occur."""

import numpy as np
from jaxtyping import Num
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from exfam.checks import DataError
from exfam.plots.style import COLORS, MUTED, make_figure, plain_axes

_MOST_BARS = 40
# Bars leave out this share of the values on each side where values have long tails.
_TAIL = 0.005


def histogram(
    value: Num[np.ndarray, "values"], *, label: str, of: str = "elements", width: float = 4.6
) -> Figure:
    """Counts of values: a bar for each whole number where these are few, else for each range.

    `label`: of the values
    `of`: what is counted (default "elements")
    `width`: of the figure, in inches (default 4.6)

    Where values go far beyond their 99 % in the middle, the axis does not; its label says so.
    Raises DataError without finite values.

    >>> figure = histogram(np.array([1, 1, 3]), label="length", of="groups")
    >>> [int(bar.get_height()) for bar in figure.axes[0].patches]
    [2, 0, 1]
    """
    value = np.asarray(value, dtype=np.float64)
    value = value[np.isfinite(value)]
    if not len(value):
        raise DataError("`value` must hold at least one finite value, got none.")
    axes = plain_axes(make_figure(width=width, height=2.5).subplots())
    low, high = value.min(), value.max()
    whole = bool((value == np.round(value)).all())
    if whole and high - low < _MOST_BARS:
        levels = np.arange(low, high + 1)
        count = np.bincount((value - low).astype(np.int64))
        axes.bar(levels, count.astype(float), width=0.8, color=COLORS[0], alpha=0.85)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        label += _ranges(axes, value, whole=whole)
    axes.set_xlabel(label)
    _count_axis(axes, of)
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure


def _ranges(axes: Axes, value: np.ndarray, *, whole: bool) -> str:
    """Bars of equal width; what the label has to say of values left out."""
    low, high = value.min(), value.max()
    inner = np.quantile(value, [_TAIL, 1 - _TAIL])
    if high - low > 3 * max(inner[1] - inner[0], 0.0) > 0:
        low, high = inner
    shown = value[(value >= low) & (value <= high)]
    n_bars = int(np.clip(np.sqrt(len(shown)), 5, _MOST_BARS))
    edges = np.linspace(low, high, n_bars + 1)
    if whole:
        step = max(1, int(np.ceil((high - low + 1) / n_bars)))
        edges = np.arange(np.floor(low), high + step + 1, step) - 0.5
    axes.hist(shown, bins=edges.tolist(), color=COLORS[0], alpha=0.85, rwidth=0.94)
    beyond = len(value) - len(shown)
    return f" ({beyond:,} beyond the axis)" if beyond else ""


def _count_axis(axes: Axes, of: str) -> None:
    axes.set_ylabel(of)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=MUTED, alpha=0.3)
    axes.set_axisbelow(True)
