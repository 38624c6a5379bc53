"""Models of tables: rows of mixed columns."""

from typing import Any

import numpy as np

from exfam.cli.sorts.base import Baseline, Comparison, Figures, PlannedFit, Sort, sizes
from exfam.cli.sorts.table_answers import explain_table, predict_table
from exfam.cli.tables import files
from exfam.cli.tables.scores import cells_of, chosen_columns, score_table
from exfam.estimator.gain import gain_sentences
from exfam.tables.answers.decisions import column_scores, decision_rules
from exfam.tables.answers.distributions import independent_columns
from exfam.tables.data import Cells, TableSchema
from exfam.tables.data.table_files import TableFile
from exfam.tables.estimator.choice import best_recipe
from exfam.tables.estimator.plan import split_rows


def _read(model: Any, chosen: Any, *, file: str) -> tuple[TableFile, str]:
    table = files.read_known_table(model, chosen, file=file)
    return table, f"{file}: {files.describe_table(table)}"


def _plan(estimator: Any, chosen: Any) -> PlannedFit:
    """The table, its response apart."""
    response = getattr(chosen, "response", None)
    train, held_out = files.read_training_tables(estimator, chosen)
    validation = None if held_out is None else files.given_of(held_out, response)
    if response is None and validation is not None:
        (validation,) = validation
    return PlannedFit(
        files.given_of(train, response),
        {"validation": validation, "checkpoint": chosen.checkpoint},
        train,
        held_out,
        (f"{chosen.file}: {files.describe_table(train)}",),
        errors=files.errors_of_files(*(part for part in (train, held_out) if part is not None)),
    )


def _split(model: Any, train: TableFile, held_out: TableFile | None) -> tuple[Cells, Cells, bool]:
    """Those with a cell to predict alone are held out by a fit, and scored."""
    cells = cells_of(model, train)
    if held_out is not None:
        return cells, cells_of(model, held_out), True
    scored = cells.present
    if model.response_ is not None:
        scored = scored[:, [model.schema_.index(model.response_)]]
    rows = np.asarray(scored.any(1))
    kept, held = split_rows(rows, fraction=model.validation_fraction, seed=model.seed)
    if len(held):
        return cells[kept], cells[held], True
    return cells, cells[np.flatnonzero(rows)], False


def _unseen(model: Any, cells: Cells) -> Cells | None:
    overlap = model._seen(cells)
    new = cells if overlap.is_chance else cells[np.flatnonzero(overlap.seen == 0)]
    return new if new.columns(_indices(model)).present.any() else None


def _indices(model: Any) -> list[int]:
    return [model.schema_.index(name) for name in chosen_columns(model)]


def _baselines(model: Any) -> list[Baseline]:
    """The marginal distributions of the columns that the model predicts."""
    indices = _indices(model)

    def fit(train: Cells, validation: Any) -> Any:
        return independent_columns(
            train.columns(indices),
            schema=TableSchema(tuple(model.schema_.columns[index] for index in indices)),
            families=[model.families_[index] for index in indices],
        )

    advice = "the columns say little of each other, or there are too few rows"
    return [Baseline("Marginal", fit, advice)]


def _figures(model: Any, fitted: Any, cells: Cells) -> Figures:
    """Nats of all cells that the model predicts; accuracy or R^2 of its response."""
    network = model.model_ if fitted is model else fitted
    cells = cells if fitted is model else cells.columns(_indices(model))
    scores = column_scores(network, cells, decision_rules(model, chosen_columns(model)))
    nats = float(np.nanmean(np.concatenate([score.nats for score in scores.values()])))
    if model.response_ is None:
        return Figures({"": nats})
    return Figures({"": nats}, scores[model.response_].measures)


def _notes(model: Any, train: TableFile) -> list[str]:
    notes = files.label_notes(model, len(train)) + gain_sentences(model)
    if model.trials_ and model.response_ is not None:
        chosen = best_recipe(model.trials_)
        nats = next(trial.nats for trial in model.trials_ if trial.recipe == chosen)
        notes.append(f"{nats:.6g} nats on training rows that its own trials held out")
    return notes


TABLES = Sort(
    name="tables",
    read=_read,
    facts=lambda model: files.table_facts(model) | (sizes(model) if model.members_ else {}),
    answers={"score": score_table, "predict": predict_table, "explain": explain_table},
    instead={
        "recommend": "Use `exfam predict`, which gives labels and their probabilities.",
    },
    refused={
        "database": "Write what it holds to a file.",
        "memory_limit": "Tables are held in memory.",
        "date_format": "Write dates as 2024-01-31.",
        "groups": "Use --rows.",
        "next": "Rows have no next item.",
    },
    plan=_plan,
    reported=lambda table: table.frame,
    comparison=Comparison(
        units="rows",
        unit=lambda m: "per cell" if m.response_ is None else f"of {m.response_!r}",
        split=_split,
        unseen=_unseen,
        baselines=_baselines,
        figures=_figures,
        read=cells_of,
        notes=_notes,
    ),
)
