"""The thinnest masked model of words with attention: one head, no positions, no residual, no norm.

What proposition 6 of "Bidirectional attention as a mixture of continuous word experts" is about: in
the sentence a_1 … a_S with MASK at m, word k has the logit

    sum_j gamma_j w_k . c_aj,   gamma_j = tau_aj / sum_s tau_as,
    tau_a = exp(c_a^T W^KQ c_MASK / sqrt(d_w)),

w_k the rows of W^LOV, into which values, outputs and the last layer multiply. MASK is one of the S.
"""

import math

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from exfam.checks import ExfamError, check_whole
from exfam.groups import Batch
from exfam.layers import linear, table

_SCALE = 0.1


class WordAttention(nn.Module):
    """Logits of every word of a sentence given the others, which attention weighs by word alone.

    `words`: c_a of all words, that of MASK last; `query` and `key` together are W^KQ; `readout` is
    W^LOV. None of the three has a bias.

    >>> model = build_word_attention(4, embed_dim=3, generator=torch.Generator().manual_seed(0))
    >>> model(torch.tensor([[0, 1, 1]]), torch.tensor([[True, True, False]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(
        self, words: nn.Embedding, *, query: nn.Linear, key: nn.Linear, readout: nn.Linear
    ) -> None:
        super().__init__()
        self.words, self.query, self.key, self.readout = words, query, key, readout

    @property
    def n_words(self) -> int:
        """Words that are predicted, MASK apart."""
        return self.words.num_embeddings - 1

    def log_tau(self) -> Float[Tensor, "tokens"]:
        """Scores that MASK gives to all words, and last to MASK itself."""
        asked = self.query(self.words.weight[-1])
        return self.key(self.words.weight) @ asked / math.sqrt(len(asked))

    def forward(
        self, tokens: Int64[Tensor, "batch length"], present: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length words"]:
        """Logits at every place, a MASK standing there; of padding they mean nothing."""
        log_tau = self.log_tau()
        score = log_tau[tokens].masked_fill(~present, -torch.inf)
        own = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
        gamma = torch.where(own, log_tau[-1], score[:, None]).softmax(-1)
        to_mask = gamma.diagonal(dim1=1, dim2=2)[..., None]
        others = gamma.masked_fill(own, 0.0) @ self.words(tokens)
        logits: Tensor = self.readout(others + to_mask * self.words.weight[-1])
        return logits


def build_word_attention(
    n_words: int, *, embed_dim: int, generator: torch.Generator, head_dim: int | None = None
) -> WordAttention:
    """A model with random words that attends to all and predicts all alike, until it is fitted.

    W^Q and W^LOV start at 0. Trained together from there, attention may settle on single words long
    before these say much of others; training the rest first, as CBOW, avoids that.

    `head_dim`: d_w; None for `embed_dim` (default None)

    Raises ExfamError unless sizes are integers above 0.

    >>> model = build_word_attention(4, embed_dim=3, generator=torch.Generator().manual_seed(0))
    >>> model.log_tau().tolist(), bool(model.readout.weight.any())
    ([0.0, 0.0, 0.0, 0.0, 0.0], False)
    """
    inner = embed_dim if head_dim is None else head_dim
    for name, size in (("n_words", n_words), ("embed_dim", embed_dim), ("head_dim", inner)):
        check_whole(name, size)
    query, key = (linear(embed_dim, inner, generator=generator, bias=False) for _ in range(2))
    readout = linear(embed_dim, n_words, generator=generator, bias=False)
    with torch.no_grad():
        query.weight.zero_()
        readout.weight.zero_()
    words = table(n_words + 1, embed_dim, scale=_SCALE, generator=generator)
    return WordAttention(words, query=query, key=key, readout=readout)


def word_nats(model: WordAttention, batch: Batch) -> tuple[Float[Tensor, ""], Int64[Tensor, ""]]:
    """Minus the log-likelihood of all words that have a context, in nats, and how many they are.

    The objective of `exfam.training.steps.fit`. Raises ExfamError for groups without items.
    """
    if batch.item is None:
        raise ExfamError("`item` must be given for this model, got groups without items.")
    scored = batch.target & (batch.present.sum(1, keepdim=True) > 1)
    logits = model(batch.item, batch.present)[scored]
    return functional.cross_entropy(logits, batch.item[scored], reduction="sum"), scored.sum()
