"""What fitted models pay to positions: their attention, averaged over groups or rows.

Groups are aligned by the place of their elements, 0 for the first; a table's columns are its
positions. What a null token or a hidden element's own mask takes is told apart, and rows are
renormalized over what is left, so that they are probabilities again.

An element of a group never sees itself: the diagonal is 0, and locality at most 1/2. In a causal
model nothing later is seen either: both neighbors are never compared, symmetry says no more than
how even a row is (see `symmetry`), and the raw one is 0.
"""

import copy
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.analysis.evaluate import evaluation_batches
from exfam.analysis.positions.matrices import encoding_weights, seen_positions, weights_of_seen
from exfam.analysis.positions.probe import PositionScores, position_scores
from exfam.analysis.positions.weights import renormalized
from exfam.checks import ExfamError, check_choice, check_whole
from exfam.encodings import Encoding, LearnedAbsolute, NoEncoding
from exfam.groups import Groups
from exfam.models.efa import EFANetwork
from exfam.models.tables.contract import TableCells
from exfam.models.tables.model import MaskedTableModel
from exfam.models.tables.tokens import CellTokens
from exfam.models.two_part import TwoPartModel

__all__ = ["PositionAttention", "group_attention", "own_weights", "table_attention"]

# All scores, or those that tokens alone have.
TERMS = ("both", "contextual")
# What a score is of: one matrix of the whole model, or one a layer, or one a head of a layer.
BY = ("model", "layer", "head")

Model = TypeVar("Model", TwoPartModel, MaskedTableModel)


@dataclass(frozen=True, eq=False)
class PositionAttention:
    """Mean attention between positions, in each head of a fitted model.

    `weights`: rows sum to 1, or to 0 where there is nothing to attend to
    `positional`: what the model's encoding makes by itself, as `encoding_weights` has it, without
        what the model never sees
    `elsewhere`: share that null tokens and masks took, before rows were renormalized
    `n_averaged`: groups, or rows of a table
    `direction`: "bidirectional" or "causal"
    """

    weights: Float64[Tensor, "layers heads length length"]
    positional: Float64[Tensor, "own_heads length length"]
    elsewhere: Float64[Tensor, "layers heads length"]
    n_averaged: int
    direction: str

    @property
    def mean(self) -> Float64[Tensor, "length length"]:
        """Over layers and heads."""
        return self.weights.mean((0, 1))

    def scores(self, *, by: str = "model") -> PositionScores:
        """Locality and symmetry of the mean matrix, or of each layer's, or of each head's.

        `by`: "model", "layer" or "head"; the mean of heads' symmetries is not that of the mean
            matrix (default "model")

        Raises ExfamError for fewer than 3 positions.
        """
        check_choice("by", by, BY)
        told = {"model": self.mean, "layer": self.weights.mean(1), "head": self.weights}
        return position_scores(told[by])

    def positional_scores(self) -> PositionScores:
        """Locality and symmetry of what the encoding makes by itself, the mean over its heads."""
        return position_scores(self.positional.mean(0))


def own_weights(
    encoding: Encoding, length: int, *, head_dim: int = 64, direction: str = "bidirectional"
) -> Float64[Tensor, "heads length length"]:
    """`encoding_weights` where no element sees itself, as in models of groups.

    `head_dim`: of the queries (default 64)
    `direction`: "causal" hides later positions as well (default "bidirectional")

    >>> from exfam.encodings import NoEncoding
    >>> own_weights(NoEncoding(), 3)[0].tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]
    """
    others = seen_positions(length, direction).fill_diagonal_(False)
    return weights_of_seen(encoding, others, head_dim=head_dim)


def group_attention(
    model: object,
    groups: Groups,
    *,
    length: int,
    part: str | None = None,
    term: str = "both",
    member: int = 0,
) -> PositionAttention:
    """Attention of a fitted EFA model between the first `length` elements of groups.

    Weights are summed over all groups of at least that length, cut to it, then renormalized.
    Positions that come with the groups (times, say) act as in the model, but elements are aligned
    by their order.

    `model`: a fitted EFA estimator, or a model of one
    `part`: "items" or "values" of a model that has both, or None for the one it has (default None)
    `term`: "both", or "contextual" for attention without the encoding, which is taken out of all
        layers; what it makes alone is `positional` (default "both")
    `member`: which of an ensemble (default 0)

    Raises ExfamError for a model without attention, for one whose weights are no shares, for a
    length that no group has, and for the contextual term of an encoding that leaves none.
    """
    check_whole("length", length)
    found = _member(model, member)
    if not isinstance(found, TwoPartModel) or not isinstance(found.part(part), EFANetwork):
        raise ExfamError(
            f"`model` must be EFA of groups, got {type(model).__name__}. Use `table_attention` for "
            "tables; other models have no attention."
        )
    network = cast(EFANetwork, found.part(part))
    attention = network.layers[0].attention
    if not attention.kernel.normalizes:
        raise ExfamError(
            "`model` must have weights that are shares, got linear attention. Fit with "
            "attention='softmax'."
        )
    cut = _cut(groups, length)
    seen = _with_term(found, term)
    paid = _mean_weights(seen, cast(EFANetwork, seen.part(part)), cut)
    own = own_weights(
        network.encoding, length, head_dim=attention.head_dim, direction=network.direction
    )
    return PositionAttention(
        weights=renormalized(paid[..., :length]),
        positional=own,
        elsewhere=paid[..., length:].sum(-1),
        n_averaged=len(cut),
        direction=network.direction,
    )


