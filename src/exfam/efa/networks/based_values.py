"""A value part that is a base with a correction: parameters of the base, moved by a network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from exfam.efa.values.cells import UNSEEN, ValueCells, base_values, points, tied_positions
from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.given import GivenColumn, given_of_batch
from exfam.efa.values.values_base import ValuesBase, restored_base
from exfam.families import Family, Scaled
from exfam.groups import Batch
from exfam.layers import Dropout, linear
from exfam.training.precision import exactly

# The weight of a correction where there are no validation groups to choose it by.
USUAL_GATE = 0.5
# Inputs of a correction are cut there, in standard deviations.
_MOST_INPUT = 5.0
# How many cells the margin counts as in shares of classes, and in the scale of a group.
_MARGIN_CELLS, _SCALE_CELLS = 5.0, 5.0
_MOST_CLASSES = 10
_MOST_GRADIENT = 1e4


def input_columns(base: ValuesBase, features: ValueFeatures) -> Float64[np.ndarray, "cells inputs"]:
    """What a correction sees of a base's features, of the order of 1."""
    n = features.n_context
    columns = [
        features.mean,
        features.level,
        features.mean - features.level,
        0.5 * np.log(features.variance),
        0.5 * np.log((_SCALE_CELLS + features.chi_square) / (_SCALE_CELLS + n)),
        1 / np.sqrt(1 + n),
        1 / np.sqrt(1 + features.item_count),
        *features.neighbors.T,
    ]
    # Of a few classes how often they occur; of others there are too many.
    if base.table is not None and len(base.table.margin) <= _MOST_CLASSES:
        for counts in (features.others, features.expected):
            shares = (counts + _MARGIN_CELLS * base.table.margin) / (n[:, None] + _MARGIN_CELLS)
            columns += list(np.log(shares).T)
        columns += list(np.log(features.share).T)
    return np.stack(columns, 1)


@dataclass(frozen=True, eq=False)
class KeptValues:
    """Parameters and inputs of training elements, from models that were fitted without them.

    `index`: which row of these an element has, 0 if none, where all are 0.
    """

    index: Int64[Tensor, "elements"]
    eta: Float[Tensor, "rows params"]
    inputs: Float[Tensor, "rows inputs"]

    def at(self, element: Int64[Tensor, "some"]) -> tuple[Tensor, Tensor]:
        """Those of some elements."""
        rows = self.index[element]
        return self.eta[rows], self.inputs[rows]


class ColumnBase(nn.Module):
    """The base of a value column, its arrays as buffers, and how inputs are standardized.

    `family`: of the column, whose standardized values the base was fitted to
    """

    kept: KeptValues | None = None

    def __init__(
        self,
        column: str,
        family: Family,
        base: ValuesBase,
        center: Float64[np.ndarray, "inputs"],
        spread: Float64[np.ndarray, "inputs"],
    ) -> None:
        super().__init__()
        self.column, self.given = column, family
        self.head, self.config = base.head, base.config()
        self._arrays = list(base.arrays())
        for name, array in (base.arrays() | {"center": center, "spread": spread}).items():
            self.register_buffer(name, torch.from_numpy(np.array(array)))

    @property
    def family(self) -> Family:
        """Of the predictions."""
        return self.given if isinstance(self.given, Scaled) else self.head.family

    @property
    def direction(self) -> str:
        """Which other values predictions are given."""
        return "causal" if self.config["options"]["causal"] else "bidirectional"

    @property
    def n_inputs(self) -> int:
        """Inputs that a correction has."""
        return len(self._array("center"))

    @property
    def has_items(self) -> bool:
        """Whether it was fitted to items: beside one, there is a row of those never seen."""
        return len(self._array("level")) > 2

    def base(self) -> ValuesBase:
        """The base of the buffers."""
        return restored_base(self.config, {name: self._array(name) for name in self._arrays})

    def renew(self, base: ValuesBase) -> None:
        """Take over the numbers of a base of other groups, which may know more categories."""
        self.config = base.config()
        for name, array in base.arrays().items():
            setattr(self, name, torch.from_numpy(np.array(array)).to(getattr(self, name).device))

    def _array(self, name: str) -> np.ndarray:
        tensor: Any = getattr(self, name)
        return tensor.cpu().numpy()

    def outputs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Parameters at all elements, float64, and standardized inputs of a correction."""
        where = batch.present
        if self.kept is not None and self.training:
            found = self.kept.at(batch.element.cpu()[where.cpu()])
        else:
            base = self.base()
            features = base.features(self.cells(batch))
            found = base.eta_of(features), self.standardized(input_columns(base, features))
        device, shape = where.device, where.shape
        at = where.nonzero(as_tuple=True)
        eta, inputs = (
            part.new_zeros(*shape, part.shape[1]).to(device).index_put(at, part.to(device))
            for part in found
        )
        return eta, inputs

    def standardized(self, inputs: Float64[np.ndarray, "cells inputs"]) -> Float[Tensor, "c i"]:
        """Inputs in units of their spread."""
        unit = (inputs - self._array("center")) / self._array("spread")
        return torch.from_numpy(unit.clip(-_MOST_INPUT, _MOST_INPUT)).float()

    def cells(self, batch: Batch) -> ValueCells:
        """The elements that are no padding, group by group."""
        present = batch.present.cpu()
        observed = batch.has_value(self.column).cpu()[present]
        value = base_values(self.given, batch.values[self.column].cpu()[present].double())
        if batch.item is None or not self.has_items:
            item = np.zeros(len(value), dtype=np.int64)
        else:
            item = batch.item.cpu()[present].numpy()
            item = np.where(item < 0, UNSEEN, item)
        offset = np.concatenate([[0], np.cumsum(present.sum(1).numpy())]).astype(np.int64)
        position = batch.position.cpu()[present].numpy()
        tied, point = tied_positions(position), points(position)
        own = value.masked_fill(~observed, torch.nan).numpy()
        columns = [GivenColumn(**column) for column in self.config.get("given", [])]
        given = given_of_batch(batch, columns)
        return ValueCells(offset, item, own, tied, point=point, given=given)

    def shape(self) -> dict[str, Any]:
        """What an empty base of the same shape is built by, as plain values of JSON."""
        shapes = {name: list(self._array(name).shape) for name in (*self._arrays, "center")}
        return {"column": self.column, "config": self.config, "shapes": shapes}


def empty_column(shape: Mapping[str, Any], family: Family) -> ColumnBase:
    """A base of that shape whose arrays are to be loaded; `family`: of the column."""
    arrays = {name: np.zeros(size) for name, size in shape["shapes"].items()}
    center = arrays.pop("center")
    base = restored_base(shape["config"], arrays)
    return ColumnBase(shape["column"], family, base, center, np.ones_like(center))


def shapes_of(part: nn.Module | None) -> list[dict[str, Any]]:
    """The shapes of a value part's bases, none of one without."""
    columns: Any = getattr(part, "columns", [])
    return [column.shape() for column in columns]


