"""A log-linear pool of what levels, items and groups say of classes, by a few weights.

    logit_k = w0 log g_k + w1 log F_k + (w2 + w4 n / (n + exp a)) log H_k
              + (w3 - w5 n / (n + exp a)) log E_k + w6 (log I_k - log g_k)

with the margin g, what the location and scale say F, the item's shares I, and the other cells'
classes H = (counts + beta g) / (n + beta), E likewise of what their items expect.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.head_numbers import HeadInputs, head_inputs

# w0 to w6, a, log beta.
POOL_START = (0.0, 1.0, 0.1, 0.0, 0.0, 0.0, 0.0, 3.0, math.log(5.0))
N_POOL = len(POOL_START)


@dataclass(frozen=True, eq=False)
class PoolInputs:
    """What a pool has of cells, which its weights do not change."""

    features: HeadInputs
    margin: Float64[Tensor, "classes"]
    others: Float64[Tensor, "cells classes"]
    expected: Float64[Tensor, "cells classes"]
    log_share: Float64[Tensor, "cells classes"]

    @classmethod
    def of(cls, features: ValueFeatures, margin: Float64[np.ndarray, "classes"]) -> "PoolInputs":
        arrays = margin, features.others, features.expected, np.log(features.share / margin)
        return cls(head_inputs(features), *map(torch.from_numpy, arrays))


def pool_logits(
    inputs: PoolInputs, log_ordered: Float64[Tensor, "cells classes"], w: Float64[Tensor, "weights"]
) -> Float64[Tensor, "cells classes"]:
    """Logits by weights that start at `POOL_START`; `log_ordered`: log F."""
    n = inputs.features.n_context[:, None]
    beta, many = w[8].exp(), n / (n + w[7].exp())
    others = torch.log((inputs.others + beta * inputs.margin) / (n + beta))
    expected = torch.log((inputs.expected + beta * inputs.margin).clamp_min(1e-12) / (n + beta))
    logits = w[0] * inputs.margin.log() + w[1] * log_ordered + (w[2] + w[4] * many) * others
    return logits + (w[3] - w[5] * many) * expected + w[6] * inputs.log_share
