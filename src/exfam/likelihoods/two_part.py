"""Every fitted model: an item part and a value part with disjoint parameters, either optional.

A family says what one observation's probability is; a likelihood says which observations are
predicted from which context, and what their sum may be called. Any pair composes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn

from exfam.catalog.linear import LARGE_CATALOG, LinearEta
from exfam.catalog.listed import ContextItems, ContextTable, context_of_rows, runs
from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.catalog.sampled import ItemSampler, sampled_log_prob
from exfam.checks import ExfamError, check_choice
from exfam.families import Family
from exfam.groups import Batch
from exfam.layers import unrounded
from exfam.likelihoods.earlier_columns import EarlierColumns
from exfam.likelihoods.exposure import Exposure

DIRECTIONS = ("causal", "bidirectional")

Items = Float[Tensor, "batch length items"]
Where = tuple[Int[Tensor, "rows"], Int[Tensor, "rows"]]


def _codes(batch: Batch, n_items: int) -> Int[Tensor, "batch length"]:
    """Item codes, with padding and unknown items as code `n_items`."""
    if batch.item is None:
        raise ExfamError("`item` must be given for an item part, got groups without items.")
    return torch.where(batch.present & (batch.item >= 0), batch.item, n_items)


def repeated(batch: Batch, direction: str, *, n_items: int) -> Bool[Tensor, "batch length"]:
    """Elements whose own item occurs in the context they are predicted from.

    Unknown items (code -1) and padding never count as repeated.
    """
    check_choice("direction", direction, DIRECTIONS)
    code = _codes(batch, n_items)
    _, position, again = runs(code)
    if direction == "bidirectional":
        again[:, :-1] |= again[:, 1:].clone()
    return torch.empty_like(again).scatter_(1, position, again) & (code < n_items)


def _context_of(
    batch: Batch, direction: str, where: Where, n_items: int
) -> ContextItems | ContextTable:
    """The items in the contexts of some elements, in memory of the contexts."""
    causal = direction == "causal"
    return context_of_rows(_codes(batch, n_items), where, n_items=n_items, causal=causal)


def context_items(batch: Batch, direction: str, n_items: int) -> Bool[Tensor, "batch length items"]:
    """True where an item occurs in the context that an element is predicted from.

    Bidirectional: all other present elements, context-only ones included; causal: earlier ones.
    Unknown items (code -1) are seen by nobody.
    """
    check_choice("direction", direction, DIRECTIONS)
    code = _codes(batch, n_items)
    n_groups, length = code.shape
    zeros = torch.zeros(n_groups, n_items + 1, dtype=torch.int64, device=code.device)
    if direction == "causal":
        position = torch.arange(length, device=code.device).expand(n_groups, length)
        first = (zeros + length).scatter_reduce(1, code, position, reduce="amin")
        return first[:, None, :-1] < position[0, :, None]
    count = zeros.scatter_add(1, code, torch.ones_like(code))
    seen = (count > 0)[:, None].repeat(1, length, 1)
    seen.scatter_(2, code[..., None], (count.gather(1, code) > 1)[..., None])
    return seen[..., :-1]


class NoExclusion(nn.Module):
    """Every item may occur at any time.

    A support maps outputs of all items; its `choice` does so for outputs kept as factors, of the
    elements at `where`.
    """

    name = "none"

    def forward(self, eta: Items, batch: Batch, direction: str) -> Items:
        return eta

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        return ItemChoice(eta)


class HardExclusion(nn.Module):
    """Items of the context cannot occur again.

    An element for which nothing would be left keeps all items, so that its distribution is proper.
    """

    name = "hard"

    def forward(self, eta: Items, batch: Batch, direction: str) -> Items:
        """`eta` with -inf at the context's items.

        Raises ExfamError if a target repeats an item of its context, naming the element.
        """
        own = batch.original
        _check_no_target_repeats(own, repeated(own, direction, n_items=eta.shape[-1]))
        excluded = context_items(batch, direction, eta.shape[-1])
        if eta.shape[1] > eta.shape[-1]:
            # Only a group longer than the catalog can use it up.
            excluded = excluded & ~excluded.all(-1, keepdim=True)
        return eta.masked_fill(excluded, -torch.inf)

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        own = batch.original
        _check_no_target_repeats(own, repeated(own, direction, n_items=eta.n_items))
        seen = _context_of(batch, direction, where, eta.n_items)
        if batch.present.shape[1] > eta.n_items:
            seen = seen.sparing(eta.n_items)
        return ItemChoice(eta, excluded=(seen,))


class RepeatPenalty(nn.Module):
    """Items of the context are less likely by a learned factor exp(-penalty).

    The penalty is a scalar parameter: give it no weight decay, which would pull it to "no penalty".
    It has far to go from its start, so that its steps are larger than those of weights.

    >>> RepeatPenalty().penalty.item()
    5.0
    """

    name = "penalty"
    learning_rate_multipliers: ClassVar[Mapping[str, float]] = {"penalty": 30.0}

    def __init__(self, *, initial: float = 5.0) -> None:
        super().__init__()
        self.penalty = nn.Parameter(torch.tensor(float(initial)))

    def forward(self, eta: Items, batch: Batch, direction: str) -> Items:
        """`eta` with the penalty taken off at the context's items."""
        return eta - self.penalty * context_items(batch, direction, eta.shape[-1])

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        return ItemChoice(
            eta,
            penalized=(_context_of(batch, direction, where, eta.n_items),),
            penalty=self.penalty,
            again=repeated(batch, direction, n_items=eta.n_items)[where],
        )


