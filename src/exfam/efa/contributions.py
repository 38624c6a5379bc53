"""What a base's score of a candidate item is made of: what each item of the context adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.catalog.normalizer import log_prob_of
from exfam.checks import ExfamError
from exfam.columns.label_index import index_of
from exfam.columns.results import PlottedResult
from exfam.efa.base.known import inner_base
from exfam.efa.base.neighbors import NeighborItems
from exfam.efa.base.sets import Where
from exfam.efa.blanks import append_blank
from exfam.efa.networks.based import BasedItems
from exfam.efa.recommend import item_codes
from exfam.estimator.evaluate import evaluation_batches, item_components, set_to_predict
from exfam.estimator.schema import Schema
from exfam.groups import Batch, Groups
from exfam.groups.arrange import group_of_elements
from exfam.likelihoods.two_part import TwoPartModel

NOTHING = "(nothing)"

Numbers = Float64[np.ndarray, "candidates"]


@dataclass(frozen=True, eq=False, repr=False)
class Contributions(PlottedResult):
    """How far each item of its context raised or lowered a candidate item, by a model's base.

    Of each candidate: its group, its item, the base's `score` of it, and what goes into its output
    eta, in nats and up to a constant over all items: eta = `base` + `correction`. The score
    estimates a probability: that the group holds the item (ridge regression), or that the item
    comes next (transitions, mixed). `base` is a function of it and of the item's popularity, the
    same for all candidates, and `classes`: what it has by the latent classes of groups, 0 without
    any (see `exfam.efa.base.classes`), and `known`: what it has by attributes that are known
    beforehand; of sequences seen on both sides the score is what goes into it, in nats.
    `correction` is what attention adds, weighed by validation.

    They make the probability `corrected`: exp(eta), divided by the sum over all items. Validation
    may have mixed in a `share` of `alone`, the probability by the base as if nothing corrected it,
    so that one model predicts `probability` = (1 - share) * corrected + share * alone, exactly. All
    are those of the first member of an ensemble, but for `probability`, that of all members.

    Entries add up to the score: of candidate number `candidate`, how much the `context` item adds,
    `lag` elements before, or after where below 0 (None in sets), the largest first. The last one,
    "(nothing)", is the score without context: 0, or what the item's popularity makes it.
    """

    groups: np.ndarray
    items: np.ndarray
    score: Numbers
    base: Numbers
    correction: Numbers
    corrected: Numbers
    alone: Numbers
    probability: Numbers
    share: float
    classes: Numbers
    known: Numbers
    candidate: Int64[np.ndarray, "entries"]
    context: np.ndarray
    contribution: Float64[np.ndarray, "entries"]
    lag: Int64[np.ndarray, "entries"] | None = None

    picture = "contribution_bars"

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
    members: Sequence[TwoPartModel],
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
    candidate = np.full(blank.n_rows, -1)
    candidate[blank.stop - 1] = item_codes(vocabulary, items)
    return contributions(members, blank, vocabulary, candidate=candidate)


def contributions(
    members: Sequence[TwoPartModel],
    groups: Groups,
    vocabulary: Mapping[str, np.ndarray],
    *,
    candidate: Int64[np.ndarray, "rows"] | None = None,
) -> Contributions:
    """Contributions to the known items of all targets of compact groups, or to other candidates.

    Raises ExfamError for a model without a base.
    """
    first = members[0]
    part: Any = first.item_part
    if not isinstance(part, BasedItems):
        raise ExfamError(
            "`explain_item` needs a model with a base of items, got one without. Fit with "
            "base='auto'."
        )
    assert groups.item is not None
    code = groups.item if candidate is None else candidate
    group = group_of_elements(groups)
    # Of no groups there are no batches.
    pieces = [[np.zeros(0, dtype=np.int64)] * 5 + [np.zeros(0)] * 9]
    set_to_predict(members)
    with torch.inference_mode():
        for batch in evaluation_batches(groups, members):
            chosen = _candidates(batch.to(part.gate.device), code)
            pieces.append([*_of_base(part, *chosen), *_probabilities(members, *chosen)])
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    element, item, entry, context, lag, added, *numbers = columns
    order = np.argsort(element)
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    index = index_of(vocabulary, "item")
    is_sequence = first.direction == "causal" or isinstance(inner_base(part.base), NeighborItems)
    sizes = np.lexsort((-np.abs(added), context < 0, entry))
    score, base, classes, known, correction, corrected, alone, probability = (
        number[order] for number in numbers
    )
    return Contributions(
        groups=names[group[element[order]]],
        items=index.names_of(item[order]),
        score=score,
        base=base,
        correction=correction,
        corrected=corrected,
        alone=alone,
        probability=probability,
        share=float(part.mix),
        classes=classes,
        known=known,
        candidate=np.searchsorted(element[order], entry[sizes]),
        context=index.names_of(context[sizes], unknown=NOTHING),
        contribution=added[sizes],
        lag=lag[sizes] if is_sequence else None,
    )


def _candidates(batch: Batch, code: np.ndarray) -> tuple[Batch, Where, Int64[Tensor, "rows"]]:
    """A batch, its targets with a known candidate, and their candidates."""
    # Where nothing is present, an element is the last: -1.
    known = torch.from_numpy(np.append(code, -1).astype(np.int64))
    of_batch = known.to(batch.element.device)[batch.element]
    row, position = (batch.target & (of_batch >= 0)).nonzero(as_tuple=True)
    return batch, (row, position), of_batch[row, position]


def _of_base(
    part: Any, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
) -> list[np.ndarray]:
    """Elements, candidates; elements, items, lags, additions; scores and terms of eta."""
    assert batch.item is not None
    element = batch.element[where]
    without, added = part.base.contributions(batch, where, item)
    row, position = (~added.isnan()).nonzero(as_tuple=True)
    eta = part.correction.linear(batch).at(where)
    correction = (eta.state * eta.vectors[item]).sum(-1)
    if eta.bias is not None:
        correction = correction + eta.bias[item]
    scale, gate = part.weights()
    lifts = []
    for name in ("lift", "lift_by_known"):
        lift = getattr(part.base, name, None)
        lifts.append(torch.zeros_like(without) if lift is None else lift(batch, where, item))
    scale_of = scale[item] if scale.dim() else scale
    columns = (
        element,
        item,
        torch.cat([element[row], element]),
        torch.cat([batch.item[where[0][row], position], torch.full_like(item, -1)]),
        torch.cat([where[1][row] - position, torch.zeros_like(item)]),
        torch.cat([added[row, position], without]),
        without + added.nansum(1),
        part.offset(batch, where).own(item),
        *(lift * scale_of for lift in lifts),
        correction * (gate[item] if gate.dim() else gate),
    )
    return [column.cpu().numpy() for column in columns]


def _probabilities(
    members: Sequence[TwoPartModel], batch: Batch, where: Where, item: Int64[Tensor, "rows"]
) -> list[np.ndarray]:
    """By the first member with its correction, by its base alone, and by the whole model."""
    components, shares = item_components(members)
    part: Any = members[0].item_part
    is_base = len(members) == 1 and part.is_alone and float(part.scale) == 1.0
    if len(components) == len(members) and not is_base:
        components, shares = [*components, members[0].alone()], [*shares, 0.0]
    probability = torch.stack(
        [log_prob_of(model.choice(batch, where), item).double().exp() for model in components]
    )
    mixed = torch.tensor(shares).to(probability) @ probability
    return [column.cpu().numpy() for column in (probability[0], probability[-1], mixed)]
