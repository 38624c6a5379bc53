"""Pictures of whether predicted probabilities come true."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
)

from exfam.checks import DataError
from exfam.plots.style import COLORS, INK, MUTED, legend_above, make_figure, plain_axes
from exfam.scores.calibration import Reliability

_TICKS = {1.0: "100 %", 0.1: "10 %", 0.01: "1 %", 1e-3: "0.1 %", 1e-4: "0.01 %", 1e-5: "0.001 %"}
# Fewer expected hits say nothing of a bin.
_LEAST_EXPECTED = 5.0
_NAMED_LEVELS = (0.5, 0.8, 0.95)


def coverage_curve(integral: Float[np.ndarray, "rows"], *, width: float = 4.6) -> Figure:
    """Share of values inside the central interval of every level; on the line if calibrated.

    `integral`: of `exfam.scores.calibration.probability_integral`, in [0, 1]
    `width`: of the figure, in inches (default 4.6)

    Above the line intervals are too wide, below it too narrow; dots are the shares at 50 %, 80 %
    and 95 %. The band is where 95 of 100 points would lie by chance if all laws were right and
    values independent. Raises DataError without rows.

    >>> axes = coverage_curve(np.linspace(0.0005, 0.9995, 1000)).axes[0]
    >>> [text.get_text() for text in axes.texts]
    ['50 %', '80 %', '95 %']
    """
    n = len(integral)
    if not n:
        raise DataError("`integral` must hold at least one row, got none.")
    # A value lies in the central intervals of this level and above.
    least = np.sort(np.abs(2 * integral - 1))
    level = np.linspace(0.0, 1.0, 201)
    figure = make_figure(width=width, height=0.86 * width)
    axes = plain_axes(figure.subplots())
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
    axes.set_xlim(0, 1.08)
    axes.set_ylim(0, 1.04)
    axes.set_aspect("equal")
    axes.grid(color=MUTED, alpha=0.3)
    axes.set_xlabel("level of the central interval")
    axes.set_ylabel("share of values inside")
    legend_above(axes)
    return figure


def integral_histogram(
    integral: Float[np.ndarray, "rows"], *, n_bars: int = 20, width: float = 4.6
) -> Figure:
    """Share of values in each twentieth of their predicted laws; flat if all laws are right.

    `integral`: of `exfam.scores.calibration.probability_integral`
    `n_bars`: number of bars (default 20)
    `width`: of the figure, in inches (default 4.6)

    The band is where 95 of 100 bars would end by chance if all laws were right and values
    independent. Raises DataError without rows.

    >>> figure = integral_histogram(np.linspace(0.01, 0.99, 40), n_bars=4)
    >>> [round(float(bar.get_height()), 3) for bar in figure.axes[0].patches[:4]]
    [0.25, 0.25, 0.25, 0.25]
    """
    if not len(integral):
        raise DataError("`integral` must hold at least one row, got none.")
    figure = make_figure(width=width, height=2.6)
    axes = plain_axes(figure.subplots())
    count, edges = np.histogram(integral, bins=n_bars, range=(0.0, 1.0))
    share, even = count / len(integral), 1 / n_bars
    axes.bar(edges[:-1], share, width=0.94 * even, align="edge", color=COLORS[0], alpha=0.85)
    spread = 1.96 * np.sqrt(even * (1 - even) / len(integral))
    axes.axhspan(max(even - spread, 0.0), even + spread, color=COLORS[1], alpha=0.3, lw=0)
    axes.axhline(even, color=COLORS[1], lw=1.5, label="if calibrated")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.15 * max(share.max(), even + spread))
    axes.set_xlabel("predicted probability of a value this low")
    axes.set_ylabel("share of values")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.tick_params(axis="y", length=0)
    legend_above(axes)
    return figure


def reliability_diagram(reliability: Reliability, *, width: float = 4.6) -> Figure:
    """How often items came true, by the probability given to them; on the line if calibrated.

    `width`: of the figure, in inches (default 4.6)

    Both axes are logarithmic. Upright lines: where 95 of 100 dots would lie by chance if all
    probabilities were right and targets independent. Bins with less than 5 expected hits are not
    drawn. Raises DataError if none are left.

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
    figure = make_figure(width=width, height=0.86 * width)
    axes = plain_axes(figure.subplots())
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot([floor, 1.0], [floor, 1.0], color=COLORS[1], lw=1.5, label="if calibrated")
    axes.plot(expected, np.maximum(seen, floor), "o", color=COLORS[0], ms=6, label="this model")
    low, high = np.maximum(expected - spread, floor), np.minimum(expected + spread, 1.0)
    axes.vlines(expected, low, high, color=COLORS[1], lw=5, alpha=0.35)
    for axis in (axes.xaxis, axes.yaxis):
        ticks = {place: name for place, name in _TICKS.items() if floor <= place}
        axis.set_major_locator(FixedLocator(list(ticks)))
        axis.set_major_formatter(FixedFormatter(list(ticks.values())))
        axis.set_minor_locator(NullLocator())
    axes.set_xlim(floor, 1.1)
    axes.set_ylim(floor, 1.1)
    axes.grid(color=MUTED, alpha=0.3)
    axes.set_xlabel("predicted probability of an item")
    axes.set_ylabel("how often it was that item", color=INK)
    legend_above(axes)
    return figure
