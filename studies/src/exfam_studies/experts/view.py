"""The expert view of any fitted model that has one."""

from typing import Any

from exfam.checks import ExfamError
from exfam.efa.networks.efa_network import EFANetwork
from exfam.likelihoods.two_part import TwoPartModel
from exfam.tables.experts.table_attention import TableAttention, attention_of_table
from exfam_studies.experts.context_words import ContextWords
from exfam_studies.experts.element_attention import ElementAttention


def attention_as_experts(
    model: object, *, member: int = 0, part: str | None = None
) -> TableAttention | ElementAttention | ContextWords:
    """A fitted model as a mixture of experts, exactly: theorem 2 with the model's own weights.

    `model`: a table model, an EFA model or one of its networks, a fitted estimator of either, or a
        model of words; `member`: which of an ensemble
    `part`: "items" or "values" of an EFA model that has both, or None for the one it has

    Raises ExfamError for a model that is no such mixture, naming what makes it inexact and what to
    fit instead.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.
    """
    network: Any = getattr(model, "model_", model)
    members = getattr(network, "members_", None)
    if members is not None:
        if not 0 <= member < len(members):
            raise ExfamError(f"`member` must be in 0 .. {len(members) - 1}, got {member}.")
        network = members[member]
    if isinstance(network, TwoPartModel):
        network = network.part(part)
    if isinstance(network, ContextWords):
        return network
    if isinstance(network, EFANetwork):
        return ElementAttention(network)
    return attention_of_table(network, member=member)
