"""The latent factor estimator: every element of the context counts alike."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import TransformerMixin

from exfam.catalog.sampled import ItemSampler
from exfam.checks import ExfamError
from exfam.efa.declarations import GroupTraining, OnlyIn, PartsModel
from exfam.efa.explain import pooled_vectors
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.context import CONTEXT_POOLINGS
from exfam.efa.networks.factor_network import (
    LatentFactorSettings,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.efa.plan import FitPlan, train
from exfam.estimator.base import parameter, settings_from
from exfam.estimator.rules import Choice, Flag, Whole
from exfam.likelihoods.two_part import SUPPORTS, TwoPartModel


class LatentFactor(PartsModel, GroupTraining, TransformerMixin, GroupEstimator):
    """A linear latent factor model: exponential family attention with equal weights.

    Items: eta_i = rho . pooled context vectors; values: kappa_i = rho_{x_i} . pooled alpha_{x_j}
    y_j. Attributes and positions play no part.

    {parameters}

    After `fit`: `members_`, `schema_`, `vocabulary_`, `support_`, `history_` (of the first member),
    `histories_`, `item_vectors_` and `item_context_vectors_`.
    Source: "Exponential Family Attention", propositions 1 and 3.

    >>> frame = {"user": [1, 1, 1, 2, 2, 2], "movie": list("abcabd"), "stars": [5, 3, 1, 4, 3, 2]}
    >>> model = LatentFactor(group="user", item="movie", value="stars", progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "latent-factor"
    dim: int = parameter(Whole(), "number of factors", default=32)
    pooling: str = parameter(
        Choice(CONTEXT_POOLINGS),
        '"mean" over the context, "sum", or "paper": the sum over the group\'s final length '
        "minus 1, which in a causal model sees the future",
        default="mean",
    )
    intercept: bool = parameter(Flag(), "whether items have a constant of their own", default=True)
    mask_vector: bool = parameter(
        Flag(), "whether a learned vector is always in the context of items", default=False
    )
    learning_rate: float = parameter(default=0.01)
    weight_decay: float = parameter(default=0.0)
    batch_size: int = parameter(text="groups in a step", default=64)
    max_epochs: int = parameter(default=100)
    attributes = group_attributes = known = ()
    position = None
    explain = OnlyIn("EFA")
    explain_item = OnlyIn("EFA")
    explain_value = OnlyIn("EFA")
    position_attention = OnlyIn("EFA")
    partial_fit = OnlyIn("EFA")

    def _fit_members(self, plan: FitPlan) -> None:
        if plan.schema.n_items is None:
            raise ExfamError("`item` must be given, since items have the factors, got none.")
        self.members_, self.histories_ = train(self, plan)

    def _build(
        self,
        generator: torch.Generator,
        *,
        items: bool,
        values: bool,
        item_bias: Float[torch.Tensor, "items"] | None = None,
        sampler: ItemSampler | None = None,
    ) -> TwoPartModel:
        schema, settings = self.schema_, settings_from(self, LatentFactorSettings)
        n_items, item_part, value_part = schema.n_items or 0, None, None
        drawn: dict[str, Any] = {"generator": generator}
        if items:
            item_part = build_latent_factor_items(n_items, settings, intercept=item_bias, **drawn)
        if values:
            drawn["initial_eta"] = {
                spec.column: torch.tensor(spec.initial_eta) for spec in schema.values
            }
            value_part = build_latent_factor_values(n_items, schema.families, settings, **drawn)
        return TwoPartModel(
            direction=self.direction,
            item_part=item_part,
            value_part=value_part,
            families=schema.families if values else None,
            support=SUPPORTS[self.support_](),
            sampler=sampler,
        )

    @property
    def item_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Center vectors (rho) of the first member: of its item part, else of its value part."""
        return self._first_part().center.vectors().detach().cpu().numpy()

    @property
    def item_context_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Context vectors (alpha) of the first member, of the same part as `item_vectors_`."""
        return self._first_part().context.vectors().detach().cpu().numpy()

    def transform(self, X: Any) -> Float[np.ndarray, "groups dim"]:
        """One vector a group: the pooled context that a further element would see (first member).

        Of the item part, or of the value part if there is no other.
        """
        inputs, part = self._inputs(X), self._first_part()
        return pooled_vectors(self.members_[0], part, inputs.groups, self.schema_)

    def _first_part(self) -> Any:
        self._check_fitted()
        return self.members_[0].item_part or self.members_[0].value_part
