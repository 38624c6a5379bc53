"""SASRec in plain torch: a causal transformer over the last elements, with tied embeddings.

The loss is the full softmax, without the items of the window where no group repeats one.
Source: Kang & McAuley (2018), Self-attentive sequential recommendation.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from benchmarks.arena.contenders.training import DEVICE, train
from benchmarks.arena.kind import Contender, Data, Fitted
from benchmarks.arena.protocol import best_on_validation, popularity
from torch import Tensor, nn
from torch.nn import functional

from exfam.groups import Groups

TRIED = ((32, 0.2), (64, 0.2), (64, 0.5))  # length of vectors, dropout
N_LAYERS, N_HEADS, LEARNING_RATE, WEIGHT_DECAY = 2, 2, 2e-3, 0.05
BATCH_SIZE, MAX_EPOCHS, PATIENCE = 32, 80, 6
# Elements that a window predicts, and earlier ones that it sees beside them.
PREDICTED, EARLIER = 50, 50


class SASRec(nn.Module):
    """Outputs of all items at each of a window's positions, from the items before it."""

    def __init__(self, log_popularity: Tensor, dim: int, dropout: float) -> None:
        super().__init__()
        self.items = nn.Embedding(len(log_popularity) + 1, dim)  # the last is the start
        self.positions = nn.Embedding(PREDICTED + EARLIER, dim)
        nn.init.normal_(self.items.weight, std=dim**-0.5)
        nn.init.normal_(self.positions.weight, std=dim**-0.5)
        layer = nn.TransformerEncoderLayer(
            dim, N_HEADS, 4 * dim, dropout, batch_first=True, norm_first=True
        )
        last = nn.LayerNorm(dim)
        self.layers = nn.TransformerEncoder(layer, N_LAYERS, last, enable_nested_tensor=False)
        self.dropout = nn.Dropout(dropout)
        self.bias = nn.Parameter(log_popularity)

    def forward(self, before: Tensor) -> Tensor:
        length = before.shape[1]
        vectors = self.dropout(self.items(before) + self.positions.weight[:length])
        causal = torch.ones(length, length, dtype=torch.bool, device=before.device).triu(1)
        return self.layers(vectors, mask=causal) @ self.items.weight[:-1].T + self.bias


Window = tuple[int, int, int]  # flat indices: first seen, first predicted, end


def fit_sasrec(data: Data, seed: int) -> Fitted:
    def candidates() -> Iterator[tuple[dict[str, Any], Fitted]]:
        for dim, dropout in TRIED:
            fitted, epochs = _trained(data, dim, dropout, seed)
            yield {"dim": dim, "dropout": dropout, "epochs": epochs}, fitted

    return best_on_validation(candidates(), data)


def _trained(data: Data, dim: int, dropout: float, seed: int) -> tuple[Fitted, int]:
    torch.manual_seed(seed)
    log_popularity = torch.as_tensor(np.log(popularity(data)), dtype=torch.float32)
    network = SASRec(log_popularity, dim, dropout).to(DEVICE)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    random = np.random.default_rng(seed)

    def epoch() -> None:
        windows = list(_windows(data.train, offset=int(random.integers(PREDICTED))))
        order = random.permutation(len(windows))
        for index in np.array_split(order, max(1, len(order) // BATCH_SIZE)):
            before, own = _batch(data.train, [windows[i] for i in index], data.n_items)
            kept = own >= 0
            eta = network(before)[kept]
            if data.exclude:
                seen = functional.one_hot(before, data.n_items + 1).cumsum(1)[kept] > 0
                eta = eta.masked_fill(seen[:, :-1], -torch.inf)
            optimizer.zero_grad()
            functional.cross_entropy(eta, own[kept]).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()

    def predict(groups: Groups) -> np.ndarray:
        windows, out = list(_windows(groups, offset=0)), []
        with torch.inference_mode():
            for first in range(0, len(windows), BATCH_SIZE):
                part = windows[first : first + BATCH_SIZE]
                before, own = _batch(groups, part, data.n_items)
                out.append(network(before)[own >= 0].cpu().numpy())
        return np.concatenate(out)

    fitted = Fitted(predict)
    limits = {"max_epochs": MAX_EPOCHS, "patience": PATIENCE}
    return fitted, train(network, epoch, fitted, data, **limits)


def _windows(groups: Groups, *, offset: int) -> Iterator[Window]:
    """Every element is predicted in one window; the first one of a group is shorter by `offset`."""
    for start, stop in zip(groups.start.tolist(), groups.stop.tolist(), strict=True):
        for first in range(start - offset, stop, PREDICTED):
            predicted, end = max(first, start), min(first + PREDICTED, stop)
            if end > predicted:
                yield max(predicted - EARLIER, start), predicted, end


def _batch(groups: Groups, windows: list[Window], n_items: int) -> tuple[Tensor, Tensor]:
    """Items before each position, `n_items` the start; own items, -1 where none is predicted."""
    longest = max(end - first for first, _, end in windows)
    before = np.full((len(windows), longest), n_items, dtype=np.int64)
    own = np.full((len(windows), longest), -1, dtype=np.int64)
    starts = set(groups.start.tolist())
    for row, (first, predicted, end) in enumerate(windows):
        before[row, 1 : end - first] = groups.item[first : end - 1]
        if first not in starts:
            before[row, 0] = groups.item[first - 1]
        own[row, predicted - first : end - first] = groups.item[predicted:end]
    return torch.as_tensor(before, device=DEVICE), torch.as_tensor(own, device=DEVICE)


CONTENDERS = {
    "sasrec": Contender(label="SASRec", fit=fit_sasrec, is_random=True, most_items=10_000),
}
