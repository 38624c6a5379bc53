"""Item means shifted by the shrunk residuals of the context, as a family's mean.

The rival of the papers' tables of ratings. exfam itself has levels of items and groups in
`LatentFactor(dim=0)`, whose shrinkage and spread are fitted, of any family.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import ExfamError, check_positive
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.context import value_inputs, visible_sum
from exfam.efa.networks.marginals import (
    Sample,
    mean_loss,
    observed_sample,
    standardized_sample,
)
from exfam.efa.plan import FitPlan, Weight
from exfam.embeddings import item_rows
from exfam.estimator.base import parameter
from exfam.estimator.rules import OrNone, Positive
from exfam.families import Family
from exfam.groups import Batch, Groups
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.training.lbfgs import find_minimum

# Padded elements at a time: bounds memory.
MAX_PADDED = 2**18
# Predicted means stay this share of the training values' range away from its ends: a count model
# whose mean is at the end of its support gives anything else almost no probability.
CLIP = 0.05


class ShrunkOffsetValues(nn.Module):
    """Item mean + (sum of the context's residuals) / (their number + k), as a family's mean.

    Means and residuals are those of standardized values, where a family standardizes. Means stay
    within `low` and `high`. The last row of `item_mean` serves unknown items.
    """

    item_mean: Tensor
    dispersion: Tensor
    low: Tensor
    high: Tensor

    def __init__(
        self,
        families: Mapping[str, Family],
        *,
        k: float,
        direction: str,
        item_mean: Float[Tensor, "rows columns"],
        low: Float[Tensor, "columns"],
        high: Float[Tensor, "columns"],
    ) -> None:
        super().__init__()
        check_positive("k", k)
        self.families, self.k, self.direction = dict(families), float(k), direction
        n_dispersion = sum(family.n_dispersion for family in families.values())
        self.register_buffer("item_mean", item_mean)
        self.register_buffer("dispersion", item_mean.new_zeros(n_dispersion))
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    def mean(self, batch: Batch) -> Float[Tensor, "batch length columns"]:
        """The predicted mean of each value column, standardized."""
        shown = batch.observed & batch.present
        own = self.item_mean[item_rows(batch, len(self.item_mean) - 1)]
        value = value_inputs(self.families, batch).to(own)
        is_shown = shown[..., None].to(own)
        residuals = visible_sum(value - own, shown, self.direction)
        shrunk = residuals / (visible_sum(is_shown, shown, self.direction) + self.k)
        return (own + shrunk).clamp(self.low, self.high)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """The parameters of the families that have these means."""
        means = self.mean(batch).unbind(-1)
        sizes = [family.n_dispersion for family in self.families.values()]
        columns = zip(self.families.values(), means, self.dispersion.split(sizes), strict=True)
        etas = [
            family.from_mean(
                family.restore(mean, item=batch.item), dispersion=dispersion, item=batch.item
            )
            for family, mean, dispersion in columns
        ]
        return torch.cat(etas, dim=-1).to(self.item_mean.dtype)


def fit_shrunk_offset(
    groups: Groups,
    families: Mapping[str, Family],
    *,
    k: float,
    direction: str,
    n_items: int = 0,
    item_prior: float = 1.0,
    weight: Weight = None,
) -> ShrunkOffsetValues:
    """Item means, drawn to the global mean by `item_prior` observations, and dispersions.

    Dispersions are the most likely ones given the means predicted on these groups.
    Raises ExfamError for a family that its mean does not determine.
    """
    check_positive("item_prior", item_prior)
    samples = []
    for column, family in families.items():
        sample = observed_sample(groups, column, weight=weight)
        # A family that its mean does not determine raises here, before any work is done.
        family.from_mean(sample.value[:1], item=sample.item[:1])
        unit = family.network_input(sample.value, item=sample.item)
        samples.append(Sample(unit, sample.item, sample.times))
    means = [_item_means(sample, n_items=n_items, prior=item_prior) for sample in samples]
    bounds = torch.tensor([_bounds(sample.value) for sample in samples])
    part = ShrunkOffsetValues(
        families,
        k=k,
        direction=direction,
        item_mean=torch.stack(means, dim=-1).float(),
        low=bounds[:, 0],
        high=bounds[:, 1],
    )
    part.dispersion = _most_likely_dispersion(part, groups, weight=weight)
    return part


def choose_k(
    train: Groups,
    validation: Groups,
    families: Mapping[str, Family],
    *,
    fit: Callable[..., ShrunkOffsetValues],
    grid: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
) -> float:
    """The `k` of the grid under which the validation values are most likely.

    `fit` is `fit_shrunk_offset`, with whatever else of its arguments is to be fixed.
    """

    def mean_nats(k: float) -> float:
        part = fit(train, families, k=k)
        model = TwoPartModel(value_part=part, families=part.families, direction=part.direction)
        likelihood = Likelihood(part.direction)
        sums = [likelihood.sums(model.log_prob(batch), batch) for batch in _batches(validation)]
        return float(sum(nats for nats, _ in sums) / sum(n for _, n in sums))

    return max(grid, key=mean_nats)


def _bounds(value: Float[Tensor, "n"]) -> tuple[float, float]:
    low, high = float(value.min()), float(value.max())
    margin = CLIP * (high - low)
    return low + margin, high - margin


def _item_means(sample: Sample, *, n_items: int, prior: float) -> Float[Tensor, "rows"]:
    """Item means, drawn to the mean of all by `prior` observations; in the last row that mean."""
    overall = (sample.times * sample.value).sum() / sample.times.sum()
    is_known = (sample.item >= 0) & (sample.item < n_items)
    item, times = sample.item[is_known], sample.times[is_known]
    total = torch.bincount(item, weights=times * sample.value[is_known], minlength=n_items)
    count = torch.bincount(item, weights=times, minlength=n_items)
    return torch.cat([(total + prior * overall) / (count + prior), overall[None]])


def _batches(groups: Groups, *, weight: Weight = None) -> Iterator[Batch]:
    """All groups, longest first, in batches of bounded padded size."""
    order = np.argsort(-groups.lengths, kind="stable")
    first = 0
    while first < len(order):
        size = max(1, MAX_PADDED // max(1, int(groups.lengths[order[first]])))
        yield groups.pad(order[first : first + size], weight=weight)
        first += size


def _most_likely_dispersion(
    part: ShrunkOffsetValues, groups: Groups, *, weight: Weight
) -> Float[Tensor, "dispersion"]:
    """The dispersions of all columns under which the groups' values are most likely."""
    batches = list(_batches(groups, weight=weight))

    def gathered(column: Callable[[Batch], Tensor]) -> Tensor:
        return torch.cat([column(batch)[batch.target & batch.observed] for batch in batches])

    mean = gathered(part.mean).double()
    item = gathered(lambda b: torch.full_like(b.element, -1) if b.item is None else b.item)
    times = gathered(lambda b: torch.ones(b.present.shape) if b.weight is None else b.weight)
    dispersions = []
    for index, (column, family) in enumerate(part.families.items()):
        if family.n_dispersion:
            value = gathered(partial(_column, name=column))
            sample = standardized_sample(Sample(value, item, times.double()), family)
            restored = family.restore(mean[:, index], item=item)
            dispersions.append(_dispersion_of(family, sample, restored))
    return torch.cat([*dispersions, mean.new_zeros(0)]).float()


def _column(batch: Batch, name: str) -> Tensor:
    return batch.values[name]


def _dispersion_of(
    family: Family, sample: Sample, mean: Float[Tensor, "n"]
) -> Float[Tensor, "dispersion"]:
    value = family.restore(sample.value, item=sample.item)
    start = family.initial_eta(value, item=sample.item)[-family.n_dispersion :]

    def loss(dispersion: Tensor) -> Tensor:
        repeated = dispersion.expand(len(mean), -1)
        eta = family.from_mean(mean, dispersion=repeated, item=sample.item)
        return mean_loss(family, sample, eta)

    return find_minimum(loss, start.double())


class ShrunkOffset(GroupEstimator):
    """Item mean + (sum of the group's other residuals) / (their number + k), as a family's mean.

    The baseline that a rating model must beat. Values only. Item means are drawn to the global mean
    by `item_prior` observations: an item rated once is halfway there by default.

    {parameters}

    >>> from exfam_studies.efa.shrunk_offset import ShrunkOffset
    >>> frame = {"user": [1, 1, 2, 2], "movie": ["a", "b", "a", "b"], "stars": [5, 4, 2, 1]}
    >>> model = ShrunkOffset(group="user", item="movie", value="stars", k=1.0)
    >>> model.fit(frame).predict(frame).round(1)
    array([4. , 3.5, 2.5, 2. ])
    """

    kind = "shrunk-offset"
    direction: str = parameter(
        text='"bidirectional" (all others\' residuals) or "causal" (earlier ones\')',
        default="bidirectional",
    )
    family: Any = parameter(
        text="a family that its mean determines, or a dict by value column", default="gaussian"
    )
    k: float | None = parameter(
        OrNone(Positive()),
        "strength of the shrinkage in observations; None chooses it on validation",
        default=5.0,
    )
    item_prior: float = parameter(
        Positive(),
        "strength in observations by which item means are drawn to the global mean",
        default=1.0,
    )
    validation_fraction: float = parameter(
        text="share of the groups held out, to choose `k` by", default=0.0
    )
    attributes = group_attributes = known = ()
    position = None
    parts, support = "values", "none"

    def _fit_members(self, plan: FitPlan) -> None:
        families = plan.schema.families
        fit = partial(
            fit_shrunk_offset,
            direction=self.direction,
            n_items=plan.schema.n_items or 0,
            item_prior=float(self.item_prior),
            weight=plan.weight,
        )
        self.k_ = self.k
        if self.k_ is None:
            if plan.validation is None:
                raise ExfamError(
                    "`validation_fraction` must be above 0 to choose `k`, got 0. Pass k=…, a "
                    "validation_fraction, or fit(…, validation=…)."
                )
            self.k_ = choose_k(plan.train, plan.validation, families, fit=fit)
        self.members_ = [self._member(fit(plan.train, families, k=self.k_))]

    def _member(self, part: ShrunkOffsetValues) -> TwoPartModel:
        return TwoPartModel(
            direction=self.direction, value_part=part, families=self.schema_.families
        )

    def _build(self, generator: torch.Generator, *, items: bool, values: bool) -> TwoPartModel:
        families, n_columns = self.schema_.families, len(self.schema_.families)
        part = ShrunkOffsetValues(
            families,
            k=self.k_ or 1.0,
            direction=self.direction,
            item_mean=torch.zeros((self.schema_.n_items or 0) + 1, n_columns),
            low=torch.zeros(n_columns),
            high=torch.zeros(n_columns),
        )
        return self._member(part)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config, tensors = super()._state()
        return config | {"k": self.k_}, tensors

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        self.k_ = config["k"]
