"""Groups and batches that the model tests share, and ways to change one element of a batch."""

from dataclasses import replace

import numpy as np
import torch

from exfam.groups import Batch, Groups

LENGTHS = (4, 1, 6, 2, 5)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randomize(module, source: torch.Generator, *, scale: float = 0.3):
    """The module with noise on every parameter, so that no term hides behind a zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=source, dtype=parameter.dtype)
            parameter += scale * noise
    return module


def redraw(module, source: torch.Generator, *, scale: float = 1.0):
    """The module with every parameter drawn anew, also those that start far from zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=scale, generator=source)
    return module


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


def groups_of_two_columns(lengths=LENGTHS, **columns) -> Groups:
    """Groups with a column of counts and one of numbers."""
    random, n = np.random.default_rng(5), sum(lengths)
    values = {"value": random.integers(1, 4, n), "other": random.normal(size=n)}
    return make_groups(lengths=lengths, values=values, **columns)


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


def _columns(batch: Batch, change) -> Batch:
    """The batch with every array of elements changed; `change` also has the padding's entry."""
    fills = {"item": 0, "position": 0, "present": False, "target": False, "observed": False}
    fills |= {"element": -1, "steps_back": 0}
    changed = {name: change(getattr(batch, name), fill) for name, fill in fills.items()}
    values = {name: change(value, float("nan")) for name, value in batch.values.items()}
    return replace(batch, values=values, **changed)


def first_elements(batch: Batch, length: int) -> Batch:
    """The batch cut after its first `length` columns (all rows must be that long)."""
    return _columns(batch, lambda x, fill: x[:, :length])


def more_padding(batch: Batch) -> Batch:
    """Three more columns of padding; their values are garbage."""
    return _columns(batch, lambda x, fill: torch.cat([x, x.new_full((len(x), 3), fill)], dim=1))


def permuted(batch: Batch, order: torch.Tensor) -> Batch:
    """The columns in another order."""
    return _columns(batch, lambda x, fill: x[:, order])