def _check_no_target_repeats(batch: Batch, again: Bool[Tensor, "batch length"]) -> None:
    offending = again & batch.target
    if not bool(offending.any()):
        return
    row, column = offending.nonzero()[0].tolist()
    assert batch.item is not None
    raise ExfamError(
        "`item` must not repeat in its group with support='hard', got item code "
        f"{int(batch.item[row, column])}, which repeats at element "
        f"{int(batch.element[row, column])} ({int(offending.sum())} such elements in the batch). "
        "Use support='none' or 'penalty'."
    )


SUPPORTS: dict[str, type[nn.Module]] = {
    part.name: part for part in (NoExclusion, HardExclusion, RepeatPenalty)
}


Index = Int64[Tensor, "rows"]


@dataclass(frozen=True, eq=False)
class LogProb:
    """Exact log-probabilities in nats of each element's item and values; 0 where not a target."""

    item: Float[Tensor, "batch length"] | None = None
    value: Mapping[str, Float[Tensor, "batch length"]] = field(default_factory=dict)

    def total(self) -> Float[Tensor, "batch length"]:
        """Item and value columns added."""
        parts = [] if self.item is None else [self.item]
        return torch.stack([*parts, *self.value.values()]).sum(0)


def counted(log_prob: LogProb, batch: Batch) -> Bool[Tensor, "batch length"]:
    """Elements that have a term at all; each counts once, however many terms it has.

    A target counts unless it has nothing to predict: an unknown item (code -1) and no observed
    value that the model has a part for.
    """
    has_term = torch.zeros_like(batch.target)
    if log_prob.item is not None and batch.item is not None:
        has_term = has_term | (batch.item >= 0)
    for column in log_prob.value:
        has_term = has_term | batch.has_value(column)
    return batch.target & has_term


