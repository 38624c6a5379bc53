"""Several linear attention layers as mixtures of mixtures: one path for each subset of layers.

With B_l = I + W'_l and U_l = W_O,l^T W_V,l, two layers give (biases apart)

    logits_m = sum_i A2_mi { W'' B2 B1 (x_m + sum_j A1_mj U1 x_j)
                             + W'' B2 U2 B1 (x_i + sum_j A1_ij U1 x_j) }

so that a cell reaches the target directly, through either layer's attention, or through both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.experts.bundle import AttentionLayer, LinearAttention
from exfam.experts.mixture import masked_copies, weighing
from exfam.experts.sentences import Sentences

Path = tuple[int, ...]
Copies = Float[Tensor, "rows targets positions embed"]
Functional = Float[Tensor, "rows targets positions params embed"]


@dataclass(frozen=True, eq=False)
class PathExperts:
    """What each cell adds to the logits of each target, by path through the layers' attention.

    A path names the layers, from 1, through whose attention it goes: () is direct, (1,) through
    layer 1 alone, (1, 2) through both. `weights` has one entry a layer: with the target masked,
    what each position pools from each other (at the last layer only the target's row counts).
    The logits are the sum of all parts plus `constant`, the biases'.
    """

    weights: tuple[Float[Tensor, "rows targets heads queries positions"], ...]
    parts: dict[Path, Float[Tensor, "rows targets positions params"]]
    constant: Float[Tensor, "targets params"]

    @property
    def total(self) -> Float[Tensor, "rows targets positions params"]:
        """What each cell adds to the logits along all paths."""
        return torch.stack(list(self.parts.values())).sum(0)

    @property
    def logits(self) -> Float[Tensor, "rows targets params"]:
        """The network's logits."""
        return self.total.sum(2) + self.constant


def path_experts(
    network: LinearAttention, sentences: Sentences, targets: Sequence[int]
) -> PathExperts:
    """The logits of each target, split by cell and by path; 2^L paths for L layers, exactly.

    Raises ExfamError where sentences or targets are not the network's.

    >>> from exfam.experts import random_network
    >>> network = random_network(torch.Generator().manual_seed(0), n_layers=2)
    >>> sorted(path_experts(network, Sentences(torch.tensor([[0, 1, 2]])), [2]).parts)
    [(), (1,), (1, 2), (2,)]
    """
    start = masked_copies(network, sentences, targets) + network.positions
    shown, m = weighing(sentences, targets), list(targets)
    weights = _weights(network.layers, start, shown)
    rows, _, n_positions, _ = start.shape
    readout = network.readout[m]
    at_target = torch.eye(n_positions, dtype=start.dtype)[m][None, :, :, None, None]
    functionals: dict[Path, Functional] = {
        (): at_target * readout[:, None].expand(rows, -1, -1, -1, -1)
    }
    for number in range(len(network.layers), 0, -1):
        layer, used = network.layers[number - 1], weights[number - 1]
        functionals = _one_layer_down(functionals, layer, used, number)
    parts = {
        path: torch.einsum("rtspe,rtse->rtsp", functional, start).masked_fill(
            ~shown[..., None], 0.0
        )
        for path, functional in sorted(functionals.items())
    }
    # What the layers' biases add: as weights sum to 1, they meet each cell's paths together.
    constant, reached = network.readout_bias[m], readout
    for layer in reversed(network.layers):
        kept = reached + reached @ layer.hidden
        constant = constant + kept @ layer.added + reached @ layer.hidden_bias
        reached = kept + torch.einsum("tpe,hed,hdf->tpf", kept, layer.out, layer.value)
    return PathExperts(weights, parts, constant)


def _weights(
    layers: Sequence[AttentionLayer], stream: Copies, shown: Tensor
) -> tuple[Float[Tensor, "rows targets heads queries positions"], ...]:
    """Attention weights of every layer, the stream going through the layers in between."""
    weights = []
    for layer in layers:
        query = torch.einsum("rtqe,hde->rthqd", stream, layer.query) + layer.query_bias[:, None]
        scores = layer.scale * torch.einsum("rthqd,hde,rtke->rthqk", query, layer.key, stream)
        used = scores.masked_fill(~shown[:, :, None, None], -torch.inf).softmax(-1)
        pooled = torch.einsum("rthqk,hed,hdf,rtkf->rtqe", used, layer.out, layer.value, stream)
        stream = stream + pooled + layer.added
        stream = stream + stream @ layer.hidden.T + layer.hidden_bias
        weights.append(used)
    return tuple(weights)


def _one_layer_down(
    functionals: dict[Path, Tensor], layer: AttentionLayer, weights: Tensor, number: int
) -> dict[Path, Tensor]:
    """From functionals of the stream after a layer to those of the stream before it."""
    below: dict[Path, Tensor] = {}
    for path, functional in functionals.items():
        kept = functional + functional @ layer.hidden
        below[path] = kept
        pooled = torch.einsum("rtqpe,rthqk,hed,hdf->rtkpf", kept, weights, layer.out, layer.value)
        below[(number, *path)] = pooled
    return below
