"""The attention that a positional encoding makes by itself, without any token."""

import copy
import math

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import check_choice, check_whole
from exfam.encodings import Encoding

__all__ = ["encoding_weights"]


def encoding_weights(
    encoding: Encoding, length: int, *, head_dim: int = 64, direction: str = "bidirectional"
) -> Float[Tensor, "heads length length"]:
    """Attention weights between positions 0 .. length - 1 where tokens say nothing.

    Scores are the products of added vectors over sqrt(their length) (learned, sinusoidal), those of
    rotated queries and keys of ones over sqrt(head_dim) (rotary), the bias that is added to scores
    (ALiBi, T5, TUPE, tables; of queries of ones, where it depends on them), or log weights. In
    float64. `direction`: "causal" hides later positions (default "bidirectional").

    Raises ExfamError for a length that the encoding does not know.
    Source: Chen, Varoquaux & Suchanek (2023), section 3.2.

    >>> from exfam.encodings import Attenuated
    >>> encoding_weights(Attenuated(w=1.0), 3)[0, 0].round(decimals=3).tolist()
    [0.721, 0.265, 0.013]
    """
    check_whole("length", length)
    check_choice("direction", direction, ("bidirectional", "causal"))
    position = torch.arange(length)[None]
    with torch.no_grad():
        scores = _scores(copy.deepcopy(encoding).double(), position, head_dim)[0]
    if direction == "causal":
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1)


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
