"""Value columns given earlier ones of their element: fitted to what a fitted model leaves open."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from exfam.efa.gate import gain_by_groups
from exfam.efa.networks.based_values import BasedValues
from exfam.efa.value_fits import LEAST_GROUPS
from exfam.estimator.evaluate import device_of, evaluation_batches, set_to_predict, total_nats
from exfam.estimator.gain import Gain
from exfam.families import Family
from exfam.groups import Groups
from exfam.groups.arrange import sampled_groups
from exfam.likelihoods.earlier_columns import (
    ColumnNumbers,
    EarlierColumns,
    GivenEarlier,
    column_numbers,
    earlier_of,
    inputs_of,
)
from exfam.likelihoods.two_part import TwoPartModel

# Elements that changes are fitted to, at most.
_MOST_ROWS = 20_000
_MOST_STEPS = 300
_LEAST_SPREAD = 1e-8


class Change(NamedTuple):
    """A candidate: how many hidden units, and how firmly weights are held at 0."""

    hidden: int
    penalty: float


# From none to the freest; None changes nothing.
CHANGES = (None, Change(0, 100.0), Change(0, 1.0), Change(16, 3.0))


class Judged(NamedTuple):
    """Members of a fit, the groups that changes are fitted to, and those that judge them.

    `weight`: of the elements of both, None for all alike
    """

    members: Sequence[TwoPartModel]
    train: Groups
    validation: Groups
    weight: Float[np.ndarray, "elements"] | None = None

    @classmethod
    def of(
        cls,
        members: Sequence[TwoPartModel],
        train: Groups,
        validation: Groups | None,
        *,
        weight: Float[np.ndarray, "elements"] | None = None,
    ) -> "Judged":
        """Without validation groups every fifth training group judges in their place."""
        if validation is not None:
            return cls(members, train, validation, weight)
        judges = np.arange(len(train)) % 5 == 4
        return cls(members, train[~judges], train[judges], weight)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What one model says of the observed targets of some groups, by their elements."""

    element: Int64[np.ndarray, "rows"]
    etas: dict[str, Float[Tensor, "rows params"]]
    values: dict[str, Float[Tensor, "rows"]]  # as at the mean exposure
    own: dict[str, Float[Tensor, "rows"]]
    item: Int64[Tensor, "rows"] | None
    log_size: Float[Tensor, "rows"]
    missing: dict[str, Bool[Tensor, "rows"]]

    def nats(
        self, column: str, family: Family, change: Tensor | float = 0.0
    ) -> Float[Tensor, "rows"]:
        """Log-probabilities of a column with these changes of its parameters; NaN without value."""
        eta = self.etas[column] + change
        eta = torch.cat([eta[:, :1] + self.log_size[:, None], eta[:, 1:]], 1)
        has = self.has_value(column)
        item = None if self.item is None else self.item[has]
        found = eta.new_full((len(eta),), torch.nan)
        return found.index_put((has,), family.log_prob(self.own[column][has], eta[has], item=item))

    def take(self, rows: Bool[Tensor, "all"]) -> "_Rows":
        """Some rows."""
        dicts = (self.etas, self.values, self.own, self.missing)
        etas, values, own, missing = (
            {name: part[rows] for name, part in some.items()} for some in dicts
        )
        item = None if self.item is None else self.item[rows]
        element, size = self.element[rows.numpy()], self.log_size[rows]
        return _Rows(element, etas, values, own, item, size, missing)

    def has_value(self, column: str) -> Bool[Tensor, "rows"]:
        """Which rows have a value of a column."""
        missing = self.missing.get(column)
        return torch.ones(len(self.element), dtype=torch.bool) if missing is None else ~missing

    def has_all(self, columns: Sequence[str]) -> Bool[Tensor, "rows"]:
        """Which rows have a value of each of these columns."""
        return torch.stack([self.has_value(column) for column in columns]).all(0)

    def numbers(self, column: str, family: Family) -> ColumnNumbers:
        """Of a column's values."""
        has = self.has_value(column)
        return column_numbers(
            family, self.values[column][has], None if self.item is None else self.item[has]
        )


