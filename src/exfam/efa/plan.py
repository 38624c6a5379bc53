"""What a fit works on: data read, parts, families and support chosen, groups held out."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.catalog.sampled import ItemSampler
from exfam.checks import ExfamError, ExfamWarning, check_choice, check_positive
from exfam.efa.attributes.item_attributes import ItemAttributes
from exfam.efa.declarations import PARTS, SUPPORT_CHOICES
from exfam.efa.defaults import DataSize
from exfam.efa.held_out import held_out_order, hold_out_groups, runs_suit
from exfam.efa.inputs import check_no_repeats
from exfam.efa.values.auto_family import auto_family
from exfam.efa.values.given import given_columns
from exfam.efa.values.values_base import ValueOptions
from exfam.estimator.members import choose_families, train_members
from exfam.estimator.rules import checkpoint_path, listed
from exfam.estimator.schema import Schema, check_in_support
from exfam.families import Family
from exfam.groups import TARGET, Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.history import History

Weight = Float[np.ndarray, "elements"] | None


_ORDERED = (
    "Name the column to sort by, order='time', or pass order='rows' if the rows, or the elements "
    "of Groups, come in an order that means something."
)


@dataclass(frozen=True, eq=False)
class FitPlan:
    """What a fit works on, all choices made. `groups`: those that may be trained on or held out."""

    groups: Groups
    train: Groups
    validation: Groups | None
    validation_is_given: bool
    weight: Weight
    validation_weight: Weight
    schema: Schema
    vocabulary: dict[str, np.ndarray]
    items: bool
    values: bool
    support: str
    checkpoint: Path | None
    attributes: ItemAttributes | None = None

    @property
    def holds_out(self) -> bool:
        """Whether the fit took its validation groups from the data."""
        return self.validation is not None and not self.validation_is_given

    @property
    def size(self) -> DataSize:
        """What defaults depend on."""
        n_held_out = 0 if self.validation is None or not self.holds_out else len(self.validation)
        return DataSize(self.train.n_elements, self.schema.n_items or 0, n_held_out)

    def folds(self, n: int, *, seed: int) -> list["FitPlan"]:
        """Plans of the same data that hold out other groups, `n` of them if there are as many.

        Of validation groups that were given, this one alone.
        """
        if not self.holds_out:
            return [self]
        assert self.validation is not None
        n_groups, size = len(self.groups), len(self.validation)
        # The first fold is that of `hold_out_groups`.
        order = held_out_order(n_groups, size, seed=seed, in_runs=not self.items)
        plans = [self]
        for first in range(size, n_groups - size + 1, size)[: n - 1]:
            held_out = order[first : first + size]
            train = self.groups[np.setdiff1d(order, held_out)]
            plans.append(replace(self, train=train, validation=self.groups[np.sort(held_out)]))
        return plans


def plan_fit(
    estimator: Any, X: Any, *, validation: Any, sample_weight: Any, checkpoint: str | Path | None
) -> FitPlan:
    """The plan of `estimator.fit(X)`.

    Raises ExfamError where data and parameters do not go together, SupportError for values that
    their family cannot produce, DataError for a frame that cannot be read.
    """
    inputs = estimator._read(X)
    estimator._check_order(inputs.groups)
    weight = inputs.weights(sample_weight)
    vocabulary = _vocabulary_of(inputs.groups)
    groups = inputs.groups.with_(vocabulary=vocabulary)
    items, values = choose_parts(estimator.parts, groups)
    has_target = _has_target(groups, weight, items=items)
    if not has_target.any():
        raise ExfamError("`X` must hold a target element of positive weight to fit, got none.")
    if items:
        columns = {"value": groups.values, "attributes": groups.attributes}
        check_part_names(columns | {"group_attributes": groups.group_attributes})
    families = _families(estimator, groups) if values else {}
    check_in_support(groups, families)
    train, held_out = groups, _read_validation(estimator, validation, vocabulary, families)
    if held_out is None:
        fraction, seed = float(estimator.validation_fraction), int(estimator.seed)
        in_runs = runs_suit(estimator, items=items)
        train, held_out = hold_out_groups(
            groups, has_target, fraction=fraction, seed=seed, items=items, in_runs=in_runs
        )
    offset = getattr(estimator, "offset", None)
    schema = Schema.of(
        train,
        families=families,
        attributes=_attributes(estimator, train),
        known=listed(estimator.known),
        offset=offset if values else None,
    )
    seen = [groups]
    if held_out is not None:
        schema.check(held_out)
        seen.append(held_out)
    return FitPlan(
        groups=groups if has_target.all() else groups[has_target],
        train=train,
        validation=held_out,
        validation_is_given=validation is not None,
        weight=weight,
        validation_weight=weight if validation is None else None,
        schema=schema,
        vocabulary=vocabulary,
        items=items,
        values=values,
        support=choose_support(estimator.support, seen) if items else "none",
        checkpoint=checkpoint_path(checkpoint),
    )


def _families(estimator: Any, groups: Groups) -> dict[str, Family]:
    """The family of every value column, as given or as its values look."""
    if not isinstance(estimator.family, str) or estimator.family != "auto":
        return choose_families(estimator.family, groups)
    causal, seed = estimator.direction == "causal", int(estimator.seed)
    ordered = bool(groups.ordered)
    near = ordered or groups.position is not None
    options = ValueOptions(causal=causal, ordered=ordered, near=near, seed=seed)
    schema = Schema.of(groups, families={}, attributes=_attributes(estimator, groups))
    known = given_columns(schema.attributes, groups.position)
    return {column: auto_family(groups, column, options, known) for column in groups.values}


def _attributes(estimator: Any, groups: Groups) -> list[str]:
    """Attributes of elements and of groups, without the one that is an exposure."""
    offset = getattr(estimator, "offset", None)
    return [name for name in (*groups.attributes, *groups.group_attributes) if name != offset]


def train(
    estimator: Any,
    plan: FitPlan,
    settings: Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    n_sampled: int | None = None,
    starts: Mapping[str, Any] | None = None,
) -> tuple[list[TwoPartModel], list[History]]:
    """Members of an estimator whose networks are trained, one a seed, and their histories.

    `settings`, `seeds` and `n_sampled`: where they are not what the parameters of that name say.
    `starts`: what models are built with beside.
    """
    bias = sampler = None
    if seeds is None:
        seeds = range(int(estimator.seed), int(estimator.seed) + int(estimator.ensemble))
    if plan.items:
        bias = log_frequencies(plan.train, plan.schema.n_items or 0)
        n_sampled = int(estimator.n_sampled_items if n_sampled is None else n_sampled)
        sampler = ItemSampler(bias.exp(), n=n_sampled) if 0 < n_sampled < len(bias) else None

    def build(generator: torch.Generator) -> TwoPartModel:
        parts = {"items": plan.items, "values": plan.values}
        given = {"item_bias": bias, "sampler": sampler, **(starts or {})}
        return estimator._build(generator, **parts, **given)

    return train_members(estimator, build, plan, settings, seeds=seeds)


def _read_validation(
    estimator: Any, data: Any, vocabulary: Mapping[str, np.ndarray], families: Mapping[str, Family]
) -> Groups | None:
    if data is None:
        return None
    groups: Groups = estimator._read(data, vocabulary=vocabulary).groups
    estimator._check_order(groups)
    if not groups.n_targets:
        raise ExfamError("`validation` must hold at least one element to predict, got none.")
    check_in_support(groups, families)
    return groups


def _has_target(groups: Groups, weight: Weight, *, items: bool) -> Bool[np.ndarray, "groups"]:
    """Which groups have an element that counts in the loss; without items, an observed one."""
    observed = None if items else groups.observed
    if observed is not None and not observed.any():
        observed = None  # the schema says of which column
    if groups.role is None and weight is None and observed is None:
        return groups.stop > groups.start
    counted = [np.zeros(0, dtype=bool)]
    for chunk in groups.chunks():
        own = chunk.elements()
        counts = np.ones(len(own), dtype=bool)
        if groups.role is not None:
            counts &= groups.role[own] == TARGET
        if weight is not None:
            counts &= weight[own] > 0
        if observed is not None:
            counts &= observed[own]
        total, lengths = np.concatenate([[0], np.cumsum(counts)]), chunk.stop - chunk.start
        stop = np.cumsum(lengths)
        counted.append(total[stop] > total[stop - lengths])
    return np.concatenate(counted)


def target_elements(groups: Groups) -> Int64[np.ndarray, "targets"]:
    """Flat indices of the own elements that are to be predicted."""
    own = groups.elements()
    return own if groups.role is None else own[groups.role[own] == TARGET]


def log_frequencies(
    groups: Groups, n_items: int, *, smoothing: float = 1.0, weight: Weight = None
) -> Float[torch.Tensor, "items"]:
    """Logs of the frequencies of the targets' items, `smoothing` occurrences added to each."""
    check_positive("smoothing", smoothing)
    return log_shares(target_counts(groups, n_items, weight=weight), smoothing=smoothing)


