"""What fitted models say of groups, in bounded memory: log-probabilities, parameters, states.

Every function takes the members of an ensemble (one model is an ensemble of one) and returns flat
arrays with one entry a row of the groups' columns, NaN for other rows. Batches are
cut so that memory stays bounded; results do not depend on how they are cut.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.catalog.linear import chunks_of
from exfam.catalog.normalizer import ItemChoice
from exfam.catalog.ranking import all_log_probs, best_items, item_rank
from exfam.checks import ExfamError, check_inside
from exfam.groups import Batch, Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import TwoPartModel
from exfam.scores.metrics import ranks

# Numbers that one batch may hold in its largest array (4 bytes each, a few such arrays at a time).
MAX_NUMBERS = 4_000_000
# Of the array that predict_proba gives.
MAX_BYTES = 8e9


def evaluation_batches(
    groups: Groups, members: Sequence[TwoPartModel], *, max_numbers: int | None = None
) -> Iterator[Batch]:
    """All groups, padded, in batches whose largest arrays hold about `max_numbers` numbers.

    A group that needs more is a batch of its own.
    """
    if len(groups) == 1:
        yield groups.pad([0])
        return
    longest = int(groups.lengths.max(initial=1))
    needed = max(_numbers_an_element(member, groups.n_items, longest) for member in members)
    most = MAX_NUMBERS if max_numbers is None else max_numbers
    for index in sequential_batches(groups, max_tokens=max(1, most // needed)):
        yield groups.pad(index)


def _numbers_an_element(member: TwoPartModel, n_items: int, longest: int) -> int:
    """Numbers that an element of a group of that length takes in the largest array."""
    dense = member.item_part is not None and not member.has_large_catalog
    needs = [64, n_items if dense else 0]
    for part in (member.item_part, member.value_part):
        attends: Any = getattr(part, "numbers_an_element", None)  # others keep no such array
        if attends is not None:
            needs.append(attends(longest))
    return max(needs)


def _batches(members: Sequence[TwoPartModel], groups: Groups) -> Iterator[Batch]:
    """Batches on the members' device, with the members set to predict."""
    set_to_predict(members)
    device = device_of(members[0])
    for batch in evaluation_batches(groups, members):
        yield batch.to(device)


def set_to_predict(members: Sequence[nn.Module]) -> None:
    """Put members into evaluation mode that are not: a fit, or a load, has done so before."""
    for member in members:
        if member.training:
            member.eval()


def device_of(model: nn.Module) -> torch.device:
    """Where a model's tensors are; it may have buffers alone."""
    tensors = chain(model.parameters(), model.buffers())
    return next(tensors, torch.zeros(0)).device


