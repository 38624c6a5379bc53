"""Stations: their series with what is predicted of them, and where one more would help."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import FuncFormatter, MaxNLocator

from exfam.plots import style
from exfam.plots.fields import on_plane, plain_maps

_MOST_DOTS = 80


def series_band(
    names: Sequence[str],
    value: Float[np.ndarray, "_"],
    center: Float[np.ndarray, "_"],
    low: Float[np.ndarray, "_"],
    high: Float[np.ndarray, "_"],
    *,
    unit: str = "",
    width: float = 9.4,
    ax: Axes | None = None,
) -> style.Drawn:
    """A series with the means that were predicted of it, and their intervals.

    `names`: of the times, in order; some of them are written
    `value`: NaN where it is missing; `unit`: at the axis of values; `width` in inches

    Raises ExfamError unless there is one of each a time.

    >>> day = np.array([1.0, 2.0])
    >>> figure = series_band(["Monday", "Tuesday"], day, day, day - 1, day + 1)
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['Monday', 'Tuesday']
    """
    for name, numbers in {"value": value, "center": center, "low": low, "high": high}.items():
        style.check_as_many(name, len(numbers), len(names), of="times")
    figure, axes = style.one_panel(width=width, height=2.4, ax=ax)
    at = np.arange(float(len(names)))
    axes.fill_between(at, low, high, color=style.COLORS[0], alpha=0.2, lw=0, label="interval")
    axes.plot(at, center, color=style.COLORS[0], lw=1.5, label="predicted")
    size = 3.5 if len(at) <= _MOST_DOTS else 2.0
    axes.plot(at, value, "o", color=style.COLORS[1], ms=size, label="observed")
    axes.grid(axis="y", color=style.MUTED, alpha=0.3)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.tick_params(axis="y", length=0)
    n_ticks = max(2, int(width / 1.5))
    shown = np.unique(np.linspace(0, len(names) - 1, min(n_ticks, len(names))).round()).astype(int)
    texts = [style.shortened(names[k], most=12) for k in shown]
    style.name_ticks(axes.xaxis, at[shown], texts)
    ticks = axes.get_xticklabels()
    ticks[0].set_horizontalalignment("left")
    ticks[-1].set_horizontalalignment("right")
    style.write_name(axes.yaxis.label, style.shortened(unit, most=26))
    style.legend_above(axes)
    return style.drawn(figure, ax)


def plan_map(
    candidates: Float[np.ndarray, "_ 2"],
    share: Float[np.ndarray, "_"],
    sites: Float[np.ndarray, "_ 2"],
    *,
    metric: str = "haversine",
    width: float = 7.0,
    ax: Axes | None = None,
) -> style.Drawn:
    """By what share one more station would lower a map's mean variance, and the best place.

    `candidates`: coordinates of where one may measure, `sites` of the stations that there are

    Raises ExfamError unless there is a share for each candidate.

    >>> places = np.array([[40.0, -100.0], [45.0, -90.0]])
    >>> figure = plan_map(places, np.array([0.1, 0.2]), places)
    >>> figure.axes[1].get_xlabel()
    'lowers the mean variance by (%)'
    """
    style.check_as_many("share", len(share), len(candidates), of="candidates")
    points = on_plane(candidates, metric)
    stations = on_plane(sites, metric, like=candidates)
    everything = np.concatenate([points, stations])
    figure, panels = plain_maps(everything, metric, shape=(1, 1), width=width, ax=ax)
    axes = panels[0, 0]
    norm = Normalize(0.0, max(100 * float(share.max(initial=0.0)), 1e-9))
    area = np.clip(26_000 * (width / 7) ** 2 / max(len(points), 1), 12, 160)
    east, north = points.T
    axes.scatter(east, north, c=100 * share, s=area, cmap=style.SHADES, norm=norm, marker="s", lw=0)
    east, north = stations.T
    axes.scatter(east, north, s=16, color=style.COLORS[1], label="stations", zorder=4)
    best = points[int(share.argmax())]
    axes.scatter(
        *best, marker="*", s=170, color="#f6f8fa", edgecolors=style.INK, linewidths=0.9,
        zorder=5, label="best place",
    )  # fmt: skip
    style.legend_above(axes)
    where = {"location": "bottom", "aspect": 40, "fraction": 0.05, "pad": 0.03}
    # Matplotlib draws bars of 50 colors and more as bitmaps.
    few = style.SHADES.resampled(40)
    bar = style.color_bar(ScalarMappable(norm, few), axes, **where)
    bar.ax.xaxis.set_major_locator(MaxNLocator(5))
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.3g}"))
    bar.ax.tick_params(length=0, labelsize=9)
    style.write_name(bar.ax.xaxis.label, "lowers the mean variance by (%)")
    return style.drawn(figure, ax)
