"""What a fit knows of its items by their attributes, and what it would say of others."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError, ExfamWarning, shown, with_types
from exfam.columns.dialect import Dialect
from exfam.columns.label_index import LabelIndex
from exfam.efa.attributes.coding import FeatureCoding
from exfam.efa.attributes.item_table import by_label, read_item_table
from exfam.efa.attributes.likeness import CountLine, like_items
from exfam.efa.attributes.new_in_ridge import NewItems
from exfam.efa.networks.attributed import HALF_OWN, ItemFeatures
from exfam.efa.networks.new_items import NewItemTerms
from exfam.groups import Groups

ARGUMENT = "item_attributes"
# What arrays are called in a folder.
_ARRAYS = {
    "features": "item_features",
    "seen": "items_seen",
    "count": "item_counts",
    "is_own": "items_of_fit",
    "taste": "item_taste",
    "sold": "items_sold",
}
# Times that an added item came at which these count half.
_HALF_SOLD = 20.0


@dataclass(frozen=True)
class NewItemWeights:
    """How scores of items without history are mixed, chosen by items that a base did not see.

    `width`: how near those items are that a new one is like; `base`, `network`: of the outputs of
    these two; `popularity`: of the logarithm of expected counts; `nearest`: of how near the items
    of the context are; `taste`: of what their attributes say.
    """

    width: float = 0.2
    base: float = 0.3
    network: float = 0.5
    popularity: float = 0.0
    nearest: float = 0.4
    taste: float = 0.5


@dataclass(frozen=True, eq=False)
class ItemAttributes:
    """Features of a catalog's items, which of them a fit has seen with attributes, and how often.

    `count`: of elements; of items that were added, what is expected. `is_own`: the items of the
    fit, which have vectors of their own too; they come first. `taste`: see `fit_taste`. `sold`:
    how often added items came in groups since, of so many elements in all, the last number.
    """

    coding: FeatureCoding
    features: Float[np.ndarray, "items features"]
    seen: Bool[np.ndarray, "items"]
    count: Float[np.ndarray, "items"]
    is_own: Bool[np.ndarray, "items"]
    taste: Float[np.ndarray, "terms features"]
    sold: Float[np.ndarray, "new_and_all"]
    weights: NewItemWeights = NewItemWeights()

    @property
    def sources(self) -> Bool[np.ndarray, "items"]:
        """Items that new ones may be like."""
        return self.seen & (self.count > 0)

    def vectors(self) -> ItemFeatures:
        """What vectors of items are made of."""
        count = np.where(self.is_own, self.count, 0.0)
        own = torch.from_numpy(count / (count + HALF_OWN)).float()
        return ItemFeatures(torch.from_numpy(self.features).float(), own)

    def new_items(
        self,
        features: Float[np.ndarray, "new features"],
        codes: Int64[np.ndarray, "new"],
        *,
        like: Bool[np.ndarray, "items"],
        n_items: int,
    ) -> NewItems:
        """Items with these features and codes in a catalog of `n_items`; `like`: some that serve.

        Those they may be like, and whose counts say how popular attributes make an item.
        """
        share = np.zeros((len(codes), n_items))
        share[:, : len(like)] = like_items(features, self.features, like, width=self.weights.width)
        return NewItems(codes, share, np.exp(self.line(like).at(features)))

    def line(self, like: Bool[np.ndarray, "items"]) -> CountLine:
        """Log counts by attributes, of these items."""
        return CountLine.of(self.features[like], np.log(self.count[like] + 0.5))

    def terms(self, part: Any) -> NewItemTerms | None:
        """What scores of the added items are made of, beside a part's; None if there are none.

        All of them together are as probable as so many old ones, more or less by what attributes
        say of popularity, and by how often they came of how often they were due.
        """
        weights, n_old = self.weights, int(self.is_own.sum())
        if n_old == len(self.features):
            return None
        like, features = self.sources, torch.from_numpy(self.features).float()
        log_count = np.log(self.count[n_old:])
        usual = np.exp(self.line(like).at(self.features[like])).mean()
        odds = np.exp(log_count).sum() / (usual * n_old)
        sold, elements = self.sold[:-1], self.sold[-1]
        due = elements * odds / (1 + odds)
        is_guess = torch.from_numpy(1 - self.history()).float()
        popularity = log_count - np.log(self.count[like] + 0.5).mean()
        taste = torch.from_numpy(weights.taste * self.features[n_old:] @ self.taste.T).float()
        return NewItemTerms(
            features,
            shift=is_guess * torch.from_numpy(weights.popularity * popularity).float(),
            taste=is_guess[:, None] * taste,
            nearest=is_guess * weights.nearest,
            log_odds=float(np.log(odds * (len(sold) + sold.sum()) / (len(sold) + due))),
            own=1.0 if hasattr(part, "base") else weights.network,
        )

    def history(self) -> Float[np.ndarray, "new"]:
        """Of the added items, how much what came of them counts beside what attributes say."""
        return self.sold[:-1] / (self.sold[:-1] + _HALF_SOLD)

    def enlarged(
        self, features: Float[np.ndarray, "new features"], count: Float[np.ndarray, "new"]
    ) -> "ItemAttributes":
        """With further items, after the others."""
        return replace(
            self,
            features=np.concatenate([self.features, features]),
            seen=np.append(self.seen, np.zeros(len(count), dtype=bool)),
            count=np.append(self.count, count),
            is_own=np.append(self.is_own, np.zeros(len(count), dtype=bool)),
            sold=np.concatenate([self.sold[:-1], np.zeros(len(count)), self.sold[-1:]]),
        )

    def with_groups(self, groups: Groups) -> "ItemAttributes":
        """With what came of the added items in further groups."""
        count = _counts(groups, len(self.features))
        more = np.append(count[~self.is_own], count.sum())
        return replace(self, sold=self.sold + more)

    def to_config(self) -> dict[str, Any]:
        """Plain JSON, beside `arrays`."""
        return {"coding": self.coding.to_config(), "weights": asdict(self.weights)}

    def arrays(self) -> dict[str, torch.Tensor]:
        """What is no JSON."""
        return {name: torch.from_numpy(getattr(self, field)) for field, name in _ARRAYS.items()}

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], arrays: Mapping[str, torch.Tensor]
    ) -> "ItemAttributes":
        """What `to_config` and `arrays` gave."""
        numbers = {field: arrays[name].numpy() for field, name in _ARRAYS.items()}
        weights = with_types(NewItemWeights(**config["weights"]))
        return cls(FeatureCoding.from_config(config["coding"]), **numbers, weights=weights)


def attributes_of_items(
    source: Any, groups: Groups, *, item: str | None, dialect: Dialect
) -> ItemAttributes:
    """The attributes of the groups' items, in the order of their codes.

    Rows of other items are not used. Items without a row have their own vectors alone, and one
    ExfamWarning counts them. Raises DataError if no item of the groups has a row.
    """
    labels = groups.vocabulary["item"]
    table = read_item_table(source, argument=ARGUMENT, item=item, labels=labels, dialect=dialect)
    codes = by_label(table.labels, LabelIndex(labels).codes)
    rows = np.flatnonzero(codes >= 0)
    if not len(rows):
        raise DataError(
            f"`{ARGUMENT}` must have a row for items of the data, such as "
            f"{shown(labels.tolist()[0])}, got none of them but {shown(table.labels[0])}. Give "
            "items the same labels in both."
        )
    some = table.rows(rows)
    coding = FeatureCoding.of(some, ARGUMENT)
    seen = np.zeros(len(labels), dtype=bool)
    numbers = coding.numbers(some, ARGUMENT)
    features = np.zeros((len(labels), numbers.shape[1]))
    features[codes[rows]], seen[codes[rows]] = numbers, True
    if not seen.all():
        missing = np.flatnonzero(~seen)
        warnings.warn(
            f"{len(missing)} of {len(labels)} items have no row in `{ARGUMENT}`, such as "
            f"{shown(labels.tolist()[missing[0]])}: they have vectors of their own alone.",
            ExfamWarning,
            stacklevel=2,
        )
    is_own = np.ones(len(labels), dtype=bool)
    taste = np.zeros((features.shape[1] + 1, features.shape[1]))
    return ItemAttributes(
        coding, features, seen, _counts(groups, len(labels)), is_own, taste, np.zeros(1)
    )


def _counts(groups: Groups, n_items: int) -> Float[np.ndarray, "items"]:
    count = np.zeros(n_items)
    assert groups.item is not None
    for chunk in groups.chunks():
        item = groups.item[chunk.elements()]
        count += np.bincount(item[item >= 0], minlength=n_items)
    return count


def new_table(
    source: Any,
    attributes: ItemAttributes,
    labels: np.ndarray,
    *,
    item: str | None,
    dialect: Dialect,
) -> tuple[np.ndarray, Float[np.ndarray, "new features"]]:
    """Labels of new items in order, whatever the order of the rows, and their features.

    Raises DataError for items that the catalog has, or that are named by another type of label.
    """
    table = read_item_table(source, argument="items", item=item, labels=labels, dialect=dialect)
    there = np.flatnonzero(by_label(table.labels, LabelIndex(labels).codes) >= 0)
    if len(there):
        raise DataError(
            "`items` must be items that the model lacks, got "
            f"{shown(table.labels[there[0]])} at row {there[0]} ({len(there)} of "
            f"{len(table.labels)} rows). Leave out the rows of items that it has."
        )
    kinds = {type(label) for label in labels.tolist()}
    for row, label in enumerate(table.labels):
        if type(label) not in kinds:
            wanted = " or ".join(sorted(kind.__name__ for kind in kinds))
            raise DataError(
                f"`items` must name items by {wanted}, as the model does, got {shown(label)} "
                f"({type(label).__name__}) at row {row}."
            )
    order = _in_order(table.labels)
    table = table.rows(order)
    attributes.coding.warn_unknown(table, "items")
    return _as_labels(table.labels, labels), attributes.coding.numbers(table, "items")


def _in_order(labels: Sequence[Any]) -> Int64[np.ndarray, "labels"]:
    """Where the labels stand when they are sorted, by type first."""
    keys = [(type(label).__name__, label) for label in labels]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _as_labels(new: list[Any], labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind == "O":
        array = np.empty(len(new), dtype=object)
        array[:] = new
        return array
    return np.array(new)
