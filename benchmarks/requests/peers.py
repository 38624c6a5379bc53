"""The same requests by others: a SASRec written by hand in plain torch, and implicit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import nn

Request = Callable[[Sequence[str]], Any]
DIM, HEADS, LONGEST, K = 64, 2, 50, 10


class SASRec(nn.Module):
    """One block of causal self-attention; the last state scores all items."""

    def __init__(self, n_items: int) -> None:
        super().__init__()
        self.items = nn.Embedding(n_items, DIM)
        self.positions = nn.Embedding(LONGEST, DIM)
        self.block = nn.TransformerEncoderLayer(
            DIM, HEADS, DIM, dropout=0.0, batch_first=True, norm_first=True
        )
        self.norm = nn.LayerNorm(DIM)

    def forward(self, item: torch.Tensor) -> torch.Tensor:
        length = item.shape[1]
        state = self.items(item) + self.positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.norm(self.block(state, src_mask=mask, is_causal=True))


def sasrec(labels: np.ndarray) -> dict[str, Request]:
    """Requests as a program of one's own would serve them: a dictionary, a network, the top."""
    torch.manual_seed(0)
    model = SASRec(len(labels)).eval()
    codes = {label: code for code, label in enumerate(labels.tolist())}
    vectors = model.items.weight

    @torch.inference_mode()
    def recommend(items: Sequence[str]) -> Any:
        state = model(torch.tensor([[codes[item] for item in items]]))[0, -1]
        top = (vectors @ state).log_softmax(0).topk(K)
        return labels[top.indices.numpy()], top.values.exp().numpy()

    @torch.inference_mode()
    def score(items: Sequence[str]) -> float:
        item = torch.tensor([[codes[item] for item in items]])
        nats = (model(item[:, :-1])[0] @ vectors.T).log_softmax(-1)
        return float(nats.gather(-1, item[0, 1:, None]).mean())

    return {"recommend": recommend, "score": score}


def implicit_models(item: np.ndarray, group: np.ndarray, labels: np.ndarray) -> dict[str, Request]:
    """Nearest neighbors and matrix factorization of the same groups; {} without implicit."""
    try:
        from implicit.als import AlternatingLeastSquares
        from implicit.nearest_neighbours import CosineRecommender
    except ImportError:
        return {}
    shape = (int(group.max()) + 1, len(labels))
    held = scipy.sparse.csr_matrix((np.ones(len(item), np.float32), (group, item)), shape=shape)
    codes = {label: code for code, label in enumerate(labels.tolist())}
    neighbors = CosineRecommender(K=20, num_threads=1)
    factors = AlternatingLeastSquares(factors=DIM, iterations=1, num_threads=1, random_state=0)
    for model in (neighbors, factors):
        model.fit(held, show_progress=False)

    def request(model: Any, **more: Any) -> Request:
        def recommend(items: Sequence[str]) -> Any:
            own = sorted({codes[item] for item in items})
            user = scipy.sparse.csr_matrix(
                (np.ones(len(own), np.float32), ([0] * len(own), own)), shape=(1, len(labels))
            )
            top, strength = model.recommend(0, user, N=K, **more)
            return labels[top], strength

        return recommend

    return {
        "implicit item-kNN": request(neighbors),
        "implicit ALS": request(factors, recalculate_user=True),
    }
