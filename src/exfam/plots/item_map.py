"""A map of items with as many names as fit: each beside its dot, where it meets nothing else."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from exfam.plots import style

_MARGIN = 0.06
_FONT_SIZE = 9.0
_GAP = 3.0
# Widths are estimates.
_SLACK = 1.5
# A map with all its names would be unreadable: the others are dots.
_MOST_NAMES = 80
# In points: left, low, right, high.
Box = Float[np.ndarray, "4"]


def item_map(
    points: Float[np.ndarray, "items 2"],
    names: Sequence[str],
    *,
    weight: Float[np.ndarray, "items"] | None = None,
    labels: Sequence[str] = ("", ""),
    width: float = 9.0,
    height: float = 6.0,
    ax: Axes | None = None,
) -> style.Drawn:
    """Items as dots in a plane; those named first keep their names where names would overlap.

    `weight`: areas of the dots, such as how often items occur; all alike unless given
    `labels`: of the two axes; `width` and `height` of the figure, in inches

    Raises ExfamError unless there is one name a point.

    >>> figure = item_map(np.array([[0.0, 0.0], [0.0, 0.0], [5.0, 5.0]]), ["a", "b", "c"])
    >>> len(figure.axes[0].texts)
    3
    """
    style.check_as_many("names", len(names), len(points), of="points")
    figure, axes = style.one_panel(width=width, height=height, ax=ax)
    axes.spines[["left", "bottom"]].set_alpha(0.35)
    axes.set(xticks=[], yticks=[], xlabel=labels[0], ylabel=labels[1])
    area = np.full(len(points), 14.0)
    if weight is not None:
        area = 6.0 + 80.0 * weight / (weight.max(initial=0.0) or 1.0)
    axes.scatter(points[:, 0], points[:, 1], s=area, color=style.COLORS[0], alpha=0.55, lw=0)
    if len(points):
        low, high = points.min(axis=0), points.max(axis=0)
        margin = _MARGIN * np.where(high > low, high - low, 1.0)
        # More room at the right, where most names go.
        axes.set_xlim(low[0] - margin[0], high[0] + 2.5 * margin[0])
        axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
    style.fix_layout(figure)
    place_names(axes, points, names, np.sqrt(area) / 2)
    return style.drawn(figure, ax)


def place_names(
    axes: Axes,
    points: Float[np.ndarray, "items 2"],
    names: Sequence[str],
    radius: Float[np.ndarray, "items"],
) -> None:
    """Each name at the first side of its dot where it meets no name, no dot and no edge.

    Names belong to the first points; those that find no room are left out. `radius` is that of the
    dots, in points. The layout of the figure must be final.
    """
    to_points = 72 / axes.figure.dpi
    at = np.asarray(axes.transData.transform(points)) * to_points
    edge = np.array(axes.bbox.extents) * to_points
    # Names may cross the smallest dots' rims, not their centers.
    core = 0.6 * radius
    dots = np.stack([at[:, 0] - core, at[:, 1] - core, at[:, 0] + core, at[:, 1] + core], axis=1)
    taken = np.empty((0, 4))
    for index, name in enumerate(names):
        others = np.delete(dots, index, axis=0)
        if len(taken) >= _MOST_NAMES:
            return
        size = style.name_width(name, size=_FONT_SIZE) + _SLACK, 1.1 * _FONT_SIZE
        for box, align in _sides(at[index], radius[index] + _GAP, size):
            inside = (box[:2] >= edge[:2]).all() and (box[2:] <= edge[2:]).all()
            if inside and not _meets(box, others) and not _meets(box, taken):
                _write(axes, name, box, align)
                taken = np.vstack([taken, box])
                break


def _meets(box: Box, boxes: Float[np.ndarray, "boxes 4"]) -> bool:
    """Whether a box overlaps one of the others."""
    return bool(((boxes[:, :2] < box[2:]) & (boxes[:, 2:] > box[:2])).all(axis=1).any())


def _sides(
    at: Float[np.ndarray, "2"], far: float, size: tuple[float, float]
) -> Iterator[tuple[Box, str]]:
    """Where a name may stand beside its dot, the best box first, with the side it is aligned to."""
    x, y = at.tolist()
    width, height = size
    for up in (0.0, 0.7, -0.7):
        middle = y + up * height
        low, high = middle - height / 2, middle + height / 2
        yield np.array([x + far, low, x + far + width, high]), "left"
        yield np.array([x - far - width, low, x - far, high]), "right"
    for low in (y + far, y - far - height):
        yield np.array([x - width / 2, low, x + width / 2, low + height]), "center"


def _write(axes: Axes, name: str, box: Box, align: str) -> None:
    left, low, right, high = box.tolist()
    x = {"left": left, "right": right, "center": (left + right) / 2}[align]
    middle = np.array([x, (low + high) / 2]) * axes.figure.dpi / 72
    x, y = axes.transData.inverted().transform(middle)
    text = axes.text(x, y, "", ha=align, va="center_baseline", fontsize=_FONT_SIZE, color=style.INK)
    style.write_name(text, name)
