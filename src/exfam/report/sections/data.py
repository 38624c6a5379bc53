"""What the data hold."""

import numpy as np

from exfam.groups import Groups
from exfam.plots import histogram
from exfam.report.material import Material
from exfam.report.page import Facts, Part, Picture, Section, SideBySide, TableData
from exfam.report.summary import Summary, item_counts, summarize
from exfam.report.words import figure, listing, percent, quantity

_MOST_NAMED = 10
_MOST_COLUMNS = 6


def data_section(material: Material) -> Section:
    """Counts, lengths, values and the most frequent items."""
    groups = material.data
    if groups is None:
        why = "Left out: no data were given to describe."
        return Section("Data", text=[why])
    summary = summarize(groups)
    parts: list[Part] = [Facts(_facts(material, summary))]
    pictures = [_lengths(summary), *_values(material, groups)]
    table = [_frequent(material, groups)] if groups.item is not None and len(material.names) else []
    parts.append(SideBySide([*table, *pictures]))
    return Section("Data", text=_text(material, groups, summary), parts=parts)


def _facts(material: Material, summary: Summary) -> list[tuple[str, str]]:
    facts = [("groups", f"{summary.n_groups:,}"), ("elements", f"{summary.n_elements:,}")]
    if summary.n_targets != summary.n_elements:
        facts.append(("of them to be predicted", f"{summary.n_targets:,}"))
    length = summary.lengths
    facts.append(("median length", figure(float(np.median(length)), 0)))
    facts.append(("shortest – longest", f"{length.min():,} – {length.max():,}"))
    if summary.n_items:
        facts.append(("items that occur", f"{summary.items_present:,} of {summary.n_items:,}"))
        facts.append(("groups with repeats", percent(summary.repeating)))
    if summary.unknown:
        facts.append(("unknown items", percent(summary.unknown)))
    if material.model.schema_.families:
        facts.append(("values unobserved", percent(summary.unobserved)))
    return facts


def _text(material: Material, groups: Groups, summary: Summary) -> list[str]:
    text = []
    if groups.ignored is not None and groups.ignored.any():
        left = quantity(int(groups.ignored.sum()), "element")
        text.append(f"{left} of items that the model does not know are left out.")
    schema = material.model.schema_
    if schema.attributes:
        names = listing([f"“{spec.name}”" for spec in schema.attributes[:_MOST_COLUMNS]])
        more = len(schema.attributes) - _MOST_COLUMNS
        text.append(f"Attributes that the model sees: {names}{_and_more(more)}.")
    more = len(schema.values) - _MOST_COLUMNS
    if more > 0:
        text.append(f"Of {len(schema.values)} value columns the first {_MOST_COLUMNS} are shown.")
    return text


def _and_more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def _lengths(summary: Summary) -> Picture:
    drawn = histogram(summary.lengths, label="elements of a group", of="groups")
    return Picture("How long groups are", drawn, f"{quantity(summary.n_groups, 'group')}.")


def _values(material: Material, groups: Groups) -> list[Picture]:
    own = groups.elements()
    if groups.observed is not None:
        own = own[groups.observed[own]]
    pictures = []
    for spec in material.model.schema_.values[:_MOST_COLUMNS]:
        value = np.asarray(groups.values[spec.column][own], dtype=np.float64)
        if not len(value):
            continue
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
    rows = [
        [name, f"{number:,}", percent(part)]
        for name, number, part in zip(
            material.names.all(most), count[most].tolist(), share.tolist(), strict=True
        )
    ]
    return TableData(
        ["item", "elements", "share"],
        rows,
        words=["item"],
        title="Most frequent items",
        shares={"elements": (count[most] / count[most].max(initial=1)).tolist()},
        caption=f"{len(most):,} of the {int((count > 0).sum()):,} items that occur; share of all "
        "elements of known items.",
    )
