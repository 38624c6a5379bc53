"""Groups and batches that the model tests share, and ways to change one element of a batch."""

from dataclasses import replace

import numpy as np
import torch

from exfam.groups import Batch, Groups

LENGTHS = (4, 1, 6, 2, 5)


def make_groups(
    *, seed: int = 0, lengths=LENGTHS, n_items: int = 9, repeats: bool = False, **columns
) -> Groups:
    """Groups with random items (each at most once in a group unless `repeats`) and ratings 1-3."""
    random = np.random.default_rng(seed)
    lengths = np.asarray(lengths)
    stop = np.cumsum(lengths)
    columns.setdefault("values", {"value": random.integers(1, 4, stop[-1]).astype(np.float32)})
    if "item" not in columns:
        item = [random.choice(n_items, size=n, replace=repeats) for n in lengths]
        columns["item"] = np.concatenate(item).astype(np.int32)
    columns.setdefault("vocabulary", {"item": np.arange(n_items)})
    return Groups(start=stop - lengths, stop=stop, **columns)


def whole(groups: Groups, **kwargs) -> Batch:
    """All groups as one batch."""
    return groups.pad(np.arange(len(groups)), **kwargs)


def with_item(batch: Batch, row: int, column: int, item: int) -> Batch:
    changed = batch.item.clone()
    assert changed[row, column] != item
    changed[row, column] = item
    return replace(batch, item=changed)


def with_value(batch: Batch, row: int, column: int, value: float, *, name="value") -> Batch:
    changed = batch.values[name].clone()
    assert changed[row, column] != value
    changed[row, column] = value
    return replace(batch, values={**batch.values, name: changed})


def first_elements(batch: Batch, length: int) -> Batch:
    """The batch cut after its first `length` columns (all rows must be that long)."""
    return replace(
        batch,
        item=batch.item[:, :length],
        values={name: value[:, :length] for name, value in batch.values.items()},
        position=batch.position[:, :length],
        present=batch.present[:, :length],
        target=batch.target[:, :length],
        observed=batch.observed[:, :length],
        element=batch.element[:, :length],
        steps_back=batch.steps_back[:, :length],
    )


def more_padding(batch: Batch, *, garbage: float = float("nan")) -> Batch:
    """Three more columns of padding; their values are garbage."""

    def wider(x: torch.Tensor, fill: float) -> torch.Tensor:
        return torch.cat([x, x.new_full((x.shape[0], 3), fill)], dim=1)

    return replace(
        batch,
        item=wider(batch.item, 0),
        values={name: wider(value, garbage) for name, value in batch.values.items()},
        position=wider(batch.position, 0),
        present=wider(batch.present, False),
        target=wider(batch.target, False),
        observed=wider(batch.observed, False),
        element=wider(batch.element, -1),
        steps_back=wider(batch.steps_back, 0),
    )


def permuted(batch: Batch, order: torch.Tensor) -> Batch:
    """The columns in another order."""
    return replace(
        batch,
        item=batch.item[:, order],
        values={name: value[:, order] for name, value in batch.values.items()},
        position=batch.position[:, order],
        present=batch.present[:, order],
        target=batch.target[:, order],
        observed=batch.observed[:, order],
        element=batch.element[:, order],
        steps_back=batch.steps_back[:, order],
    )
