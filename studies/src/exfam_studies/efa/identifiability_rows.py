"""Fits of one model and size compared with each other, with the truth and with nulls, as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam.groups import Groups
from exfam_studies.common.fits import Contender, Fit, figure_rows, fit_seeds, fitter, training_of
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits
from exfam_studies.efa.identifiability import (
    Alignment,
    BothWays,
    ItemEmbeddings,
    align,
    context_diversity,
    failed_diversity,
    item_diversity,
    item_embeddings,
    mean_divergence,
    shift_diversity,
    shuffled_contexts,
    shuffled_names,
)

__all__ = ["NULL_SEED", "Case", "comparison_rows"]

# Nulls are drawn with this seed.
NULL_SEED = 7


@dataclass(frozen=True, eq=False)
class Case:
    """Fits of one model to data of one size, and what is known of the truth at the test contexts.

    `size`: what is told of it: groups, or share of the training groups
    """

    task: str
    splits: Splits
    parameters: Mapping[str, Any]
    size: Mapping[str, str | int | float]
    n_configurations: int
    truth: ItemEmbeddings | None = None
    bayes: Mapping[str, float] = field(default_factory=dict)


def comparison_rows(case: Case, options: Options, n_seeds: int) -> list[Row]:
    """Fit `n_seeds` models, compare all pairs."""
    contender = Contender(
        model="efa",
        settings={**case.size, "dims": int(case.parameters.get("embed_dim", 32))},
        fit=fitter(EFA, training_of(case.parameters, options)),
        n_configurations=case.n_configurations,
    )
    fits = fit_seeds(contender, case.splits, seeds=n_seeds)
    tests, validations = (
        [{"nats": -fit.estimator.score(groups)} for fit in fits]
        for groups in (case.splits.test, case.splits.validation)
    )
    told = [_told(fit, case.splits.test) for fit in fits]
    rows = figure_rows(contender, fits, task=case.task, tests=tests, validations=validations)
    rows += [
        Row(task=case.task, model="bayes", settings=case.size, metric=metric, value=value)
        for metric, value in case.bayes.items()
    ]
    rows += _diversity_rows(case, contender, told)
    for against, pairs in _pairs(case, fits, told).items():
        rows += _against_rows(case, contender, against, pairs, len(fits))
    return rows


def _told(fit: Fit, groups: Groups, *, shuffled: bool = False) -> ItemEmbeddings:
    model = fit.estimator.members_[0]
    names = shuffled_names(model.item_part.n_items, seed=NULL_SEED) if shuffled else None
    return item_embeddings(model, groups, names=names)


Pairs = Sequence[tuple[ItemEmbeddings, ItemEmbeddings]]


def _pairs(case: Case, fits: Sequence[Fit], told: Sequence[ItemEmbeddings]) -> dict[str, Pairs]:
    """What is compared with what, by what it is compared against."""
    shuffled = [_told(fit, case.splits.test, shuffled=True) for fit in fits]
    mixed = [shuffled_contexts(each, seed=NULL_SEED) for each in told]
    pairs: dict[str, Pairs] = {
        "seeds": list(combinations(told, 2)),
        "shuffled-items": [(told[i], shuffled[j]) for i, j in combinations(range(len(told)), 2)],
        "shuffled-contexts": [(told[i], mixed[j]) for i, j in combinations(range(len(told)), 2)],
    }
    if case.truth is not None:
        pairs["truth"] = [(case.truth, each) for each in told]
    return pairs


def _against_rows(
    case: Case, contender: Contender, against: str, pairs: Pairs, n_fits: int
) -> list[Row]:
    aligned = [align(*pair) for pair in pairs]
    figures = [_figures(each) for each in aligned]
    for each, pair in zip(figures, pairs, strict=True):
        each["divergence-nats"] = mean_divergence(*pair)
    settings = {**contender.settings, "against": against, "pairs": len(pairs)}
    rows = [
        row_over_seeds(
            Row(
                task=case.task,
                model=contender.model,
                settings=settings,
                metric=metric,
                n_configurations=contender.n_configurations,
            ),
            values=[each[metric] for each in figures],
        )
        for metric in figures[0]
    ]
    # Blown up by single pairs, so that a mean says nothing.
    inverse = Row(
        task=case.task,
        model=contender.model,
        settings=settings,
        metric="alike-centers-inverse-median",
        value=float(np.median([_mean(each.center) for each in aligned])),
    )
    return [replace(row, n_seeds=n_fits) for row in [*rows, inverse]]


def _figures(found: Alignment) -> dict[str, float]:
    """Both ways, and where one has no place before the other, their mean."""
    figures = {
        "alike-context": _mean(found.context),
        "alike-context-forward": found.context.forward,
        "alike-context-backward": found.context.backward,
        "alike-context-cca": float(found.context_correlations.mean()),
        "alike-context-rotation": _mean(found.rotation_context),
        "alike-centers": _mean(found.center_effect),
        "alike-centers-forward": found.center_effect.forward,
        "alike-centers-backward": found.center_effect.backward,
        "alike-centers-cca": float(found.center_correlations.mean()),
        "alike-centers-rotation": _mean(found.rotation_center),
        "alike-centers-coordinates": _mean(found.center_transposed),
    }
    return figures if found.bias is None else {**figures, "alike-bias": _mean(found.bias)}


def _mean(both: BothWays) -> float:
    return (both.forward + both.backward) / 2


def _diversity_rows(case: Case, contender: Contender, told: Sequence[ItemEmbeddings]) -> list[Row]:
    """Ranks and condition numbers of what assumptions 2 and 3 ask for, and which of them fail."""
    failed = [failed_diversity(each) for each in told]
    names = dict.fromkeys(text.split(":")[0] for each in failed for text in each)
    plain = Row(task=case.task, model=contender.model, settings=contender.settings, metric="")
    rows = [
        row_over_seeds(
            replace(
                plain,
                metric="count-assumptions-failed",
                settings={**contender.settings, "failed": "; ".join(names) or "none"},
            ),
            values=[float(len(each)) for each in failed],
        )
    ]
    matrices = {"items": item_diversity, "contexts": context_diversity, "shift": shift_diversity}
    for name, measure in matrices.items():
        each = [measure(one) for one in told]
        figures = {
            f"count-rank-{name}": [float(one.rank) for one in each],
            f"count-rank-needed-{name}": [float(one.needed) for one in each],
            f"condition-{name}": [one.condition for one in each],
        }
        rows += [
            row_over_seeds(replace(plain, metric=metric), values=values)
            for metric, values in figures.items()
            if np.isfinite(values).all()
        ]
    return rows
