"""The latent factor model of fields as attention: EFA weights that equal a given one exactly.

Proposition 2 of "Exponential Family Attention" (section 4.1, appendix F), for fields of any number
of sites, with values missing, and with the sum over the nearest sites as well as over all.
"""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import Block, Connection, Linear
from exfam.checks import ExfamError
from exfam.conditionals.base import Tokens, attend
from exfam.efa.networks.efa_network import Dispersion, ItemBias, ValueHead
from exfam.embeddings import Concatenated, RawValue, TokenEmbedding
from exfam.families import Gaussian
from exfam.fields.networks.factor_network import FieldLatentFactorPart, NearestObserved
from exfam.groups import Batch
from exfam_studies.efa.special_cases import hidden_by_zeros, zeroed_attention


class NeighborhoodAttention(nn.Module):
    """One block of attention whose centers attend to their neighbors' tokens, and a head.

    An EFA network of one layer, but for who may be attended: `neighbors` says it of every batch.
    """

    direction = "bidirectional"

    def __init__(
        self,
        embedding: TokenEmbedding,
        block: Block,
        head: nn.Module,
        *,
        neighbors: NearestObserved,
    ) -> None:
        super().__init__()
        self.embedding, self.block, self.head = embedding, block, head
        self.neighbors = neighbors

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """The head's outputs for all elements, each given its neighbors."""
        content, center = self.embedding.content(batch), self.embedding.center(batch)
        place = torch.zeros_like(batch.element)  # the coordinates are in the tokens
        tokens = Tokens(content, center, place, batch.present)
        state, _ = attend(self.block, center, content, tokens, self.neighbors(batch))
        return self.head(state, batch)


def field_from_latent_factor(part: FieldLatentFactorPart, *, column: str) -> NeighborhoodAttention:
    """One layer of linear attention with the same eta as a latent factor model of a field.

    Tokens are [h(tau); y], y being 0 where it is hidden or missing. W^Q and W^K read h, so that
    scores are h(tau_i) . h(tau_j), and W^V reads y. `column` names the value. Raises ExfamError for
    a model of anomalies, whose values are not those of its tokens.
    Source: proposition 2 and appendix F.
    """
    if part.climate is not None:
        raise ExfamError("`part` must be a model of the values as they are, got one of anomalies.")
    factors = copy.deepcopy(part.factors)
    value = hidden_by_zeros(RawValue(column, Gaussian()))
    embedding = TokenEmbedding([factors, value], join=Concatenated())
    size, like = factors.dim, part.log_scale
    attention = zeroed_attention(embedding.dim, head_dim=size, kernel=Linear(), like=like)
    read = nn.utils.skip_init(nn.Linear, embedding.dim, 1, bias=False)
    nn.init.eye_(read.weight)
    with torch.no_grad():
        attention.query.weight[:, :size] = torch.eye(size)
        attention.key_value.weight[:size, :size] = torch.eye(size)
        attention.key_value.weight[size, size] = 1.0
        attention.output.weight[0, 0] = 1.0
    intercept = None if part.intercept is None else ItemBias(part.intercept[None])
    head = ValueHead(
        read,
        norm=nn.Identity(),
        dispersion=Dispersion({column: Gaussian()}, like[None]),
        intercept=intercept,
    )
    block = Block(attention, connection=Connection("none", embedding.dim))
    network = NeighborhoodAttention(embedding, block, head, neighbors=part.neighbors)
    return network.to(device=like.device, dtype=like.dtype)
