"""Rows of coded tables: means over data sets or seeds, the paper's figures, paired differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.experts.table_models import TableContender
from exfam_studies.experts.table_paper import PAPER, paper_figures
from exfam_studies.experts.table_rules import RULES
from exfam_studies.experts.table_store import Result

__all__ = ["model_rows", "not_installed", "paired_rows", "paper_rows"]

RULED = ("accuracy", "mse")
# What the paper's figures are of.
PAPER_RULE, PAPER_BINS = "argmax", "pooled"


def model_rows(
    results: Sequence[Result], contender: TableContender, *, task: str, bins: str
) -> list[Row]:
    """Accuracy and squared error of both rules, and nats, of one model over its data sets."""
    model = results[0].key.model
    rows = [
        _row(
            results,
            f"{metric}-{rule}",
            Row(
                task=task,
                model=model,
                settings={"bins": bins, "rule": rule},
                metric=metric,
                n_configurations=contender.n_configurations,
                paper=_paper(task, model, metric, rule=rule, bins=bins),
            ),
            chance=contender.chance,
        )
        for rule in RULES
        for metric in RULED
    ]
    nats = Row(
        task=task,
        model=model,
        settings={"bins": bins},
        metric="nats",
        n_configurations=contender.n_configurations,
    )
    if any(result.figures["nats"] is None for result in results):
        mixed = np.mean([_figure(result, "nats-mixed") for result in results])
        # A row cannot hold infinity.
        told = f"infinite: no chance for what happened; {mixed:.3f} with 0.1 % uniform mixed in"
        return [*rows, replace(nats, note=told)]
    return [*rows, _row(results, "nats", nats, chance=contender.chance)]


def _row(results: Sequence[Result], figure: str, row: Row, *, chance: bool) -> Row:
    whole = row_over_seeds(
        row,
        values=[_figure(result, figure) for result in results],
        cpu_seconds=[result.cpu_seconds for result in results],
    )
    if whole.sd is None:
        return whole if chance else replace(whole, n_seeds=None)
    return replace(whole, note=f"standard error {whole.sd / math.sqrt(len(results)):.4f}")


def _figure(result: Result, name: str) -> float:
    figure = result.figures[name]
    assert figure is not None
    return figure


def _paper(task: str, model: str, metric: str, *, rule: str, bins: str) -> float | None:
    if (rule, bins) != (PAPER_RULE, PAPER_BINS):
        return None
    return paper_figures(task, model).get(metric)


def not_installed(model: str, *, task: str, bins: str) -> list[Row]:
    """What the table says of a model whose package is not there."""
    return [
        Row(
            task=task,
            model=model,
            settings={"bins": bins},
            metric="accuracy",
            note="not installed",
        )
    ]


def paper_rows(task: str, *, known: Sequence[str]) -> list[Row]:
    """The figures that the paper prints for models that none of the `known` ones is."""
    return [
        Row(
            task=task,
            model=model,
            settings={"bins": PAPER_BINS, "rule": PAPER_RULE},
            metric=metric,
            paper=figure,
            note="the paper's own figure",
        )
        for model in PAPER[task]
        if model not in known
        for metric, figure in paper_figures(task, model).items()
    ]


def paired_rows(
    results: Mapping[str, Sequence[Result]], *, ours: str, task: str, bins: str
) -> list[Row]:
    """Of each other model, how much `ours` differs on the data sets both were fitted on.

    `results`: by model

    Metrics "minus-accuracy" and "minus-mse" of the rule "mean" are ours less theirs: means over
    data sets with their sd, and in words how many standard errors from 0.
    """
    own = {result.key.number: result for result in results.get(ours, ())}
    rows = []
    for model, theirs in results.items():
        shared = [result for result in theirs if result.key.number in own]
        if model == ours or not shared:
            continue
        for metric in RULED:
            figure = f"{metric}-mean"
            apart = [_figure(own[r.key.number], figure) - _figure(r, figure) for r in shared]
            row = Row(
                task=task,
                model=ours,
                settings={"bins": bins, "rule": "mean", "against": model},
                metric=f"minus-{metric}",
            )
            rows.append(_with_errors(row_over_seeds(row, values=apart)))
    return rows


def _with_errors(row: Row) -> Row:
    assert row.value is not None and row.n_seeds is not None
    if not row.sd:
        return row
    errors = row.value / (row.sd / math.sqrt(row.n_seeds))
    return replace(row, note=f"{errors:+.1f} standard errors")
