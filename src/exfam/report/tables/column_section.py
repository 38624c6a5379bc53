"""The columns of a table: kinds, what is missing, what is usual."""

import numpy as np

from exfam.report.page import Facts, Section, TableData, left_out
from exfam.report.tables.table_material import TableMaterial
from exfam.report.words import clean, figure, percent, quantity
from exfam.tables.data import Cells, Column

_TITLE = "Columns"
_MOST_SHOWN, _MOST_LABELS = 60, 3
# Numbers that say the same of each other, and columns that are compared.
_DUPLICATE, _MOST_COMPARED, _FEWEST_PAIRS = 0.995, 60, 20


def column_section(material: TableMaterial) -> Section:
    """One row for each column."""
    cells, schema = material.data, material.schema
    if cells is None:
        return left_out(_TITLE, "no data were given.")
    columns = [column for column in schema.columns if column.part_of is None]
    missing = 1 - cells.present.mean(axis=0)
    rows = [
        [
            clean(column.name, most=40),
            column.kind,
            percent(missing[schema.index(column.name)]),
            _usual(column, cells.value[:, schema.index(column.name)]),
        ]
        for column in columns[:_MOST_SHOWN]
    ]
    own = [schema.index(column.name) for column in columns]
    facts = [
        ("rows", f"{len(cells):,}"),
        ("columns", f"{len(columns):,}"),
        ("missing cells", percent(float(missing[own].mean()))),
        ("rows without a gap", percent(float(cells.present[:, own].all(1).mean()))),
    ]
    text = []
    if len(columns) > _MOST_SHOWN:
        text.append(f"Of {len(columns)} columns the first {_MOST_SHOWN} are listed.")
    shares = [float(missing[schema.index(column.name)]) for column in columns[:_MOST_SHOWN]]
    table = TableData(
        ["column", "kind", "missing", "usual"],
        rows,
        words=["column", "kind", "usual"],
        shares={"missing": shares},
        caption="Usual: of numbers the median and where 80 % of them lie, of labels the most "
        "frequent ones.",
    )
    return Section(_TITLE, text=text, parts=[Facts(facts), table])


def _usual(column: Column, value: np.ndarray) -> str:
    there = value[~np.isnan(value)]
    if not len(there):
        return "–"
    if column.kind == "date":
        first, last = there.astype("datetime64[D]").min(), there.astype("datetime64[D]").max()
        return f"{first} to {last}"
    if column.labels is None:
        low, middle, high = np.quantile(there, [0.1, 0.5, 0.9])
        return f"{short(middle)} ({short(low)} to {short(high)})"
    count = np.bincount(there.astype(np.int64), minlength=len(column.labels))
    most = np.argsort(-count, kind="stable")[:_MOST_LABELS]
    named = [
        f"{clean(column.labels[k], most=24)} {percent(count[k] / len(there), 0)}"
        for k in most
        if count[k]
    ]
    further = int((count > 0).sum()) - len(named)
    return ", ".join(named) + (f" and {further:,} more" if further > 0 else "")


def short(number: float) -> str:
    """Four figures, whatever the size."""
    size = abs(float(number))
    if size and not 1e-3 <= size < 1e7:
        return f"{number:.3g}".replace("-", "\N{MINUS SIGN}")
    digits = 0 if size >= 1000 or number == round(number) else 3 - int(np.floor(np.log10(size)))
    return figure(number, max(0, min(digits, 6)))


def duplicates_in(material: TableMaterial) -> list[tuple[str, str]]:
    """Pairs of columns that say the same: one may give the other away."""
    cells = material.data
    if cells is None:
        return []
    columns = [
        column
        for column in material.schema.columns[:_MOST_COMPARED]
        if column.part_of is None and column.kind != "date"
    ]
    pairs = []
    for k, first in enumerate(columns):
        for second in columns[k + 1 :]:
            if _says_the_same(material, cells, first, second):
                pairs.append((clean(first.name, most=30), clean(second.name, most=30)))
    return pairs


def _says_the_same(material: TableMaterial, cells: Cells, first: Column, second: Column) -> bool:
    if (first.labels is None) != (second.labels is None):
        return False
    a, b = (cells.value[:, material.schema.index(column.name)] for column in (first, second))
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < _FEWEST_PAIRS or len(np.unique(a)) < 2 or len(np.unique(b)) < 2:
        return False
    if first.labels is None:
        return bool(abs(np.corrcoef(a, b)[0, 1]) > _DUPLICATE)
    # Labels that determine each other, both ways.
    _, counts = np.unique(np.stack([a, b]), axis=1, return_counts=True)
    n_pairs = len(counts)
    return n_pairs == len(np.unique(a)) == len(np.unique(b))


def scored_rows(material: TableMaterial) -> str:
    """What is scored, in words."""
    assert material.scored is not None and material.data is not None
    n, everything = len(material.scored), len(material.data)
    whole = quantity(everything, "row")
    return f"all {whole}" if n == everything else f"{n:,} of {whole}, drawn at random"