def table_attention(
    model: object, cells: TableCells, *, term: str = "both", member: int = 0
) -> PositionAttention:
    """Attention of a fitted table model from each hidden column to all columns, over rows.

    At its own place a target sees its MASK token, which is told as the diagonal; absent cells have
    weight 0. In a deep network the rows are those of each target's own copy of the row. What
    columns' own learned vectors make by themselves are their products over sqrt(length).

    `model`: a fitted estimator of tables, or a model of one
    `term`: "both" or "contextual", as in `group_attention`; without columns' own vectors as well
        (default "both")
    `member`: which of an ensemble (default 0)

    Raises ExfamError for another model, for a member that the ensemble does not have, and for the
    contextual term of an encoding that leaves none.
    """
    found = _member(model, 0)
    if not isinstance(found, MaskedTableModel):
        raise ExfamError(
            f"`model` must be one of tables, got {type(model).__name__}. Use `group_attention` for "
            "groups."
        )
    if not 0 <= member < found.n_members:
        raise ExfamError(f"`member` must be in 0 .. {found.n_members - 1}, got {member}.")
    if not len(cells):
        raise ExfamError("`cells` must hold at least one row, got none.")
    seen = _with_term(found, term).eval()
    columns = list(range(cells.code.shape[1]))
    total: Any = 0.0
    with torch.inference_mode():
        for _, batch in seen.chunks(cells, len(columns)):
            total = total + seen.weights(batch, columns)[member].double().sum(1).cpu()
    weights = total / len(cells)
    return PositionAttention(
        weights=weights,
        positional=_of_columns(found, member),
        elsewhere=torch.zeros_like(weights[..., 0]),
        n_averaged=len(cells),
        direction="bidirectional",
    )


def _member(model: object, member: int) -> object:
    # Estimators live on a higher floor: they are known by what fitting gives them.
    members = getattr(model, "members_", None)
    if members is None:
        return model
    if not 0 <= member < len(members):
        raise ExfamError(f"`member` must be in 0 .. {len(members) - 1}, got {member}.")
    return members[member]


def _with_term(model: Model, term: str) -> Model:
    """The model, or a copy without any encoding."""
    check_choice("term", term, TERMS)
    if term == "both":
        return model
    plain = copy.deepcopy(model)
    for module in list(plain.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Encoding):
                if child.replaces:
                    raise ExfamError(
                        "`term` must be 'both' for an encoding that replaces the scores, got "
                        "'contextual': tokens have none."
                    )
                setattr(module, name, NoEncoding())
        if isinstance(module, CellTokens):
            module.positions.data.zero_()
    return plain


def _cut(groups: Groups, length: int) -> Groups:
    """The first elements of all groups that have so many."""
    own = groups.stop - groups.start
    kept = groups[np.flatnonzero(own >= length)]
    if not len(kept):
        raise ExfamError(
            f"`length` must be at most that of the longest group, {int(own.max(initial=0))}, got "
            f"{length}. Take fewer positions."
        )
    return kept.with_(stop=kept.start + length, context_start=None, context_stop=None)


def _mean_weights(
    model: TwoPartModel, network: EFANetwork, groups: Groups
) -> Float64[Tensor, "layers heads length columns"]:
    """The mean over groups of the same length; after elements come null token and mask."""
    model.eval()
    device = next(model.parameters()).device
    total: Any = 0.0
    with torch.inference_mode():
        for batch in evaluation_batches(groups, [model]):
            layers = network.hidden(batch.to(device)).weights
            total = total + torch.stack([each.sum(0, dtype=torch.float64) for each in layers]).cpu()
    return total / len(groups)


def _of_columns(
    model: MaskedTableModel, member: int
) -> Float64[Tensor, "own_heads columns columns"]:
    network = model.network
    vectors = network.tokens.positions[member].detach().cpu()
    if network.places is None:
        encoding: Encoding = LearnedAbsolute(*vectors.shape, generator=torch.Generator())
        cast(Any, encoding).table.weight.data.copy_(vectors)
    else:
        encoding = network.places.members[member]
    return encoding_weights(encoding, len(vectors), head_dim=network.head_dim)
