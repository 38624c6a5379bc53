"""The base of values: working scale, factor model and head, fitted to training groups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.checks import ExfamError, SupportError
from exfam.efa.values.cells import ValueCells
from exfam.efa.values.choose_near import Judge, NearCells
from exfam.efa.values.class_tables import ClassTable, class_table
from exfam.efa.values.cross_fit import Fold, RankChoice, choose_rank, folds_of
from exfam.efa.values.effects import AttributeEffects
from exfam.efa.values.factor_em import FactorModel, fit_factors
from exfam.efa.values.features import (
    ValueFeatures,
    add_amounts,
    add_near,
    factor_features,
    joined,
)
from exfam.efa.values.given import GivenColumn
from exfam.efa.values.head_counts import CountHead, counts_of
from exfam.efa.values.head_numbers import HeadData
from exfam.efa.values.heads import Head, head_of, settled_head
from exfam.efa.values.near_kernel import NearKernel
from exfam.efa.values.working_scale import WorkingScale, working_scale
from exfam.families import Family, family_from_config, family_to_config

# As many cells a head is fitted to, at most.
MOST_FOR_HEAD = 40_000
# How many cells the mean of all counts as in an item's mean value.
_MEAN_CELLS, _LEAST_MEAN = 5.0, 1e-9
# Cells that are predicted at a time.
BLOCK_CELLS = 500_000
# One in so many cells is given to the head as one whose group has no other value, too: in training
# there may be none, and what groups of other sizes say of it is far off.
_ONE_ALONE = 20


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """What is fitted: of what rank, given all others or the earlier ones.

    Neighbors count where cells are `ordered`, and by their distances with `near`. With `rank` None
    it is chosen.
    """

    causal: bool = False
    ordered: bool = False
    near: bool = False
    rank: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ValuesBase:
    """A fitted base, which predicts by parameters of `head.family`."""

    options: ValueOptions
    head: Head
    working: WorkingScale
    model: FactorModel
    table: ClassTable | None
    numbers: Float64[np.ndarray, "numbers"]
    rank_scores: dict[int, float]
    prior_items: float = 0.0
    near: NearKernel | None = None

    @property
    def family(self) -> Family:
        """Of the predictions."""
        return self.head.family

    @property
    def rank(self) -> int:
        return self.model.rank

    @property
    def given(self) -> tuple[GivenColumn, ...]:
        """What has effects."""
        return () if self.model.effects is None else self.model.effects.columns

    def features(self, cells: ValueCells) -> ValueFeatures:
        """Of new groups."""
        found = features_of(self.model, self.table, self.working, cells, self.options)
        if self.near is None:
            return found
        standard, causal = self.working.cells(cells), self.options.causal
        return add_near(found, self.near, self.model, standard, causal=causal)

    def eta_of(self, features: ValueFeatures) -> Float64[Tensor, "cells params"]:
        """Parameters of the cells of these features."""
        return self.head.eta(HeadData(features, self.working, self.table), self.numbers)

    def eta(self, cells: ValueCells) -> Float64[Tensor, "cells params"]:
        """Parameters of every cell given the others of its group, or the earlier ones."""
        return self.eta_of(self.features(cells))

    def arrays(self) -> dict[str, Float64[np.ndarray, "..."]]:
        """All fitted arrays, by name."""
        model, table = self.model, self.table
        arrays = {name: getattr(model, name) for name in ("level", "loading", "noise", "count")}
        if model.amount is not None:
            arrays["amount"] = model.amount
        if table is not None:
            arrays |= {"margin": table.margin, "share": table.share}
        near = {} if self.near is None else self.near.arrays()
        effects = {} if model.effects is None else model.effects.arrays()
        return arrays | {"numbers": self.numbers} | near | effects

    def config(self) -> dict[str, Any]:
        """All else, as plain values of JSON."""
        return {
            "options": asdict(self.options),
            "family": family_to_config(self.family),
            "working": asdict(self.working),
            "mu": self.model.mu,
            "rank_scores": [list(pair) for pair in self.rank_scores.items()],
            "prior_items": self.prior_items,
            "given": [asdict(column) for column in self.given],
        }


def restored_base(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ValuesBase:
    """The base that has this config and these arrays."""
    head = head_of(family_from_config(config["family"]))
    assert head is not None
    counted, table = head.counted(), None
    if counted is not None and "margin" in arrays:  # older versions count no zeros
        table = ClassTable(counted, arrays["margin"], arrays["share"])
    fitted = (arrays.get(name) for name in ("level", "loading", "noise", "count", "amount"))
    given = [GivenColumn(**column) for column in config.get("given", [])]
    effects = AttributeEffects.of_arrays(given, arrays)
    model = FactorModel(float(config["mu"]), *fitted, effects=effects)  # type: ignore[misc, arg-type]
    scores = {int(rank): float(score) for rank, score in config["rank_scores"]}
    options, scale = ValueOptions(**config["options"]), config["working"]
    unit = (float(scale[name]) for name in ("shift", "mean", "sd"))
    working = WorkingScale(scale["transform"], *unit)
    prior_items = float(config.get("prior_items", 0.0))  # older versions had none
    numbers, near = arrays["numbers"], NearKernel.of_arrays(arrays)
    return ValuesBase(options, head, working, model, table, numbers, scores, prior_items, near)


@dataclass(frozen=True, eq=False)
class KeptFeatures:
    """Features of training cells by models that were fitted without their groups."""

    features: ValueFeatures
    cells: Int64[np.ndarray, "rows"]

    def take(self, rows: Int64[np.ndarray, "some"]) -> "KeptFeatures":
        """Those of some cells."""
        return KeptFeatures(self.features.take(rows), self.cells[rows])

    def mixed_with(self, other: "KeptFeatures", *, seed: int) -> "KeptFeatures":
        """Both in a random order; the others have no neighbors."""
        near = np.zeros((len(other.cells), self.features.neighbors.shape[1]))
        features = joined([self.features, replace(other.features, neighbors=near)])
        both = KeptFeatures(features, np.concatenate([self.cells, other.cells]))
        return both.take(np.random.default_rng(seed).permutation(len(both.cells)))


def fit_values(
    cells: ValueCells, n_items: int, family: Family, options: ValueOptions
) -> ValuesBase:
    """Fit to training groups, all numbers of the head on features that are cross-fitted.

    Raises ExfamError for a family that a base does not know, SupportError if a value is not in its
    support.

    >>> from exfam.families import Ordinal
    >>> offset, item = np.arange(0, 41, 2), np.tile([0, 1], 20)
    >>> cells = ValueCells(offset, item, np.tile([1.0, 2.0, 3.0, 3.0], 10))
    >>> base = fit_values(cells, 2, Ordinal(3, start=1), ValueOptions(rank=0))
    >>> base.eta(cells).exp().sum(1)[:2].round(decimals=9)
    tensor([1., 1.], dtype=torch.float64)
    """
    return fit_and_keep(cells, n_items, family, options)[0]


def fit_and_keep(
    cells: ValueCells, n_items: int, family: Family, options: ValueOptions, *, judged: bool = True
) -> tuple[ValuesBase, KeptFeatures]:
    """The same, and features that a correction can be trained on; of observed cells.

    `judged`: whether a kernel of neighbors must gain on groups that it was not fitted to
    """
    observed, cells = np.flatnonzero(cells.observed), cells.only_observed()
    head = settled_head(family, cells.value)
    if head is None:
        raise ExfamError(f"`family` must be one that a base of values knows, got {family}.")
    own = cells.value if cells.own is None else cells.own
    _check_support(family, own)
    working = working_scale(cells.value, transform=head.transform, shift=head.shift)
    given = _Given(cells, n_items, head, working, options)
    log_size = cells.log_size
    folds = folds_of(cells, seed=options.seed)
    choice = given.rank(folds)
    model, table = given.fitted(np.arange(cells.n_groups), choice)
    kept, alone = given.cross_fitted(folds, choice, model, table)
    has_own_atoms = isinstance(head, CountHead) and head.family != family
    n_equal = counts_of(own) if has_own_atoms else None

    def data(features: ValueFeatures, rows: Int64[np.ndarray, "rows"]) -> HeadData:
        sizes = None if log_size is None else log_size[rows]
        return HeadData(features, working, table, sizes, None if n_equal is None else n_equal[rows])

    def nats(features: ValueFeatures, rows: Int64[np.ndarray, "rows"]) -> float:
        found = data(features, rows)
        eta = head.eta(found, head.fit(found, own[rows]))
        if found.log_size is not None:
            eta[:, 0] += torch.from_numpy(found.log_size)
        return float(head.family.log_prob(torch.from_numpy(own[rows]), eta).mean())

    near, kept = given.near(kept, model, nats if judged else None) if options.near else (None, kept)
    few = kept.take(np.arange(min(MOST_FOR_HEAD, len(kept.cells))))
    if alone is not None:
        few = few.mixed_with(alone, seed=options.seed)
    numbers = head.fit(data(few.features, few.cells), own[few.cells])
    base = ValuesBase(
        options, head, working, model, table, numbers, choice.scores, choice.prior_items, near
    )
    return base, replace(kept, cells=observed[kept.cells])


@dataclass(frozen=True, eq=False)
class _Given:
    """What models are fitted to: observed cells, the head and the working scale."""

    cells: ValueCells
    n_items: int
    head: Head
    working: WorkingScale
    options: ValueOptions

    @cached_property
    def standard(self) -> ValueCells:
        return self.working.cells(self.cells)

    def rank(self, folds: list[Fold]) -> RankChoice:
        options = self.options
        if options.rank is not None:
            return RankChoice(options.rank, {}, {})
        causal, seed = options.causal, options.seed
        return choose_rank(self.standard, self.n_items, folds, causal=causal, seed=seed)

    def fitted(
        self, groups: Int64[np.ndarray, "groups"], choice: RankChoice
    ) -> tuple[FactorModel, ClassTable | None]:
        """A model and a table of some groups."""
        standard, seed = self.standard.take(groups), self.options.seed
        model = fit_factors(
            standard, self.n_items, rank=choice.rank, seed=seed, prior_items=choice.prior_items
        ).model
        cells = self.cells.take(groups)
        return _with_amounts(model, cells, self.head), _table_of(self.head, cells, self.n_items)

    def cross_fitted(
        self, folds: list[Fold], choice: RankChoice, whole: FactorModel, of_all: ClassTable | None
    ) -> tuple[KeptFeatures, KeptFeatures | None]:
        """Features of all cells that are held out in some fold, in a random order.

        And of some of them as if no other value of their group were known, unless it is given the
        earlier ones, where first values are like that. What all items have in common is that of
        the whole model: by how much it differs without a fold depends on the values of that fold.
        """
        parts, alone = list[KeptFeatures](), list[KeptFeatures]()
        rng = np.random.default_rng(self.options.seed)
        for number, fold in enumerate(folds):
            model = choice.models.get(number)
            if model is None:
                model, table = self.fitted(fold.rest, choice)
            else:
                rest = self.cells.take(fold.rest)
                model = _with_amounts(model, rest, self.head)
                table = _table_of(self.head, rest, self.n_items)
            rows = self.cells.rows_of(fold.held_out)
            some = rng.permutation(rows)[: len(rows) // _ONE_ALONE + 1]
            for kept, cells, own in (
                (parts, self.cells.take(fold.held_out), rows),
                (alone, self.cells.alone(some), some),
            ):
                found = features_of(model, table, self.working, cells, self.options)
                found = _in_common(found, model, table, whole, of_all)
                kept.append(KeptFeatures(found, own))
        all_kept = _joined(parts)
        order = np.random.default_rng(self.options.seed).permutation(len(all_kept.cells))
        return all_kept.take(order), None if self.options.causal else _joined(alone)

    def near(
        self, kept: KeptFeatures, model: FactorModel, nats: Judge | None
    ) -> tuple[NearKernel | None, KeptFeatures]:
        """A kernel of neighbors, if features gain `nats` by it, and features with it."""
        order, options = np.argsort(kept.cells), self.options
        near = NearCells(
            self.standard, kept.features.take(order), kept.cells[order], model,
            nats, causal=options.causal, ordered=options.ordered, seed=options.seed,
        )  # fmt: skip
        found = near.with_kernel()
        if found is None:
            return None, kept
        kernel, features = found
        return kernel, replace(kept, features=features.take(np.argsort(order)))


def _joined(parts: Sequence[KeptFeatures]) -> KeptFeatures:
    features = joined([part.features for part in parts])
    return KeptFeatures(features, np.concatenate([part.cells for part in parts]))


def _in_common(
    features: ValueFeatures,
    model: FactorModel,
    table: ClassTable | None,
    whole: FactorModel,
    of_all: ClassTable | None,
) -> ValueFeatures:
    """Features by a model without a fold as by the whole one, but for what items differ in."""
    more = whole.count.sum() / max(model.count.sum(), 1.0)
    level, count = features.level + whole.mu - model.mu, features.item_count * more
    features = replace(features, level=level, item_count=count)
    if table is None or of_all is None:
        return features
    wanted, got = (known.count @ own.share for known, own in ((whole, of_all), (model, table)))
    times = np.divide(wanted, got * more, out=np.ones_like(got), where=got > 0)
    return replace(features, expected=features.expected * times, share=features.share * times)


def _with_amounts(model: FactorModel, cells: ValueCells, head: Head) -> FactorModel:
    """The model with the items' mean values as they are, if the head reads them."""
    if not head.reads_amounts:
        return model
    total = np.append(np.bincount(cells.item, cells.value, model.n_items), 0.0)
    mean = max(total.sum() / max(cells.n_cells, 1), _LEAST_MEAN)
    return replace(model, amount=(total + _MEAN_CELLS * mean) / (model.count + _MEAN_CELLS))