def _mean_of_exp(nats: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Log of the mean of probabilities by their shares."""
    parts = [part + math.log(share) for part, share in zip(nats, shares, strict=True)]
    return parts[0] if len(parts) == 1 else torch.stack(parts).logsumexp(0)


def item_components(members: Sequence[TwoPartModel]) -> tuple[list[TwoPartModel], list[float]]:
    """The models whose probabilities of items an ensemble mixes, and the share of each.

    They are the members, and the base of the first one where that is mixed in.
    """
    mix = float(getattr(members[0].item_part, "mix", 0.0))
    shares = [(1 - mix) / len(members)] * len(members)
    if not mix:
        return list(members), shares
    return [*members, members[0].alone()], [*shares, mix]


def _write(out: np.ndarray, batch: Batch, where: Tensor, nats: Tensor) -> None:
    rows = batch.element[where].cpu().numpy()
    out[rows] = nats[where].double().cpu().numpy()
    # NaN in `out` means "no target": one that a model computed must not pass for that.
    _check_numbers(rows, out[rows])


def _check_numbers(rows: np.ndarray, numbers: np.ndarray) -> None:
    """Raise where a model's number for a row is NaN."""
    wrong = rows[np.isnan(numbers)]
    if len(wrong):
        raise ExfamError(
            f"`X` must lead to log-probabilities that are numbers, got NaN at element {wrong[0]} "
            f"({len(wrong)} elements). Look for extreme values or attributes there, or fit with a "
            "lower learning rate."
        )


def log_probs(
    members: Sequence[TwoPartModel], groups: Groups
) -> dict[str, Float[np.ndarray, "rows"]]:
    """Log-probabilities in nats of "item", where items are modeled, and of each value column.

    NaN where a row is no target of that part, or its value was not observed. An ensemble's
    probability is the mean of its members' probabilities, conditional by conditional, and of items
    that of their `item_components`.
    Raises ExfamError if a model's numbers are NaN.
    """
    first, n_members = members[0], len(members)
    components, shares = item_components(members)
    names = (["item"] if first.item_part is not None else []) + list(first.families)
    out = {name: np.full(groups.n_rows, np.nan) for name in names}
    with torch.inference_mode():
        for batch in _batches(members, groups):
            parts = [model.log_prob(batch) for model in components]
            if first.item_part is not None:
                assert batch.item is not None
                items = [part.item for part in parts if part.item is not None]
                nats = _mean_of_exp(items, shares)
                _write(out["item"], batch, batch.target & (batch.item >= 0), nats)
            for column in first.families:
                values = [part.value[column] for part in parts[:n_members]]
                nats = _mean_of_exp(values, [1 / n_members] * n_members)
                _write(out[column], batch, batch.target & batch.has_value(column), nats)
    return out


def total_nats(parts: Mapping[str, np.ndarray]) -> Float[np.ndarray, "rows"]:
    """The sum over parts of log-probabilities, NaN for rows that have none.

    And for those without one of "item" where there is that part: their item is unknown.
    """
    flat = np.stack(list(parts.values()))
    without = np.isnan(flat).all(axis=0) | np.isnan(parts.get("item", 0.0))
    return np.where(without, np.nan, np.nansum(flat, axis=0))


def value_parameters(
    members: Sequence[TwoPartModel], groups: Groups
) -> dict[str, Float[Tensor, "members rows params"]]:
    """Each member's parameters of each value column at every target, observed or not."""
    first = members[0]
    if first.value_part is None:
        raise ExfamError("`model` must have a value part to predict values, got items only.")
    out = {
        column: torch.full((len(members), groups.n_rows, family.n_params), torch.nan)
        for column, family in first.families.items()
    }
    with torch.inference_mode():
        for batch in _batches(members, groups):
            rows = batch.element[batch.target]
            for m, member in enumerate(members):
                for column, eta in member.value_eta(batch).items():
                    out[column][m, rows.cpu()] = eta[batch.target].float().cpu()
    return out


def item_probabilities(
    members: Sequence[TwoPartModel], groups: Groups
) -> Iterator[tuple[np.ndarray, Float[np.ndarray, "rows items"]]]:
    """Probabilities of all items at the targets, batch by batch: (rows, their probabilities)."""
    for rows, nats in item_log_probs(members, groups):
        yield rows, np.exp(nats)


def item_log_probs(
    members: Sequence[TwoPartModel], groups: Groups
) -> Iterator[tuple[np.ndarray, Float[np.ndarray, "rows items"]]]:
    """Log-probabilities of all items at the targets, batch by batch."""
    components, shares = item_components(members)
    with torch.inference_mode():
        if not _has_large_catalog(members):
            for batch in _batches(members, groups):
                parts = [model.item_log_probs(batch)[batch.target].double() for model in components]
                rows = batch.element[batch.target]
                yield rows.cpu().numpy(), _mean_of_exp(parts, shares).cpu().numpy()
            return
        # Some targets at a time, however many a group has.
        for batch, targets, choices in _choices(components, groups):
            rows = batch.element[targets]
            for some in chunks_of(len(rows), max(1, MAX_NUMBERS // choices[0].eta.n_items)):
                parts = [all_log_probs(choice.part(some)).double() for choice in choices]
                yield rows[some].cpu().numpy(), _mean_of_exp(parts, shares).cpu().numpy()


def top_items(
    members: Sequence[TwoPartModel], groups: Groups, *, k: int
) -> Iterator[tuple[np.ndarray, Int64[np.ndarray, "rows k"], Float[np.ndarray, "rows k"]]]:
    """The `k` most probable items at the targets: (rows, items, their probabilities), best first.

    Equally probable ones are in the order of their codes. Large catalogs are never held whole.
    Raises ExfamError if a model's numbers are NaN.
    """
    if not _has_large_catalog(members):
        for rows, probability in item_probabilities(members, groups):
            _check_numbers(rows, probability.sum(1))
            yield rows, *_best(probability, k)
        return
    components, shares = item_components(members)
    with torch.inference_mode():
        for batch, targets, choices in _choices(components, groups):
            item, nats = best_items(choices, k=k, shares=shares)
            rows = batch.element[targets].cpu().numpy()
            probability = nats.double().exp().cpu().numpy()
            _check_numbers(rows, probability.sum(1))
            yield rows, item.cpu().numpy(), probability


def _best(probability: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes and probabilities of each row's `k` most probable items, best first."""
    best = np.argsort(-probability, axis=1, kind="stable")[:, :k]
    return best, np.take_along_axis(probability, best, axis=1)


def top_of_means(
    members: Sequence[TwoPartModel], groups: Groups, *, of: Int64[np.ndarray, "groups"], k: int
) -> tuple[Int64[np.ndarray, "numbers k"], Float[np.ndarray, "numbers k"]]:
    """The `k` most probable items by the mean over targets of groups of the same number.

    `of`: the number of each group, from 0. Returns items and probabilities, best first.
    Raises ExfamError if a model's numbers are NaN.
    """
    number = np.zeros(groups.n_rows, dtype=np.int64)
    number[groups.elements()] = np.repeat(of, groups.stop - groups.start)
    total, count = np.zeros((int(of.max()) + 1, groups.n_items)), np.zeros(int(of.max()) + 1)
    for rows, probability in item_probabilities(members, groups):
        _check_numbers(rows, probability.sum(1))
        np.add.at(total, number[rows], probability)
        np.add.at(count, number[rows], 1)
    return _best(total / count[:, None], k)


def item_ranks(members: Sequence[TwoPartModel], groups: Groups) -> Float[np.ndarray, "rows"]:
    """Rank of every target's own item among all items, 1 the most probable; NaN for other rows.

    As `ranks` of `exfam.scores.metrics`: equals share the mean of their ranks, unknown items have
    rank infinity. Large catalogs are never held whole. Raises ExfamError if a model's numbers are
    NaN.
    """
    out = np.full(groups.n_rows, np.nan)
    if not _has_large_catalog(members):
        assert groups.item is not None
        for rows, probability in item_probabilities(members, groups):
            _check_numbers(rows, probability.sum(1))
            out[rows] = ranks(probability, groups.item[rows])
        return out
    components, shares = item_components(members)
    with torch.inference_mode():
        for batch, targets, choices in _choices(components, groups):
            assert batch.item is not None
            item, rows = batch.item[targets], batch.element[targets].cpu().numpy()
            rank = item_rank(choices, item, shares=shares)
            out[rows] = rank.masked_fill(item < 0, torch.inf).cpu().numpy()
            _check_numbers(rows, out[rows])
    return out


def _has_large_catalog(members: Sequence[TwoPartModel]) -> bool:
    if members[0].item_part is None:
        raise ExfamError("`model` must have an item part for item probabilities, got values only.")
    return members[0].has_large_catalog


def _choices(
    members: Sequence[TwoPartModel], groups: Groups
) -> Iterator[tuple[Batch, tuple[Tensor, Tensor], list[ItemChoice]]]:
    """Batches, where their targets are, and what each member says that these may choose."""
    for batch in _batches(members, groups):
        row, position = batch.target.nonzero(as_tuple=True)
        targets = (row, position)
        yield batch, targets, [member.choice(batch, targets) for member in members]


def of_choices(
    members: Sequence[TwoPartModel], groups: Groups, number: Callable[[ItemChoice], Tensor]
) -> Float[np.ndarray, "components rows"]:
    """What `number` says of what targets may choose, of each of `item_components`; NaN elsewhere.

    Of large catalogs alone.
    """
    components, _ = item_components(members)
    out = np.full((len(components), groups.n_rows), np.nan)
    with torch.inference_mode():
        for batch, targets, choices in _choices(components, groups):
            rows = batch.element[targets].cpu().numpy()
            for own, choice in zip(out, choices, strict=True):
                own[rows] = number(choice).double().cpu().numpy()
    return out


def chosen_levels(quantiles: Any, interval: Any) -> list[float] | None:
    """The levels of quantiles, or of the ends of a central interval; None where neither is given.

    Raises ExfamError for both, or for levels that are not strictly between 0 and 1.
    """
    if quantiles is not None and interval is not None:
        raise ExfamError("`quantiles` and `interval` must not both be given.")
    if interval is not None:
        check_inside("interval", interval)
        return [(1 - interval) / 2, (1 + interval) / 2]
    if quantiles is None:
        return None
    is_list = np.iterable(quantiles) and not isinstance(quantiles, str | Mapping | Set | Iterator)
    levels = list(quantiles) if is_list else []
    if not levels:
        raise ExfamError(f"`quantiles` must be a list of levels, got {quantiles!r}.")
    for level in levels:
        check_inside("quantiles", level)
    return levels


def check_size(n_rows: int, n_items: int) -> None:
    """Raise ExfamError if the probabilities of all items in all rows would not fit in memory."""
    size = n_rows * n_items * np.dtype(np.float64).itemsize
    if size > MAX_BYTES:
        raise ExfamError(
            f"`X` must lead to at most {MAX_BYTES / 1e9:g} GB of probabilities, got {n_rows} rows "
            f"and {n_items} items, {size / 1e9:.1f} GB. Predict for fewer rows, or recommend for "
            "the most probable items, or use log_prob for those that occurred."
        )
