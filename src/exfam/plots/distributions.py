"""How often values occur, and whether predicted probabilities come true.

Bands and upright lines are where 95 of 100 points would lie by chance if all distributions were
right and values independent.
"""

import numpy as np
from jaxtyping import Float, Num
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
)

from exfam.checks import DataError
from exfam.plots.style import COLORS, INK, MUTED, Drawn, drawn, legend_above, one_panel
from exfam.scores.calibration import IntegralShares, Reliability

_TICKS = {1.0: "100 %", 0.1: "10 %", 0.01: "1 %", 1e-3: "0.1 %", 1e-4: "0.01 %", 1e-5: "0.001 %"}
# Fewer expected hits say nothing of a bin.
_LEAST_EXPECTED = 5.0
_NAMED_LEVELS = (0.5, 0.8, 0.95)
_MOST_BARS = 40
_N_BARS = 20
_WIDTH = 4.6
# Bars leave out this share of the values on each side where values have long tails.
_TAIL = 0.005


def histogram(
    value: Num[np.ndarray, "values"],
    *,
    label: str,
    of: str = "elements",
    ax: Axes | None = None,
) -> Drawn:
    """Counts of values: a bar for each whole number where these are few, else for each range.

    `label` is of the values, `of` says what is counted. Where values go far beyond their 99 % in
    the middle, the axis does not; its label says so. Raises DataError without finite values.

    >>> figure = histogram(np.array([1, 1, 3]), label="length", of="groups")
    >>> [int(bar.get_height()) for bar in figure.axes[0].patches]
    [2, 0, 1]
    """
    value = np.asarray(value, dtype=np.float64)
    value = value[np.isfinite(value)]
    if not len(value):
        raise DataError("`value` must hold at least one finite value, got none.")
    figure, axes = one_panel(width=_WIDTH, height=2.5, ax=ax)
    low, high = value.min(), value.max()
    whole = bool((value == np.round(value)).all())
    if whole and high - low < _MOST_BARS:
        levels = np.arange(low, high + 1)
        count = np.bincount((value - low).astype(np.int64))
        axes.bar(levels, count.astype(float), width=0.8, color=COLORS[0], alpha=0.85)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlim(low - 1, high + 1)
    else:
        label += _ranges(axes, value, whole=whole)
    axes.set(xlabel=label, ylabel=of)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=MUTED, alpha=0.3)
    axes.set_axisbelow(True)
    return drawn(figure, ax)


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


def coverage_curve(
    integral: Float[np.ndarray, "rows"],
    *,
    ax: Axes | None = None,
) -> Drawn:
    """Share of values inside the central interval of every level; on the line if calibrated.

    `integral` is that of `exfam.scores.calibration.probability_integral`, in [0, 1]. Above the line
    intervals are too wide, below it too narrow; dots are the shares at 50 %, 80 % and 95 %. Raises
    DataError without rows.

    >>> axes = coverage_curve(np.linspace(0.0005, 0.9995, 1000)).axes[0]
    >>> [text.get_text() for text in axes.texts]
    ['50 %', '80 %', '95 %']
    """
    n = _n_rows(integral)
    # A value lies in the central intervals of this level and above.
    least = np.sort(np.abs(2 * integral - 1))
    level = np.linspace(0.0, 1.0, 201)
    figure, axes = one_panel(width=_WIDTH, height=0.86 * _WIDTH, ax=ax)
    axes.grid(color=MUTED, alpha=0.3)
    spread = 1.96 * np.sqrt(level * (1 - level) / n)
    low, high = np.maximum(level - spread, 0.0), np.minimum(level + spread, 1.0)
    axes.fill_between(level, low, high, color=COLORS[1], alpha=0.3, lw=0)
    axes.plot([0, 1], [0, 1], color=COLORS[1], lw=1.5, label="if calibrated")
    inside = np.searchsorted(least, level, side="right") / n
    axes.plot(level, inside, color=COLORS[0], lw=2, label="this model")
    for named in _NAMED_LEVELS:
        share = float((least <= named).mean())
        axes.plot(named, share, "o", color=COLORS[0], ms=6)
        axes.annotate(
            f"{share:.0%}".replace("%", " %"), (named, share), (7, -11),
            textcoords="offset points", color=INK, fontsize=9,
        )  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set(xlim=(0, 1.08), ylim=(0, 1.04), aspect="equal")
    return _finished(figure, axes, ax, "level of the central interval", "share of values inside")


