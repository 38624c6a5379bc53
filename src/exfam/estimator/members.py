"""The families and the members of a fit: from what a user names to trained networks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from exfam.checks import ExfamError
from exfam.estimator.base import settings_from
from exfam.estimator.plain import identified
from exfam.families import Family, PerItem, choose_family
from exfam.groups import Groups
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.training.batching import Weighted
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings, choose_device
from exfam.training.precision import rounded
from exfam.training.steps import fit

# Parameters that a fit may change between two runs of the same checkpoint.
_IRRELEVANT = {"ensemble", "progress", "unknown"} | {
    field.name for field in fields(TrainingSettings)
}


def choose_families(family: Any, groups: Groups) -> dict[str, Family]:
    """The family of each value column, from one for all or a dict by column.

    Items that `PerItem` names by their labels are named by their codes, as models know them.
    """
    given = family if isinstance(family, Mapping) else dict.fromkeys(groups.values, family)
    for column in groups.values:
        if column not in given:
            raise ExfamError(
                f"`family` must name a family for every value column, got none for {column!r}."
            )
    for column in given:
        if column not in groups.values:
            columns = ", ".join(repr(name) for name in groups.values)
            raise ExfamError(f"`family` must name value columns ({columns}), got {column!r}.")
    labels = groups.vocabulary.get("item")
    return {column: _by_code(choose_family(given[column]), labels) for column in groups.values}


def _by_code(family: Family, labels: np.ndarray | None) -> Family:
    """The family with item codes in place of labels."""
    if labels is None or not isinstance(family, PerItem):
        return family
    codes = {label: code for code, label in enumerate(labels.tolist())}
    for label in family.families:
        if label not in codes:
            raise ExfamError(
                f"`family` must name items of the data, got {label!r} in PerItem. Use labels as in "
                f"the item column, such as {next(iter(codes))!r}."
            )
    without = [label for label in codes if label not in family.families]
    if without and family.default is None:
        raise ExfamError(
            f"`family` must name a family for every item, got none for {without[0]!r} "
            f"({len(without)} of {len(codes)} items). Pass PerItem(families, default=...)."
        )
    return PerItem({codes[label]: own for label, own in family.families.items()}, family.default)


def train_members(
    estimator: Any,
    build: Callable[[torch.Generator], TwoPartModel],
    plan: Any,
    given: Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int],
) -> tuple[list[TwoPartModel], list[History]]:
    """Members with these seeds for initial weights and batches; one split for all.

    `plan`: of groups or of fields: parts, the weights of their elements, a folder to go on from
    `given`: settings that are not the parameters of that name
    Ctrl-C ends the member at hand with its best weights, and the ensemble with it.
    """
    settings = settings_from(estimator, TrainingSettings, **given or {})
    held_out = None
    if plan.validation is not None:
        held_out = Weighted(plan.validation, plan.validation_weight)
    members: list[TwoPartModel] = []
    histories: list[History] = []
    for seed in seeds:
        checkpoint = None
        if plan.checkpoint is not None:
            folder = plan.checkpoint / str(seed)
            checkpoint = identified(folder, estimator, irrelevant=_IRRELEVANT)
        model = build(torch.Generator().manual_seed(seed)).to(choose_device(settings.device))
        if not any(parameter.requires_grad for parameter in model.parameters()):
            members.append(model)  # closed form: nothing to train
            break
        history = fit(
            model,
            objective=rounded(Likelihood(model.direction), estimator.precision),
            train=Weighted(plan.train, plan.weight),
            validation=held_out,
            settings=replace(settings, seed=seed),
            progress=estimator.progress,
            checkpoint=checkpoint,
        )
        members.append(model)
        histories.append(history)
        if history.interrupted:
            break
    return members, histories
