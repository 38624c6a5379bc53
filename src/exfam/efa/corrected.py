"""Fits of bases of items and of the members that correct them, weighed by what no fit saw."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from exfam.efa.base.choose import ItemBases, fit_item_base
from exfam.efa.base.kept import KeptOutputs
from exfam.efa.gate import Gain, set_gates
from exfam.efa.networks.based import USUAL_WEIGHTS
from exfam.efa.plan import FitPlan, train
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.history import History


class CorrectedFit(NamedTuple):
    """Members and their histories, and what corrections added, if there are any."""

    members: list[TwoPartModel]
    histories: list[History]
    gain: Gain | None


class _Fold(NamedTuple):
    """A base and the members that correct it, of groups of which some were held out."""

    plan: FitPlan
    base: ItemBases
    members: list[TwoPartModel]
    histories: list[History]


def fit_corrected(
    estimator: Any, plan: FitPlan, settings: Mapping[str, Any], **training: Any
) -> CorrectedFit:
    """Fit a base and members that correct it, one a seed; `training`: see `train`.

    Where the fit holds groups out, each member holds out other ones. All of these together weigh
    the corrections, and then enter the bases: they are data as well. Groups that were given for
    validation remain a yardstick.
    """
    seed, seeds = int(estimator.seed), training.pop("seeds")
    corrects = estimator.attention != "none"
    plans = plan.folds(len(seeds) if corrects else 1, seed=seed)
    folds: list[_Fold] = []
    for number, part in enumerate(plans):
        some = seeds[number :: len(plans)]
        folds.append(_fit_fold(estimator, part, settings, seeds=some, **training))
        if any(history.interrupted for history in folds[-1].histories):
            break
    gain = _weigh(folds, seed=seed) if corrects else None
    if plan.holds_out:
        for fold in folds:
            assert fold.plan.validation is not None
            fold.base.add(fold.plan.validation)
    members = [member for fold in folds for member in fold.members]
    return CorrectedFit(members, [history for fold in folds for history in fold.histories], gain)


def _fit_fold(estimator: Any, plan: FitPlan, settings: Mapping[str, Any], **training: Any) -> _Fold:
    base = fit_item_base(
        plan.train,
        plan.schema.n_items or 0,
        direction=estimator.direction,
        support=plan.support,
        seed=int(estimator.seed),
        weight=plan.weight,
    )
    held_out = plan.validation if plan.holds_out else None
    starts = {"base": base, "kept": KeptOutputs.of(base, plan.groups, plan.train, held_out)}
    members, histories = train(estimator, plan, settings, starts=starts, **training)
    for member in members:
        part: Any = member.item_part
        part.kept = None
    return _Fold(plan, base, members, histories)


def _weigh(folds: Sequence[_Fold], *, seed: int) -> Gain | None:
    """Set the weights of bases and corrections by validation groups, if there are any."""
    held_out = [
        (fold.members, fold.plan.validation) for fold in folds if fold.plan.validation is not None
    ]
    if held_out:
        return set_gates(held_out, seed=seed)
    for fold in folds:
        for member in fold.members:
            part: Any = member.item_part
            part.weigh(*USUAL_WEIGHTS)
    return None
