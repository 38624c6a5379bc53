"""What predictions of values are made of, part by part: exact sums, of whole ensembles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.checks import ExfamError, check_choice
from exfam.columns.label_index import LabelIndex, index_of
from exfam.columns.results import PlottedResult
from exfam.efa.networks.based_values import BasedValues, ColumnBase
from exfam.efa.values.value_shares import PARTS, VALUE, EnsembleSteps, LocationUnit
from exfam.efa.values.value_steps import value_steps
from exfam.efa.values.working_scale import WorkingScale
from exfam.estimator.evaluate import device_of, evaluation_batches, set_to_predict
from exfam.families import Family, Scaled
from exfam.groups import Batch, Groups
from exfam.groups.arrange import group_of_elements
from exfam.likelihoods.two_part import TwoPartModel

Numbers = Float64[np.ndarray, "elements"]
Parts = Float64[np.ndarray, "entries"]


@dataclass(frozen=True, eq=False, repr=False)
class ValueExplanation(PlottedResult):
    """What the predictions of some elements' values are made of, as exact sums.

    Of each element: its row, group, item and value (NaN if not observed), the predicted `center`,
    as `predict` gives it, the `nats` of the value, and the `location`: the mean by the base's
    factor model, in the unit of values, of log(value + a constant), log(value / (1 - value)) or
    asinh(value / a constant) where `transform` is "identity", "log" ("log above 0" leaves zeros
    out), "logit" or "asinh".

    Of each entry: its `element`'s number, the `part`, and what it adds `to_location`, `to_center`
    and `to_nats`. Entries of an element add up to its three numbers. Location is linear: "overall",
    "item" (what it is above others), "attributes" (their effects), "level" (of the group, by all
    its other values together) and "value", one entry for each other value by what the items have in
    common, the largest first; `context` names its item, `context_value` is the value, and
    `by_level` is its share of "level".
    Center and nats are not linear in all, so that their entries are differences between
    predictions that know more and more, in this order:

    - "overall": no other value, and an item that training did not have
    - "item": its level, spread and frequencies
    - "attributes": of the element and its group, in models with some
    - "level", "value": the mean given the other values. Its change is divided in proportion to
      what they add to the location, by the slope of the prediction between both means; what is
      left where that is no line, by their size
    - "neighbors": means of the values nearby, in groups with an order or positions
    - "certainty": how many other values there are and how much they leave open
    - "scale": how far the other values are from their own predictions
    - "histogram": how often the group has each value, of families with classes or common counts
    - "attention": what is learned on top of the base
    - "columns": the element's own values of earlier value columns

    Of real numbers the center is linear up to "neighbors", so that the order there is of no matter.
    """

    column: str
    transform: str
    rows: Int64[np.ndarray, "elements"]
    groups: np.ndarray
    items: np.ndarray
    values: Numbers
    location: Numbers
    center: Numbers
    nats: Numbers
    element: Int64[np.ndarray, "entries"]
    part: np.ndarray
    context: np.ndarray
    context_value: Parts
    by_level: Parts
    to_location: Parts
    to_center: Parts
    to_nats: Parts

    picture = "value_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """All parts as columns of a table, one row for each.

        `row`, `group`, `item`, `part`, `context`, `context_value`, `by_level` and what is added:
        `location`, `center`, `nats`.
        """
        return {
            "row": self.rows[self.element],
            "group": self.groups[self.element],
            "item": self.items[self.element],
            "part": self.part,
            "context": self.context,
            "context_value": self.context_value,
            "by_level": self.by_level,
            "location": self.to_location,
            "center": self.to_center,
            "nats": self.to_nats,
        }

    @property
    def names(self) -> list[str]:
        """What stands for the part of each entry: "Alien = 5" of a value, else as "(item)"."""
        return [
            f"{context} = {value:g}" if part == "value" else f"({part})"
            for part, context, value in zip(
                self.part, self.context, self.context_value, strict=True
            )
        ]


def has_bases_of_values(members: Sequence[TwoPartModel]) -> bool:
    """Whether values are predicted by bases."""
    based = all(isinstance(member.value_part, BasedValues) for member in members)
    # What an exposure adds is none of a base's parts.
    return based and members[0].exposure is None


def explain_values(
    members: Sequence[TwoPartModel],
    groups: Groups,
    vocabulary: Mapping[str, np.ndarray],
    *,
    column: str | None,
    elements: Int64[np.ndarray, "elements"],
) -> ValueExplanation:
    """Of targets, by their numbers in the flat columns, which are the explanation's `rows`.

    `column`: None for the one that there is
    Raises ExfamError for a model without a base of values, and for another column.
    """
    if not has_bases_of_values(members):
        raise ExfamError(
            "`explain_value` needs a model with a base of values, got one without. Fit values with "
            "base='auto', a family that bases know and no `offset`."
        )
    names = list(members[0].families)
    chosen = names[0] if column is None and len(names) == 1 else column
    check_choice("column", chosen, names)
    number = np.full(groups.n_rows, -1, dtype=np.int64)
    number[elements] = np.arange(len(elements))
    work = _Work(members, str(chosen), number, index_of(vocabulary, "item"))
    group = np.zeros(groups.n_rows, dtype=np.int64)
    group[groups.elements()] = group_of_elements(groups)
    some = groups[np.unique(group[elements])]
    set_to_predict(members)
    with torch.inference_mode():
        batches = evaluation_batches(some, members) if len(some) else ()
        pieces = [work.explained(batch) for batch in batches]
    group_names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    return _joined(work, pieces, rows=elements, groups=group_names[group[elements]])


# Columns of elements and of entries.
_Piece = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class _Work:
    """What batches are explained by; `number`: of each row of the columns, -1 of those left out.

    `items`: the labels of items
    """

    members: Sequence[TwoPartModel]
    column: str
    number: Int64[np.ndarray, "rows"]
    items: LabelIndex

    def bases(self) -> list[ColumnBase]:
        """Of the members."""
        parts: list[Any] = [member.value_part for member in self.members]
        columns = [base for part in parts for base in part.columns]
        return [base for base in columns if base.column == self.column]

    def explained(self, batch: Batch) -> _Piece:
        """The chosen targets of a batch."""
        present = batch.present.numpy()
        own = self.number[batch.element.numpy()[present]]
        own = np.where(batch.target.numpy()[present], own, -1)
        chosen = np.flatnonzero(own >= 0)
        value = batch.values[self.column].double()
        value = value.masked_fill(~batch.has_value(self.column), torch.nan).numpy()[present]
        ensemble = self._ensemble(batch, chosen, value[chosen])
        entries, both, names = ensemble.entries(), ensemble.prediction(), self._names(batch)
        is_value = entries.part == PARTS.index(VALUE)
        of_elements = {
            "number": own[chosen],
            "items": names[chosen],
            "values": value[chosen],
            "location": ensemble.location(),
            "center": both[0],
            "nats": both[1],
        }
        return of_elements, {
            "element": own[chosen][entries.cell],
            "part": np.array(PARTS, dtype=object)[entries.part],
            "context": np.where(is_value, names[entries.source], ""),
            "context_value": np.where(is_value, value[entries.source], np.nan),
            "by_level": entries.by_level,
            "to_location": entries.to_location,
            "to_center": entries.to_both[0],
            "to_nats": entries.to_both[1],
        }

    def _ensemble(
        self, batch: Batch, chosen: Int64[np.ndarray, "chosen"], value: Numbers
    ) -> EnsembleSteps:
        moved, present, steps = batch.to(device_of(self.members[0])), batch.present, []
        corrected: list[Tensor] = []
        final: list[Tensor] = []
        for member, column in zip(self.members, self.bases(), strict=True):
            for found, etas in (
                (corrected, member.part_eta(moved)[0]),
                (final, member.value_eta(moved)),
            ):
                found.append(etas[self.column].cpu()[present][chosen])
            steps.append(value_steps(column.base(), column.cells(batch), chosen))
        units = [_unit(column.given, column.base().working) for column in self.bases()]
        family, earlier = self.members[0].families[self.column], self.members[0].earlier
        given = final if earlier is not None and self.column in earlier.names else None
        return EnsembleSteps(family, steps, units, corrected, given, value)

    def _names(self, batch: Batch) -> np.ndarray:
        """Of all elements of a batch: the item, or where there are none the number in the group."""
        present = batch.present.numpy()
        if batch.item is None or not len(self.items.labels):
            return np.nonzero(present)[1].astype(str).astype(object)
        return self.items.texts_of(batch.item.numpy()[present])


def _unit(family: Family, working: WorkingScale) -> LocationUnit:
    """Of locations: in the unit of values, or of logarithms or logits of values in that unit."""
    center, scale = (family.center, family.scale) if isinstance(family, Scaled) else (0.0, 1.0)
    if working.transform == "identity":
        return LocationUnit(center + scale * working.mean, scale * working.sd)
    if working.transform == "asinh":  # whose constant is in that unit
        return LocationUnit(working.mean, working.sd)
    return LocationUnit(working.mean + float(np.log(scale)), working.sd)


def _joined(
    work: _Work, pieces: Sequence[_Piece], *, rows: np.ndarray, groups: np.ndarray
) -> ValueExplanation:
    """One explanation, in the order of numbers."""
    elements, entries = (
        {name: np.concatenate([piece[name] for piece in half]) for name in half[0]}
        for half in zip(*[_EMPTY, *pieces], strict=True)
    )
    own, order = np.argsort(elements.pop("number")), np.argsort(entries["element"], kind="stable")
    columns: dict[str, Any] = {name: column[own] for name, column in elements.items()}
    columns |= {name: column[order] for name, column in entries.items()}
    return ValueExplanation(
        column=work.column,
        transform=work.bases()[0].base().working.transform,
        rows=rows,
        groups=groups,
        **columns,
    )


def _empty(whole: str, words: Sequence[str], numbers: Sequence[str]) -> dict[str, np.ndarray]:
    empty = {name: np.zeros(0) for name in numbers}
    words_of = {name: np.zeros(0, dtype=object) for name in words}
    return {whole: np.zeros(0, dtype=np.int64)} | words_of | empty


# Of no groups there are no batches.
_EMPTY = (
    _empty("number", ["items"], ["values", "location", "center", "nats"]),
    _empty(
        "element",
        ["part", "context"],
        ["context_value", "by_level", "to_location", "to_center", "to_nats"],
    ),
)
