"""Fits of bases of values, and how much of their correction to keep."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from exfam.efa.gate import HeldOut, Nats, gain_by_groups
from exfam.efa.networks.based_values import ColumnBase, KeptValues, input_columns
from exfam.efa.plan import FitPlan
from exfam.efa.values.cells import ValueCells, base_values, value_cells
from exfam.efa.values.conditionals import group_factors
from exfam.efa.values.given import GivenColumn, given_columns
from exfam.efa.values.heads import head_of
from exfam.efa.values.values_base import KeptFeatures, ValueOptions, fit_and_keep, refitted
from exfam.estimator.evaluate import log_probs, total_nats
from exfam.estimator.gain import Gain
from exfam.families import Family
from exfam.groups import TARGET, Groups
from exfam.likelihoods.exposure import Exposure
from exfam.likelihoods.two_part import TwoPartModel

# Shares of a correction that validation chooses from.
_GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
# All of n groups gain by chance with a probability of 2^-n: from so many on it is below 2.5 %.
LEAST_GROUPS = 6
_LEAST_SPREAD = 1e-8


def has_value_base(plan: FitPlan) -> bool:
    """Whether every value column is of a family that bases know."""
    families = plan.schema.families.values()
    return plan.values and all(head_of(family.of_units) is not None for family in families)


def fit_value_bases(
    plan: FitPlan, *, direction: str, seed: int, rank: int | None = None
) -> tuple[FitPlan, list[ColumnBase]]:
    """A base of each column, and the plan with the groups that corrections may be trained on.

    Those are all, unless there are so many that only some were left out of a fit. The rank is
    chosen where it is None.
    """
    bases, usable, train = [], np.ones(len(plan.train), dtype=bool), plan.train
    # Elements by an order; positions without one are places on a map.
    ordered = bool(train.ordered)
    near = ordered or train.position is not None
    options = ValueOptions(
        causal=direction == "causal", ordered=ordered, near=near, rank=rank, seed=seed
    )
    for column, family in plan.schema.families.items():
        n_items, exposure = _n_items(plan), plan.schema.exposure
        given = given_columns(plan.schema.attributes, train.position)
        cells = _counted(
            train, column, family, plan.weight, n_items=n_items, exposure=exposure, known=given
        )
        fitted, kept = fit_and_keep(cells, n_items, family.of_units, options)
        inputs = input_columns(fitted, kept.features)
        spread = inputs.std(0)
        spread = np.where(spread > _LEAST_SPREAD, spread, 1.0)
        base = ColumnBase(column, family, fitted, inputs.mean(0), spread)
        eta = fitted.eta_of(kept.features)
        base.kept = _kept(train, kept, eta, base.standardized(inputs))
        known = np.zeros(len(train), dtype=bool)
        known[cells.group[kept.cells]] = True
        usable &= known | (np.diff(cells.only_observed().offset) == 0)
        bases.append(base)
    return (plan if usable.all() else replace(plan, train=train[usable])), bases


def fit_alone(plan: FitPlan, *, direction: str, seed: int, rank: int) -> list[ColumnBase]:
    """Bases of a rank that nothing corrects: no groups are held out."""
    _, bases = fit_value_bases(
        replace(plan, train=plan.groups), direction=direction, seed=seed, rank=rank
    )
    for base in bases:
        base.kept = None
    return bases


def factors_of_groups(
    bases: Sequence[ColumnBase], groups: Groups, exposure: Exposure | None = None
) -> Float64[np.ndarray, "groups factors"]:
    """The means of the groups' factors given all their values, by column side by side."""
    found = []
    for column in bases:
        base = column.base()
        model, known = base.model, base.given
        sizes: dict[str, Any] = {"n_items": model.n_items, "exposure": exposure, "known": known}
        cells = _counted(groups.with_(role=None), column.column, column.given, None, **sizes)
        found.append(group_factors(model, cells.only_observed()))
    return np.concatenate(found, 1)


