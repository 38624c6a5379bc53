"""Cheap baselines with the face of every model: marginals, and means shifted by shrunk residuals.

They are fitted in closed form, or by a convex search over a handful of numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.catalog import LinearEta
from exfam.checks import ExfamError, check_positive
from exfam.efa.networks.dispersion import item_rows
from exfam.efa.networks.most_likely import (
    Sample,
    in_units,
    minimize,
    most_likely,
    most_likely_of_items,
    observed_sample,
    target_elements,
)
from exfam.efa.networks.pooling import value_inputs, visible_sum
from exfam.families import Family
from exfam.groups import Batch, Groups
from exfam.likelihoods.terms import likelihood_for
from exfam.likelihoods.two_part import TwoPartModel

__all__ = [
    "MarginalItems",
    "MarginalValues",
    "ShrunkOffsetValues",
    "choose_k",
    "fit_marginal_items",
    "fit_marginal_values",
    "fit_shrunk_offset",
]

Families = Mapping[str, Family]
ElementWeight = Float[np.ndarray, "elements"] | None

# Padded elements at a time: bounds memory.
MAX_PADDED = 2**18
# Predicted means stay this share of the training values' range away from its ends: a count model
# whose mean is at the end of its support gives anything else almost no probability.
CLIP = 0.05


class MarginalItems(nn.Module):
    """Every element's item drawn from one frequency table, whatever the context."""

    log_frequency: Tensor

    def __init__(self, log_frequency: Float[Tensor, "items"]) -> None:
        super().__init__()
        self.register_buffer("log_frequency", log_frequency)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length items"]:
        """Log-frequencies, the same for every element."""
        return self.log_frequency.expand(*batch.present.shape, -1)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return len(self.log_frequency)

    def linear(self, batch: Batch) -> LinearEta:
        """The outputs as factors: states of length 0, and biases."""
        empty = self.log_frequency.new_zeros
        state, vectors = empty(*batch.present.shape, 0), empty(self.n_items, 0)
        return LinearEta(state, vectors, self.log_frequency, self.n_items)


class MarginalValues(nn.Module):
    """Every element's values drawn from one law, or from its item's own, whatever the context.

    The last row of `table` serves unknown items, and all elements if it is the only one.
    """

    table: Tensor

    def __init__(self, table: Float[Tensor, "rows eta"]) -> None:
        super().__init__()
        self.register_buffer("table", table)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """The parameters of each element's item."""
        return self.table[item_rows(batch, len(self.table) - 1)]


