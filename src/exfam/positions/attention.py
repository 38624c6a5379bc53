"""What fitted models pay to positions: their attention, averaged over groups or rows.

Groups are aligned by the position of their elements, 0 for the first; a table's columns are its
positions. What a null token or a hidden element's own mask takes is reported apart, and rows are
renormalized over what is left, so that they are probabilities again.

An element of a group never sees itself: the diagonal is 0, and locality at most 1/2. In a causal
model nothing later is seen either: both neighbors are never compared, symmetry says no more than
how even a row is (see `symmetry`), and the raw one is 0.
"""

import copy
from dataclasses import dataclass
from typing import TypeVar

from jaxtyping import Float64
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice
from exfam.encodings import Encoding, NoEncoding
from exfam.positions.matrices import seen_positions, weights_of_seen
from exfam.positions.probe import PositionScores, position_scores

# All scores, or those that tokens alone have.
TERMS = ("both", "contextual")
# What a score is of: one matrix of the whole model, or one a layer, or one a head of a layer.
BY = ("model", "layer", "head")

Model = TypeVar("Model", bound=nn.Module)


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
        weights = {"model": self.mean, "layer": self.weights.mean(1), "head": self.weights}
        return position_scores(weights[by])

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


def member_of(model: object, member: int) -> object:
    """One of a fitted estimator's members; a model that is no estimator, as it is."""
    members = getattr(model, "members_", None)
    if members is None:
        return model
    if not 0 <= member < len(members):
        raise ExfamError(f"`member` must be in 0 .. {len(members) - 1}, got {member}.")
    return members[member]


def with_term(model: Model, term: str) -> Model:
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
    return plain
