"""Attention: what listens to what, by layer and head, in what is looked at."""

import json
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.checks import ExfamError, check_choice
from exfam.estimator.gain import gain_sentences
from exfam.explorer.attended import SeenWeights, attention_source, has_attention
from exfam.explorer.kept import Recent
from exfam.explorer.questions import Question, numbers_or_none, text_of, whole_of
from exfam.explorer.views import Answer
from exfam.positions import identical_word_probe, position_scores, renormalized

# Of what was looked at last, such as the layers of one sentence.
_KEPT, _LEAST, _MOST = 8, 3, 10_000
_WORDS, _LENGTH = 20, 32
_DIGITS = 8
_OF_QUESTION = ("items", "values", "cells", "index", "text")


class AttentionView:
    """What a model's attention weighs in a basket, a row or a sentence."""

    name, slow = "attention", ("probe",)

    def __init__(self, model: Any, data: Any = None) -> None:
        self.model, self.source = model, attention_source(model, data)
        self._kept = Recent[SeenWeights](_KEPT)
        self.questions = {"attention": self.attention, "probe": self.probe}

    @staticmethod
    def shows(model: Any, data: Any) -> bool:
        """Where there is attention with weights."""
        return has_attention(model)

    def start(self) -> Answer:
        """The model in words, its parts and terms, and what weights are of."""
        source = self.source
        return {
            "title": type(self.model).__name__,
            "gain": " ".join(gain_sentences(self.model)) if source.encoder is None else "",
            "noun": source.noun,
            "parts": list(source.parts),
            "terms": list(source.terms),
            "is_ordered": source.is_ordered,
            "is_share": source.is_share,
            "is_off": getattr(getattr(self.model, "gain_", None), "gate", 1.0) == 0,
            "has_probe": source.encoder is not None,
        }

    def attention(self, question: Question) -> Answer:
        """What is looked at -> weights of one head, and what there is of every head.

        `items` and their `values`, `cells` or the `index` of a row, or `text`; `part` and `term` of
        the model; `layer` and `head` from 1, those that are not there for the mean.
        By layer and head: `beside`, what is attended to besides; `locality` and `symmetry` of
        weights among elements in a row.
        """
        own = self._attended(question)
        n_layers, n_heads = own.weights.shape[:2]
        layers = _chosen(question, "layer", n_layers)
        heads = _chosen(question, "head", n_heads)
        weights = own.weights[layers, heads].astype(np.float64).mean((0, 1))
        return {
            "rows": own.rows,
            "columns": own.columns,
            "n_own": own.n_own,
            # As exact as single precision, in half the text.
            "weights": weights.round(_DIGITS).tolist(),
            "n_layers": n_layers,
            "n_heads": n_heads,
            "beside": self._beside(own),
            **self._scores(own),
        }

    def probe(self, question: Question) -> Answer:
        """Locality and symmetry of each head, of sentences of one word over and over."""
        encoder = self.source.encoder
        if encoder is None:
            raise ExfamError("`probe` must be of an encoder of sentences, got another model.")
        n_words = min(_WORDS, len(encoder.probe_words()))
        length = min(_LENGTH, encoder.most_tokens)
        scores = identical_word_probe(encoder, words=n_words, length=length).head_scores()
        return {
            "n_words": n_words,
            "length": length,
            "locality": numbers_or_none(scores.locality),
            "symmetry": numbers_or_none(scores.symmetry),
        }

    def _attended(self, question: Question) -> SeenWeights:
        source = self.source
        part = text_of(question, "part", default=source.parts[0])
        term = text_of(question, "term", default="both")
        check_choice("part", part, source.parts)
        check_choice("term", term, source.terms)
        of = {name: question[name] for name in _OF_QUESTION if name in question}
        key = json.dumps([part, term, of], sort_keys=True)
        return self._kept.of(key, lambda: source.of(question, part=part, term=term))

    def _beside(self, own: SeenWeights) -> list[Any] | None:
        """The mean share of what is no element, by layer and head."""
        if own.n_own == len(own.columns) or not own.rows or not self.source.is_share:
            return None
        share: np.ndarray = own.weights[..., own.n_own :].astype(np.float64).sum(-1).mean(-1)
        return share.tolist()

    def _scores(self, own: SeenWeights) -> Answer:
        """Of elements in a row, of which there are enough to have neighbors on both sides."""
        if not self.source.is_ordered or not self.source.is_share or own.n_own < _LEAST:
            return {"locality": None, "symmetry": None}
        scores = position_scores(renormalized(_among(own)))
        return {
            "locality": numbers_or_none(scores.locality),
            "symmetry": numbers_or_none(scores.symmetry),
        }


def _chosen(question: Question, name: str, n: int) -> slice:
    number = whole_of(question, name, low=0, high=_MOST, default=0)
    return slice(number - 1, number) if 1 <= number <= n else slice(None)


def _among(own: SeenWeights) -> Float64[Tensor, "layers heads own own"]:
    n = own.n_own
    weights = np.ascontiguousarray(own.weights[:, :, :n, :n], dtype=np.float64)
    return torch.from_numpy(weights)
