"""What a fitted EFA model pays to positions: its attention, averaged over groups.

Groups are aligned by the position of their elements, 0 for the first. What a null token or a hidden
element's own mask takes is reported apart, and rows are renormalized over what is left, so that
they are probabilities again.
"""

from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.checks import ExfamError, check_whole
from exfam.efa.networks.efa_network import EFANetwork
from exfam.estimator.evaluate import evaluation_batches
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.positions.attention import PositionAttention, member_of, own_weights, with_term
from exfam.positions.weights import renormalized

__all__ = ["group_attention"]


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
    found = member_of(model, member)
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
    seen = with_term(found, term)
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