def integral_histogram(
    integral: Float[np.ndarray, "rows"],
    *,
    ax: Axes | None = None,
) -> Drawn:
    """Share of values in each twentieth of their predicted distributions; flat if these are right.

    `integral` is that of `exfam.scores.calibration.probability_integral`. Raises DataError without
    rows.

    >>> figure = integral_histogram(np.linspace(0.01, 0.99, 40))
    >>> [round(float(bar.get_height()), 3) for bar in figure.axes[0].patches[:2]]
    [0.05, 0.05]
    """
    n, even = _n_rows(integral), 1 / _N_BARS
    count, _ = np.histogram(integral, bins=_N_BARS, range=(0.0, 1.0))
    spread = np.full(_N_BARS, np.sqrt(even * (1 - even) / n))
    return integral_bars(IntegralShares(count / n, spread, n), ax=ax)


def integral_bars(
    shares: IntegralShares,
    *,
    ax: Axes | None = None,
) -> Drawn:
    """Share of values in equal parts of their predicted distributions; flat if these are right.

    As `integral_histogram`, of `exfam.scores.calibration.integral_shares`, which divides whole
    numbers instead of drawing at random; the band is as narrow as that makes it.

    >>> shares = IntegralShares(np.full(20, 0.05), np.full(20, 0.01), 400)
    >>> integral_bars(shares).axes[0].get_ylabel()
    'share of values'
    """
    figure, axes = one_panel(width=_WIDTH, height=2.6, ax=ax)
    even = 1 / len(shares.share)
    edges = even * np.arange(len(shares.share))
    axes.bar(edges, shares.share, width=0.94 * even, align="edge", color=COLORS[0], alpha=0.85)
    low = np.maximum(even - 1.96 * shares.spread, 0.0)
    high = even + 1.96 * shares.spread
    axes.bar(edges, high - low, bottom=low, width=even, align="edge", color=COLORS[1], alpha=0.3)
    axes.axhline(even, color=COLORS[1], lw=1.5, label="if calibrated")
    axes.set(xlim=(0, 1), ylim=(0, 1.15 * max(shares.share.max(), high.max())))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.tick_params(axis="y", length=0)
    return _finished(
        figure, axes, ax, "predicted probability of a value this low", "share of values"
    )


def reliability_diagram(
    reliability: Reliability, *, of: str = "item", ax: Axes | None = None
) -> Drawn:
    """How often items came true, by the probability given to them; on the line if calibrated.

    Both axes are logarithmic. Bins with less than 5 expected hits are not drawn; `of` says what is
    predicted. Raises DataError if none are left.

    >>> ones = np.ones(20)
    >>> bins = Reliability(np.arange(1, 21) * 100, 40 * ones, 50 * ones, 36 * ones)
    >>> len(reliability_diagram(bins).axes[0].lines[1].get_xdata())
    20
    """
    kept = reliability.predicted >= _LEAST_EXPECTED
    if not kept.any():
        raise DataError("`reliability` must hold a bin with 5 expected hits, got none.")
    pairs = reliability.pairs[kept]
    expected, seen = reliability.predicted[kept] / pairs, reliability.observed[kept] / pairs
    spread = 1.96 * np.sqrt(reliability.variance[kept]) / pairs
    floor = 0.5 * min(expected.min(), seen[seen > 0].min(initial=1.0))
    figure, axes = one_panel(width=_WIDTH, height=0.86 * _WIDTH, ax=ax)
    axes.grid(color=MUTED, alpha=0.3)
    axes.set(xscale="log", yscale="log")
    axes.plot([floor, 1.0], [floor, 1.0], color=COLORS[1], lw=1.5, label="if calibrated")
    axes.plot(expected, np.maximum(seen, floor), "o", color=COLORS[0], ms=6, label="this model")
    low, high = np.maximum(expected - spread, floor), np.minimum(expected + spread, 1.0)
    axes.vlines(expected, low, high, color=COLORS[1], lw=5, alpha=0.35)
    few = {at: f"{100 * at:g} %" for at in (0.5, 0.2, 0.05)} if floor > 0.02 else {}
    ticks = {at: name for at, name in (_TICKS | few).items() if floor <= at}
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(list(ticks)))
        axis.set_major_formatter(FixedFormatter(list(ticks.values())))
        axis.set_minor_locator(NullLocator())
    axes.set(xlim=(floor, 1.1), ylim=(floor, 1.1))
    return _finished(
        figure, axes, ax, f"predicted probability of one {of}", f"how often it was that {of}"
    )


def _n_rows(integral: Float[np.ndarray, "rows"]) -> int:
    if not len(integral):
        raise DataError("`integral` must hold at least one row, got none.")
    return len(integral)


def _finished(figure: FigureBase, axes: Axes, ax: Axes | None, x: str, y: str) -> Drawn:
    axes.set(xlabel=x, ylabel=y)
    legend_above(axes)
    return drawn(figure, ax)
