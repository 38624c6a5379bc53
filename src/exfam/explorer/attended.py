"""Attention weights of what is looked at: a basket or history, a row of a table, a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError
from exfam.efa.blanks import append_blank
from exfam.efa.explain import further_columns, networks_of, weights_of_group
from exfam.efa.group_estimator import GroupEstimator
from exfam.encodings import NoEncoding
from exfam.estimator.evaluate import set_to_predict
from exfam.explorer.contexts import context_of, groups_of_contexts
from exfam.explorer.questions import Question, text_of
from exfam.explorer.views.row import RowView
from exfam.language.text_encoders import TextEncoder
from exfam.positions.attention import own_weights, with_term
from exfam.tables.experts.table_attention import table_attention
from exfam.tables.table import JointTable

_NEXT, _SPECIAL, _MOST_WORDS = "(a further one)", "(special tokens)", 200
_ALL_TERMS = ("both", "contextual", "positional")


@dataclass(frozen=True, eq=False)
class SeenWeights:
    """Weights from rows to columns, of which the first `n_own` are the same, in the same order."""

    rows: list[str]
    columns: list[str]
    n_own: int
    weights: Float[np.ndarray, "layers heads rows columns"]


class GroupAttention:
    """Of items: each element given the others, and one more, whose item is to be predicted."""

    noun, special = "items", ""

    def __init__(self, model: Any) -> None:
        self.model, self.encoder = model, None
        set_to_predict(model.members_)
        self._networks = networks_of(model.members_[0])
        self.parts = list(self._networks)
        first = next(iter(self._networks.values()))
        self.is_ordered = model.direction == "causal" or model._has_positions
        self.is_share = first.layers[0].attention.kernel.normalizes
        self.terms = ["both"]
        encoding = first.encoding
        if not isinstance(encoding, NoEncoding):
            self.terms += [] if encoding.replaces else ["contextual"]
            self.terms += ["positional"] if _has_own_weights(first) else []

    def of(self, question: Question, *, part: str, term: str) -> SeenWeights:
        """`items`, and `values` beside them -> weights of a part of the model."""
        context = context_of(question, self.model)
        group = groups_of_contexts(self.model, [context])
        labels = self.model.vocabulary_["item"]
        names = [str(labels[code]) for code in context.items]
        network = self._networks[part]
        if term == "positional":
            return _of_positions(network, names)
        if term == "contextual":
            network = self._contextual[part]
        weights = weights_of_group(network, group)
        more, rows = further_columns(network), list(names)
        if part == "items":
            further = weights_of_group(network, append_blank(group, self.model.schema_))
            # It never sees itself.
            last = np.delete(further[:, :, -1:], len(names), axis=-1)
            weights, rows = np.concatenate([weights, last], axis=2), [*names, _NEXT]
        return SeenWeights(rows, names + more, len(names), weights)

    @cached_property
    def _contextual(self) -> Mapping[str, Any]:
        return networks_of(with_term(self.model.members_[0], "contextual"))


def _has_own_weights(network: Any) -> bool:
    try:
        own_weights(network.encoding, 2, head_dim=network.layers[0].attention.head_dim)
    except ExfamError:  # positions that are no row
        return False
    return True


def _of_positions(network: Any, names: list[str]) -> SeenWeights:
    """What the encoding alone makes of the positions, where no element sees itself."""
    head_dim = network.layers[0].attention.head_dim
    weights = np.zeros((1, 1, 0, 0))
    if names:
        own = own_weights(
            network.encoding, len(names), head_dim=head_dim, direction=network.direction
        )
        weights = own[None].numpy()
    return SeenWeights(names, names, len(names), weights)


class RowAttention:
    """Of a row of a table: each column, its cell hidden, given the others."""

    noun, special, parts, is_ordered, is_share = "row", "", ["columns"], False, True
    terms = list(_ALL_TERMS)

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.encoder, self._data = model, None, data

    @cached_property
    def rows(self) -> RowView:
        """What reads rows: the view of them, where there is one, which keeps what it has read."""
        return RowView(self.model, self._data)

    def of(self, question: Question, *, part: str, term: str) -> SeenWeights:
        """`cells`, or the `index` of a row -> weights; see `MaskedTable.position_attention`."""
        cells = question.get("cells")
        if not cells and self.rows.cells is not None:
            cells = self.rows.row({"index": question.get("index", 0)})["cells"]
        both = "both" if term == "positional" else term
        own = table_attention(self.model, self.rows.known({"cells": cells or {}}), term=both)
        weights = own.positional[None] if term == "positional" else own.weights
        names = list(self.model.schema_.names)
        return SeenWeights(names, names, len(names), weights.numpy())


class SentenceAttention:
    """Of a sentence: each word to each; what special tokens take is a column of its own."""

    noun, special, parts, is_ordered, is_share = "sentence", _SPECIAL, ["words"], True, True

    def __init__(self, model: Any) -> None:
        self.encoder = model.encoder() if hasattr(model, "encoder") else model
        self.terms = list(_ALL_TERMS) if isinstance(self.encoder, TextEncoder) else ["both"]

    def of(self, question: Question, *, part: str, term: str) -> SeenWeights:
        """`text`, words between white space -> weights, see `TextEncoder.word_attention`."""
        words = text_of(question, "text", default="").split()
        if len(words) > _MOST_WORDS:
            raise ExfamError(f"`text` must have at most {_MOST_WORDS} words, got {len(words):,}.")
        if not words:
            return SeenWeights([], [_SPECIAL], 0, np.zeros((1, 1, 0, 1)))
        encoder = self.encoder
        if isinstance(encoder, TextEncoder):
            encoder = replace(encoder, term=term)
        (own,) = encoder.word_attention([words])
        weights = own.double().cpu().numpy()
        rest = np.clip(1.0 - weights.sum(-1, keepdims=True), 0.0, 1.0)
        columns = [*words, _SPECIAL]
        return SeenWeights(words, columns, len(words), np.concatenate([weights, rest], axis=-1))


Source = GroupAttention | RowAttention | SentenceAttention


def has_attention(model: Any) -> bool:
    """Whether a model or an encoder has attention whose weights can be shown."""
    if isinstance(model, GroupEstimator):
        return bool(networks_of(model.members_[0], required=False))
    if isinstance(model, JointTable):
        return bool(model.members_)
    return hasattr(model, "encoder") or hasattr(model, "word_attention")


def attention_source(model: Any, data: Any) -> Source:
    """What gives the weights of a model that has attention."""
    if isinstance(model, GroupEstimator):
        return GroupAttention(model)
    return RowAttention(model, data) if isinstance(model, JointTable) else SentenceAttention(model)