def fit_earlier_columns(parts: Sequence[Judged], *, seed: int = 0) -> Gain | None:
    """Let value columns see earlier ones of their element where validation gains by it.

    Members get what is fitted to their own training groups. Of the changes that are as good as the
    best one, but for chance, the least is taken; what may be chance altogether is left out. Returns
    what that adds to the nats of an element, None for members of a single value column or too few
    validation groups.
    """
    families, groups = parts[0].members[0].families, [part.validation for part in parts]
    if len(families) < 2 or sum(map(len, groups)) < LEAST_GROUPS:
        return None
    work = [_Work(part, families, seed) for part in parts]
    chosen: dict[str, Change] = {}
    for name in list(families)[1:]:
        change = _best([[own.nats(name, change) for own in work] for change in CHANGES], parts)
        if change is not None:
            chosen[name] = change
    with_it = [
        total_nats({name: own.nats(name, chosen.get(name)) for name in families}) for own in work
    ]
    without = [total_nats({name: own.nats(name, None) for name in families}) for own in work]
    for own in work:
        own.give(chosen)
    gain = gain_by_groups(with_it, without, groups, gate=1.0 if chosen else 0.0)
    return replace(gain, part="What earlier columns say")


def _best(nats: Sequence[Sequence[np.ndarray]], parts: Sequence[Judged]) -> Change | None:
    """The least change that is as good as the best; None where that may be by chance."""
    groups = [part.validation for part in parts]
    best = int(np.argmax([sum(np.nansum(part) for part in own) for own in nats]))
    for number, own in enumerate(nats):
        behind = gain_by_groups(nats[best], own, groups, gate=1.0)
        if behind.nats <= (behind.high - behind.nats) / 2:
            best = number
            break
    gain = gain_by_groups(nats[best], nats[0], groups, gate=1.0)
    return CHANGES[best] if gain.low > 0 and gain.n_groups >= LEAST_GROUPS else None


class _Work:
    """Rows of all members of a part, and the changes fitted to them."""

    def __init__(self, part: Judged, families: Mapping[str, Family], seed: int) -> None:
        self.part, self.families, self.seed = part, families, seed
        weight = part.weight
        train = sampled_groups(part.train, _MOST_ROWS, np.random.default_rng([seed, 17]))
        with _as_trained(part.members):
            self.train = [_rows_of(member, train) for member in part.members]
        self.judge = [_rows_of(member, part.validation) for member in part.members]
        first = self.train[0]
        self.weight = torch.from_numpy(np.ones(1) if weight is None else weight[first.element])
        self.numbers = {name: first.numbers(name, family) for name, family in families.items()}
        self.found: dict[tuple[str, Change], list[GivenEarlier]] = {}

    def fitted(self, column: str, change: Change) -> list[GivenEarlier]:
        """A change of every member, fitted once."""
        key = column, change
        if key not in self.found:
            self.found[key] = [
                _fit(rows, self.numbers, column, change, weight=self.weight, seed=self.seed)
                for rows in self.train
            ]
        return self.found[key]

    def nats(self, column: str, change: Change | None) -> Float[np.ndarray, "elements"]:
        """Of the own elements of the validation groups by the mixture of members; else NaN."""
        family, nats = self.families[column], []
        changes: Sequence[Any] = [None] * len(self.judge)
        if change is not None:
            changes = self.fitted(column, change)
        with torch.no_grad():
            for rows, part in zip(self.judge, changes, strict=True):
                moved = 0.0
                if part is not None:
                    inputs = inputs_of(self.numbers, column, rows.etas, rows.values, rows.item)
                    sees = rows.has_all(earlier_of(self.numbers, column))
                    moved = part(inputs) * sees[:, None]
                nats.append(rows.nats(column, family, moved))
        flat = np.full(self.part.validation.n_rows, np.nan)
        flat[self.judge[0].element] = (torch.stack(nats).logsumexp(0) - np.log(len(nats))).numpy()
        return flat[self.part.validation.elements()]

    def give(self, chosen: Mapping[str, Change]) -> None:
        """Let the members have the changes that were chosen."""
        for number, member in enumerate(self.part.members):
            parts = {name: self.fitted(name, own)[number] for name, own in chosen.items()}
            if parts:
                member.earlier = EarlierColumns(self.numbers, parts).to(device_of(member))


