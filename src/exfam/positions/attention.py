"""What encodings alone make of positions, and the attention that fitted models pay to them.

Groups are aligned by the position of their elements, 0 for the first; a table's columns are its
positions. What a null token or a hidden element's own mask takes is reported apart, and rows are
renormalized over what is left, so that they are probabilities again.

An element of a group never sees itself: the diagonal is 0, and locality at most 1/2. In a causal
model nothing later is seen either: both neighbors are never compared, symmetry says no more than
how even a row is (see `symmetry`), and the raw one is 0.
"""

import copy
import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice, check_whole
from exfam.columns.results import PlottedResult
from exfam.encodings import DistanceBias, Encoding, NoEncoding
from exfam.positions.probe import PositionScores, position_scores

# All scores, or those that tokens alone have.
TERMS = ("both", "contextual")
# What a score is of: one matrix of the whole model, or one a layer, or one a head of a layer.
BY = ("model", "layer", "head")

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True, eq=False, repr=False)
class PositionAttention(PlottedResult):
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

    picture = "position_maps"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `layer`, `head`, `position`, `attended` (all from 1), `weight`."""
        weights = self.weights.numpy()
        names = ("layer", "head", "position", "attended")
        indices = np.indices(weights.shape).reshape(4, -1) + 1
        return dict(zip(names, indices, strict=True)) | {"weight": weights.ravel()}

    @property
    def mean(self) -> Float64[Tensor, "length length"]:
        """Over layers and heads."""
        return self.weights.mean((0, 1))

    def scores(self, *, by: str = "model") -> PositionScores:
        """Locality and symmetry of the mean matrix, or of each layer's, or of each head's.

        `by`: "model", "layer" or "head"; the mean of heads' symmetries is not that of the mean
            matrix. Raises ExfamError for fewer than 3 positions.
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

    >>> own_weights(NoEncoding(), 3)[0].tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]
    """
    others = _seen_positions(length, direction).fill_diagonal_(False)
    return _weights_of_seen(encoding, others, head_dim=head_dim)


def encoding_weights(
    encoding: Encoding, length: int, *, head_dim: int = 64, direction: str = "bidirectional"
) -> Float64[Tensor, "heads length length"]:
    """Attention weights between positions 0 to length - 1 where tokens say nothing.

    Scores are the products of added vectors over sqrt(their length) (learned, sinusoidal), those of
    rotated queries and keys of ones over sqrt(head_dim) (rotary), the bias that is added to scores
    (ALiBi, T5, TUPE, tables; of queries of ones, where it depends on them), or log weights. In
    float64. `direction`: "causal" hides later positions.

    Raises ExfamError for a length that the encoding does not know, for another `head_dim` than it
    was built for, and for distances on a sphere, where positions are not in a row.
    Source: Chen, Varoquaux & Suchanek (2023), section 3.2.

    >>> from exfam.encodings import Attenuated
    >>> encoding_weights(Attenuated(w=1.0), 3)[0, 0].round(decimals=3).tolist()
    [0.721, 0.265, 0.013]
    """
    return _weights_of_seen(encoding, _seen_positions(length, direction), head_dim=head_dim)


def _seen_positions(length: int, direction: str) -> Bool[Tensor, "length length"]:
    """Which positions each attends to, itself included."""
    check_whole("length", length)
    check_choice("direction", direction, ("bidirectional", "causal"))
    everything = torch.ones(length, length, dtype=torch.bool)
    return everything.tril() if direction == "causal" else everything


def _weights_of_seen(
    encoding: Encoding, may_attend: Bool[Tensor, "length length"], *, head_dim: int
) -> Float64[Tensor, "heads length length"]:
    """`encoding_weights` over the positions that may be attended to; 0 where there are none."""
    _check_encoding(encoding, head_dim)
    position = torch.arange(len(may_attend))[None]
    with torch.no_grad():
        scores = _scores(copy.deepcopy(encoding).cpu().double(), position, head_dim)[0]
    weights = scores.masked_fill(~may_attend, -torch.inf).softmax(-1)
    # Rows with nothing to attend to are softmax(-inf) = NaN.
    return weights.masked_fill(~may_attend, 0.0)


def _check_encoding(encoding: Encoding, head_dim: int) -> None:
    check_whole("head_dim", head_dim)
    if isinstance(encoding, DistanceBias) and encoding.metric == "haversine":
        raise ExfamError(
            "`encoding` must take one number a position, got DistanceBias of latitudes and "
            "longitudes (metric='haversine'). Choose metric='euclidean'."
        )
    if encoding.head_dim not in (None, head_dim):
        raise ExfamError(
            f"`head_dim` must be {encoding.head_dim}, which {type(encoding).__name__} was built "
            f"for, got {head_dim}. Pass head_dim={encoding.head_dim}."
        )


def _scores(encoding: Encoding, position: Tensor, head_dim: int) -> Tensor:
    fixed = encoding.log_weights(position, position)
    if fixed is not None:
        return fixed.double()
    length = position.shape[1]
    total = torch.zeros(1, 1, length, length, dtype=torch.float64)
    added = encoding.embed(position)
    if added is not None:
        total = total + (added @ added.mT / math.sqrt(added.shape[-1]))[:, None]
    ones = torch.ones(1, encoding.n_heads, length, head_dim, dtype=torch.float64)
    if encoding.rotates:
        turned = encoding.rotate(ones, position)
        total = total + turned @ turned.mT / math.sqrt(head_dim)
    bias = encoding.bias(ones, position, position)
    return total if bias is None else total + bias


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