def _n_items(plan: FitPlan) -> int:
    """One more for what training has not named."""
    return (plan.schema.n_items or 0) + 1


def _kept(train: Groups, kept: KeptFeatures, eta: torch.Tensor, inputs: torch.Tensor) -> KeptValues:
    """By the elements of the training groups."""
    element = torch.from_numpy(train.elements()[kept.cells])
    index = torch.zeros(train.n_rows, dtype=torch.int64)
    index[element] = torch.arange(1, len(element) + 1)
    with_none = [torch.cat([part.new_zeros(1, part.shape[1]), part]) for part in (eta, inputs)]
    return KeptValues(index, *with_none)


def add_to_bases(bases: Sequence[ColumnBase], plan: FitPlan) -> None:
    """Fit the factor models anew to all groups of the plan; numbers of heads stay."""
    groups, weight, exposure = plan.groups, plan.weight, plan.schema.exposure
    for column in bases:
        base = column.base()
        n_items = base.model.n_items
        cells = _counted(
            groups, column.column, column.given, weight,
            n_items=n_items, exposure=exposure, known=base.given,
        )  # fmt: skip
        column.renew(refitted(base, cells))


def set_value_gate(held_out: Sequence[HeldOut]) -> Gain:
    """Weigh the members' corrections of values against their bases.

    Members that held out groups of their own are weighed by all of these together. A gain that may
    be chance, since its interval reaches 0 or groups are fewer than `LEAST_GROUPS`, is switched
    off.
    """
    parts: list[Any] = [member.value_part for members, _ in held_out for member in members]

    def nats(gate: float) -> list[Nats]:
        for part in parts:
            part.gate.fill_(gate)
        return [_value_nats(*pair) for pair in held_out]

    groups = [validation for _, validation in held_out]
    found = {gate: nats(gate) for gate in _GATES}
    best = max(_GATES, key=lambda gate: sum(np.nansum(part) for part in found[gate]))
    # The least weight that is as good as the best one, but for chance: new groups may differ.
    for gate in _GATES:
        behind = gain_by_groups(found[best], found[gate], groups, gate=best)
        if behind.nats <= (behind.high - behind.nats) / 2:
            best = gate
            break
    gain = gain_by_groups(found[best], found[0.0], groups, gate=best)
    if best and (gain.low <= 0 or gain.n_groups < LEAST_GROUPS):
        best, gain = 0.0, gain_by_groups(found[0.0], found[0.0], groups, gate=0.0)
    for part in parts:
        part.gate.fill_(best)
    return gain


def _value_nats(members: Sequence[TwoPartModel], validation: Groups) -> Nats:
    """Of the own elements, all value columns together."""
    found = log_probs(members, validation)
    found.pop("item", None)
    return total_nats(found)[validation.elements()]


def _counted(
    groups: Groups,
    column: str,
    family: Family,
    weight: Any,
    *,
    n_items: int,
    exposure: Exposure | None = None,
    known: Sequence[GivenColumn] = (),
) -> ValueCells:
    """Cells whose values are to be fitted, standardized; those of no weight, and contexts, not.

    Unknown items are the last one of `n_items`. With an exposure values are as at the mean one.
    """
    cells, rows = value_cells(groups, column, known), groups.elements()
    counts = cells.observed
    if groups.role is not None:
        counts &= groups.role[rows] == TARGET
    if weight is not None:
        counts &= weight[rows] > 0
    value = torch.from_numpy(np.where(counts, cells.value, np.nan))
    cells = cells.with_item(np.where(cells.item < 0, n_items - 1, cells.item))
    own = base_values(family, value).numpy()
    if exposure is None:
        return cells.with_value(own)
    log_size = exposure.of_rows(groups, rows)
    at_mean = base_values(family, value * torch.from_numpy(np.exp(-log_size))).numpy()
    return replace(cells, value=at_mean, own=own, log_size=log_size)
