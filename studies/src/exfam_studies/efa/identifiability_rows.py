"""Fits of one model and size compared with each other, with the truth and with nulls, as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam_studies.common.fits import (
    Contender,
    Fit,
    figure_rows,
    fit_seeds,
    fitter,
    training_of,
)
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

# Nulls are drawn with this seed.
NULL_SEED = 7

Pairs = Sequence[tuple[ItemEmbeddings, ItemEmbeddings]]


@dataclass(frozen=True, eq=False)
class Case:
    """Fits of one model to data of one size, and what is known of the truth at the test contexts.

    `size`: what rows say of it: groups, or share of the training groups
    """

    task: str
    splits: Splits
    parameters: Mapping[str, Any]
    size: Mapping[str, str | int | float]
    n_configurations: int
    truth: ItemEmbeddings | None = None
    bayes: Mapping[str, float] = field(default_factory=dict)


def fitted_with_nats(
    contender: Contender, splits: Splits, *, task: str, n_seeds: int
) -> tuple[list[Fit], list[Row]]:
    """Fits of all seeds, and the rows of their nats."""
    fits = fit_seeds(contender, splits, seeds=n_seeds)
    tests, validations = (
        [{"nats": -fit.estimator.score(groups)} for fit in fits]
        for groups in (splits.test, splits.validation)
    )
    return fits, figure_rows(contender, fits, task=task, tests=tests, validations=validations)


def comparison_rows(case: Case, options: Options, n_seeds: int) -> list[Row]:
    """Fit `n_seeds` models, compare all pairs."""
    contender = Contender(
        model="efa",
        settings={**case.size, "dims": int(case.parameters.get("embed_dim", 32))},
        fit=fitter(EFA, training_of(case.parameters, options)),
        n_configurations=case.n_configurations,
    )
    fits, rows = fitted_with_nats(contender, case.splits, task=case.task, n_seeds=n_seeds)
    embeddings = [_embeddings(fit, case) for fit in fits]
    rows += [
        Row(task=case.task, model="bayes", settings=case.size, metric=metric, value=value)
        for metric, value in case.bayes.items()
    ]
    row = Row(task=case.task, model="efa", settings=contender.settings, metric="")
    rows += _diversity_rows(row, embeddings)
    for against, pairs in _pairs(case, fits, embeddings).items():
        settings = {**contender.settings, "against": against, "pairs": len(pairs)}
        own = _pair_rows(replace(row, settings=settings), pairs, case.n_configurations)
        rows += [replace(each, n_seeds=len(fits)) for each in own]
    return rows


def _embeddings(fit: Fit, case: Case, *, shuffled: bool = False) -> ItemEmbeddings:
    model = fit.estimator.members_[0]
    names = shuffled_names(model.item_part.n_items, seed=NULL_SEED) if shuffled else None
    return item_embeddings(model, case.splits.test, names=names)


def _pairs(
    case: Case, fits: Sequence[Fit], embeddings: Sequence[ItemEmbeddings]
) -> dict[str, Pairs]:
    """What is compared with what, by what it is compared against."""
    others = {
        "seeds": embeddings,
        "shuffled-items": [_embeddings(fit, case, shuffled=True) for fit in fits],
        "shuffled-contexts": [shuffled_contexts(fit, seed=NULL_SEED) for fit in embeddings],
    }
    pairs: dict[str, Pairs] = {
        against: [(embeddings[i], other[j]) for i, j in combinations(range(len(other)), 2)]
        for against, other in others.items()
    }
    if case.truth is not None:
        pairs["truth"] = [(case.truth, fit) for fit in embeddings]
    return pairs


def _pair_rows(row: Row, pairs: Pairs, n_configurations: int) -> list[Row]:
    aligned = [align(*pair) for pair in pairs]
    figures = [
        {**_figures(found), "divergence-nats": mean_divergence(*pair)}
        for found, pair in zip(aligned, pairs, strict=True)
    ]
    rows = [
        row_over_seeds(
            replace(row, metric=metric, n_configurations=n_configurations),
            values=[of_pair[metric] for of_pair in figures],
        )
        for metric in figures[0]
    ]
    # Blown up by single pairs, so that a mean says nothing.
    median = float(np.median([_mean(found.center) for found in aligned]))
    return [*rows, replace(row, metric="alike-centers-inverse-median", value=median)]


def _figures(found: Alignment) -> dict[str, float]:
    """Both ways, and their mean where neither has precedence."""
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


def _diversity_rows(row: Row, embeddings: Sequence[ItemEmbeddings]) -> list[Row]:
    """Ranks and condition numbers of what assumptions 2 and 3 need, and which of them fail."""
    failed = [failed_diversity(fit) for fit in embeddings]
    names = dict.fromkeys(text.split(":")[0] for texts in failed for text in texts)
    settings = {**row.settings, "failed": "; ".join(names) or "none"}
    rows = [
        row_over_seeds(
            replace(row, metric="count-assumptions-failed", settings=settings),
            values=[float(len(texts)) for texts in failed],
        )
    ]
    matrices = {"items": item_diversity, "contexts": context_diversity, "shift": shift_diversity}
    for name, measure in matrices.items():
        found = [measure(fit) for fit in embeddings]
        figures = {
            f"count-rank-{name}": [float(matrix.rank) for matrix in found],
            f"count-rank-needed-{name}": [float(matrix.needed) for matrix in found],
            f"condition-{name}": [matrix.condition for matrix in found],
        }
        rows += [
            row_over_seeds(replace(row, metric=metric), values=values)
            for metric, values in figures.items()
            if np.isfinite(values).all()
        ]
    return rows
