"""What contenders in plain torch share: epochs until validation stops falling."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from benchmarks.arena.kind import Data, Fitted
from benchmarks.arena.protocol import judge, some_validation
from torch import nn

# Of rivals in plain torch; exfam's own contenders stay on the CPU.
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(
    network: nn.Module,
    epoch: Callable[[], None],
    fitted: Fitted,
    data: Data,
    *,
    max_epochs: int,
    patience: int,
) -> int:
    """Run epochs, then put back the state of least nats on validation; returns its epoch."""
    validation = some_validation(data)
    least, best, best_epoch = np.inf, copy.deepcopy(network.state_dict()), 0
    for number in range(1, max_epochs + 1):
        network.train()
        epoch()
        network.eval()
        nats = float(judge(fitted, validation, data).nats.mean())
        if nats < least:
            least, best, best_epoch = nats, copy.deepcopy(network.state_dict()), number
        elif number - best_epoch >= patience:
            break
    network.load_state_dict(best)
    return best_epoch
