"""The EFA estimator: exponential family attention over groups."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from exfam.catalog import item_sampler
from exfam.checks import ExfamError
from exfam.efa import declarations
from exfam.efa.available import UnavailableError
from exfam.efa.explain import Explanation, explain, group_vectors
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.assemble import ModelSettings, build_efa
from exfam.efa.networks.efa_network import EFANetwork, EFASettings
from exfam.efa.networks.frequencies import fit_marginal_items
from exfam.efa.plan import FitPlan
from exfam.efa.position_attention import group_attention
from exfam.estimator.choices import check_order, choose_encoding
from exfam.estimator.members import train_members
from exfam.estimator.rules import python_number
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.positions import PositionAttention
from exfam.training.history import History

__all__ = ["EFA"]


class EFA(TransformerMixin, GroupEstimator):
    """Exponential family attention: items and values of groups, each given its context.

    Columns of a frame (not needed for `Groups`):
    `group`: the column of groups, such as users or baskets (default None)
    `order`: column(s) to sort each group by, or "rows" if rows, or elements of Groups, come in an
        order that means something; without, groups are sets (default None)
    `item`: the column of items (default None)
    `value`: the column, or list of columns, of values (default None)
    `attributes`: columns of elements that enter both parts, categories or numbers (default ())
    `group_attributes`: columns that are constant in a group and enter both parts (default ())
    `known`: attributes that may be seen of the element whose item is predicted, such as a time
        gap; all others (a genre) are hidden there, since they would tell the item (default ())
    `position`: column(s) of real positions, such as times; 0, 1, 2 … in an `order` without
        (default None)

    Model:
    `direction`: "bidirectional" (each given all others) or "causal" (given earlier ones)
        (default "bidirectional")
    `family`: a family's name or instance, or a dict by value column (default "gaussian")
    `parts`: "items", "values", "both", or "auto": what the data have (default "auto")
    `support`: whether items of the context may occur again: "none" (they may), "hard" (never),
        "penalty" (learned), "auto": hard if no group of the data repeats an item (default "auto")
    `embed_dim`: length of item, value and attribute vectors (default 32)
    `n_heads`: attention heads (default 2)
    `head_dim`: length of each head's queries and keys (default 16)
    `n_layers`: attention layers (default 2)
    `feed_forward_dim`: hidden units after each attention layer, 0 for none (default 0)
    `connection`: "pre-norm", "post-norm", "residual" or "none" around layers (default "pre-norm")
    `encoding`: positional encoding, a name of `exfam.encodings.ENCODINGS`; "auto" is "relative"
        where `order` or `position` is given, otherwise "none": groups are sets (default "auto")
    `attention`: "softmax", "linear" (weights are the scores), "mean" (scores divided by the
        number of visible elements) or "relu-mean" (those above 0, so divided) (default "softmax")
    `score_scale`: factor of the scores, 1/sqrt(head_dim) if None (default None)
    `null_token`: whether a learned key stands for "nothing of this" (default True)
    `sees_mask`: whether a hidden element is itself a key, as in the paper (default False)
    `conditional`: "copies", "exact", "two_stream", "static", or "auto": exact where one pass
        allows it, else static (default "auto")
    `tie`: "none", or "reflection": center vectors are reflected context vectors (default "none")
    `join`: "sum" or "concatenate" the vectors of a token (default "sum")
    `item_sees_values`: whether the item part sees the values of the context (default False)
    `value_embedding`: "table" (finite families), "network", "raw", or "auto" (default "auto")
    `head_hidden_dim`: hidden units of the value head, 0 for a linear one (default 32)
    `group_offset`: whether the other values' mean residual, shrunk, enters beside the attention
        (default False)
    `dispersion`: scales and the like "global" or of each "item" (default "global")
    `dropout`: share of units dropped in training; less for large data (default 0.2)

    Training:
    `learning_rate`: largest step size of AdamW (default 5e-3)
    `weight_decay`: decoupled weight decay (default 0.1)
    `batch_size`: groups in a step; more for large data (default 32)
    `batch_tokens`: padded elements in a step at most, in place of `batch_size`: groups of like
        length share a step, so that little of it is padding (default None)
    `n_sampled_items`: items that a training step sums over in place of the whole catalog, drawn
        anew and the more often the more frequent they are; 0 sums over all. Validation and scores
        are exact always (default 0)
    `max_epochs`: passes over the training groups at most (default 60)
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

    After `fit`: `members_`, `schema_`, `vocabulary_`, `support_`, `encoding_` (the one chosen),
    `ordered_` (whether the groups came in an order), `history_` (of the first member),
    `histories_`, `item_vectors_` and `item_context_vectors_`.
    Source: "Exponential Family Attention", eq. 2 and sections 2.1, 2.2.

    >>> frame = {"user": [1, 1, 1, 2, 2, 2], "movie": list("abcabd"), "stars": [5, 3, 1, 4, 3, 2]}
    >>> model = EFA(group="user", item="movie", value="stars", max_epochs=2, progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "efa"
    parameter_rules = declarations.EFA

    def __init__(
        self,
        *,
        group: str | None = None,
        order: Any = None,
        item: str | None = None,
        value: Any = None,
        attributes: Any = (),
        group_attributes: Any = (),
        known: Any = (),
        position: Any = None,
        direction: str = "bidirectional",
        family: Any = "gaussian",
        parts: str = "auto",
        support: str = "auto",
        embed_dim: int = 32,
        n_heads: int = 2,
        head_dim: int = 16,
        n_layers: int = 2,
        feed_forward_dim: int = 0,
        connection: str = "pre-norm",
        encoding: str = "auto",
        attention: str = "softmax",
        score_scale: float | None = None,
        null_token: bool = True,
        sees_mask: bool = False,
        conditional: str = "auto",
        tie: str = "none",
        join: str = "sum",
        item_sees_values: bool = False,
        value_embedding: str = "auto",
        head_hidden_dim: int = 32,
        group_offset: bool = False,
        dispersion: str = "global",
        dropout: float = 0.2,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.1,
        batch_size: int = 32,
        batch_tokens: int | None = None,
        n_sampled_items: int = 0,
        max_epochs: int = 60,
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
        self.attributes = attributes
        self.group_attributes = group_attributes
        self.known = known
        self.position = position
        self.direction = direction
        self.family = family
        self.parts = parts
        self.support = support
        self.embed_dim = embed_dim
        self.n_heads = n_heads
        self.head_dim = head_dim
        self.n_layers = n_layers
        self.feed_forward_dim = feed_forward_dim
        self.connection = connection
        self.encoding = encoding
        self.attention = attention
        self.score_scale = score_scale
        self.null_token = null_token
        self.sees_mask = sees_mask
        self.conditional = conditional
        self.tie = tie
        self.join = join
        self.item_sees_values = item_sees_values
        self.value_embedding = value_embedding
        self.head_hidden_dim = head_hidden_dim
        self.group_offset = group_offset
        self.dispersion = dispersion
        self.dropout = dropout
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._model_settings(items=True, values=True, support="none", encoding="none")
        if self.value_embedding == "raw" and self.join == "sum":
            raise ExfamError(
                "`join` must be 'concatenate' with value_embedding='raw', whose vectors have "
                "length 1, got 'sum'."
            )

    def _network_settings(self, encoding: str) -> EFASettings:
        return EFASettings(
            direction=self.direction,
            embed_dim=int(self.embed_dim),
            n_heads=int(self.n_heads),
            head_dim=int(self.head_dim),
            n_layers=int(self.n_layers),
            feed_forward_dim=int(self.feed_forward_dim),
            connection=self.connection,
            encoding=encoding,
            kernel=self.attention,
            score_scale=None if self.score_scale is None else float(self.score_scale),
            null_token=self.null_token,
            sees_mask=self.sees_mask,
            conditional=self.conditional,
            dropout=python_number(self.dropout),
        )

    def _model_settings(
        self, *, items: bool, values: bool, support: str, encoding: str
    ) -> ModelSettings:
        return ModelSettings(
            network=self._network_settings(encoding),
            items=items,
            values=values,
            support=support,
            tie=self.tie,
            join=self.join,
            item_sees_values=self.item_sees_values,
            value_embedding=self.value_embedding,
            head_hidden_dim=int(self.head_hidden_dim),
            group_offset=self.group_offset,
            dispersion=self.dispersion,
        )

    def _check_order(self, groups: Groups) -> None:
        check_order(groups, direction=self.direction, encoding=self.encoding)

    def _fit_members(self, plan: FitPlan) -> None:
        self.encoding_ = choose_encoding(self.encoding, plan.train)
        settings = self._model_settings(
            items=plan.items, values=plan.values, support=plan.support, encoding=self.encoding_
        )
        bias = sampler = None
        if plan.items:
            bias = fit_marginal_items(plan.train, plan.schema.n_items or 0).log_frequency.float()
            sampler = item_sampler(bias, n=int(self.n_sampled_items))

        def build(generator: torch.Generator) -> TwoPartModel:
            return build_efa(
                plan.schema, settings, generator=generator, item_bias=bias, sampler=sampler
            )

        self.members_, self.histories_ = train_members(self, build, plan)

    def _empty_member(self, *, items: bool, values: bool) -> TwoPartModel:
        settings = self._model_settings(
            items=items, values=values, support=self.support_, encoding=self.encoding_
        )
        return build_efa(self.schema_, settings, generator=torch.Generator().manual_seed(0))

    def _told(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        config, tensors = super()._told()
        return config | {"encoding": self.encoding_}, tensors

    def _tell(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._tell(config, tensors, vocabulary)
        # The first version had no "auto", and stored the parameter alone.
        self.encoding_ = config.get("encoding", self.encoding)

    @property
    def history_(self) -> History:
        """What happened in training, epoch by epoch, of the first member."""
        check_is_fitted(self, "members_")
        return self.histories_[0]

    @property
    def item_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Center vectors (delta) of the items, of the first member's item part."""
        head: Any = self._part("item").head
        return head.centers.vectors().detach().cpu().numpy()

    @property
    def item_context_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Context vectors (beta) of the items, of the first member's item part."""
        first: Any = self._part("item").embedding.fields[0]
        return first.field.vectors().detach().cpu().numpy()

    def explain(self, X: Any) -> list[Explanation]:
        """Attention weights of each group of `X`, by layer and head, named by element.

        Of the first member of an ensemble: averaging heads of different networks means nothing.
        """
        groups = self._inputs(X).groups
        return explain(self.members_[0], groups, self.vocabulary_)

    def position_attention(
        self, X: Any, *, length: int, part: str | None = None, term: str = "both"
    ) -> PositionAttention:
        """Mean attention between the first `length` elements of groups, and how local it is.

        `length`: of groups that are as long at least
        `part`: "items" or "values" of a model that has both, None for the one it has (default None)
        `term`: "both", or "contextual" for attention without the encoding (default "both")

        Of the first member of an ensemble. See `exfam.efa.position_attention.group_attention`.
        Raises ExfamError for groups that are sets.
        """
        groups = self._inputs(X).groups
        if not groups.ordered:
            raise ExfamError(
                "`order` must be given for attention by position, got none: groups without it are "
                "sets. Name the column to sort by, or pass order='rows'."
            )
        return group_attention(self, groups, length=length, part=part, term=term)

    def transform(self, X: Any) -> Float[np.ndarray, "groups dim"]:
        """One vector a group: the hidden state of a further, hidden element (first member)."""
        groups = self._inputs(X).groups
        return group_vectors(self.members_[0], groups, self.schema_)

    @property
    def _has_positions(self) -> bool:
        return self.encoding_ != "none"

    def _part(self, name: str) -> EFANetwork:
        check_is_fitted(self, "members_")
        part = getattr(self.members_[0], f"{name}_part")
        if part is None:
            raise UnavailableError(
                f"`{name}` part must be fitted for this, got a model without one."
            )
        return part
