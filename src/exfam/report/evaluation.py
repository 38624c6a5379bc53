"""What a model and its rivals say of the scored groups, element by element."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.recommenders import LinearRecommender
from exfam.estimator.evaluate import item_probabilities, item_ranks, value_parameters
from exfam.families.mixtures import Mixture
from exfam.groups import TARGET, Groups
from exfam.report.rivals import Rival, same_columns
from exfam.scores.calibration import Reliability, TopItem, reliability, top_item
from exfam.scores.metrics import ranks

Numbers = Float[np.ndarray, "rows"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One entry per own element of the groups; NaN where there is nothing to predict.

    `nats`: log-probabilities of "item" and of each value column. `rank`: of the element's item
    among all. `mean`: predicted, of each value column; medians of families without a mean.
    """

    nats: Mapping[str, Numbers]
    rank: Numbers | None
    mean: Mapping[str, Numbers]
    reliability: Reliability | None = None
    top: TopItem | None = None


@dataclass(frozen=True, eq=False)
class ValuePredictions:
    """Observed values of a column's targets, their rows, and their predicted distributions."""

    rows: Int64[np.ndarray, "values"]
    value: Float[torch.Tensor, "values"]
    distribution: Mixture


def evaluate(model: GroupEstimator, groups: Groups, *, calibration: bool = False) -> Evaluation:
    """What the model says of compact groups; `calibration` of items on request."""
    nats = model.log_prob_parts(groups)
    rank, reliable, top = None, None, None
    if model.members_[0].item_part is not None:
        rank, reliable, top = _evaluate_items(model, groups, calibration)
    mean = {}
    for column, part in value_predictions(model, groups).items():
        mean[column] = np.full(groups.n_elements, np.nan)
        mean[column][part.rows] = part.distribution.center().double().numpy()
    return Evaluation(nats, rank, mean, reliable, top)


def _evaluate_items(
    model: GroupEstimator, groups: Groups, calibration: bool
) -> tuple[Numbers, Reliability | None, TopItem | None]:
    assert groups.item is not None
    if not calibration:
        return item_ranks(model.members_, groups)[: groups.n_elements], None, None
    rank = np.full(groups.n_elements, np.nan)
    bins, tops = [], []
    for rows, probability in item_probabilities(model.members_, groups):
        item = groups.item[rows].astype(np.int64)
        rank[rows] = ranks(probability, item)
        known = item >= 0
        if known.any():
            bins.append(reliability(probability[known], item[known]))
            tops.append(top_item(probability[known], item[known]))
    if not bins:
        return rank, None, None
    confidence = np.concatenate([top.confidence for top in tops])
    correct = np.concatenate([top.correct for top in tops])
    return rank, sum(bins[1:], bins[0]), TopItem(confidence, correct)


def value_predictions(model: GroupEstimator, groups: Groups) -> dict[str, ValuePredictions]:
    """The predicted distributions of all observed values that are targets, by column."""
    if model.members_[0].value_part is None:
        return {}
    out = {}
    targets = np.flatnonzero(_targets(groups))
    for column, eta in value_parameters(model.members_, groups).items():
        family = model.members_[0].families[column]
        rows = targets[groups.has_value(column, targets)]
        item = None if groups.item is None else torch.from_numpy(groups.item[rows].astype(np.int64))
        value = torch.from_numpy(groups.values[column][rows].astype(np.float64))
        distribution = Mixture(family, eta[:, torch.from_numpy(rows)].double(), item)
        out[column] = ValuePredictions(rows, value, distribution)
    return out


def _targets(groups: Groups) -> Bool[np.ndarray, "own"]:
    if groups.role is None:
        return np.ones(groups.n_elements, dtype=bool)
    return groups.role[: groups.n_elements] == TARGET


def evaluate_rival(rival: Rival, model: GroupEstimator, groups: Groups) -> Evaluation:
    """What a baseline says of the same groups."""
    groups = same_columns(model, groups)
    if isinstance(rival.fitted, GroupEstimator):
        return evaluate(rival.fitted, groups)
    assert isinstance(rival.fitted, LinearRecommender)
    rank = np.full(groups.n_elements, np.nan)
    rank[_targets(groups)] = rival.fitted.ranks(
        groups, direction=model.direction, exclude=model.support_ == "hard"
    )
    return Evaluation({}, rank, {})
