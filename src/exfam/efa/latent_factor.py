"""The latent factor estimator: every element of the context counts alike."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from exfam.catalog import ItemSampler, item_sampler
from exfam.checks import ExfamError
from exfam.efa import declarations
from exfam.efa.available import OnlyIn
from exfam.efa.explain import pooled_vectors
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.factor_network import (
    LatentFactorSettings,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.efa.networks.frequencies import fit_marginal_items
from exfam.efa.plan import FitPlan
from exfam.estimator.members import train_members
from exfam.estimator.schema import Schema
from exfam.likelihoods.support import SUPPORTS
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.history import History

__all__ = ["LatentFactor"]


class LatentFactor(TransformerMixin, GroupEstimator):
    """A linear latent factor model: exponential family attention with equal weights.

    Items: eta_i = rho . pooled context vectors; values: kappa_i = rho_{x_i} . pooled alpha_{x_j}
    y_j. Attributes and positions play no part.

    Columns of a frame (not needed for `Groups`):
    `group`: the column of groups, such as users or baskets (default None)
    `order`: column(s) to sort each group by, or "rows" if rows, or elements of Groups, come in an
        order that means something; without, groups are sets (default None)
    `item`: the column of items (default None)
    `value`: the column, or list of columns, of values (default None)

    Model:
    `direction`: "bidirectional" (each given all others) or "causal" (given earlier ones)
        (default "bidirectional")
    `family`: a family's name or instance, or a dict by value column (default "gaussian")
    `parts`: "items", "values", "both", or "auto": what the data have (default "auto")
    `support`: whether items of the context may occur again: "none" (they may), "hard" (never),
        "penalty" (learned), "auto": hard if no group of the data repeats an item (default "auto")
    `dim`: number of factors (default 32)
    `pooling`: "mean" over the context, "sum", or "paper": the sum over the group's final length
        minus 1, which in a causal model sees the future (default "mean")
    `intercept`: whether items have a constant of their own (default True)
    `mask_vector`: whether a learned vector is always in the context of items (default False)
    `dispersion`: scales and the like "global" or of each "item" (default "global")

    Training:
    `learning_rate`: largest step size of AdamW (default 1e-2)
    `weight_decay`: decoupled weight decay (default 0.0)
    `batch_size`: groups in a step (default 64)
    `batch_tokens`: padded elements in a step at most, in place of `batch_size`: groups of like
        length share a step, so that little of it is padding (default None)
    `n_sampled_items`: items that a training step sums over in place of the whole catalog, drawn
        anew and the more often the more frequent they are; 0 sums over all. Validation and scores
        are exact always (default 0)
    `max_epochs`: passes over the training groups at most (default 100)
    `patience`: epochs without improvement on validation before stopping (default 10)
    `warmup`: share of the steps in which the step size grows (default 0.05)
    `clip`: largest norm of a gradient (default 1.0)
    `validation_fraction`: share of the groups held out to choose the best epoch (default 0.1)
    `ensemble`: models whose initial weights and batches have the seeds `seed`, `seed` + 1 …, and
        whose probabilities are averaged; all share the validation split of `seed` (default 1)
    `seed`: of the split, the initial weights and the batches; same seed and data, same bits. Groups
        are numbered as they first appear: another order of the rows is another split (default 0)
    `device`: "cpu", "cuda", or "auto": CUDA if present (default "cpu")
    `unknown`: items never seen in training: "unk" (keep them in the context as unknown, with a
        warning that counts them), "ignore" (leave such elements out) or "error" (default "unk")
    `progress`: whether to show progress in a terminal (default True)

    After `fit`: `members_`, `schema_`, `vocabulary_`, `support_`, `history_` (of the first member),
    `histories_`, `item_vectors_` and `item_context_vectors_`.
    Source: "Exponential Family Attention", propositions 1 and 3.

    >>> frame = {"user": [1, 1, 1, 2, 2, 2], "movie": list("abcabd"), "stars": [5, 3, 1, 4, 3, 2]}
    >>> model = LatentFactor(group="user", item="movie", value="stars", progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "latent-factor"
    parameter_rules = declarations.LATENT_FACTOR
    attributes = group_attributes = known = ()
    position = None
    explain = OnlyIn("EFA")
    position_attention = OnlyIn("EFA")

    def __init__(
        self,
        *,
        group: str | None = None,
        order: Any = None,
        item: str | None = None,
        value: Any = None,
        direction: str = "bidirectional",
        family: Any = "gaussian",
        parts: str = "auto",
        support: str = "auto",
        dim: int = 32,
        pooling: str = "mean",
        intercept: bool = True,
        mask_vector: bool = False,
        dispersion: str = "global",
        learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        batch_size: int = 64,
        batch_tokens: int | None = None,
        n_sampled_items: int = 0,
        max_epochs: int = 100,
        patience: int = 10,
        warmup: float = 0.05,
        clip: float = 1.0,
        validation_fraction: float = 0.1,
        ensemble: int = 1,
        seed: int = 0,
        device: str = "cpu",
        unknown: str = "unk",
        progress: bool = True,
    ) -> None:
        self.group = group
        self.order = order
        self.item = item
        self.value = value
        self.direction = direction
        self.family = family
        self.parts = parts
        self.support = support
        self.dim = dim
        self.pooling = pooling
        self.intercept = intercept
        self.mask_vector = mask_vector
        self.dispersion = dispersion
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.batch_tokens = batch_tokens
        self.n_sampled_items = n_sampled_items
        self.max_epochs = max_epochs
        self.patience = patience
        self.warmup = warmup
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.ensemble = ensemble
        self.seed = seed
        self.device = device
        self.unknown = unknown
        self.progress = progress

    def _settings(self) -> LatentFactorSettings:
        return LatentFactorSettings(
            direction=self.direction,
            dim=int(self.dim),
            pooling=self.pooling,
            intercept=self.intercept,
            mask_vector=self.mask_vector,
            item_dispersion=self.dispersion == "item",
        )

    def _build(
        self,
        schema: Schema,
        generator: torch.Generator,
        *,
        items: bool,
        values: bool,
        bias: Float[torch.Tensor, "items"] | None = None,
        sampler: ItemSampler | None = None,
    ) -> TwoPartModel:
        settings, n_items = self._settings(), schema.n_items or 0
        initial = {spec.column: torch.tensor(spec.initial_eta) for spec in schema.values}
        item_part = value_part = None
        if items:
            item_part = build_latent_factor_items(
                n_items, settings, generator=generator, intercept=bias
            )
        if values:
            value_part = build_latent_factor_values(
                n_items, schema.families, settings, generator=generator, initial_eta=initial
            )
        return TwoPartModel(
            direction=self.direction,
            item_part=item_part,
            value_part=value_part,
            families=schema.families if values else None,
            support=SUPPORTS[self.support_](),
            sampler=sampler,
        )

    def _fit_members(self, plan: FitPlan) -> None:
        if plan.schema.n_items is None:
            raise ExfamError("`item` must be given, since items have the factors, got none.")
        bias = sampler = None
        if plan.items:
            bias = fit_marginal_items(plan.train, plan.schema.n_items or 0).log_frequency
            sampler = item_sampler(bias, n=int(self.n_sampled_items))
        parts = {"items": plan.items, "values": plan.values}

        def build(generator: torch.Generator) -> TwoPartModel:
            return self._build(plan.schema, generator, **parts, bias=bias, sampler=sampler)

        self.members_, self.histories_ = train_members(self, build, plan)

    def _empty_member(self, *, items: bool, values: bool) -> TwoPartModel:
        generator = torch.Generator().manual_seed(0)
        return self._build(self.schema_, generator, items=items, values=values)

    @property
    def history_(self) -> History:
        """What happened in training, epoch by epoch, of the first member."""
        check_is_fitted(self, "members_")
        return self.histories_[0]

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
        check_is_fitted(self, "members_")
        return self.members_[0].item_part or self.members_[0].value_part