class ShrunkOffsetValues(nn.Module):
    """Item mean + (sum of the context's residuals) / (their number + k), as a family's mean.

    Means and residuals are those of standardized values, where a family standardizes. The context's
    observed values only; all others of the group, or the earlier ones if causal. Item means may be
    shrunk too: `fit_shrunk_offset` draws them to the global one.
    Means stay within `low` and `high`. The last row of `item_mean` serves unknown items.
    """

    item_mean: Tensor
    dispersion: Tensor
    low: Tensor
    high: Tensor

    def __init__(
        self,
        families: Families,
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
        one = shown[..., None].to(own)
        residuals = visible_sum(value - own, shown, self.direction)
        shrunk = residuals / (visible_sum(one, shown, self.direction) + self.k)
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


def fit_marginal_items(
    groups: Groups, n_items: int, *, smoothing: float = 1.0, weight: ElementWeight = None
) -> MarginalItems:
    """Frequencies of the targets' items, `smoothing` occurrences added to each.

    >>> groups = Groups(start=[0], stop=[3], item=[0, 0, 1])
    >>> fit_marginal_items(groups, 3, smoothing=1.0).log_frequency.exp()
    tensor([0.5000, 0.3333, 0.1667])
    """
    check_positive("smoothing", smoothing)
    if groups.item is None:
        raise ExfamError("`item` must be given for item frequencies, got groups without items.")
    count = np.zeros(n_items)
    for chunk in groups.chunks():
        own = target_elements(chunk)
        own = own[groups.item[own] >= 0]
        times = None if weight is None else weight[own]
        count += np.bincount(groups.item[own], weights=times, minlength=n_items)
    log_count = np.log(count + smoothing)
    # Counts of any size: their sum may be beyond the largest float.
    return MarginalItems(torch.from_numpy(log_count - np.logaddexp.reduce(log_count)).float())


def fit_marginal_values(
    groups: Groups,
    families: Families,
    *,
    n_items: int = 0,
    prior: float = 5.0,
    weight: ElementWeight = None,
) -> MarginalValues:
    """The most likely constant parameters of each value column.

    With `n_items`, each item's own, drawn to the global ones by `prior` observations that are
    spread as all values are; items never seen have the global ones.
    """
    check_positive("prior", prior)
    columns = []
    for column, family in families.items():
        sample = in_units(observed_sample(groups, column, weight=weight), family)
        table = most_likely(family, sample)[None]
        if n_items:
            items = most_likely_of_items(
                family, sample, n_items=n_items, prior=prior, start=table[0]
            )
            table = torch.cat([items, table])
        columns.append(table.float())
    return MarginalValues(torch.cat(columns, dim=-1))


def fit_shrunk_offset(
    groups: Groups,
    families: Families,
    *,
    k: float,
    direction: str,
    n_items: int = 0,
    item_prior: float = 1.0,
    weight: ElementWeight = None,
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
    families: Families,
    *,
    direction: str,
    grid: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
    fit: Callable[..., ShrunkOffsetValues] = fit_shrunk_offset,
) -> float:
    """The `k` of the grid under which the validation values are most likely.

    `fit` is `fit_shrunk_offset`, with whatever else of its arguments is to be fixed.
    """

    def nats(k: float) -> float:
        return _mean_nats(fit(train, families, k=k, direction=direction), validation)

    return max(grid, key=nats)


def _bounds(value: Float[Tensor, "n"]) -> tuple[float, float]:
    low, high = float(value.min()), float(value.max())
    margin = CLIP * (high - low)
    return low + margin, high - margin


def _item_means(sample: Sample, *, n_items: int, prior: float) -> Float[Tensor, "rows"]:
    """Item means, drawn to the mean of all by `prior` observations; in the last row that mean."""
    overall = (sample.times * sample.value).sum() / sample.times.sum()
    known = (sample.item >= 0) & (sample.item < n_items)
    item, times = sample.item[known], sample.times[known]
    total = torch.bincount(item, weights=times * sample.value[known], minlength=n_items)
    count = torch.bincount(item, weights=times, minlength=n_items)
    return torch.cat([(total + prior * overall) / (count + prior), overall[None]])


def _batches(groups: Groups, *, weight: ElementWeight = None) -> Iterator[Batch]:
    """All groups, longest first, in batches of bounded padded size."""
    order = np.argsort(-groups.lengths, kind="stable")
    first = 0
    while first < len(order):
        size = max(1, MAX_PADDED // max(1, int(groups.lengths[order[first]])))
        yield groups.pad(order[first : first + size], weight=weight)
        first += size


def _most_likely_dispersion(
    part: ShrunkOffsetValues, groups: Groups, *, weight: ElementWeight
) -> Float[Tensor, "dispersion"]:
    """The dispersions of all columns under which the groups' values are most likely."""
    batches = list(_batches(groups, weight=weight))
    chosen = [batch.target & batch.observed for batch in batches]

    def gathered(tensors: list[Tensor]) -> Tensor:
        pairs = zip(tensors, chosen, strict=True)
        return torch.cat([tensor[where] for tensor, where in pairs])

    mean = gathered([part.mean(batch) for batch in batches]).double()
    item = gathered([_item_or_none(batch) for batch in batches])
    times = gathered(
        [torch.ones(b.present.shape) if b.weight is None else b.weight for b in batches]
    )
    found = []
    for index, (column, family) in enumerate(part.families.items()):
        if family.n_dispersion:
            value = gathered([batch.values[column] for batch in batches])
            sample = in_units(Sample(value, item, times.double()), family)
            restored = family.restore(mean[:, index], item=item)
            found.append(_dispersion_of(family, sample, restored))
    return torch.cat([*found, mean.new_zeros(0)]).float()


def _item_or_none(batch: Batch) -> Tensor:
    return torch.full_like(batch.element, -1) if batch.item is None else batch.item


def _dispersion_of(
    family: Family, sample: Sample, mean: Float[Tensor, "n"]
) -> Float[Tensor, "dispersion"]:
    value = family.restore(sample.value, item=sample.item)
    start = family.initial_eta(value, item=sample.item)[-family.n_dispersion :]

    def loss(dispersion: Tensor) -> Tensor:
        eta = family.from_mean(mean, dispersion=dispersion.expand(len(mean), -1), item=sample.item)
        nats = family.unit_log_prob(sample.value, eta, item=sample.item)
        return -(sample.times * nats).sum() / sample.times.sum()

    return minimize(loss, start)


def _mean_nats(part: ShrunkOffsetValues, groups: Groups) -> float:
    model = TwoPartModel(value_part=part, families=part.families, direction=part.direction)
    likelihood = likelihood_for(part.direction)
    sums = [likelihood.sums(model.log_prob(batch), batch) for batch in _batches(groups)]
    return float(sum(nats for nats, _ in sums) / sum(n for _, n in sums))
