"""Fits of bases and of the members that correct them, weighed by what no fit saw."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from exfam.efa.attributes.weigh_new import set_new_weights
from exfam.efa.base.choose import ItemBases, fit_item_base
from exfam.efa.base.fit_ridge import RidgeSearch
from exfam.efa.base.kept import KeptOutputs
from exfam.efa.base.neighbors import is_line
from exfam.efa.fit_earlier import Judged, fit_earlier_columns
from exfam.efa.gate import ALONE, set_gates
from exfam.efa.held_out import some_to_validate
from exfam.efa.networks.based import USUAL_WEIGHTS
from exfam.efa.networks.based_values import USUAL_GATE, ColumnBase
from exfam.efa.plan import FitPlan, train
from exfam.efa.value_fits import add_to_bases, fit_value_bases, has_value_base, set_value_gate
from exfam.efa.values.given import given_columns
from exfam.estimator.gain import Gain
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.history import History

# Of items and of values, where no groups are to be held out.
USUAL = (USUAL_WEIGHTS, USUAL_GATE)


class Gains(NamedTuple):
    """What attention added to bases of items and of values, and columns to later ones.

    None where there are none.
    """

    items: Gain | None = None
    values: Gain | None = None
    columns: Gain | None = None


class CorrectedFit(NamedTuple):
    """Members and their histories, and what corrections added, if there are any."""

    members: list[TwoPartModel]
    histories: list[History]
    gains: Gains


class _Fold(NamedTuple):
    """Bases and the members that correct them, of groups of which some were held out.

    `trained`: the groups that members were trained on
    """

    plan: FitPlan
    trained: Groups
    base: ItemBases | None
    value_bases: list[ColumnBase]
    members: list[TwoPartModel]
    histories: list[History]


def fit_without_base(
    estimator: Any, plan: FitPlan, settings: Mapping[str, Any], **training: Any
) -> CorrectedFit:
    """Members without bases; as `fit_corrected` otherwise."""
    members, histories = train(estimator, plan, settings, **training)
    if plan.attributes is not None:
        set_new_weights(estimator, members[0], plan)
    parts = [Judged.of(members, plan.train, plan.validation, weight=plan.weight)]
    return CorrectedFit(members, histories, Gains(columns=_given_earlier(estimator, parts)))


def _given_earlier(estimator: Any, parts: Sequence[Judged]) -> Gain | None:
    """Let value columns see earlier ones, unless the estimator must not."""
    if not estimator.values_given_each_other:
        return None
    return fit_earlier_columns(parts, seed=int(estimator.seed))


def fit_corrected(
    estimator: Any, plan: FitPlan, settings: Mapping[str, Any], **training: Any
) -> CorrectedFit:
    """Fit bases and members that correct them, one a seed; `training`: see `train`.

    Where the fit holds groups out, each member holds out other ones. All of these together weigh
    the corrections, and then enter the bases: they are data as well. Groups that were given for
    validation remain a yardstick.
    """
    seed, seeds = int(estimator.seed), training.pop("seeds")
    corrects = estimator.attention != "none"
    plans = plan.folds(len(seeds) if corrects else 1, seed=seed)
    folds: list[_Fold] = []
    search = RidgeSearch()
    for number, part in enumerate(plans):
        some = seeds[number :: len(plans)]
        fold = _fit_fold(estimator, part, settings, search=search, seeds=some, **training)
        folds.append(fold)
        if any(history.interrupted for history in folds[-1].histories):
            break
    unheld = USUAL if not estimator.validation_fraction else (ALONE, 0.0)
    gains = _weigh(folds, unheld=unheld, seed=seed) if corrects else Gains()
    judged = [
        Judged.of(fold.members, fold.trained, fold.plan.validation, weight=plan.weight)
        for fold in folds
    ]
    gains = gains._replace(columns=_given_earlier(estimator, judged))
    for fold in folds:
        for column in fold.value_bases:
            column.kept = None
    if plan.attributes is not None:
        set_new_weights(estimator, folds[0].members[0], folds[0].plan)
    members = [member for fold in folds for member in fold.members]
    parts: list[Any] = [member.item_part for member in members if plan.items]
    for part in parts:
        part.kept = None
    if plan.holds_out:
        for fold in folds:
            assert fold.plan.validation is not None
            if fold.base is not None:
                fold.base.add(fold.plan.validation)
            add_to_bases(fold.value_bases, plan)
    return CorrectedFit(members, [history for fold in folds for history in fold.histories], gains)


def _fit_fold(
    estimator: Any,
    plan: FitPlan,
    settings: Mapping[str, Any],
    *,
    search: RidgeSearch,
    **training: Any,
) -> _Fold:
    starts: dict[str, Any] = {}
    value_bases: list[ColumnBase] = []
    base, direction, seed = None, estimator.direction, int(estimator.seed)
    trained, n_items = plan, plan.schema.n_items or 0
    if plan.items:
        base = fit_item_base(
            plan.train,
            n_items,
            direction=direction,
            support=plan.support,
            seed=seed,
            weight=plan.weight,
            search=search,
            ordered=estimator.encoding_ != "none" and is_line(plan.train),
            known=given_columns([s for s in plan.schema.attributes if s.known or s.of_group]),
        )
        some = None
        if plan.validation is not None and plan.holds_out:
            some = some_to_validate(plan.validation, n_items, seed=seed)
            trained = replace(plan, validation=some)
        starts |= {"base": base, "kept": KeptOutputs.of(base, plan.train, some)}
    if has_value_base(plan):
        trained, value_bases = fit_value_bases(trained, direction=direction, seed=seed)
        starts["value_bases"] = value_bases
    members, histories = train(estimator, trained, settings, starts=starts, **training)
    if plan.items:
        starts["kept"].forget_training()
    return _Fold(plan, trained.train, base, value_bases, members, histories)


def _weigh(folds: Sequence[_Fold], *, unheld: tuple[tuple[float, ...], float], seed: int) -> Gains:
    """Set the weights of bases and corrections by validation groups.

    `unheld`: weights of items and values where there are none. If there were to be some, groups are
    too few, and nothing says that a correction gains: the base is alone.
    """
    held_out = [
        (fold.members, fold.plan.validation) for fold in folds if fold.plan.validation is not None
    ]
    items, values = folds[0].base is not None, bool(folds[0].value_bases)
    if held_out:
        of_values = set_value_gate(held_out) if values else None
        return Gains(set_gates(held_out, seed=seed) if items else None, of_values)
    members: Any = [member for fold in folds for member in fold.members]
    for member in members:
        if items:
            member.item_part.weigh(*unheld[0])
        if values:
            member.value_part.gate.fill_(unheld[1])
    return Gains()
