"""The latent factor estimator: items of the context count alike, values have a factor model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.catalog.sampled import ItemSampler
from exfam.checks import ExfamError
from exfam.efa.declarations import GroupTraining, LacksAttention, OnlyIn, PartsModel
from exfam.efa.explain import pooled_vectors
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.based_values import (
    BasedValues,
    ColumnBase,
    empty_columns,
    loadings,
    shapes_of,
)
from exfam.efa.networks.context import CONTEXT_POOLINGS
from exfam.efa.networks.factor_network import (
    LatentFactorSettings,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.efa.offset_column import OffsetColumn
from exfam.efa.plan import FitPlan, train
from exfam.efa.value_fits import factors_of_groups, fit_alone, has_value_base
from exfam.estimator.base import parameter, settings_from
from exfam.estimator.rules import Choice, Flag, OrNone, Whole
from exfam.estimator.scikit import Transformer
from exfam.likelihoods.two_part import SUPPORTS, TwoPartModel

# Of values with a base: 32 factors took four times as long to fit ratings, and gained nothing.
_RANK = 16


class LatentFactor(
    OffsetColumn, LacksAttention, PartsModel, GroupTraining, Transformer, GroupEstimator
):
    """Latent factor models of items and of values.

    Items: eta_i = rho . pooled context vectors, which is exponential family attention with equal
    weights. Values: the base of `EFA`, a factor model with levels of items and groups, at a rank of
    `dim`; `dim=0` has the levels alone. With base="none", or a family that bases do not know, those
    of the paper: kappa_i = rho_{x_i} . pooled alpha_{x_j} y_j. Attributes and positions play no
    part, but neighbors count in an order.

    {parameters}

    After `fit`: `members_`, `schema_`, `vocabulary_`, `support_`, `history_` (of the first member;
    bases have none), `histories_`, `item_vectors_` and `item_context_vectors_`.
    Source: "Exponential Family Attention", propositions 1 and 3.

    >>> frame = {"user": [1, 1, 1, 2, 2, 2], "movie": list("abcabd"), "stars": [5, 3, 1, 4, 3, 2]}
    >>> model = LatentFactor(group="user", item="movie", value="stars", progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "latent-factor"
    dim: int | None = parameter(
        OrNone(Whole(least=0)),
        "number of factors, 0 only of values that have a base; None is 16 of these, else 32",
        default=None,
    )
    base: str = parameter(
        Choice(("auto", "none")),
        'how values are modeled: "auto" is the base of `EFA`, in closed form, if it knows their '
        'families; "none" is the model of the paper, trained on raw values. A base of values '
        "needs none of the parameters of training, nor the following three",
        default="auto",
    )
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

    def _fit_members(self, plan: FitPlan) -> None:
        if plan.schema.n_items is None and self.dim != 0:
            raise ExfamError(
                "`item` must be given, since items have the factors, got none. Pass dim=0 for a "
                "level of each group alone."
            )
        has_base = self.base != "none" and has_value_base(plan)
        if self.dim == 0 and (plan.items or not has_base):
            raise ExfamError(
                "`dim` must be at least 1 for items, and for values without a base, got 0. "
                "Pass parts='values' and a family that bases know."
            )
        columns: list[ColumnBase] = []
        if has_base:
            rank = _RANK if self.dim is None else int(self.dim)
            columns = fit_alone(plan, direction=self.direction, seed=int(self.seed), rank=rank)
            plan = replace(plan, values=False)
        members: Sequence[TwoPartModel | None] = [None]
        if plan.items or plan.values:
            members, self.histories_ = train(self, plan)
        self.members_ = [self._with_values(member, columns) for member in members]

    def _build(
        self,
        generator: torch.Generator,
        *,
        items: bool,
        values: bool,
        item_bias: Float[torch.Tensor, "items"] | None = None,
        sampler: ItemSampler | None = None,
    ) -> TwoPartModel:
        dim = LatentFactorSettings.dim if self.dim is None else int(self.dim)
        schema, settings = self.schema_, settings_from(self, LatentFactorSettings, dim=dim)
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
            exposure=schema.exposure if values else None,
            support=SUPPORTS[self.support_](),
            sampler=sampler,
        )

    def _with_values(self, member: TwoPartModel | None, columns: list[ColumnBase]) -> TwoPartModel:
        """A member, if there is one, with bases of values, if there are any."""
        if member is not None and not columns:
            return member
        return TwoPartModel(
            direction=self.direction,
            item_part=None if member is None else member.item_part,
            value_part=BasedValues(columns, None),
            families={column.column: column.family for column in columns},
            exposure=self.schema_.exposure,
            support=None if member is None else member.support,
        )

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config, tensors = super()._state()
        shapes = [shapes_of(member.value_part) for member in self.members_]
        return config | {"value_bases": shapes}, tensors

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        if "value_bases" not in config:  # older versions had none
            self.base = self.parameters_["base"] = "none"

    def _restored_member(self, config: Any) -> TwoPartModel:
        columns = empty_columns(config, self.schema_.families)
        has_items = config["items"]
        member = None
        if has_items or not columns:
            member = super()._restored_member(config | {"values": not columns and config["values"]})
        return self._with_values(member, columns)

    @property
    def item_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Center vectors (rho) of the first member: of its item part, else of its value part.

        Of a base of values the items' factors, by column side by side.
        """
        return self._vectors("center")

    @property
    def item_context_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Context vectors (alpha) of the first member, of the same part as `item_vectors_`.

        A base of values has the same ones.
        """
        return self._vectors("context")

    def _vectors(self, name: str) -> Float[np.ndarray, "items dim"]:
        part = self._first_part()
        if not isinstance(part, BasedValues):
            return getattr(part, name).vectors().detach().cpu().numpy()
        return loadings(part, self.schema_.n_items or 0)

    def transform(self, X: Any) -> Float[np.ndarray, "groups dim"]:
        """One vector a group: the pooled context that a further element would see (first member).

        Of the item part, or of the value part if there is no other; of a base of values the means
        of the group's factors, by column side by side.
        """
        inputs, part = self._inputs(X), self._first_part()
        if isinstance(part, BasedValues):
            columns: Any = list(part.columns)
            exposure = self.schema_.exposure
            return factors_of_groups(columns, inputs.groups, exposure).astype(np.float32)
        return pooled_vectors(self.members_[0], part, inputs.groups, self.schema_)

    def _first_part(self) -> Any:
        self._check_fitted()
        return self.members_[0].item_part or self.members_[0].value_part