def target_counts(
    groups: Groups, n_items: int, *, weight: Weight = None
) -> Float[np.ndarray, "items"]:
    """How often each item is that of a target, by their weights."""
    if groups.item is None:
        raise ExfamError("`item` must be given for item frequencies, got groups without items.")
    count = np.zeros(n_items)
    for chunk in groups.chunks():
        own = target_elements(chunk)
        own = own[groups.item[own] >= 0]
        times = None if weight is None else weight[own]
        count += np.bincount(groups.item[own], weights=times, minlength=n_items)
    return count


def log_shares(
    count: Float[np.ndarray, "items"], *, smoothing: float
) -> Float[torch.Tensor, "items"]:
    """Logs of shares of all counts, `smoothing` added to each."""
    log_count = np.log(count + smoothing)
    # Counts of any size: their sum may be beyond the largest float.
    return torch.from_numpy(log_count - np.logaddexp.reduce(log_count)).float()


def choose_parts(parts: str, groups: Groups) -> tuple[bool, bool]:
    """Whether items and values are to be modeled; "auto" takes what the data have."""
    check_choice("parts", parts, PARTS)
    held = (groups.item is not None, bool(groups.values))
    wanted = {"auto": held, "both": (True, True), "items": (True, False)}.get(parts, (False, True))
    for name, want, have in zip(("item", "value"), wanted, held, strict=True):
        if want and not have:
            raise ExfamError(f"`{name}` must be given for parts={parts!r}, got data without it.")
    if not any(wanted):
        raise ExfamError("`item` or `value` must be given, got data with neither.")
    return wanted