@contextmanager
def _as_trained(members: Sequence[TwoPartModel]) -> Iterator[None]:
    """Bases say of training elements what those that were fitted without them say."""
    set_to_predict(members)
    columns = [
        column
        for member in members
        if isinstance(member.value_part, BasedValues)
        for column in member.value_part.columns
    ]
    for column in columns:
        column.training = True
    yield
    for column in columns:
        column.training = False


def _rows_of(member: TwoPartModel, groups: Groups) -> _Rows:
    """What a model says without changes, in double precision."""
    names, pieces, device = list(member.families), [], device_of(member)
    with torch.inference_mode():
        for batch in evaluation_batches(groups, [member]):
            batch = batch.to(device)
            etas, seen = member.part_eta(batch)
            where = batch.target & batch.observed
            size = torch.zeros_like(batch.values[names[0]], dtype=torch.float64)
            size = size if member.exposure is None else member.exposure.of(batch)
            columns = [etas[name] for name in names]
            columns += [source.values[name] for source in (seen, batch) for name in names]
            columns += [~batch.has_value(name) for name in names]
            item = batch.item if batch.item is not None else torch.zeros_like(batch.element)
            columns += [size, item, batch.element]
            pieces.append([column[where].cpu() for column in columns])
    *numbers, size, item, element = (torch.cat(part).clone() for part in zip(*pieces, strict=True))
    etas, values, own, lacks = (
        dict(zip(names, numbers[first : first + len(names)], strict=True))
        for first in range(0, len(numbers), len(names))
    )
    etas, values, own = (
        {name: part.double() for name, part in some.items()} for some in (etas, values, own)
    )
    missing = {name: part for name, part in lacks.items() if part.any()}
    items = None if groups.item is None else item
    return _Rows(element.numpy(), etas, values, own, items, size, missing)


def _fit(
    rows: _Rows,
    numbers: Mapping[str, ColumnNumbers],
    column: str,
    change: Change,
    *,
    weight: Float[Tensor, "rows"],
    seed: int,
) -> GivenEarlier:
    """The change of least mean nats, ridged to none, by L-BFGS."""
    family = numbers[column].family
    some = rows.has_all([*earlier_of(numbers, column), column])
    if 1 < some.sum() < len(some):
        rows, weight = rows.take(some), weight[some] if len(weight) > 1 else weight
    inputs = inputs_of(numbers, column, rows.etas, rows.values, rows.item)
    spread = inputs.std(0)
    part = GivenEarlier(
        family,
        inputs.mean(0),
        torch.where(spread > _LEAST_SPREAD, spread, 1.0),
        hidden=change.hidden,
        generator=torch.Generator().manual_seed(seed),
    )
    known = rows.nats(column, family).isfinite() * weight
    n = max(1.0, float(known.sum()))
    held = [own for name, own in part.named_parameters() if name.endswith("weight")]

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        vector_to_parameters(torch.from_numpy(vector), part.parameters())
        part.zero_grad()
        nats = torch.where(known > 0, rows.nats(column, family, part(inputs)), 0.0)
        ridge = sum(own.square().sum() for own in held)
        total = change.penalty / (2 * n) * ridge - (nats * known).sum() / n
        total.backward()
        slopes = [own.grad for own in part.parameters() if own.grad is not None]
        return float(total.detach()), parameters_to_vector(slopes).numpy()

    start = parameters_to_vector(part.parameters()).detach().numpy()
    options = {"maxiter": _MOST_STEPS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-6}
    best = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    vector_to_parameters(torch.from_numpy(best), part.parameters())
    return part.requires_grad_(False)
