"""Models of fields: values at sites and times."""

from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.errors import reworded
from exfam.cli.output import beside
from exfam.cli.sorts.base import Answer, Baseline, Comparison, Figures, PlannedFit, Sort, sizes
from exfam.cli.sorts.field_answers import explain_field
from exfam.cli.sorts.groups import estimator_baseline, mean_parts
from exfam.cli.sources import FileRows, chosen_dialect
from exfam.columns.parts import Part
from exfam.families import family_to_config
from exfam.fields import FieldClimatology, FieldKriging
from exfam.fields.data import read_field_with_facts
from exfam.fields.inputs import REQUIRED, field_columns
from exfam.fields.networks.links import counts
from exfam.fields.plan import plan_field_fit
from exfam.groups import Groups
from exfam.reading.database import ReadingOptions
from exfam.reading.reader import open_columns

_SHARED = ("time", "site", "coordinates", "value", "metric", "missing", "standardize", "period")


def _read(model: Any, chosen: Any, *, file: str) -> tuple[Groups, str]:
    """The field in a file with a model's columns, and what it holds and lacks.

    Sites of a fitted model keep their codes. Raises ExfamError for a column that is not named,
    DataError for a file that holds no field.
    """
    columns = _columns(model, file)
    columns["dialect"] = chosen_dialect(model.dialect, chosen)
    sites = model.vocabulary_["item"] if hasattr(model, "vocabulary_") else None
    with reworded({"`data`": "`FILE`"}):
        groups, facts = read_field_with_facts(file, **columns, sites=sites)
    return groups, f"{file}: {'; '.join(str(facts).splitlines())}"


def _columns(model: Any, file: str) -> dict[str, Any]:
    columns = field_columns(model)
    for name in REQUIRED:
        if columns[name] is None:
            raise ExfamError(f"`--{name}` must name a column to read {file}, got none.")
    return columns


def _plan(estimator: Any, chosen: Any) -> PlannedFit:
    """Scores are of the maps that a fit holds out, the last ones unless others are given."""
    groups, description = _read(estimator, chosen, file=chosen.file)
    validation = None
    if chosen.validation is not None:
        validation, _ = _read(estimator, chosen, file=chosen.validation)
    plan = plan_field_fit(estimator, groups, validation=validation, checkpoint=None)
    options = {"validation": validation, "checkpoint": chosen.checkpoint}
    return PlannedFit((groups,), options, plan.train, plan.validation, (description,))


def _facts(model: Any) -> dict[str, Any]:
    shape = model.shape_
    return {
        "value": shape.column,
        "sites": shape.n_sites,
        "coordinates": shape.n_dims,
        "metric": shape.metric,
        "lags": shape.lags,
        "step": shape.step,
        "family": family_to_config(model.family_),
        **sizes(model),
    }


def _score(model: Any, groups: Groups, chosen: Any) -> Answer:
    """Nats and CRPS of every row, or their means over observed values."""
    (values,) = groups.values.values()
    value = values[groups.elements()].astype(np.float64)
    if np.isnan(value).all():
        raise ExfamError("`FILE` must hold at least one observed value to score, got none.")
    prediction = model.predict_dist(groups)
    scores = {"nats": prediction.log_prob(value), "crps": prediction.crps(value)}
    if chosen.per_row:
        return _beside_rows(model, groups, chosen, scores), []
    means = {name: [float(np.nanmean(score))] for name, score in scores.items()}
    n = int((~np.isnan(value)).sum())
    return {"part": [model.shape_.column], "targets": [n]} | means, []


def _predict(model: Any, groups: Groups, chosen: Any) -> Answer:
    """Means and standard deviations of every row, and the interval or quantiles chosen."""
    prediction, column = model.predict_dist(groups), model.shape_.column
    columns = {"mean": prediction.mean, "sd": prediction.sd}
    if chosen.interval is not None:
        columns["low"], columns["high"] = prediction.interval(chosen.interval)
    for p in chosen.quantiles or ():
        columns[f"q{p:g}"] = prediction.quantile(p)
    named = {f"{column}_{what}": values for what, values in columns.items()}
    return _beside_rows(model, groups, chosen, named), []


def _beside_rows(
    model: Any, groups: Groups, chosen: Any, columns: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Numbers of own elements, beside the file's rows of times, sites and values."""
    columns_of_file = _columns(model, chosen.file)
    names = {name: columns_of_file[name] for name in ("time", "site", "value")}
    parts = {name: Part(name, column) for name, column in names.items()}
    sites = {names["site"]: model.vocabulary_["item"]}
    options = ReadingOptions(dialect=chosen_dialect(model.dialect, chosen))
    opened = open_columns(chosen.file, list(parts.values()), vocabulary=sites, options=options)
    held = {names[name]: opened.arrays[part] for name, part in parts.items()}
    assert groups.source_row is not None
    source_row = groups.source_row[groups.elements()]
    rows = FileRows({"row": np.arange(opened.n_rows)} | held, opened.n_rows, source_row)
    return beside(rows.columns, {name: rows.spread(part) for name, part in columns.items()})


def _figures(model: Any, fitted: Any, groups: Groups) -> Figures:
    return Figures(mean_parts({fitted.shape_.column: fitted.log_prob(groups)})[0])


def _baselines(model: Any) -> list[Baseline]:
    """Those that are cheap at any size; none of counts, since theirs are not whole numbers."""
    if counts(model.family_):
        return []
    shared = {name: getattr(model, name) for name in _SHARED}
    return [
        estimator_baseline(type(baseline).__name__, baseline, model=baseline.kind)
        for baseline in (FieldClimatology(**shared), FieldKriging(**shared))
        if type(baseline) is not type(model)
    ]


FIELDS = Sort(
    name="fields",
    read=_read,
    facts=_facts,
    answers={"score": _score, "predict": _predict, "explain": explain_field},
    instead={
        "recommend": "Use `exfam predict`, which gives means and intervals of values.",
    },
    refused={
        "database": "Write what it holds to a file.",
        "memory_limit": "Maps are held in memory.",
        "unknown": "A site that training never saw is predicted by its coordinates.",
        "proba": "Use --interval or --quantiles.",
        "fill": "Rows without a value are predicted in any case.",
        "of": "A field has one column of values.",
        "next": "A field has no next item.",
        "rows": "Use --groups, which names times.",
    },
    plan=_plan,
    comparison=Comparison("maps", _baselines, _figures),
)
