"""Attention between positions: its matrices, how local and symmetric it is, what it finds."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from exfam.checks import ExfamError, check_positive
from exfam.plots.style import (
    COLORS,
    INK,
    SHADES,
    draw_curves,
    drawable,
    legend_beside,
    make_figure,
    plain_axes,
)
from exfam.positions import PositionScores, position_scores

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
    legend_beside(axes)
    return figure


def position_matrices(
    matrices: Mapping[str, Float[np.ndarray, "_ _"]], *, columns: int = 4, panel: float = 2.0
) -> Figure:
    """A heat map of each matrix of attention between positions, all shades on one scale.

    Titles have the locality and the symmetry, of both kinds: with and without min-max.

    `matrices`: of encodings, layers or heads, by name; rows sum to 1, or to 0
    `columns`: panels side by side at most (default 4)
    `panel`: side of a panel, in inches (default 2.0)

    Raises ExfamError without a matrix, and for less than 3 positions; DataError for rows that are
    no shares.

    >>> import torch
    >>> from exfam.positions import encoding_weights
    >>> from exfam.encodings import ALiBi
    >>> figure = position_matrices({"ALiBi": encoding_weights(ALiBi(1), 16)[0].numpy()})
    >>> figure.axes[0].get_title().splitlines()
    ['ALiBi', 'locality .17', 'symmetry 1.00 (raw 1.00)']
    """
    if not matrices:
        raise ExfamError("`matrices` must hold at least one to draw, got none.")
    check_positive("columns", columns)
    scores = {name: position_scores(torch.as_tensor(rows)) for name, rows in matrices.items()}
    n_columns = min(columns, len(matrices))
    n_rows = -(-len(matrices) // n_columns)
    figure = make_figure(width=1.4 + n_columns * panel, height=0.6 + n_rows * (panel + 0.55))
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    norm = Normalize(0.0, max(float(each.max()) for each in matrices.values()))
    panels = grid.ravel()
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=False):
        plain_axes(axes).imshow(matrix, cmap=SHADES, norm=norm)
        title = f"{drawable(name)}\n{_in_words(scores[name])}"
        axes.set_title(title, fontsize=8, color=INK, parse_math=False)
        axes.tick_params(length=0, labelsize=7)
    for axes in panels[len(matrices) :]:
        axes.set_axis_off()
    bar = figure.colorbar(ScalarMappable(norm, SHADES), ax=grid)
    plain_axes(bar.ax)
    bar.outline.set_visible(False)
    bar.set_label("attention weight", color=INK)
    figure.supxlabel("position attended to", color=INK, fontsize=10)
    figure.supylabel("position", color=INK, fontsize=10)
    return figure


def _in_words(scores: PositionScores) -> str:
    locality, symmetry, raw = (
        f"{each.item():.2f}".removeprefix("0")
        for each in (scores.locality, scores.symmetry, scores.raw_symmetry)
    )
    return f"locality {locality}\nsymmetry {symmetry} (raw {raw})"


def accuracy_by_distance(
    distances: Int[np.ndarray, "distances"],
    accuracies: Mapping[str, Float[np.ndarray, "_"]],
    *,
    references: Mapping[str, float] | None = None,
    width: float = 8.0,
) -> Figure:
    """How many dependencies of words so far apart are found, a line a model or term of attention.

    `distances`: in words, signed or not
    `accuracies`: by name, in [0, 1], one a distance; NaN where there is none
    `references`: label -> accuracy, drawn as dashed lines
    `width`: of the figure, in inches (default 8.0)

    Raises ExfamError without a line, for accuracies outside [0, 1], and unless each line has one a
    distance. Source: Chen, Varoquaux & Suchanek (2023), Figure 5.

    >>> lines = {"positional": np.array([0.9, 0.2]), "contextual": np.array([0.3, 0.3])}
    >>> figure = accuracy_by_distance(np.array([1, 5]), lines)
    >>> figure.axes[0].get_xlabel()
    'distance between the words'
    """
    if not accuracies:
        raise ExfamError("`accuracies` must hold at least one line to draw, got none.")
    for name, values in accuracies.items():
        if len(values) != len(distances):
            raise ExfamError(
                f"`accuracies` must be one a distance, got {len(values)} of {name!r} for "
                f"{len(distances)}."
            )
        if not (np.isnan(values) | ((values >= 0) & (values <= 1))).all():
            raise ExfamError(f"`accuracies` must be in [0, 1], got {values.tolist()} of {name!r}.")
    order = np.argsort(distances)
    figure = make_figure(width=width, height=4.0)
    axes = plain_axes(figure.subplots())
    curves = {name: values[order] for name, values in accuracies.items()}
    draw_curves(axes, distances[order], curves, references=references)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("distance between the words")
    axes.set_ylabel("accuracy")
    return figure