def check_part_names(columns: Mapping[str, Iterable[str]]) -> None:
    """Raise ExfamError for a column that has the item part's name, which scores of items have."""
    for argument, names in columns.items():
        for name in names:
            if name in ("item", "items"):
                raise ExfamError(
                    f"`{argument}` must not have the item part's name, got column {name!r}. "
                    "Rename the column."
                )


def choose_support(support: str, seen: Sequence[Groups]) -> str:
    """The support of items: "auto" is hard where no group of `seen` repeats an item.

    Raises ExfamError for "hard" where an item repeats.
    """
    check_choice("support", support, SUPPORT_CHOICES)
    if support == "hard":
        for groups in seen:
            check_no_repeats(groups)
    if support != "auto":
        return support
    repeats = any(groups.item is None or groups.repeats_items() for groups in seen)
    return "none" if repeats else "hard"


def check_order(groups: Groups, *, direction: str, encoding: str = "none") -> None:
    """Raise ExfamError for sets of elements where a model needs them in order.

    Tied elements of which a causal model needs the order are counted in an ExfamWarning. An
    `encoding` of positions needs an order or positions, but "auto" none.
    """
    if groups.ordered:
        if direction == "causal":
            _warn_ties(groups)
    elif direction == "causal":
        raise ExfamError(
            f"`order` must be given for direction='causal', got none: groups without it are sets. "
            f"{_ORDERED}"
        )
    elif encoding not in ("auto", "none") and groups.position is None:
        raise ExfamError(
            "`encoding` must be 'auto' or 'none' without `order` or `position`: groups without "
            f"them are sets, got {encoding!r}. {_ORDERED}"
        )


def _warn_ties(groups: Groups) -> None:
    if groups.tied is None:
        return
    tied = groups.tied[groups.elements()]
    shared = int((tied | np.append(tied[1:], False)).sum())
    if shared:
        warnings.warn(
            f"{shared:,} of {len(tied):,} rows are tied in `order` with another row of their "
            "group: direction='causal' takes them in the order of the rows. Name a finer order, or "
            "pass order='rows' if the order of the rows means something.",
            ExfamWarning,
            stacklevel=2,
        )


def choose_encoding(encoding: str, groups: Groups) -> str:
    """The positional encoding: "auto" is "none" for sets, "relative" for an order or positions.

    Of several coordinates it is "distance". Groups whose elements are all tied are sets.
    """
    if encoding != "auto":
        return encoding
    if groups.position is None and groups.tied is not None:
        n_alone = int((groups.stop > groups.start).sum())
        if int(groups.tied[groups.elements()].sum()) == groups.n_elements - n_alone:
            return "none"
    if groups.position is not None and groups.position.ndim == 2 and groups.position.shape[1] > 1:
        return "distance"
    return "relative" if groups.ordered or groups.position is not None else "none"


def _vocabulary_of(groups: Groups) -> dict[str, np.ndarray]:
    """The groups' vocabulary; items and categories without labels are named by their codes."""
    vocabulary = dict(groups.vocabulary)
    if groups.item is not None:
        vocabulary.setdefault("item", np.arange(groups.n_items))
    for name, codes in (groups.attributes | groups.group_attributes).items():
        if codes.dtype.kind in "iu" and codes.ndim == 1:
            vocabulary.setdefault(name, np.arange(int(codes.max(initial=-1)) + 1))
    return vocabulary
