"""Cheap baselines of columns for a report: their own distribution, and boosted trees."""

from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from exfam.report.tables.table_material import TableMaterial
from exfam.tables.answers.decisions import ColumnScore, column_scores, decision_rules
from exfam.tables.answers.distributions import independent_columns
from exfam.tables.data import LABEL_KINDS, Cells, Column, TableSchema

MARGINAL, TREES = "own distribution", "boosted trees"
# Columns that trees are fitted to, and labels that they can tell apart in a report's time.
_MOST_FITTED, _MOST_LABELS, _MOST_CATEGORIES = 8, 20, 255
_FEWEST_ROWS = 40
_HELD_OUT = 5


@dataclass(frozen=True, eq=False)
class ColumnResult:
    """A column's scores by model, on the same rows: "nats" and, of each model, one measure."""

    column: Column
    scores: dict[str, ColumnScore]


def model_scores(material: TableMaterial, cells: Cells) -> dict[str, ColumnScore]:
    """Scores of the model's own predictions."""
    model = material.model
    return column_scores(model.model_, cells, decision_rules(model, list(material.targets)))


def rival_scores(material: TableMaterial, cells: Cells) -> dict[str, dict[str, ColumnScore]]:
    """By column, scores of baselines that were fitted on `material.learn`."""
    learn, model, schema = material.learn, material.model, material.schema
    assert learn is not None
    names = [name for name in material.targets if learn.present[:, schema.index(name)].any()]
    indices = [schema.index(name) for name in names]
    own = independent_columns(
        learn.columns(indices),
        schema=TableSchema(tuple(schema.columns[k] for k in indices)),
        families=[model.families_[k] for k in indices],
    )
    plain = column_scores(own, cells.columns(indices), decision_rules(model, names))
    results = {name: {MARGINAL: plain[name]} for name in names}
    for name in names[:_MOST_FITTED]:
        score = _trees(schema, learn, cells, name, seed=material.seed)
        if score is not None:
            results[name][TREES] = score
    return results


def _trees(
    schema: TableSchema, learn: Cells, cells: Cells, name: str, *, seed: int
) -> ColumnScore | None:
    """Boosted trees of all other columns; None where there is too little to fit them to."""
    target, column = schema.index(name), schema.column(name)
    others = [k for k in range(len(schema)) if k != target and learn.present[:, k].any()]
    rows = learn[np.flatnonzero(learn.present[:, target])]
    labels = np.unique(rows.value[:, target])
    few = len(rows) < _FEWEST_ROWS or not others or len(labels) < 2
    if few or (column.kind in LABEL_KINDS and len(labels) > _MOST_LABELS):
        return None
    categorical = [
        schema.columns[k].kind in ("categorical", "boolean")
        and schema.columns[k].n_tokens <= _MOST_CATEGORIES
        for k in others
    ]
    options = {"categorical_features": categorical, "random_state": seed, "max_iter": 60}
    X, new, truth = rows.value[:, others], cells.value[:, others], cells.value[:, target]
    if column.kind in LABEL_KINDS:
        trees = HistGradientBoostingClassifier(**options).fit(X, rows.value[:, target])
        return _label_score(trees.predict_proba(new), trees.classes_, truth)
    return _number_score(X, rows.value[:, target], new, truth, options)


def _label_score(
    probability: Float[np.ndarray, "rows classes"], classes: np.ndarray, truth: np.ndarray
) -> ColumnScore:
    there = ~np.isnan(truth)
    hit = classes[None] == truth[:, None]
    given = np.where(hit.any(1), (probability * hit).sum(1), 0.0)
    with np.errstate(divide="ignore"):
        nats = np.where(there, np.log(given), np.nan)
    right = classes[probability.argmax(1)] == truth
    return ColumnScore(nats, {"accuracy": float(right[there].mean()) if there.any() else np.nan})


def _number_score(
    X: np.ndarray, y: np.ndarray, new: np.ndarray, truth: np.ndarray, options: dict[str, object]
) -> ColumnScore:
    """A Student's t with four degrees of freedom around predictions, as wide as rows held out."""
    held = np.arange(len(y)) % _HELD_OUT == 0
    spread = max(float(y.std()), np.finfo(np.float64).tiny)
    y = y / spread
    first = HistGradientBoostingRegressor(**options).fit(X[~held], y[~held])
    residual = np.abs(y[held] - first.predict(X[held]))
    scale = max(float(np.median(residual)) / 0.741, 1e-6)
    center = HistGradientBoostingRegressor(**options).fit(X, y).predict(new)
    nats = scipy.stats.t.logpdf(truth / spread, 4.0, center, scale) - np.log(spread)
    there = ~np.isnan(truth)
    error = np.square(truth / spread - center)[there].sum()
    total = np.square((truth - truth[there].mean()) / spread)[there].sum() if there.any() else 0.0
    return ColumnScore(nats, {"r2": float(1 - error / total) if total else np.nan})
