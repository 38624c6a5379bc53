"""How local and how symmetric the attention of many encodings, encoders or heads is."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import COLORS, INK, make_figure, plain_axes

__all__ = ["position_scatter"]

_MARKERS = "os^DvP*X"


def position_scatter(
    points: Mapping[str, Mapping[str, tuple[float, float]]],
    heads: Mapping[str, Float[np.ndarray, "heads 2"]] | None = None,
) -> Figure:
    """Locality across, symmetry up; named points in groups of one color, single heads as dots.

    `points`: group -> name -> locality and symmetry; `heads`: label -> those of each head

    Raises ExfamError if there is nothing to draw. Source: Chen, Varoquaux & Suchanek (2023),
    Figure 2.

    >>> axes = position_scatter({"fixed": {"sinusoidal": (0.25, 1.0)}}).axes[0]
    >>> axes.get_xlabel(), [text.get_text() for text in axes.texts]
    ('locality', ['sinusoidal'])
    """
    heads = heads or {}
    if not points and not heads:
        raise ExfamError("`points` must hold at least one encoding or encoder, got none.")
    figure = make_figure(width=7.6, height=5.0)
    axes = plain_axes(figure.subplots())
    for number, (label, scores) in enumerate(heads.items()):
        color = COLORS[(len(points) + number) % len(COLORS)]
        axes.plot(*scores.T, ".", ms=4, alpha=0.5, color=color, label=label)
    for number, (group, named) in enumerate(points.items()):
        color = COLORS[number % len(COLORS)]
        marker = _MARKERS[number % len(_MARKERS)]
        axes.plot(*zip(*named.values(), strict=True), marker, color=color, label=group)
        for name, place in named.items():
            axes.annotate(
                name,
                place,
                xytext=(4, 3),
                textcoords="offset points",
                color=INK,
                fontsize=7,
                rotation=30,
            )
    axes.set_xlabel("locality")
    axes.set_ylabel("symmetry")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, labelcolor=INK)
    return figure
