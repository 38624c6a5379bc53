"""Fields on the map: what is predicted and how surely, what a site attends to, where it is wrong.

Coordinates are (latitude, longitude) in degrees, a degree of longitude being drawn as much shorter
than one of latitude as it is in the middle; or (east, north) in their own unit if `metric` is
"euclidean". A `unit` is that of the values, such as "°F".
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from exfam.checks import ExfamError, check_choice
from exfam.plots import style as shared
from exfam.plots.item_map import place_names

_WARMTH = LinearSegmentedColormap.from_list(
    "warmth",
    ["#173f7a", shared.COLORS[0], "#a9cbef", "#f5ecd9", "#f0b487", shared.COLORS[1], "#8a3b12"],
)
_MOST_DOTS = 400
_N_LEVELS = 24
_MARGIN = 0.06
# Of a map's height to its width.
_LEAST_RATIO, _MOST_RATIO = 0.2, 1.8
_MOST_NAMES = 5
_MOST_LINES = 12
# Lines of less than this share of the largest weight would only hide the others.
_LEAST = 0.1
_PALE = "#f6f8fa"
Points = Float[np.ndarray, "_ _"]
Values = Float[np.ndarray, "_"]


def field_map(
    coordinates: Points,
    mean: Values,
    sd: Values,
    *,
    observed: Points | None = None,
    unit: str = "",
    metric: str = "haversine",
    style: str | None = None,
    stacked: bool = False,
    ax: Axes | None = None,
) -> shared.Drawn:
    """Two maps: predictive means and their standard deviations. Rings mark what was observed.

    `observed`: coordinates of the sites whose values were seen, if any
    `style`: "sites" for a dot per site, "surface" for a surface through the sites; the second for
        more than 400 sites unless given
    `stacked`: one map above the other, for narrow screens

    Raises ExfamError unless there are a mean and a standard deviation for each site.

    >>> sites = np.array([[40.0, -100.0], [45.0, -90.0], [35.0, -80.0]])
    >>> figure = field_map(sites, np.array([50.0, 60.0, 70.0]), np.ones(3), unit="°F")
    >>> [axes.get_xlabel() for axes in figure.axes]  # two maps, two color bars
    ['longitude', 'longitude', 'predictive mean (°F)', 'standard deviation (°F)']
    """
    points = on_plane(coordinates, metric)
    shared.check_as_many("mean", len(mean), len(points), of="places")
    shared.check_as_many("sd", len(sd), len(points), of="places")
    chosen = style or ("surface" if len(points) > _MOST_DOTS else "sites")
    check_choice("style", chosen, ["sites", "surface"])
    shape, width = ((2, 1), 4.8) if stacked else ((1, 2), 9.6)
    figure, panels = plain_maps(points, metric, shape=shape, width=width, ax=ax)
    shown = {"predictive mean": (mean, _WARMTH), "standard deviation": (sd, shared.SHADES)}
    for axes, (name, (value, colors)) in zip(panels.flat, shown.items(), strict=True):
        norm = _norm(value)
        if chosen == "surface":
            _draw_surface(axes, points, value, colors, norm)
        else:
            _draw_dots(axes, points, value, np.full(len(points), 42.0), colors=colors, norm=norm)
        if observed is not None:
            # Rings around dots, or light dots that show on every color of a surface.
            face, area = (_PALE, 18) if chosen == "surface" else ("none", 62)
            east, north = on_plane(observed, metric, like=coordinates).T
            axes.scatter(
                east, north, s=area, facecolors=face, edgecolors=shared.INK, linewidths=1.0,
                zorder=4, label="observed",
            )  # fmt: skip
        _color_bar(axes, colors, norm, f"{name} ({unit})" if unit else name)
    shared.legend_above(panels[0, 0])
    return shared.drawn(figure, ax)


def crps_by_site(
    coordinates: Points,
    crps: Values,
    labels: Sequence[str],
    *,
    unit: str = "",
    metric: str = "haversine",
    n_labels: int = 6,
    width: float = 7.0,
    ax: Axes | None = None,
) -> shared.Drawn:
    """A map of scores, lower being better: the worst sites have the largest circles, and names.

    `crps`: mean continuous ranked probability score of each site, or any other error >= 0
    `n_labels`: how many sites are named, where there is room; `width` of the figure, in inches

    Raises ExfamError unless there are a score and a label for each site.

    >>> sites = np.array([[40.0, -100.0], [45.0, -90.0]])
    >>> figure = crps_by_site(sites, np.array([2.0, 1.5]), ["Denver", "Duluth"], n_labels=1)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['Denver 2.00']
    """
    points = on_plane(coordinates, metric)
    shared.check_as_many("crps", len(crps), len(points), of="places")
    shared.check_as_many("labels", len(labels), len(points), of="places")
    figure, panels = plain_maps(points, metric, shape=(1, 1), width=width, ax=ax)
    norm, axes = _norm(crps), panels[0, 0]
    worst = np.argsort(-crps, kind="stable")
    area = 24.0 + 120.0 * np.asarray(norm(crps))
    _draw_dots(axes, points, crps, area, colors=shared.SHADES, norm=norm)
    _color_bar(axes, shared.SHADES, norm, f"mean CRPS ({unit})" if unit else "mean CRPS")
    names = [f"{shared.shortened(labels[i], most=28)} {crps[i]:.2f}" for i in worst[:n_labels]]
    shared.fix_layout(figure)
    place_names(axes, points[worst], names, np.sqrt(area[worst]) / 2)
    return shared.drawn(figure, ax)


def site_attention_map(
    coordinates: Points,
    weights: Float[np.ndarray, "heads maps weights"],
    site: int,
    *,
    names: Sequence[str] | None = None,
    heads: str = "mean",
    metric: str = "haversine",
    ax: Axes | None = None,
) -> shared.Drawn:
    """What one site attends to: a panel for each map that it sees, its own at the right.

    Areas of circles and widths of lines grow with the weights, shown as percentages of all that
    the site attends to; a panel's title has the sum of its own.

    `weights`: those of its own map first, then of the maps 1, 2, … before; each in [0, 1]
    `site`: its row in `coordinates`
    `names`: of all sites; the sites with most weight are named
    `heads`: "mean" over heads, or "each" for a row of panels per head

    Raises ExfamError unless there are weights, and names if any, for each site, and for a `site`
    that is not there.

    >>> sites = np.array([[40.0, -100.0], [45.0, -90.0], [35.0, -80.0]])
    >>> weights = np.array([[[0.0, 0.5, 0.2], [0.3, 0.0, 0.0]]])
    >>> figure = site_attention_map(sites, weights, 0)
    >>> [axes.get_title(loc="left") for axes in figure.axes[:2]]
    ['1 map before: 30 %', 'same map: 70 %']
    """
    points = on_plane(coordinates, metric)
    shared.check_as_many("weights", weights.shape[-1], len(points), of="places")
    if names is not None:
        shared.check_as_many("names", len(names), len(points), of="places")
    check_choice("heads", heads, ["each", "mean"])
    if not 0 <= site < len(points):
        raise ExfamError(f"`site` must be a row of `coordinates`, below {len(points)}, got {site}.")
    rows = weights.mean(axis=0, keepdims=True) if heads == "mean" else weights
    shape = rows.shape[:2]
    figure, panels = plain_maps(points, metric, shape=shape, width=5.2 * shape[1] + 0.6, ax=ax)
    largest = max(float(rows.max()), 1e-6)
    for (head, column), axes in np.ndenumerate(panels):
        back = shape[1] - 1 - column
        when = "same map" if back == 0 else f"{back} map{'s' * (back > 1)} before"
        of_head = f"head {head + 1}, " if heads == "each" else ""
        title = f"{of_head}{when}: {100 * rows[head, back].sum():.0f} %"
        axes.set_title(title, fontsize=10, color=shared.INK, loc="left")
        _draw_weights(axes, points, rows[head, back], site, largest)
    whose = "the site" if names is None else shared.shortened(names[site], most=40)
    label = f"attention weight (%) of {whose} ★"
    _color_bar(panels, shared.SHADES, Normalize(0.0, 100 * largest), label)
    shared.fix_layout(figure)
    for (head, column), axes in np.ndenumerate(panels):
        if names is None:
            break
        of_map = rows[head, shape[1] - 1 - column]
        order = np.argsort(-of_map, kind="stable")
        texts = [
            shared.shortened(names[i], most=28)
            for i in _heaviest(of_map, largest, most=_MOST_NAMES)
        ]
        place_names(axes, points[order], texts, np.sqrt(_areas(of_map[order], largest)) / 2)
    return shared.drawn(figure, ax)


def on_plane(coordinates: Points, metric: str, *, like: Points | None = None) -> Points:
    """(east, north); longitudes go on beyond 180 degrees rather than tear a map apart.

    `like`: other sites on the same map
    """
    check_choice("metric", metric, ["haversine", "euclidean"])
    if coordinates.ndim != 2 or coordinates.shape[1] != 2 or not len(coordinates):
        raise ExfamError(
            "`coordinates` must have two columns and at least one row to draw a map, got shape "
            f"{coordinates.shape}."
        )
    if metric == "euclidean":
        return coordinates
    latitude, longitude = coordinates.T
    around = np.radians((coordinates if like is None else like)[:, 1])
    middle = np.degrees(np.arctan2(np.sin(around).mean(), np.cos(around).mean()))
    return np.stack([middle + (longitude - middle + 180) % 360 - 180, latitude], axis=1)


def plain_maps(
    points: Points, metric: str, *, shape: tuple[int, int], width: float, ax: Axes | None
) -> tuple[shared.Drawn, np.ndarray]:
    """Panels with room around the points, as high as the area needs, labels at the outer ones."""
    is_globe = metric == "haversine"
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high > low, high - low, max(float((high - low).max()), 1.0))
    shrunk = np.cos(np.radians((low[1] + high[1]) / 2)) if is_globe else 1.0
    stretch = 1 / max(float(shrunk), 0.05)
    # A narrow region has room beside it, so that labels of its axes do not overlap.
    span = np.maximum(span, [stretch * span[1] / _MOST_RATIO, _LEAST_RATIO * span[0] / stretch])
    ratio = float(stretch * span[1] / span[0])
    height = shape[0] * (ratio * (width / shape[1] - 0.8) + 0.6) + 0.9
    figure = shared.make_figure(width=width, height=height, ax=ax)
    if isinstance(figure, Figure):
        figure.set_layout_engine("compressed")
    panels = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    half = (0.5 + _MARGIN) * span
    xlim, ylim = np.stack([(low + high) / 2 - half, (low + high) / 2 + half], axis=1)
    for axes in panels.flat:
        shared.plain_axes(axes).set(aspect=stretch, xlim=xlim, ylim=ylim)
        axes.grid(color=shared.MUTED, alpha=0.2)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, labelsize=9)
        for axis, sides in ((axes.xaxis, "EW"), (axes.yaxis, "NS")):
            axis.set_major_locator(MaxNLocator(5))
            if is_globe:
                axis.set_major_formatter(FuncFormatter(_degrees(*sides)))
    for axes in panels[-1]:
        axes.set_xlabel("longitude" if is_globe else "east")
    for axes in panels[:, 0]:
        axes.set_ylabel("latitude" if is_globe else "north")
    return figure, panels


def _degrees(above: str, below: str) -> Callable[[float, int | None], str]:
    """How maps write degrees on both sides of 0."""

    def written(degrees: float, _: int | None) -> str:
        around = (degrees + 180) % 360 - 180
        side = "" if around in (0.0, -180.0) else (above if around > 0 else below)
        return f"{abs(around):g}°{side}"

    return written


def _norm(value: Values) -> Normalize:
    """From the lowest to the highest; some room around a single one."""
    low, high = float(value.min()), float(value.max())
    return Normalize(low, high) if high > low else Normalize(low - 0.5, high + 0.5)


def _draw_dots(
    axes: Axes, points: Points, value: Values, area: Values, *, colors: Colormap, norm: Normalize
) -> None:
    """Circles, the smallest last: they stay to be seen."""
    order = np.argsort(-area, kind="stable")
    east, north = points[order].T
    axes.scatter(
        east, north, s=area[order], c=value[order],
        cmap=colors, norm=norm, edgecolors=shared.MUTED, linewidths=0.5, zorder=3,
    )  # fmt: skip


def _draw_surface(
    axes: Axes, points: Points, value: Values, colors: Colormap, norm: Normalize
) -> None:
    """Cells if the sites are all those of a grid, else contours between them."""
    east, north = (np.unique(column) for column in points.T)
    if len(east) * len(north) == len(points) and min(len(east), len(north)) > 1:
        grid = value[np.lexsort(points.T)].reshape(len(north), len(east))
        axes.pcolormesh(
            east, north, grid, cmap=colors, norm=norm, shading="nearest", edgecolors="face", lw=0.8
        )
    else:
        levels = norm.inverse(np.linspace(0, 1, _N_LEVELS))
        axes.tricontourf(points[:, 0], points[:, 1], value, levels=levels, cmap=colors, norm=norm)


def _color_bar(axes: Axes | np.ndarray, colors: Colormap, norm: Normalize, label: str) -> None:
    """A color bar below."""
    where = {"location": "bottom", "aspect": 40, "fraction": 0.05, "pad": 0.03}
    # Matplotlib draws bars of 50 colors and more as bitmaps.
    few = colors.resampled(40)
    bar = shared.color_bar(ScalarMappable(norm, few), axes, **where)
    bar.ax.xaxis.set_major_locator(MaxNLocator(6))
    bar.ax.tick_params(length=0, labelsize=9)
    shared.write_name(bar.ax.xaxis.label, label)


def _areas(weights: Values, largest: float) -> Values:
    """Of their circles."""
    return 8.0 + 260.0 * weights / largest


def _draw_weights(axes: Axes, points: Points, weights: Values, site: int, largest: float) -> None:
    """Lines from the site to the others, circles at them, and a star at the site."""
    strong = _heaviest(weights, largest, most=_MOST_LINES)
    lines = LineCollection(
        [np.stack([points[site], points[other]]) for other in strong],
        linewidths=0.4 + 3.2 * weights[strong] / largest,
        colors=shared.MUTED,
        alpha=0.5,
    )
    axes.add_collection(lines, autolim=False)
    area, norm = _areas(weights, largest), Normalize(0.0, largest)
    _draw_dots(axes, points, weights, area, colors=shared.SHADES, norm=norm)
    east, north = points[site]
    axes.scatter(
        east,
        north,
        marker="*",
        s=150,
        color=shared.COLORS[1],
        edgecolors=shared.INK,
        linewidths=0.6,
        zorder=4,
    )


def _heaviest(weights: Values, largest: float, *, most: int) -> Int64[np.ndarray, "heaviest"]:
    """Sites with most weight, the heaviest first, none of little."""
    order = np.argsort(-weights, kind="stable")[:most]
    return order[weights[order] >= _LEAST * largest]
