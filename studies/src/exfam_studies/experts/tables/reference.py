"""The paper's own model of tables, with its architecture and its schedule.

One post-norm block with 5 heads of 4 and a ReLU layer of 5 on vectors of 20, one space of
categories, dropout 0.1; Adam 1e-3 on batches of 128 rows with one column masked, each column of
each row once in each of 200 epochs. Several tables are fitted side by side, each by its own one.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from exfam.layers import lend_generator
from exfam.tables.networks.batch import MASKED, CellBatch
from exfam.tables.networks.deep import DeepTableNetwork
from exfam.tables.networks.parts import CellTokens, Readout, TokenPlan
from exfam.tables.networks.table_network import TableSettings
from exfam_studies.experts.tables.predictions import Fitted, Predicted, y_levels
from exfam_studies.experts.tables.public import Columns, TableShift

EPOCHS, BATCH, LEARNING_RATE = 200, 128, 1e-3
EMBED, HEADS, HEAD, HIDDEN, DROPOUT = 20, 5, 4, 5, 0.1
_ROWS_AT_ONCE = 4096


def reference_network(
    n_tables: int, n_columns: int, n_categories: int, *, seed: int
) -> DeepTableNetwork:
    """The paper's network, one for each table.

    >>> network = reference_network(1, 6, 10, seed=0)
    >>> unused = 2 * 20
    >>> sum(parameter.numel() for parameter in network.parameters()) - unused
    2535
    """
    generator = torch.Generator().manual_seed(seed)
    plan = TokenPlan(
        (n_categories,) * n_columns,
        shared=True,
        scores=(None,) * n_columns,
        ordered=((False,) * n_columns,) * n_tables,
    )
    basis = torch.zeros(n_tables, n_columns, n_categories, n_categories + 2)
    basis[..., :n_categories] = torch.eye(n_categories)
    tokens = CellTokens(plan, embed_dim=EMBED, generator=generator)
    bias = torch.zeros(n_columns, n_categories)
    readout = Readout(basis, bias, embed_dim=EMBED, shared=True, generator=generator)
    settings = TableSettings(
        network="deep", categories="shared", ordinal=(False,) * n_tables, embed_dim=EMBED,
        n_heads=HEADS, head_dim=HEAD, n_layers=1, feed_forward_dim=HIDDEN, dropout=DROPOUT,
        norm="post", masked_columns=(),
    )  # fmt: skip
    return DeepTableNetwork(tokens, readout, settings, generator=generator)


def fit_reference(table: TableShift, *, seed: int) -> Fitted:
    """The paper's model of one table of codes."""
    return fit_reference_tables([table], seed=seed)[0]


def fit_reference_tables(
    tables: Sequence[TableShift], *, seed: int, epochs: int = EPOCHS
) -> list[Fitted]:
    """The paper's model of each of several tables of codes of one size."""
    rows = [np.column_stack([*table.train.values(), table.train_y]) for table in tables]
    codes = torch.from_numpy(np.stack(rows))
    n_levels = len(y_levels(tables[0]))
    network = reference_network(len(codes), codes.shape[-1], n_levels, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with lend_generator(generator, network):
        _train(network, codes, epochs=epochs, generator=generator)
    network.eval()
    return [Fitted(partial(_predict, network, index)) for index in range(len(codes))]


def _train(
    network: DeepTableNetwork,
    codes: Int64[Tensor, "tables rows columns"],
    *,
    epochs: int,
    generator: torch.Generator,
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, eps=1e-7, fused=True)
    tables, rows, columns = codes.shape
    network.train()
    for _ in range(epochs):
        order = torch.stack(
            [torch.randperm(rows * columns, generator=generator) for _ in range(tables)]
        )
        for chosen in order.split(BATCH, dim=1):
            row, column = chosen // columns, chosen % columns
            batch = codes.take_along_dim(row[..., None], 1)
            logits = _logits(network, batch, column)
            hidden = batch.take_along_dim(column[..., None], 2)[..., 0]
            # Each table's own mean, so that each network has the step that it has alone.
            loss = (
                functional.cross_entropy(logits.flatten(0, 1), hidden.flatten(), reduction="sum")
                / chosen.shape[1]
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()


def _logits(
    network: DeepTableNetwork,
    codes: Int64[Tensor, "tables batch columns"],
    column: Int64[Tensor, "tables batch"],
) -> Float[Tensor, "tables batch categories"]:
    batch = CellBatch(codes, None, torch.zeros(codes.shape))
    return network.readout(network.of_copies(batch, column)[:, :, None], [0])[:, :, 0]


@torch.inference_mode()
def _predict(network: DeepTableNetwork, index: int, columns: Columns) -> Predicted:
    x = np.column_stack(list(columns.values()))
    codes = torch.from_numpy(np.column_stack([x, np.full(len(x), MASKED)]))
    tables, parts = network.n_members, []
    for part in codes.split(math.ceil(_ROWS_AT_ONCE / tables)):
        column = torch.full((tables, len(part)), codes.shape[1] - 1)
        logits = _logits(network, part.expand(tables, -1, -1), column)[index]
        parts.append(logits.double().softmax(-1))
    return Predicted(chances=torch.cat(parts).numpy())
