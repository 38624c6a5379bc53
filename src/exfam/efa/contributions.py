"""What a base's score of a candidate item is made of: what each item of the context adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.checks import ExfamError
from exfam.efa.blanks import append_blank
from exfam.efa.networks.based import BasedItems
from exfam.efa.recommend import item_codes
from exfam.estimator.evaluate import evaluation_batches
from exfam.estimator.schema import Schema
from exfam.groups import Batch, Groups
from exfam.likelihoods.two_part import TwoPartModel

NOTHING = "(nothing)"

Numbers = Float64[np.ndarray, "candidates"]


@dataclass(frozen=True, eq=False)
class Contributions:
    """How far each item of its context raised or lowered a candidate item, by a model's base.

    Of each candidate: its group, its item, the base's `score` of it, and what goes into its output
    eta, in nats and up to a constant over all items: eta = `base` + `correction`. The score
    estimates a probability: that the group holds the item (ridge regression), or that the item
    comes next (transitions, mixed). `base` is a function of it and of the item's popularity, the
    same for all candidates; `correction` is what attention adds, weighed by validation. A share of
    the base alone that validation mixed into the probabilities is in neither.

    Entries add up to the score: of candidate number `candidate`, how much the `context` item adds,
    `lag` elements before (None in sets), the largest first. The last one, "(nothing)", is the score
    without context: 0, or the item's popularity.
    """

    groups: np.ndarray
    items: np.ndarray
    score: Numbers
    base: Numbers
    correction: Numbers
    candidate: Int64[np.ndarray, "entries"]
    context: np.ndarray
    contribution: Float64[np.ndarray, "entries"]
    lag: Int64[np.ndarray, "entries"] | None = None

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `group`, `item`, `context`, `lag` (of sequences) and `contribution`."""
        lag = {} if self.lag is None else {"lag": self.lag}
        return {
            "group": self.groups[self.candidate],
            "item": self.items[self.candidate],
            "context": self.context,
            **lag,
            "contribution": self.contribution,
        }


def explain_next(
    model: TwoPartModel,
    schema: Schema,
    groups: Groups,
    vocabulary: Mapping[str, np.ndarray],
    *,
    item: Any,
) -> Contributions:
    """Contributions to a further item of each group: one for all, or one for each, by label.

    Raises UnknownItemError for an item not seen in training, ExfamError for another number of items
    than there are groups and for a model without a base.
    """
    item = item.tolist() if hasattr(item, "tolist") else item
    items: Sequence[Any] = item if isinstance(item, list | tuple) else [item] * len(groups)
    if len(items) != len(groups):
        raise ExfamError(
            f"`item` must be one label, or one for each of {len(groups)} groups, got {len(items)}."
        )
    blank = append_blank(groups, schema)
    assert blank.item is not None
    # An element never sees its own item.
    own = blank.item.copy()
    own[blank.stop - 1] = item_codes(vocabulary, items)
    return contributions(model, blank.with_(item=own), vocabulary)


def contributions(
    model: TwoPartModel, groups: Groups, vocabulary: Mapping[str, np.ndarray]
) -> Contributions:
    """Contributions to the known items of all targets of compact groups.

    Raises ExfamError for a model without a base.
    """
    part: Any = model.item_part
    if not isinstance(part, BasedItems):
        raise ExfamError(
            "`explain_item` needs a model with a base of items, got one without. Fit with "
            "base='auto'."
        )
    model.eval()
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    # Of no groups there are no batches.
    pieces = [[np.zeros(0, dtype=np.int64)] * 5 + [np.zeros(0)] * 4]
    with torch.inference_mode():
        for batch in evaluation_batches(groups, [model]):
            pieces.append(_of_batch(part, batch.to(part.gate.device)))
    columns = map(np.concatenate, zip(*pieces, strict=True))
    element, code, entry, context, lag, added, score, base, correction = columns
    order = np.argsort(element)
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    labels = np.array([*vocabulary["item"].tolist(), NOTHING], dtype=object)
    sizes = np.lexsort((-np.abs(added), context < 0, entry))
    return Contributions(
        groups=names[group[element[order]]],
        items=labels[code[order]],
        score=score[order],
        base=base[order],
        correction=correction[order],
        candidate=np.searchsorted(element[order], entry[sizes]),
        context=labels[context[sizes]],
        contribution=added[sizes],
        lag=lag[sizes] if model.direction == "causal" else None,
    )


def _of_batch(part: Any, batch: Batch) -> list[np.ndarray]:
    """Elements, candidates; elements, items, lags, additions; scores, bases and corrections."""
    assert batch.item is not None
    where = (batch.target & (batch.item >= 0)).nonzero(as_tuple=True)
    element, item = batch.element[where], batch.item[where]
    without, added = part.base.contributions(batch, where, item)
    row, position = (~added.isnan()).nonzero(as_tuple=True)
    eta = part.correction.linear(batch).at(where)
    correction = (eta.state * eta.vectors[item]).sum(-1)
    if eta.bias is not None:
        correction = correction + eta.bias[item]
    columns = (
        element,
        item,
        torch.cat([element[row], element]),
        torch.cat([batch.item[where[0][row], position], torch.full_like(item, -1)]),
        torch.cat([where[1][row] - position, torch.zeros_like(item)]),
        torch.cat([added[row, position], without]),
        without + added.nansum(1),
        part.offset(batch, where).own(item),
        correction * part.gate,
    )
    return [column.cpu().numpy() for column in columns]
