"""The EFA estimator: exponential family attention over groups."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.attention import SCORE_KERNELS
from exfam.checks import ExfamError
from exfam.columns.parts import ROWS, FrameColumns
from exfam.conditionals import CONDITIONALS
from exfam.efa.attributes.enlarge import set_new_items
from exfam.efa.attributes.estimator import AttributedEstimator
from exfam.efa.base.kept import KeptOutputs
from exfam.efa.base.neighbors import is_line
from exfam.efa.corrected import fit_corrected, fit_without_base
from exfam.efa.declarations import AttributeColumns, GroupTraining, PartsModel, UnavailableError
from exfam.efa.defaults import chosen_of, resolved, schedule_of
from exfam.efa.explain import group_vectors
from exfam.efa.inputs import Inputs
from exfam.efa.networks.assemble import JOINS, TIES, VALUE_EMBEDDINGS, EFASettings, build_efa
from exfam.efa.networks.attributed import attribute_items
from exfam.efa.networks.based import BasedItems, network_of
from exfam.efa.networks.efa_network import EFANetwork
from exfam.efa.offset_column import OffsetColumn
from exfam.efa.plan import FitPlan, check_order, choose_encoding
from exfam.efa.saved_parts import parts_of, starts_of
from exfam.efa.value_fits import has_value_base
from exfam.encodings import ENCODINGS
from exfam.estimator.base import attribute, parameter, settings_from
from exfam.estimator.gain import Gain, gain_sentences
from exfam.estimator.rules import (
    ANY_NUMBER,
    Choice,
    Families,
    Flag,
    Fraction,
    OrNone,
    OrWord,
    Positive,
    Whole,
    listed,
)
from exfam.estimator.scikit import Transformer
from exfam.groups import Groups
from exfam.layers import CONNECTIONS
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.optimizer import TrainingSettings
from exfam.training.progress import EpochProgress
from exfam.training.ranks import is_main_rank

_GAINS = ("gain", "value_gain", "column_gain")


class EFA(
    OffsetColumn, AttributeColumns, PartsModel, GroupTraining, Transformer, AttributedEstimator
):
    """Exponential family attention: items and values of groups, each given its context.

    {parameters}

    After `fit`: `members_`, `schema_`, `vocabulary_`, `support_`, `encoding_` (the one chosen),
    `resolved_` (what None meant among the parameters that depend on the data),
    `gain_` (what attention added to a base, on the groups that chose it; None without),
    `value_gain_` (the same of values, where `gain_` is that of items beside),
    `column_gain_` (what value columns add to later ones of their element; None of one column or of
    few groups),
    `ordered_` (whether the groups came in an order), `history_` (of the first member),
    `histories_`, `item_vectors_` and `item_context_vectors_`.
    Source: "Exponential Family Attention", eq. 2 and sections 2.1, 2.2.

    >>> frame = {"user": [1, 1, 1, 2, 2, 2], "movie": list("abcabd"), "stars": [5, 3, 1, 4, 3, 2]}
    >>> model = EFA(group="user", item="movie", value="stars", max_epochs=2, progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "efa"
    gain_: Gain | None = attribute()
    value_gain_: Gain | None = attribute()
    column_gain_: Gain | None = attribute()
    resolved_: dict[str, Any] = attribute()

    family: Any = parameter(
        OrWord("auto", Families()),
        "a family's name or instance, or a dict by value column; "
        '"auto" is what values look like: ordered classes, counts with heavy tails or negative '
        "binomial ones, or real numbers, with a Student t, a log Student t, a gamma or a histogram",
        default="auto",
    )
    embed_dim: int | None = parameter(
        OrNone(Whole()),
        "length of item, value and attribute vectors; "
        "None is 32, or 64 for sets and causal sequences of items with a base, "
        "32 of more than 2,000 in sets",
        default=None,
    )
    n_heads: int = parameter(Whole(), "attention heads", default=2)
    head_dim: int | None = parameter(
        OrNone(Whole()),
        "length of each head's queries and keys; "
        "None is 16, or 32 for causal sequences of items with a base",
        default=None,
    )
    n_layers: int | None = parameter(
        OrNone(Whole()),
        "attention layers; None is 2, or 1 for sets of items with a base",
        default=None,
    )
    feed_forward_dim: int | None = parameter(
        OrNone(Whole(least=0)),
        "hidden units after each attention layer, 0 for none; "
        "None is 0, or 128 for causal sequences of items with a base",
        default=None,
    )
    connection: str = parameter(
        Choice(CONNECTIONS),
        '"pre-norm", "post-norm", "residual" or "none" around layers',
        default="pre-norm",
    )
    encoding: str = parameter(
        Choice(("auto", *ENCODINGS)),
        'positional encoding, a name of `exfam.encodings.ENCODINGS`; "auto" is "relative" '
        'where `order` or `position` is given, "distance" for several columns of positions, '
        'otherwise "none": groups are sets',
        default="auto",
    )
    base: str = parameter(
        Choice(("auto", "none")),
        'the simple models that attention corrects: "auto" is, of items, ridge regression of each '
        "on the others, or causal the transitions between items near each other, and of values "
        "a factor model with levels of items and groups, and a Gaussian process in an order or "
        'between positions; "none" is the model of the paper',
        default="auto",
    )
    attention: str = parameter(
        Choice((*SCORE_KERNELS, "none")),
        '"softmax", "linear" (weights are the scores), "mean" (scores divided by the number '
        'of visible elements), "relu-mean" (those above 0, so divided), or "none": the base '
        "alone",
        default="softmax",
    )
    score_scale: float | None = parameter(
        OrNone(Positive()), "factor of the scores, 1/sqrt(head_dim) if None", default=None
    )
    null_token: bool = parameter(
        Flag(), 'whether a learned key stands for "nothing of this"', default=True
    )
    sees_mask: bool = parameter(
        Flag(), "whether a hidden element is itself a key, as in the paper", default=False
    )
    conditional: str = parameter(
        Choice(("auto", *CONDITIONALS)),
        '"copies", "exact", "two_stream", "static", or "auto": exact where one pass allows '
        "it, else static",
        default="auto",
    )
    tie: str | None = parameter(
        OrNone(Choice(TIES)),
        '"none", "same": center vectors are context vectors, or "reflection": they are these, '
        "reflected; "
        "None is 'none', or 'same' for causal sequences of items with a base "
        "whose vectors are summed",
        default=None,
    )
    join: str = parameter(
        Choice(tuple(JOINS)), '"sum" or "concatenate" the vectors of a token', default="sum"
    )
    item_sees_values: bool = parameter(
        Flag(), "whether the item part sees the values of the context", default=False
    )
    value_embedding: str = parameter(
        Choice(VALUE_EMBEDDINGS),
        '"table" (finite families), "network", "raw", or "auto"',
        default="auto",
    )
    context_hidden_dim: int | None = parameter(
        OrNone(Whole(least=0)),
        "hidden units of a network beside attention that sees the sum of a set's context, 0 for "
        "none; of items with a base alone; "
        "None is 0, or 128 for sets of items with a base",
        default=None,
    )
    head_hidden_dim: int = parameter(
        Whole(least=0), "hidden units of the value head, 0 for a linear one", default=32
    )
    group_offset: bool = parameter(
        Flag(),
        "whether the other values' mean residual, shrunk, enters beside the attention",
        default=False,
    )
    values_given_each_other: bool = parameter(
        Flag(),
        "whether each of several value columns is given those before it of the same element, so "
        "that their sum is exact for all together; as far as validation gains by it",
        default=True,
    )
    batch_size: int | None = parameter(  # type: ignore[assignment]
        OrNone(ANY_NUMBER),
        "groups in a step; None is 32, or `batch_tokens` with a base",
        default=None,
    )
    batch_tokens: int | None = parameter(
        default=None,
        text="padded elements in a step at most, in place of `batch_size`: groups of like length "
        "share a step; "
        "None is None, or 1024 for groups of items with a base and 3000 for values with one, "
        "without `batch_size`",
    )
    dropout: float = parameter(
        Fraction(), "share of units dropped in training, less for large data", default=0.2
    )
    learning_rate: float | None = parameter(  # type: ignore[assignment]
        OrNone(Positive()),
        "largest step size of AdamW; None is 0.005, or 0.003 for causal sequences of items with a "
        "base and 0.003 for values with one; "
        "0.01 for at least 75,000 elements of at most 2,000 items in sets",
        default=None,
    )
    weight_decay: float | None = parameter(  # type: ignore[assignment]
        OrNone(Positive(zero=True)),
        "decoupled weight decay; None is 0.1, or 1.0 for causal sequences of items with a base; "
        "for at least 75,000 elements in sets 1,200 sqrt(items) / elements",
        default=None,
    )
    n_sampled_items: int | None = parameter(  # type: ignore[assignment]
        OrNone(Whole(least=0, most=2**53)),
        "items that a training step sums over in place of the whole catalog, drawn anew and "
        "the more often the more frequent they are; 0 sums over all. Validation and scores "
        "are exact always; "
        "None is 0, or 1000 with a base of more than 2000 items, 700 in sets",
        default=None,
    )
    ensemble: int | None = parameter(  # type: ignore[assignment]
        OrNone(Whole()),
        "models whose initial weights and batches have the seeds `seed`, `seed` + 1 …, and "
        "whose probabilities are averaged; with a base of items each holds out other groups for "
        "validation, else all share those of `seed`; "
        "None is 1, or up to 5 with a base of items for fewer than 75,000 elements, and 2 for sets "
        "of at least 150,000 with at most 100 items",
        default=None,
    )
    max_epochs: int | None = parameter(  # type: ignore[assignment]
        OrNone(ANY_NUMBER),
        "passes over the training groups at most; None is 60, or with a base of items as few as go "
        "through 1,600,000 elements, 20 at least (12 of more than 2,000 items; of sets of "
        "150,000 elements 10 of these, and 14 of at most 100 items), and with one of "
        "values 300,000, 3 at least and 30 at most",
        default=None,
    )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.value_embedding == "raw" and self.join == "sum":
            raise ExfamError(
                "`join` must be 'concatenate' with value_embedding='raw', whose vectors have "
                "length 1, got 'sum'."
            )

    def _check_order(self, groups: Groups) -> None:
        check_order(groups, direction=self.direction, encoding=self.encoding)

    @property
    def _stands_by_order(self) -> bool:
        """Whether values, of no items, are where the numbers or times of their `order` say."""
        is_plain = self.position is None and self.encoding == "auto" and self.base != "none"
        order = () if self.order == ROWS else listed(self.order)
        return is_plain and self.item is None and self.value is not None and len(order) == 1

    def _columns(self) -> FrameColumns | None:
        columns = super()._columns()
        if columns is None or not self._stands_by_order:
            return columns
        return replace(columns, position=columns.order)

    def _inputs(self, X: Any, *, unknown: str | None = None) -> Inputs:
        inputs = super()._inputs(X, unknown=unknown)
        known, groups = self.resolved_.get("position"), inputs.groups
        if known is None and self._stands_by_order:  # older versions, or folders without positions
            return replace(inputs, groups=groups.with_(position=None))
        if known is not None and groups.position is None and not self._has_items:
            raise ExfamError(
                "`X` must say where values are, as in training, got Groups without `position`. "
                f"Pass positions, or a frame or file with the column {known!r}."
            )
        return inputs

    def _fit_members(self, plan: FitPlan) -> None:
        self.encoding_ = choose_encoding(self.encoding, plan.train)
        self.gain_ = self.value_gain_ = self.column_gain_ = None
        self._check_base(plan)
        has_base = self.base != "none" and (plan.items or has_value_base(plan))
        kind = "otherwise"
        if has_base and not plan.values:
            is_sequence = self._has_positions and is_line(plan.train)
            others = "both_sides" if is_sequence else "sets"
            kind = "sequences" if self.direction == "causal" else others
        elif has_base and has_value_base(plan) and not plan.items:
            kind = "values"
        self.resolved_ = resolved(self, kind=kind, size=plan.size)
        if plan.train.position is not None and plan.values:
            self.resolved_["position"] = self.position or self.order or "position"
        settings = chosen_of(self.resolved_, TrainingSettings) | {
            "batch_size": self.batch_size or 32,
            "schedule": schedule_of(kind, plan.size),
        }
        seeds = [int(self.seed) + number for number in range(self.resolved_["ensemble"])]
        training = {"seeds": seeds, "n_sampled": self.resolved_["n_sampled_items"]}
        fit = fit_corrected if has_base else fit_without_base
        self.members_, histories, gains = fit(self, plan, settings, **training)
        self.gain_, self.column_gain_ = gains.items or gains.values, gains.columns
        self.value_gain_ = gains.values if gains.items else None
        if histories:  # a closed form has none
            self.histories_ = histories
        for sentence in gain_sentences(self):
            shown = bool(self.progress) and is_main_rank()
            EpochProgress(shown=shown, max_epochs=0).say(sentence)

    def _check_base(self, plan: FitPlan) -> None:
        lacks = self.base == "none" or (plan.values and not has_value_base(plan))
        if self.attention == "none" and lacks:
            families = sorted({family.name for family in plan.schema.families.values()})
            raise ExfamError(
                "`attention` must not be 'none' without a base, which items and values of some "
                f"families have: got base={self.base!r} and families {families}. Pass base='auto', "
                "parts='items', or another family."
            )

    def _build(
        self,
        generator: torch.Generator,
        *,
        items: bool,
        values: bool,
        kept: KeptOutputs | None = None,
        **starts: Any,
    ) -> TwoPartModel:
        fitted = {"support": self.support_, "encoding": self.encoding_}
        fitted |= chosen_of(self.resolved_, EFASettings)
        settings = settings_from(self, EFASettings, items=items, values=values, **fitted)
        member = build_efa(self.schema_, settings, generator=generator, **starts)
        network = network_of(member.item_part)
        if self.item_attributes_ is not None and network is not None:
            given = self.item_attributes_.vectors()
            attribute_items(network, given, generator=generator)
        if isinstance(member.item_part, BasedItems):
            member.item_part.kept = kept
        set_new_items(member, self.item_attributes_)
        return member

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config, tensors = super()._state()
        found = parts_of(self.members_) | {"encoding": self.encoding_, "resolved": self.resolved_}
        gains = {name: getattr(self, f"{name}_", None) for name in _GAINS}
        found |= {name: gain and asdict(gain) for name, gain in gains.items()}
        return config | found, tensors

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        # The first version had no "auto", and stored the parameter alone.
        self.encoding_ = config.get("encoding", self.encoding)
        if "base" not in config:  # older versions had none
            self.base = self.parameters_["base"] = "none"
        # Older versions had no parameters that depend on the data.
        self.resolved_ = config.get("resolved") or resolved(self, kind="otherwise")
        for name in _GAINS:
            gain = config.get(name)
            setattr(self, f"{name}_", gain and Gain(**gain))

    def _restored_member(self, config: Any) -> TwoPartModel:
        starts = starts_of(config, self.schema_.families)
        generator = torch.Generator().manual_seed(0)
        return self._build(generator, items=config["items"], values=config["values"], **starts)

    @property
    def item_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Center vectors (delta) of the items, of the first member's item part."""
        head: Any = self._item_part().head
        return head.centers.vectors().detach().cpu().numpy()

    @property
    def item_context_vectors_(self) -> Float[np.ndarray, "items dim"]:
        """Context vectors (beta) of the items, of the first member's item part."""
        first: Any = self._item_part().embedding.fields[0]
        return first.field.vectors().detach().cpu().numpy()

    def _item_part(self) -> EFANetwork:
        self._check_fitted()
        part = network_of(self.members_[0].item_part)
        if part is None:
            raise UnavailableError(
                "`item` part must be fitted with attention for this, got a model without."
            )
        return part

    def transform(self, X: Any) -> Float[np.ndarray, "groups dim"]:
        """One vector a group: the hidden state of a further, hidden element (first member)."""
        groups = self._inputs(X).groups
        return group_vectors(self.members_[0], groups, self.schema_)

    @property
    def _has_positions(self) -> bool:
        return self.encoding_ != "none"