def empty_columns(config: Mapping[str, Any], families: Mapping[str, Family]) -> list[ColumnBase]:
    """Empty bases of a member by what a model file says of it, none if it has none."""
    shapes = config.get("value_bases")
    return [
        empty_column(shape, families[shape["column"]])
        for shape in (shapes[config["member"]] if shapes else [])
    ]


class BasedValues(nn.Module):
    """Parameters of all value columns by their bases, changed by gate times a correction."""

    gate: Tensor

    def __init__(self, columns: list[ColumnBase], correction: nn.Module | None) -> None:
        super().__init__()
        self.columns, self.correction = nn.ModuleList(columns), correction
        self.register_buffer("gate", torch.tensor(1.0))

    @property
    def direction(self) -> str:
        """Of the bases."""
        first: Any = self.columns[0]
        return str(first.direction)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """Parameters at all elements, each given its context, side by side."""
        columns: Any = list(self.columns)
        with torch.no_grad(), exactly(self.gate.device):
            found = [column.outputs(batch) for column in columns]
        if self.correction is None or not self.gate:
            return torch.cat([eta for eta, _ in found], -1)
        correct: Any = self.correction
        inputs = torch.cat([part for _, part in found], -1)
        changes = correct(batch, inputs) * self.gate
        if self.training:  # in single precision, where families hold values that lie far out
            found = [(eta.to(changes.dtype), part) for eta, part in found]
            if changes.requires_grad:
                changes.register_hook(_limited)
        sizes = [column.head.n_changes for column in columns]
        parts = zip(columns, found, changes.split(sizes, dim=-1), strict=True)
        return torch.cat([column.head.changed(eta, own) for column, (eta, _), own in parts], -1)

    def numbers_an_element(self, longest: int) -> int:
        """Of the correction."""
        count: Any = getattr(self.correction, "numbers_an_element", None)
        return 0 if count is None else int(count(longest))


def loadings(part: BasedValues, n_items: int) -> Float[np.ndarray, "items dim"]:
    """The items' factors in the bases of values, by column side by side."""
    columns: Any = part.columns
    found = [column.base().model.loading[:n_items, 1:] for column in columns]
    return np.concatenate(found, 1, dtype=np.float32)


def _limited(gradient: Tensor) -> Tensor:
    """Gradients of values that lie very far out are no more than large."""
    return gradient.nan_to_num(0.0).clamp(-_MOST_GRADIENT, _MOST_GRADIENT)


class ValueCorrection(nn.Module):
    """What attention and the bases' features together change, from 0.

    `network`: gives the state of each element from its context
    """

    def __init__(
        self,
        network: Any,
        *,
        dim: int,
        n_inputs: int,
        n_outputs: int,
        hidden: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.network, self.norm = network, nn.LayerNorm(dim)
        self.inner = linear(dim + n_inputs, hidden, generator=generator)
        self.dropout = Dropout(dropout)
        self.outer = linear(hidden, n_outputs, generator=generator)
        nn.init.zeros_(self.outer.weight)

    def forward(
        self, batch: Batch, inputs: Float[Tensor, "batch length inputs"]
    ) -> Float[Tensor, "batch length outputs"]:
        state = self.norm(self.network.states(batch))
        both = torch.cat([state, inputs.to(state.dtype)], -1)
        return self.outer(self.dropout(nn.functional.gelu(self.inner(both))))

    def numbers_an_element(self, longest: int) -> int:
        """Of the network."""
        return int(self.network.numbers_an_element(longest))
