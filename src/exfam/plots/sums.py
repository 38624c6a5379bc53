"""What a prediction is the sum of: bars to the right raise it, bars to the left lower it."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from exfam.checks import ExfamError
from exfam.efa.contributions import Contributions
from exfam.efa.explain import Explanation
from exfam.efa.value_explanations import ValueExplanation
from exfam.fields.explanations import FieldExplanation
from exfam.plots import style
from exfam.tables.base.contributions import ContributionSummary, TableContributions
from exfam.tables.community.community_answers import CommunityExplanation
from exfam.tables.experts.table_attention import ExpertSummary, TableExperts

_MOST_PANELS, _MOST_BARS, _MOST_LETTERS = 4, 8, 28
# A title, names of what is added up, and what each adds.
_Panel = tuple[str, Sequence[object] | np.ndarray, np.ndarray]


def contribution_bars(explained: Contributions, *, ax: Axes | None = None) -> style.Drawn:
    """What each item of the context adds to the base's score of a candidate; the first four.

    Raises ExfamError without candidates, as all of these functions do.
    """
    panels = []
    for k, (group, item) in enumerate(zip(explained.groups, explained.items, strict=True)):
        own = explained.candidate == k
        panels.append((f"{item}, of {group}", explained.context[own], explained.contribution[own]))
    return sum_bars(panels, label="adds to the score", ax=ax)


def value_bars(explained: ValueExplanation, *, ax: Axes | None = None) -> style.Drawn:
    """What each part adds to the predicted center of a value; of the first four elements."""
    names, panels = np.array(explained.names, dtype=object), []
    for k, (group, item) in enumerate(zip(explained.groups, explained.items, strict=True)):
        own = explained.element == k
        panels.append((f"{item}, of {group}", names[own], explained.to_center[own]))
    return sum_bars(panels, label=f"adds to {explained.column}", ax=ax)


def explanation_bars(explained: Explanation, *, ax: Axes | None = None) -> style.Drawn:
    """What bases add up to, of one group: for its items where they are predicted, else its values.

    Raises ExfamError for a model without a base.
    """
    if explained.contributions is not None:
        return contribution_bars(explained.contributions, ax=ax)
    if not explained.values:
        raise ExfamError("`explained` must be of a model with a base, got one without.")
    return value_bars(next(iter(explained.values.values())), ax=ax)


def field_bars(explained: FieldExplanation, *, ax: Axes | None = None) -> style.Drawn:
    """What values around add to the predicted mean of a site, the first four of a map.

    Without a base: the weights of the last layer of attention.
    """
    numbers, label = explained.contributions, "adds to the mean"
    if numbers is None:
        numbers, label = explained.attention[-1].mean(0), "attention weight"
    names = [
        f"{site}" if back == 0 else f"{site}, {back} before"
        for site, back in zip(explained.site, explained.steps_back, strict=True)
    ]
    sites = explained.site[explained.own]
    panels = [(str(site), names, row) for site, row in zip(sites, numbers, strict=True)]
    return sum_bars(panels, label=label, ax=ax)


def column_bars(
    explained: TableContributions | TableExperts, *, ax: Axes | None = None
) -> style.Drawn:
    """What each column adds to the first target's output, of the first four rows.

    Of several outputs, such as those of labels, the largest one of the row is drawn.
    """
    outputs, parts, target = explained.outputs[:, 0], explained.parts[:, 0], explained.targets[0]
    largest = outputs.argmax(-1)
    which = [f", output {k}" if outputs.shape[1] > 1 else "" for k in largest]
    panels = [
        (f"row {row}: {target}{which[row]}", explained.columns, parts[row, :, k])
        for row, k in enumerate(largest)
    ]
    return sum_bars(panels, label="adds to the output", ax=ax)


def size_bars(
    explained: ContributionSummary | ExpertSummary, *, ax: Axes | None = None
) -> style.Drawn:
    """How much each column adds to a target on average, whatever the sign; the first four."""
    panels = [
        (target, explained.columns, size)
        for target, size in zip(explained.targets, explained.size, strict=True)
    ]
    return sum_bars(panels, label="mean size of what the column adds", ax=ax)


def community_bars(explained: CommunityExplanation, *, ax: Axes | None = None) -> style.Drawn:
    """What covariates, other species and attention add to a species' `eta` at a site."""
    columns = explained.to_dict()
    names = [name or part for part, name in zip(columns["part"], columns["name"], strict=True)]
    title = f"{explained.species}, site {explained.site}"
    return sum_bars([(title, names, columns["added"])], label="adds to eta", ax=ax)


def sum_bars(panels: Sequence[_Panel], *, label: str, ax: Axes | None = None) -> style.Drawn:
    """A panel for each sum, at most four, with a bar for each of its eight largest terms.

    `panels`: of each its title, names of the terms, and the terms; `label`: of the axis

    >>> figure = sum_bars([("tea", ["milk", "salt"], np.array([0.1, -0.4]))], label="adds")
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['salt', 'milk']
    """
    if not panels:
        raise ExfamError("`explained` must hold at least one prediction to draw, got none.")
    shown = [_largest(panel) for panel in panels[:_MOST_PANELS]]
    heights = [len(terms) + 1.6 for _, _, terms in shown]
    figure = style.make_figure(width=6.4, height=0.27 * sum(heights) + 0.6, ax=ax)
    grid = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, names, terms) in zip(grid, shown, strict=True):
        style.plain_axes(axes)
        colors = [style.COLORS[0] if term >= 0 else style.COLORS[1] for term in terms]
        axes.barh(np.arange(len(terms)), terms, height=0.66, color=colors, alpha=0.85)
        axes.axvline(0.0, color=style.MUTED, lw=1)
        style.name_rows(axes, [style.shortened(name, most=_MOST_LETTERS) for name in names])
        title = style.drawable(style.shortened(title, most=2 * _MOST_LETTERS))
        axes.set_title(title, loc="left", fontsize=10, color=style.INK, parse_math=False)
    grid[-1].set_xlabel(label)
    return style.drawn(figure, ax)


def _largest(panel: _Panel) -> _Panel:
    title, names, terms = panel
    order = np.argsort(-np.abs(terms), kind="stable")[:_MOST_BARS]
    # What is 0 exactly, such as a cell's own column, is no term; one bar stays at least.
    order = order[: max(1, np.count_nonzero(np.asarray(terms)[order]))]
    return title, [names[k] for k in order.tolist()], np.asarray(terms)[order]
