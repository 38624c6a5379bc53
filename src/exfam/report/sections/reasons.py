"""What predictions of bases are made of: of recommended items, and of values."""

from typing import Any

import numpy as np

from exfam.efa.networks.based import BasedItems
from exfam.efa.value_explanations import ValueExplanation, has_bases_of_values
from exfam.groups import Groups
from exfam.report.page import Pairs, Part, TableData
from exfam.report.words import clean, figure

_MOST_GROUPS, _MOST_REASONS, _MOST_COLUMNS = 5, 4, 2
_MOST_LETTERS = 30


def reasons(model: Any, groups: Groups) -> list[Part]:
    """A table for items and for each of the first value columns that have bases."""
    some, tables = groups[:_MOST_GROUPS], []
    if isinstance(model.members_[0].item_part, BasedItems):
        tables.append(_of_items(model, some))
    if has_bases_of_values(model.members_):
        columns = list(model.schema_.families)[:_MOST_COLUMNS]
        tables += [_of_values(model.explain_value(some, column=column)) for column in columns]
    return [table for table in tables if table.rows]


def _of_items(model: Any, groups: Groups) -> TableData:
    """Which items made the base recommend what it does to a few groups."""
    because = model.explain_item(groups)
    cells: list[list[str | Pairs]] = []
    for number, item in enumerate(because.items):
        entries = np.flatnonzero(because.candidate == number)[:_MOST_REASONS]
        added = [
            (clean(because.context[entry]), figure(because.contribution[entry]))
            for entry in entries
        ]
        group = clean(because.groups[number], most=_MOST_LETTERS)
        cells.append([group, clean(item), Pairs(added), figure(because.score[number])])
    caption = (
        "What each item of the context adds to the probability by which the base scores the "
        f"item recommended first: the {_MOST_REASONS} largest. “(nothing)”: without context."
    )
    words = ["group", "recommended", "because of"]
    return TableData([*words, "score"], cells, words=words, title="Reasons", caption=caption)


def _of_values(why: ValueExplanation) -> TableData:
    """Of each group the prediction that other values of the group moved most."""
    by_others = np.isin(why.part, ("level", "value"))
    moved = np.bincount(why.element, np.abs(why.to_center) * by_others, len(why.rows))
    order = np.argsort(-moved, kind="stable")
    first = order[np.unique(why.groups[order].astype(str), return_index=True)[1]]
    cells = [_prediction(why, int(number)) for number in np.sort(first)]
    caption = (
        "What adds up to the prediction: the overall value, what the item and the level of the "
        f"group change, the {_MOST_REASONS} other values of the group that change most, all others "
        "together, what else the group's values say (how many and how unusual they are, their "
        "order and histogram), and attention. One prediction of each group, the one that other "
        "values move most."
    )
    words = ["group", "item", "made of"]
    return TableData(
        [*words, "predicted", "value"],
        cells,
        words=words,
        title=f"What predictions of “{clean(why.column, most=_MOST_LETTERS)}” are made of",
        caption=caption,
    )


def _prediction(why: ValueExplanation, number: int) -> list[str | Pairs]:
    own = why.element == number
    part, added, names = why.part[own], why.to_center[own], np.array(why.names, dtype=object)[own]
    values = np.flatnonzero(part == "value")
    shown = [np.flatnonzero(part == name) for name in ("overall", "item", "level")]
    entries = [(str(part[k]), added[k]) for rows in shown for k in rows]
    entries += [(clean(names[k]), added[k]) for k in values[:_MOST_REASONS]]
    if len(values) > _MOST_REASONS:
        entries.append(("other values", added[values[_MOST_REASONS:]].sum()))
    named = ("overall", "item", "level", "value", "attention", "columns")
    entries.append(("what else they say", added[~np.isin(part, named)].sum()))
    entries.append(("attention", added[part == "attention"].sum()))
    if (part == "columns").any():
        entries.append(("earlier columns", added[part == "columns"].sum()))
    # Four figures of the largest, whatever the unit.
    largest = max(abs(float(x)) for _, x in entries)
    digits = int(np.clip(3 - np.floor(np.log10(largest or 1.0)), 0, 12))
    return [
        clean(why.groups[number], most=_MOST_LETTERS),
        clean(why.items[number]),
        Pairs([(name, figure(x, digits)) for name, x in entries]),
        figure(why.center[number], digits),
        figure(why.values[number], digits),
    ]
