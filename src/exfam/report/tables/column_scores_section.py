"""Exact scores of each column, beside baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exfam.plots import interval_rows
from exfam.report.page import Part, Picture, Section, SideBySide, TableData, left_out
from exfam.report.tables.column_section import scored_rows
from exfam.report.tables.table_material import TableMaterial
from exfam.report.tables.table_rivals import MARGINAL, TREES, model_scores, rival_scores
from exfam.report.verdicts import verdict_of, with_error
from exfam.report.words import clean, figure, quantity
from exfam.scores.metrics import Interval, mean_over_groups, paired_bootstrap
from exfam.tables.answers.decisions import ColumnScore

_TITLE = "Scores by column"
_MOST_DRAWN = 20
_MEASURES = {"accuracy": "accuracy", "r2": "R²"}


@dataclass(frozen=True, eq=False)
class TableScores:
    """Scores by column of the model, and of baselines on `compared` rows of the same.

    `behind`: by column and baseline, by how many nats it is behind; `whole`: over all columns
    """

    own: Mapping[str, ColumnScore]
    mine: Mapping[str, ColumnScore]
    rivals: Mapping[str, Mapping[str, ColumnScore]]
    behind: Mapping[str, Mapping[str, Interval]]
    whole: Mapping[str, Interval]


def score_columns(material: TableMaterial) -> TableScores | None:
    """Scores of the model and its baselines; None without data."""
    if material.scored is None:
        return None
    own = model_scores(material, material.scored)
    if material.learn is None:
        return TableScores(own, {}, {}, {}, {})
    cells = material.scored[np.flatnonzero(material.compared)]
    mine, rivals = model_scores(material, cells), rival_scores(material, cells)
    ahead = {
        column: {name: mine[column].nats - score.nats for name, score in theirs.items()}
        for column, theirs in rivals.items()
    }
    behind = {
        column: {
            name: interval
            for name, nats in theirs.items()
            if (interval := _interval([nats], material.seed)) is not None
        }
        for column, theirs in ahead.items()
    }
    whole: dict[str, Interval] = {}
    for name in (MARGINAL, TREES):
        if ahead and all(name in theirs for theirs in ahead.values()):
            interval = _interval([theirs[name] for theirs in ahead.values()], material.seed)
            whole |= {} if interval is None else {name: interval}
    return TableScores(own, mine, rivals, behind, whole)


def _interval(differences: Sequence[np.ndarray], seed: int) -> Interval | None:
    """Of the mean over all cells, when rows are drawn anew; None where it is not finite."""
    nats = np.stack(differences, axis=1)
    there = ~np.isnan(nats)
    if not there.any() or not np.isfinite(nats[there]).all():
        return None
    row = np.broadcast_to(np.arange(len(nats))[:, None], nats.shape)
    return paired_bootstrap(nats[there], row[there], seed=seed, n=1000)


def column_score_section(material: TableMaterial, scores: TableScores | None) -> Section:
    """A row for each column, and a picture of how far the column's own distribution is behind."""
    if scores is None:
        return left_out(_TITLE, "no data were given to score the model on.")
    text = [
        f"Exact log-probability in nats of each cell given the others of its row, of "
        f"{scored_rows(material)}; higher is better. Accuracy is the share of labels that are "
        "predicted, R² of numbers 1 less the squared error over their variance."
    ]
    if scores.rivals:
        text.append(_fairness(material))
    parts: list[Part] = [_table(material, scores)]
    drawn = _drawn(scores)
    if drawn is not None:
        parts.append(drawn)
    return Section(_TITLE, text=text, parts=[SideBySide(parts)] if len(parts) > 1 else parts)  # type: ignore[arg-type]


def _fairness(material: TableMaterial) -> str:
    assert material.learn is not None
    learned, n = quantity(len(material.learn), "row"), int(material.compared.sum())
    on = f"compared on {quantity(n, 'row')}"
    if material.train is not None:
        return f"Baselines were fitted on {learned} given as training data, and are {on}."
    return (
        f"No training data were given: baselines were fitted on {learned} of the data, and are "
        f"{on} of the rest. For a fair comparison give the model's training data as well."
    )


def _table(material: TableMaterial, scores: TableScores) -> TableData:
    """Of a response a row for each model, else one for each column."""
    rivals = [name for name in (MARGINAL, TREES) if any(name in s for s in scores.rivals.values())]
    mine = scores.mine if scores.rivals else scores.own
    caption = verdict_of(scores.whole)
    if MARGINAL in rivals:
        caption += f"“{MARGINAL}”: the column alone, the same for every row. "
    if TREES in rivals:
        caption += f"“{TREES}”: scikit-learn's, of all other columns, 60 trees."
    if material.model.response_ is None:
        return _of_columns(material, mine, scores.rivals, rivals, caption.strip())
    (name,) = material.targets
    entries = {"this model": mine[name], **scores.rivals.get(name, {})}
    ranked = sorted(entries, key=lambda entry: -entries[entry].mean)
    (measure,) = mine[name].measures
    rows = [[entry, _nats(entries[entry]), _measure(entries[entry])] for entry in ranked]
    return TableData(
        ["", "nats", _MEASURES[measure]], rows, words=[""], caption=caption.strip(),
        title=f"“{clean(name, most=40)}”", marked=[ranked.index("this model")],
    )  # fmt: skip


def _of_columns(
    material: TableMaterial,
    mine: Mapping[str, ColumnScore],
    rivals: Mapping[str, Mapping[str, ColumnScore]],
    names: Sequence[str],
    caption: str,
) -> TableData:
    """Nats of the model and by how many the baselines are behind; the model's other measure."""
    rows = []
    for column in material.targets:
        if column not in mine or not mine[column].n:
            continue
        score, theirs = mine[column], rivals.get(column, {})
        cells = [clean(column, most=40), figure(score.mean)]
        cells += [figure(theirs[name].mean) if name in theirs else "–" for name in names]
        rows.append([*cells, _measure(score)])
    heads = ["column", "nats", *names, "accuracy or R²"]
    return TableData(heads, rows, words=["column"], caption=caption, title="Columns, in nats")


def _nats(score: ColumnScore) -> str:
    there = ~np.isnan(score.nats)
    return with_error(mean_over_groups(score.nats[there], np.flatnonzero(there)))


def _measure(score: ColumnScore) -> str:
    return figure(next(iter(score.measures.values()), np.nan))


def _drawn(scores: TableScores) -> Picture | None:
    """By column, how far its own distribution is behind; of a response, all baselines."""
    if len(scores.behind) == 1:
        ((_, behind),) = scores.behind.items()
    else:
        behind = {
            column: theirs[MARGINAL]
            for column, theirs in scores.behind.items()
            if MARGINAL in theirs
        }
    if not behind:
        return None
    order = sorted(behind, key=lambda name: -behind[name].mean)[:_MOST_DRAWN]
    intervals = np.array(
        [[getattr(behind[name], e) for e in ("low", "mean", "high")] for name in order]
    )
    what = "baselines are" if len(scores.behind) == 1 else "each column's own distribution is"
    return Picture(
        f"How far {what} behind",
        interval_rows(
            [clean(name, most=24) for name in order], intervals, metric="nats behind this model"
        ),
        "Mean difference for each cell, with its 95 % interval when rows are drawn anew; left of "
        "zero the baseline is ahead.",
    )
