"""Vectors of items as heat maps."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import INK, SIGNED, make_figure, name_ticks, plain_axes

__all__ = ["vector_map"]


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
