"""The attention of a fitted table model to its columns, averaged over rows."""

from typing import Any, cast

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.encodings import Encoding, LearnedAbsolute
from exfam.positions.attention import PositionAttention, encoding_weights, with_term
from exfam.tables.data import Cells
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.networks.parts import CellTokens


def table_attention(
    model: object, cells: Cells, *, term: str = "both", member: int = 0
) -> PositionAttention:
    """Attention of a fitted table model from each hidden column to all columns, over rows.

    In its own column a target sees its MASK token, which is the diagonal; absent cells have weight
    0. In a deep network the rows are those of each target's own copy of the row.
    """
    fitted = getattr(model, "members_", [model])[0]
    if not isinstance(fitted, MaskedTableModel):
        raise ExfamError(
            f"`model` must be one of tables, got {type(model).__name__}. Use `group_attention` for "
            "groups."
        )
    fitted.check_member(member)
    if not len(cells):
        raise ExfamError("`cells` must hold at least one row, got none.")
    seen = with_term(fitted, term).eval()
    if term == "contextual":
        for module in seen.modules():
            if isinstance(module, CellTokens):
                module.positions.data.zero_()
    columns = list(range(cells.code.shape[1]))
    total: Any = 0.0
    with torch.inference_mode():
        for _, batch in seen.chunks(cells, len(columns)):
            total = total + seen.weights(batch, columns)[member].double().sum(1).cpu()
    weights = total / len(cells)
    return PositionAttention(
        weights=weights,
        positional=_of_columns(fitted, member),
        elsewhere=torch.zeros_like(weights[..., 0]),
        n_averaged=len(cells),
        direction="bidirectional",
    )


def _of_columns(
    model: MaskedTableModel, member: int
) -> Float64[Tensor, "own_heads columns columns"]:
    network = model.network
    vectors = network.tokens.positions[member].detach().cpu()
    if network.places is None:
        encoding: Encoding = LearnedAbsolute(*vectors.shape, generator=torch.Generator())
        cast(Any, encoding).table.weight.data.copy_(vectors)
    else:
        encoding = network.places.members[member]
    return encoding_weights(encoding, len(vectors), head_dim=network.head_dim)
