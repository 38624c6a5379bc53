"""A table model of one linear attention layer with random weights, and rows for it."""

from dataclasses import dataclass

import numpy as np
import torch

from exfam.experts import LinearAttention, Sentences, forward, random_network
from exfam.families import Categorical
from exfam.tables.data import Cells, Column, TableSchema

SCHEMA = TableSchema(tuple(Column(name, "categorical", labels=np.arange(4)) for name in "abcd"))


@dataclass(frozen=True)
class RandomLinearTable:
    """Its eta is the network's own computation, which shares no code with the expert view."""

    members: tuple[LinearAttention, ...]
    first: torch.Tensor
    masked_columns: tuple[int, ...] = ()
    schema: TableSchema = SCHEMA
    families: tuple[Categorical, ...] = (Categorical(4),) * 4

    def eta(self, cells, targets):
        code = torch.from_numpy(cells.code).long()
        masked = torch.zeros_like(code, dtype=torch.bool)
        for index in self.masked_columns:
            masked[:, index] = code[:, index] < 0
        rows = Sentences(code, torch.from_numpy(cells.fraction), self.first, masked)
        result = torch.stack([forward(member, rows, targets) for member in self.members])
        return [result[:, :, t] for t in range(len(targets))]

    def linear_attention(self, member):
        return self.members[member]


def linear_table(*, shared=False, n_members=2, masked_columns=()):
    members = tuple(
        random_network(
            torch.Generator().manual_seed(seed), n_positions=4, n_tokens=4 if shared else 16
        )
        for seed in range(n_members)
    )
    return RandomLinearTable(members, torch.arange(4) * (0 if shared else 4), masked_columns)


def random_cells(n_rows=40, *, absent=0.3, seed=0):
    random = np.random.default_rng(seed)
    code = random.integers(0, 4, (n_rows, 4)).astype(np.int32)
    code[random.random(code.shape) < absent] = -1
    fraction = np.where((code >= 0) & (code < 3), random.random(code.shape), 0.0)
    return Cells(code, fraction.astype(np.float32), np.where(code < 0, np.nan, code))