def _check_support(family: Family, value: Float64[np.ndarray, "cells"]) -> None:
    wrong = np.flatnonzero(~family.in_support(torch.from_numpy(value)).numpy())
    if len(wrong):
        raise SupportError(
            f"`value` must be {family.support} for {family}, got {value[wrong[0]]:g} "
            f"({len(wrong)} of {len(value)} values). {family.hint}".rstrip()
        )


def refitted(base: ValuesBase, cells: ValueCells) -> ValuesBase:
    """The base with a factor model and a table of other groups; its scale and numbers stay."""
    cells, n_items = cells.only_observed(), base.model.n_items
    standard = base.working.cells(cells)
    rank, seed, prior_items = base.rank, base.options.seed, base.prior_items
    fitted = fit_factors(standard, n_items, rank=rank, seed=seed, prior_items=prior_items)
    table = _table_of(base.head, cells, n_items)
    model = fitted.model
    if base.model.amount is not None:  # bases of older versions have none
        model = _with_amounts(model, cells, base.head)
    return replace(base, model=model, table=table)


def _table_of(head: Head, cells: ValueCells, n_items: int) -> ClassTable | None:
    counted = head.counted()
    return None if counted is None else class_table(cells, n_items, counted)


def log_prob_of_values(
    base: ValuesBase, cells: ValueCells, *, block: int = BLOCK_CELLS
) -> Float64[np.ndarray, "cells"]:
    """The log-probability, or log-density, of every cell; NaN where there is no value.

    Groups are taken in blocks of about `block` cells: memory beyond the cells is that of a block.
    """
    found = [np.zeros(0)]
    for part in _blocks(cells, block):
        own = np.where(part.observed)[0]
        nats = np.full(part.n_cells, np.nan)
        value = torch.from_numpy(part.value[own])
        nats[own] = base.family.log_prob(value, base.eta(part)[own]).numpy()
        found.append(nats)
    return np.concatenate(found)


def _blocks(cells: ValueCells, block: int) -> Iterator[ValueCells]:
    ends = np.searchsorted(cells.offset, np.arange(block, cells.n_cells + block, block))
    bounds = np.unique(np.concatenate([[0], ends.clip(max=cells.n_groups)]))
    for low, high in pairwise(bounds):
        yield cells.take(np.arange(low, high))


def features_of(
    model: FactorModel,
    table: ClassTable | None,
    working: WorkingScale,
    cells: ValueCells,
    options: ValueOptions,
) -> ValueFeatures:
    """Features of cells by a factor model and a table."""
    standard = working.cells(cells)
    found = factor_features(model, standard, causal=options.causal, ordered=options.ordered)
    found = add_amounts(found, model, cells, causal=options.causal)
    return found if table is None else table.add_features(found, cells, causal=options.causal)
