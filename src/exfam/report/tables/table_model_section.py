"""What a model of a table is, and how it was fitted."""

from exfam.estimator.gain import gain_sentences
from exfam.report.page import Facts, Part, Section, SideBySide
from exfam.report.sections.model import curve_picture, parameter_table
from exfam.report.tables.table_material import TableMaterial
from exfam.report.words import clean, listing

_MEMBERS = {
    "constant": "the column alone",
    "linear": "linear predictors",
    "products": "products of columns",
    "ridge": "ridge regression",
    "network": "a small network",
    "trees": "boosted trees",
    "trees_masked": "boosted trees that learned with gaps",
}


def table_model_section(material: TableMaterial) -> Section:
    """Choices, members that predictions are pooled from, and the learning curve if there is one."""
    model = material.model
    text = [_what(material), *gain_sentences(model)]
    table, curve = parameter_table(model), curve_picture(model)
    if not table.rows:
        text.append("All parameters have their default values.")
    inside = ([table] if table.rows else []) + ([] if curve is None else [curve])
    parts: list[Part] = [Facts(_facts(material))]
    return Section("The model", text=text, parts=[*parts, SideBySide(inside)] if inside else parts)


def _what(material: TableMaterial) -> str:
    model = material.model
    if model.base_ is None:
        return "Attention over the cells of a row, without a base."
    names = list(
        dict.fromkeys(name for own in model.base_.columns.values() for name in own.members)
    )
    pooled = listing([_MEMBERS.get(name, name.replace("_", " ")) for name in names])
    return f"Each column is predicted from the others by a pool of {pooled}."


def _facts(material: TableMaterial) -> list[tuple[str, str]]:
    model = material.model
    facts = [("columns", f"{len(material.inputs):,}")]
    if model.response_ is not None:
        column = material.schema.column(model.response_)
        facts.append(("response", clean(model.response_, most=30)))
        if column.labels is not None:
            facts.append(("labels", f"{len(column.labels):,}"))
        else:
            facts.append(("family", model.families_[material.schema.index(column.name)].name))
    return facts
