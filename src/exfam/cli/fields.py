"""Models of fields on the command line: reading maps, scores, predictions, what a model holds."""

from typing import Any

import numpy as np

from exfam.checks import DataError, ExfamError
from exfam.columns.parts import Part
from exfam.estimator.registry import REGISTRY
from exfam.fields.data import FieldFacts, read_field_with_facts
from exfam.fields.inputs import REQUIRED, field_columns
from exfam.groups import Groups
from exfam.reading.columns import open_columns

__all__ = [
    "check_group_model",
    "describe_field",
    "field_predictions",
    "field_rows",
    "field_scores",
    "fitted_field",
    "is_field",
    "read_maps",
]

# Options that files of fields are read without, and what to do instead.
_NOT_OF_FIELDS = {
    "database": "Write what it holds to a file.",
    "memory_limit": "Maps are held in memory.",
    "unknown": "A site that training never saw is predicted by its place.",
}


def is_field(model: Any) -> bool:
    """Whether an estimator is of fields: of values at places and times.

    >>> from exfam import FieldKriging, Marginal
    >>> is_field(FieldKriging()), is_field(Marginal())
    (True, False)
    """
    return REGISTRY[model.kind].reads == "fields"


def check_group_model(model: Any, *, fields: str = "", tables: str = "") -> None:
    """Raise ExfamError for a model of fields, tables, words or sentences, saying what to use.

    `fields`, `tables`: what to use; empty where such a model is as good (default "")

    >>> from exfam import Marginal
    >>> check_group_model(Marginal(), fields="Use `exfam predict`.")
    """
    remedies = {
        "groups": "",
        "fields": fields,
        "tables": tables,
        "text": "Use `exfam score`, `exfam neighbors` or `exfam evaluate words`.",
        "sentences": "Use its `predict` in Python: exfam.load(MODEL).",
    }
    reads = REGISTRY[model.kind].reads
    if remedies[reads]:
        sort, name = "words" if reads == "text" else reads, type(model).__name__
        raise ExfamError(f"`MODEL` must be of groups, not of {sort}, got {name}. {remedies[reads]}")


def read_maps(model: Any, chosen: Any, *, file: str) -> tuple[Groups, FieldFacts]:
    """The field in a file with a model's columns, and what it holds and lacks.

    Sites of a fitted model keep their codes. Raises ExfamError for a column that is not named and
    for options that are not of fields, DataError for a file that holds no field.
    """
    for name, advice in _NOT_OF_FIELDS.items():
        if (given := getattr(chosen, name, None)) is not None:
            raise ExfamError(
                f"`--{name.replace('_', '-')}` must be left out for a model of fields, got "
                f"{given!r}. {advice}"
            )
    columns = _columns(model, file)
    if chosen.date_format is not None:
        columns["date_format"] = chosen.date_format
    known = model.vocabulary_["item"] if hasattr(model, "vocabulary_") else None
    try:
        return read_field_with_facts(file, **columns, sites=known)
    except DataError as error:
        raise DataError(str(error).replace("`data`", "`FILE`")) from error


def _columns(model: Any, file: str) -> dict[str, Any]:
    columns = field_columns(model)
    for name in REQUIRED:
        if columns[name] is None:
            raise ExfamError(f"`--{name}` must name a column to read {file}, got none.")
    return columns


def describe_field(facts: FieldFacts) -> str:
    """What a field holds and lacks, in one line.

    >>> describe_field(FieldFacts(n_rows=5, n_times=3, n_sites=2, n_observed=4, n_missing=1))
    '3 times x 2 sites: 5 rows, 0 absent; 4 values observed, 1 missing'
    """
    return "; ".join(str(facts).splitlines())


def field_rows(model: Any, file: str) -> dict[str, Any]:
    """The rows of a file: their numbers, and its columns of times, sites and values."""
    columns = _columns(model, file)
    names = {name: columns[name] for name in ("time", "site", "value")}
    parts = {name: Part(name, column) for name, column in names.items()}
    known = {names["site"]: model.vocabulary_["item"]}
    opened = open_columns(file, list(parts.values()), vocabulary=known)
    arrays = {names[name]: opened.arrays[part] for name, part in parts.items()}
    return {"row": np.arange(opened.n_rows)} | arrays


def _spread(groups: Groups, numbers: np.ndarray) -> np.ndarray:
    """Numbers of own elements by the file's rows."""
    assert groups.source_row is not None
    out = np.empty(len(numbers))
    out[groups.source_row[groups.elements()]] = numbers
    return out


def field_scores(model: Any, groups: Groups, *, per_row: bool) -> dict[str, Any]:
    """Nats and CRPS of every row, or their means over observed values.

    Raises ExfamError if no value is observed.
    """
    (values,) = groups.values.values()
    value = values[groups.elements()].astype(np.float64)
    if np.isnan(value).all():
        raise ExfamError("`FILE` must hold at least one observed value to score, got none.")
    prediction = model.predict_dist(groups)
    scores = {"nats": prediction.log_prob(value), "crps": prediction.crps(value)}
    if per_row:
        return {name: _spread(groups, score) for name, score in scores.items()}
    means = {name: [float(np.nanmean(score))] for name, score in scores.items()}
    n = int((~np.isnan(value)).sum())
    return {"part": [model.shape_.column], "targets": [n]} | means


def field_predictions(model: Any, groups: Groups, chosen: Any) -> dict[str, np.ndarray]:
    """Means and standard deviations of every row, and what else was chosen."""
    prediction, value = model.predict_dist(groups), model.shape_.column
    numbers: dict[str, np.ndarray] = {"mean": prediction.mean, "sd": prediction.sd}
    if chosen.interval is not None:
        numbers["low"], numbers["high"] = prediction.interval(chosen.interval)
    for p in chosen.quantiles or ():
        numbers[f"q{p:g}"] = prediction.quantile(p)
    return {f"{value}_{name}": _spread(groups, some) for name, some in numbers.items()}


def fitted_field(model: Any) -> dict[str, Any]:
    """What a fitted model of a field was fitted to, as plain values."""
    from exfam.families import family_to_config

    shape = model.shape_
    return {
        "value": shape.column,
        "sites": shape.n_sites,
        "coordinates": shape.n_dims,
        "metric": shape.metric,
        "lags": shape.lags,
        "step": shape.step,
        "family": family_to_config(model.family_),
    }
