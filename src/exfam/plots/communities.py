"""Communities of species: who occurs with whom, and what knowing others is worth."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.ticker import PercentFormatter

from exfam.plots import style

_BOTH_WAYS = LinearSegmentedColormap.from_list(
    "both ways", ["#8a3b12", style.COLORS[1], "#f6f2ea", style.COLORS[0], "#173f7a"]
)
# Dots of the strongest correlations, as a share of their cell.
_LARGEST = 0.46


def association_map(
    correlation: Float[np.ndarray, "species species"],
    species: Sequence[str],
    *,
    clear: Bool[np.ndarray, "species species"] | None = None,
    label: str = "correlation beyond covariates",
    ax: Axes | None = None,
) -> style.Drawn:
    """A matrix of dots: blue where two species occur together, orange where they avoid each other.

    Species that go together stand together. The larger a dot, the stronger the correlation.

    `clear`: which pairs are clear of 0; of the others only a small gray dot is drawn
    `label`: of the color bar

    Raises ExfamError unless there is a name for each species.

    >>> figure = association_map(np.array([[1.0, 0.5], [0.5, 1.0]]), ["reed", "sedge"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['reed', 'sedge']
    """
    n = len(correlation)
    style.check_as_many("species", len(species), n, of="rows")
    order = _together(correlation)
    width = 2.6 + 0.26 * n
    figure, axes = style.one_panel(width=width + 0.8, height=width - 0.6, ax=ax)
    limit = max(float(np.abs(correlation - np.diag(np.diag(correlation))).max()), 0.05)
    norm = Normalize(-limit, limit)
    row, column = (index.ravel() for index in np.indices((n, n)))
    shown = row > column
    row, column = row[shown], column[shown]
    value = correlation[order[row], order[column]]
    is_clear = np.ones(len(value), bool) if clear is None else clear[order[row], order[column]]
    size = (72 * 0.26 * 2 * _LARGEST) ** 2 * np.abs(value) / limit
    axes.scatter(column[~is_clear], row[~is_clear], s=4, color=style.MUTED, alpha=0.5)
    axes.scatter(
        column[is_clear], row[is_clear], s=size[is_clear], c=_BOTH_WAYS(norm(value[is_clear]))
    )
    names = [style.shortened(species[k], most=24) for k in order]
    style.name_rows(axes, names)
    style.name_ticks(axes.xaxis, np.arange(n), names)
    axes.tick_params(axis="x", rotation=90, length=0)
    axes.set_xlim(-0.5, n - 0.5)
    axes.spines[["left", "bottom"]].set_visible(False)
    # Matplotlib draws bars of 50 colors and more as bitmaps.
    few = ScalarMappable(norm, _BOTH_WAYS.resampled(41))
    style.color_bar(few, axes, shrink=0.6).set_label(label)
    return style.drawn(figure, ax)


def known_curves(
    scores: Mapping[str, Mapping[float, float]],
    *,
    metric: str = "nats a species and site",
    ax: Axes | None = None,
) -> style.Drawn:
    """A score of each model by the share of the other species that is known.

    `scores`: by model, then by share

    >>> figure = known_curves({"Community": {0.0: 0.27, 1.0: 0.24}})
    >>> figure.axes[0].get_xlabel()
    'other species known'
    """
    figure, axes = style.one_panel(width=6.4, height=3.6, ax=ax)
    for number, (name, by_share) in enumerate(scores.items()):
        line, color = style.line_of(number)
        axes.plot(
            list(by_share), list(by_share.values()), line, color=color, marker="o", label=name
        )
    axes.set(xlabel="other species known", ylabel=metric)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(axis="y", color=style.MUTED, alpha=0.3)
    style.legend_beside(axes)
    return style.drawn(figure, ax)


def _together(correlation: Float[np.ndarray, "species species"]) -> np.ndarray:
    """An order in which species that go together stand together: by average linkage."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(correlation) < 3:
        return np.arange(len(correlation))
    distance = np.clip(1 - (correlation + correlation.T) / 2, 0.0, 2.0)
    np.fill_diagonal(distance, 0.0)
    return leaves_list(linkage(squareform(distance, checks=False), "average"))
