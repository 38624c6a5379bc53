"""The expert view of a table model that has one."""

from typing import Any, Protocol, cast, runtime_checkable

from exfam.checks import ExfamError
from exfam.experts import LinearAttention
from exfam.tables.data.schema import TableSchema
from exfam.tables.experts.table_attention import TableAttention
from exfam.tables.networks.table_model import TableModel

__all__ = ["LinearTable", "table_experts"]


@runtime_checkable
class LinearTable(Protocol):
    """A table model whose members are each one linear attention layer.

    >>> isinstance("a model", LinearTable)
    False
    """

    def linear_attention(self, member: int) -> LinearAttention:
        """The weights of one member."""


def table_experts(model: object, *, member: int = 0) -> TableAttention:
    """A table model as a mixture of experts, exactly: theorem 2 with the model's own weights.

    `member`: which of an ensemble (default 0)

    Raises ExfamError for a model that is no such mixture, naming what makes it inexact.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.

    >>> table_experts("a model")
    Traceback (most recent call last):
    exfam.checks.ExfamError: `model` must have attention, got str. ...
    """
    if not isinstance(model, TableModel):
        raise ExfamError(
            f"`model` must have attention, got {type(model).__name__}. Fit a linear table model, "
            "or EFA with n_layers=1, connection='residual' and head_hidden_dim=0."
        )
    if not isinstance(model, LinearTable):
        raise ExfamError(
            "`model` must be one linear attention layer for exact experts, got "
            f"{type(model).__name__}, a table model whose layer norm, ReLU or further layers make "
            "the expert view inexact. Fit the linear network."
        )
    schema = cast(TableSchema, cast(Any, model).schema)
    hidden = tuple(schema.names[column] for column in getattr(model, "masked_columns", ()))
    return TableAttention(model.linear_attention(member), schema, mask_absent=hidden)
