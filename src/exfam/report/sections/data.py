"""What the data hold."""

from collections.abc import Iterable

import numpy as np

from exfam.groups import Groups
from exfam.plots import histogram
from exfam.report.material import Material, item_counts
from exfam.report.page import Facts, Part, Picture, Section, SideBySide, TableData, left_out
from exfam.report.words import figure, listing, percent, quantity

_MOST_NAMED = 10
_MOST_COLUMNS = 6


def data_section(material: Material) -> Section:
    """Counts, lengths, values and the most frequent items."""
    groups = material.data
    if groups is None:
        return left_out("Data", "no data were given to describe.")
    drawn = histogram(groups.stop - groups.start, label="elements of a group", of="groups")
    lengths = Picture("How long groups are", drawn, f"{quantity(len(groups), 'group')}.")
    pictures = [lengths, *_values(material, groups)]
    table = [_frequent(material, groups)] if groups.item is not None and len(material.names) else []
    parts: list[Part] = [Facts(_facts(material, groups)), SideBySide([*table, *pictures])]
    return Section("Data", text=_text(material, groups), parts=parts)


def _facts(material: Material, groups: Groups) -> list[tuple[str, str]]:
    own, length = groups.elements(), groups.stop - groups.start
    facts = [("groups", f"{len(groups):,}"), ("elements", f"{len(own):,}")]
    if groups.n_targets != len(own):
        facts.append(("of them to be predicted", f"{groups.n_targets:,}"))
    facts.append(("median length", figure(float(np.median(length)), 0)))
    facts.append(("shortest – longest", f"{length.min():,} – {length.max():,}"))
    if groups.item is not None and groups.n_items:
        present = int((item_counts(groups) > 0).sum())
        facts.append(("items that occur", f"{present:,} of {groups.n_items:,}"))
        facts.append(("groups with repeats", percent(_repeating(groups))))
        if unknown := float((groups.item[own] < 0).mean()):
            facts.append(("unknown items", percent(unknown)))
    if material.model.schema_.families:
        observed = share_of_values(material.model.schema_.families, groups)
        facts.append(("values unobserved", percent(1 - observed)))
    return facts


def share_of_values(columns: Iterable[str], groups: Groups) -> float:
    """Share of the own elements' values that are there."""
    own = groups.elements()
    return float(np.mean([groups.has_value(column, own).mean() for column in columns]))


def _repeating(groups: Groups) -> float:
    """Share of groups in which some known item occurs twice."""
    assert groups.item is not None
    item = groups.item[groups.elements()]
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)[item >= 0]
    pairs, count = np.unique([group, item[item >= 0]], axis=1, return_counts=True)
    return len(np.unique(pairs[0, count > 1])) / len(groups)


def _text(material: Material, groups: Groups) -> list[str]:
    text = []
    if groups.ignored is not None and groups.ignored.any():
        left = quantity(int(groups.ignored.sum()), "element")
        text.append(f"{left} of items that the model does not know are left out.")
    schema = material.model.schema_
    if schema.attributes:
        names = listing([f"“{spec.name}”" for spec in schema.attributes[:_MOST_COLUMNS]])
        more = len(schema.attributes) - _MOST_COLUMNS
        further = f" and {more} more" if more > 0 else ""
        text.append(f"Attributes that the model sees: {names}{further}.")
    if len(schema.values) > _MOST_COLUMNS:
        text.append(f"Of {len(schema.values)} value columns the first {_MOST_COLUMNS} are shown.")
    return text


def _values(material: Material, groups: Groups) -> list[Picture]:
    own = groups.elements()
    pictures = []
    for spec in material.model.schema_.values[:_MOST_COLUMNS]:
        rows = own[groups.has_value(spec.column, own)]
        if not len(rows):
            continue
        value = np.asarray(groups.values[spec.column][rows], dtype=np.float64)
        spread = f"mean {figure(value.mean(), 2)}, standard deviation {figure(value.std(), 2)}"
        caption = f"{quantity(len(value), 'observed value')}: {spread}."
        drawn = histogram(value, label="value")
        pictures.append(Picture(f"Values of “{spec.column}”", drawn, caption))
    return pictures


def _frequent(material: Material, groups: Groups) -> TableData:
    count = item_counts(groups)
    most = np.argsort(-count, kind="stable")[:_MOST_NAMED]
    most = most[count[most] > 0]
    share = count[most] / max(int(count.sum()), 1)
    cells = zip(material.names.all(most), count[most].tolist(), share.tolist(), strict=True)
    return TableData(
        ["item", "elements", "share"],
        [[name, f"{number:,}", percent(part)] for name, number, part in cells],
        words=["item"],
        title="Most frequent items",
        shares={"elements": (count[most] / count[most].max(initial=1)).tolist()},
        caption=f"{len(most):,} of the {int((count > 0).sum()):,} items that occur; share of all "
        "elements of known items.",
    )
