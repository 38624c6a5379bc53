"""The expert view of any fitted model that has one."""

from typing import Any, Protocol, cast, runtime_checkable

from exfam.analysis.experts.elements import ElementAttention
from exfam.analysis.experts.tables import TableAttention
from exfam.analysis.experts.words import WordAttention
from exfam.checks import ExfamError
from exfam.data.tables.schema import TableSchema
from exfam.models.context_words import ContextWords
from exfam.models.efa import EFANetwork
from exfam.models.experts import LinearAttention
from exfam.models.tables.contract import TableModel
from exfam.models.two_part import TwoPartModel

__all__ = ["LinearTable", "attention_as_experts"]


@runtime_checkable
class LinearTable(Protocol):
    """A table model whose members are each one linear attention layer.

    >>> isinstance("a model", LinearTable)
    False
    """

    def linear_attention(self, member: int) -> LinearAttention:
        """The weights of one member."""


def attention_as_experts(
    model: object, *, member: int = 0, part: str | None = None
) -> TableAttention | ElementAttention | WordAttention:
    """A fitted model as a mixture of experts, exactly: theorem 2 with the model's own weights.

    `model`: a table model, an EFA model or one of its networks, a fitted estimator of either, or a
        model of words
    `member`: which of an ensemble (default 0)
    `part`: "items" or "values" of an EFA model that has both, or None for the one it has (default
        None)

    Raises ExfamError for a model that is no such mixture, naming what makes it inexact (layer norm,
    ReLU or GELU, more layers, ...) and what to fit instead.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.

    >>> attention_as_experts("a model")
    Traceback (most recent call last):
    exfam.checks.ExfamError: `model` must have attention, got str. ...
    """
    # Estimators live on a higher floor: they are known by what fitting gives them.
    found: Any = getattr(model, "model_", model)
    members = getattr(found, "members_", None)
    if members is not None:
        found = members[_checked(member, len(members))]
    if isinstance(found, TwoPartModel):
        found = found.part(part)
    if isinstance(found, ContextWords):
        return WordAttention(found)
    if isinstance(found, EFANetwork):
        return ElementAttention(found)
    if not isinstance(found, TableModel):
        raise ExfamError(
            f"`model` must have attention, got {type(found).__name__}. Fit a linear table model, "
            "or EFA with n_layers=1, connection='residual' and head_hidden_dim=0."
        )
    if not isinstance(found, LinearTable):
        raise ExfamError(
            "`model` must be one linear attention layer for exact experts, got "
            f"{type(found).__name__}, a table model whose layer norm, ReLU or further layers make "
            "the expert view inexact. Fit the linear network."
        )
    schema = cast(TableSchema, found.schema)
    hidden = tuple(schema.names[place] for place in getattr(found, "masked_columns", ()))
    return TableAttention(found.linear_attention(member), schema, mask_absent=hidden)


def _checked(member: int, n_members: int) -> int:
    if not 0 <= member < n_members:
        raise ExfamError(f"`member` must be in 0 .. {n_members - 1}, got {member}.")
    return member
