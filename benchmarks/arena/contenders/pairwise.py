"""Sets by pairs: the softmax of a bias and the sum of a weight for each item of the context."""

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
from exfam.groups.arrange import compact

DECAYS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
LEARNING_RATE, BATCH_SIZE, MAX_EPOCHS, PATIENCE = 0.01, 64, 100, 3


class PairWeights(nn.Module):
    """A weight for every ordered pair of items, 0 at the start, and the log of popularity."""

    def __init__(self, log_popularity: Tensor) -> None:
        super().__init__()
        self.bias = nn.Parameter(log_popularity)
        self.weights = nn.Parameter(torch.zeros(len(log_popularity), len(log_popularity)))

    def forward(self, item: Tensor, group: Tensor) -> Tensor:
        """Outputs of all items at every element of groups numbered from 0."""
        own = self.weights[item]
        total = own.new_zeros(int(group[-1]) + 1, own.shape[1]).index_add(0, group, own)
        return self.bias + total[group] - own


def fit_pairwise(data: Data, seed: int) -> Fitted:
    def candidates() -> Iterator[tuple[dict[str, Any], Fitted]]:
        for decay in DECAYS:
            fitted, epochs = _trained(data, decay, seed)
            yield {"decay": decay, "epochs": epochs}, fitted

    return best_on_validation(candidates(), data)


def _trained(data: Data, decay: float, seed: int) -> tuple[Fitted, int]:
    """`decay` is the sum of squares' factor in the nats of all training elements together."""
    log_popularity = torch.as_tensor(np.log(popularity(data)), dtype=torch.float32)
    network = PairWeights(log_popularity).to(DEVICE)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    random = np.random.default_rng(seed)
    n_elements = data.train.n_elements

    def epoch() -> None:
        order = random.permutation(len(data.train))
        for index in np.array_split(order, max(1, len(order) // BATCH_SIZE)):
            item, group = _tensors(compact(data.train[index]))
            eta = network(item, group)
            if data.exclude:
                eta = eta.masked_fill(_others(item, group, data.n_items), -torch.inf)
            penalty = decay / n_elements * network.weights.square().sum()
            optimizer.zero_grad()
            (functional.cross_entropy(eta, item) + penalty).backward()
            optimizer.step()

    def predict(groups: Groups) -> np.ndarray:
        with torch.inference_mode():
            return network(*_tensors(groups)).cpu().numpy()

    fitted = Fitted(predict)
    limits = {"max_epochs": MAX_EPOCHS, "patience": PATIENCE}
    return fitted, train(network, epoch, fitted, data, **limits)


def _tensors(groups: Groups) -> tuple[Tensor, Tensor]:
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    item = torch.as_tensor(groups.item).long()
    return item.to(DEVICE), torch.as_tensor(group, device=DEVICE)


def _others(item: Tensor, group: Tensor, n_items: int) -> Tensor:
    """Which items the rest of each element's group holds."""
    held = torch.zeros(int(group[-1]) + 1, n_items, dtype=torch.bool, device=item.device)
    held[group, item] = True
    others = held[group]
    others[torch.arange(len(item)), item] = False
    return others


CONTENDERS = {
    "pairwise": Contender(label="pairwise log-linear", fit=fit_pairwise, most_items=5_000),
}