@dataclass(frozen=True)
class Likelihood:
    """The sum of all conditionals of a direction. Called with a model and a batch it is the loss.

    Causal: each element given the earlier ones, the chain rule, so an exact log-likelihood.
    Bidirectional: each given all others of its group, a pseudo-log-likelihood.
    Source: "Exponential Family Attention", eq. 2.
    """

    direction: str

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, DIRECTIONS)

    def sums(self, log_prob: LogProb, batch: Batch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Weighted log-likelihood in nats and the sum of the weights of the counted elements.

        Their quotient is the score: higher is better.
        """
        total = log_prob.total()
        weight = torch.ones_like(total) if batch.weight is None else batch.weight.to(total.dtype)
        # Padding may carry any weight; NaN there must not survive a product with 0.
        weight = torch.where(counted(log_prob, batch), weight, 0.0)
        return (total * weight).sum(), weight.sum()

    def __call__(self, model: Any, batch: Batch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Minus the log-likelihood in nats (the loss to minimize) and the sum of weights.

        Raises ExfamError if the model's conditionals have the other direction.
        """
        if model.direction != self.direction:
            raise ExfamError(
                f"`model` must be {self.direction} for this likelihood, got "
                f"direction={model.direction!r}. Use Likelihood(model.direction)."
            )
        nats, weight = self.sums(model.log_prob(batch), batch)
        return -nats, weight


class TwoPartModel(nn.Module):
    """log p(x_i | context) + log p(y_i | x_i, context), exactly and in nats.

    A part is a module with `.eta(batch)`: one output an item, or the parameters of the value
    columns' families side by side, in the order of `families`. Item parts of many items give their
    outputs as factors, with `.linear(batch)`, and no array of elements x items is made. With a
    `sampler`, training estimates the items' normalizer; evaluation is exact all the same. Where a
    value column holds values in another unit than its own, `log_units` has that unit's logarithm:
    log-densities are in the column's own unit. With an `exposure` a column moves the parameters of
    all values. With `earlier` a value column is given those before it of the same element, which
    changes what the value part says of it: the sum over columns is exact for all of them together.
    An item part that has an `.alone()`, a simpler one, may have a `mix`: the share of
    that one's probabilities in those of an ensemble.
    Source: "Exponential Family Attention", eq. 2.
    """

    def __init__(
        self,
        *,
        direction: str,
        item_part: nn.Module | None = None,
        value_part: nn.Module | None = None,
        families: Mapping[str, Family] | None = None,
        log_units: Mapping[str, float] | None = None,
        exposure: Exposure | None = None,
        support: nn.Module | None = None,
        sampler: ItemSampler | None = None,
        earlier: EarlierColumns | None = None,
    ) -> None:
        super().__init__()
        check_choice("direction", direction, DIRECTIONS)
        if item_part is None and value_part is None:
            raise ExfamError("`item_part` or `value_part` must be given, got neither.")
        self.families = dict(families or {})
        if (value_part is None) != (not self.families):
            raise ExfamError(
                "`families` must be given with a value part and only then, got "
                f"{sorted(self.families)}."
            )
        for name, part in (("item_part", item_part), ("value_part", value_part)):
            _check_direction(name, part, direction)
        self.log_units = {column: 0.0 for column in self.families} | dict(log_units or {})
        self.direction, self.exposure, self.earlier = direction, exposure, earlier
        self.item_part = item_part
        self.value_part = value_part
        self.support = NoExclusion() if support is None else support
        self.sampler = sampler

    def part(self, name: str | None = None) -> nn.Module:
        """The part of that name, "items" or "values"; None for the one that there is.

        Raises ExfamError for a part that is not there, and for None where there are both.
        """
        parts = {"items": self.item_part, "values": self.value_part}
        there = {label: part for label, part in parts.items() if part is not None}
        if name is None and len(there) == 1:
            return next(iter(there.values()))
        check_choice("part", name, there)
        return there[str(name)]

    def alone(self) -> "TwoPartModel":
        """The model of items that is left where nothing corrects the item part's base."""
        part: Any = self.item_part
        model = TwoPartModel(direction=self.direction, item_part=part.alone(), support=self.support)
        return model.train(self.training)

    def row_tables(self) -> list[nn.Parameter]:
        """Trainable parameters with a row an item that training reads row by row, never whole.

        Modules name theirs in `row_parameters`. Without a sampler, the item part reads them whole.
        """
        parts = [self.value_part] if self.sampler is None else [self.value_part, self.item_part]
        tables = [
            module.get_parameter(name)
            for part in parts
            if part is not None
            for module in part.modules()
            for name in getattr(module, "row_parameters", ())
            if getattr(module, name.split(".")[0]) is not None
        ]
        return [table for table in dict.fromkeys(tables) if table.requires_grad]

    @property
    def has_large_catalog(self) -> bool:
        """Whether items are so many that their outputs are kept as factors."""
        return getattr(self.item_part, "n_items", 0) >= LARGE_CATALOG

    def choice(self, batch: Batch, where: tuple[Index, Index]) -> ItemChoice:
        """What the elements at `where` (in order) may choose of the items, as factors."""
        part: Any = self.item_part  # nn.Module's attributes have no better type
        support: Any = self.support
        eta = part.linear(batch).at(where)
        eta = eta._replace(state=unrounded(eta.state))
        return support.choice(eta, batch, self.direction, where)

    def item_log_probs(self, batch: Batch) -> Float[Tensor, "batch length items"]:
        """Log-probability of every item at every element, normalized, support applied.

        Raises ExfamError without an item part, or if the support excludes a target.
        """
        if self.item_part is None:
            raise ExfamError("`item_part` must be given for item probabilities, got None.")
        eta = self.support(_eta(self.item_part, batch), batch, self.direction)
        return eta.log_softmax(-1)

    def value_eta(self, batch: Batch) -> dict[str, Float[Tensor, "batch length eta"]]:
        """Each value column's raw parameters, as its family reads them."""
        columns, seen = self.part_eta(batch)
        if self.earlier is not None:
            columns = self.earlier(columns, seen.values, seen.item, seen.observed, seen.missing)
        if self.exposure is None:
            return columns
        return {name: self.exposure.added(eta, batch) for name, eta in columns.items()}

    def part_eta(self, batch: Batch) -> tuple[dict[str, Float[Tensor, "batch length eta"]], Batch]:
        """What the value part alone says, at the mean exposure, and the batch as it sees it."""
        if self.value_part is None:
            return {}, batch
        sizes = [family.n_params for family in self.families.values()]
        seen = batch if self.exposure is None else self.exposure.at_mean(batch, self.families)
        columns = _eta(self.value_part, seen).split(sizes, dim=-1)
        return dict(zip(self.families, columns, strict=True)), seen

    def log_prob(self, batch: Batch) -> LogProb:
        """Log-probabilities of the targets' items and observed values."""
        item = None if self.item_part is None else self._item_log_prob(batch)
        value = {
            column: self._value_log_prob(column, eta, batch)
            for column, eta in self.value_eta(batch).items()
        }
        return LogProb(item=item, value=value)

    def _item_log_prob(self, batch: Batch) -> Float[Tensor, "batch length"]:
        samples = self.training and self.sampler is not None
        if batch.item is not None and (samples or self.has_large_catalog):
            return self._log_prob_of_choice(batch, batch.item)
        log_probs = self.item_log_probs(batch)
        assert batch.item is not None
        chosen = log_probs.gather(-1, batch.item.clamp_min(0)[..., None])[..., 0]
        return torch.where(batch.target & (batch.item >= 0), chosen, 0.0)

    def _value_log_prob(
        self, column: str, eta: Float[Tensor, "batch length eta"], batch: Batch
    ) -> Float[Tensor, "batch length"]:
        # Only observed targets reach the family: garbage elsewhere cannot turn gradients into NaN.
        where = batch.value_targets(column)
        item = None if batch.item is None else batch.item[where]
        value = batch.values[column][where]
        nats = self.families[column].log_prob(value, eta[where], item=item)
        nats = nats - self.log_units[column]
        return eta.new_zeros(eta.shape[:-1]).index_put(where, nats)

    def _log_prob_of_choice(self, batch: Batch, item: Tensor) -> Float[Tensor, "batch length"]:
        row, column = batch.item_targets()
        choice, own = self.choice(batch, (row, column)), item[row, column]
        if self.training and self.sampler is not None:
            nats = sampled_log_prob(choice, own, self.sampler())
        else:
            nats = log_prob_of(choice, own)
        return nats.new_zeros(item.shape).index_put((row, column), nats)


def _eta(part: nn.Module, batch: Batch) -> Float[Tensor, "batch length eta"]:
    compute: Any = part.eta  # nn.Module's attributes have no better type
    return unrounded(compute(batch))


def _check_direction(name: str, part: nn.Module | None, direction: str) -> None:
    own = getattr(part, "direction", direction)
    if own != direction:
        raise ExfamError(f"`{name}` must be {direction} as its model is, got direction={own!r}.")
