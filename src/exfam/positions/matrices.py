"""The attention that a positional encoding makes by itself, without any token."""

import copy
import math

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.checks import ExfamError, check_choice, check_whole
from exfam.encodings import DistanceBias, Encoding


def encoding_weights(
    encoding: Encoding, length: int, *, head_dim: int = 64, direction: str = "bidirectional"
) -> Float64[Tensor, "heads length length"]:
    """Attention weights between positions 0 .. length - 1 where tokens say nothing.

    Scores are the products of added vectors over sqrt(their length) (learned, sinusoidal), those of
    rotated queries and keys of ones over sqrt(head_dim) (rotary), the bias that is added to scores
    (ALiBi, T5, TUPE, tables; of queries of ones, where it depends on them), or log weights. In
    float64. `direction`: "causal" hides later positions (default "bidirectional").

    Raises ExfamError for a length that the encoding does not know, for another `head_dim` than it
    was built for, and for distances on a sphere, where positions are not in a row.
    Source: Chen, Varoquaux & Suchanek (2023), section 3.2.

    >>> from exfam.encodings import Attenuated
    >>> encoding_weights(Attenuated(w=1.0), 3)[0, 0].round(decimals=3).tolist()
    [0.721, 0.265, 0.013]
    """
    return weights_of_seen(encoding, seen_positions(length, direction), head_dim=head_dim)


def seen_positions(length: int, direction: str) -> Bool[Tensor, "length length"]:
    """Which positions each attends to, itself included.

    >>> seen_positions(2, "causal").tolist()
    [[True, False], [True, True]]
    """
    check_whole("length", length)
    check_choice("direction", direction, ("bidirectional", "causal"))
    everything = torch.ones(length, length, dtype=torch.bool)
    return everything.tril() if direction == "causal" else everything


def weights_of_seen(
    encoding: Encoding, may_attend: Bool[Tensor, "length length"], *, head_dim: int
) -> Float64[Tensor, "heads length length"]:
    """`encoding_weights` over the positions that may be attended to; 0 where there are none.

    >>> from exfam.encodings import NoEncoding
    >>> weights_of_seen(NoEncoding(), torch.tensor([[False, True], [False, False]]), head_dim=4)
    tensor([[[0., 1.],
             [0., 0.]]], dtype=torch.float64)
    """
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
