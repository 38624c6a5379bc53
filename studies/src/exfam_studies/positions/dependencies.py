"""Which head attends from a word to its syntactic head, or from there to the word.

What it has to beat is the best fixed offset, such as "the word before", chosen in the same way.
Source: Chen, Varoquaux & Suchanek (2023), section 3.4, after Clark et al. (2019).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from exfam.checks import DataError, check_whole
from exfam.language.text_encoders import attention_of_words
from exfam.scores.metrics import Interval, paired_bootstrap
from exfam_studies.positions.parses import DependencyParse

SENTENCES_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class DependencyHits:
    """Of each dependency, which predictors find it.

    A root's head is itself. `distance`: of the two words; `sentence`: the number of theirs
    `predictors`: such as "layer 2 head 5 to-head" or "offset -1 to-dependent"
    """

    hits: Bool[np.ndarray, "edges predictors"]
    relation: Shaped[np.ndarray, "edges"]
    distance: Int64[np.ndarray, "edges"]
    sentence: Int64[np.ndarray, "edges"]
    predictors: tuple[str, ...]

    def apart(self, least: int, most: int | float = np.inf) -> "DependencyHits":
        """Dependencies of words so far apart."""
        chosen = (self.distance >= least) & (self.distance <= most)
        edges = ("hits", "relation", "distance", "sentence")
        return replace(self, **{name: getattr(self, name)[chosen] for name in edges})


@dataclass(frozen=True)
class DependencyScore:
    """How often a relation's predictor is right; the interval redraws sentences."""

    relation: str
    predictor: str
    n_edges: int
    accuracy: Interval


def attention_hits(encoder: Any, parses: Sequence[DependencyParse]) -> DependencyHits:
    """The dependencies that each attention head finds, in both directions.

    `encoder`: its `word_attention(sentences)` has a tensor (layers, heads, words, words) for each
    """
    hits, n_layers, n_heads = list[np.ndarray](), 0, 0
    for first in range(0, len(parses), SENTENCES_AT_ONCE):
        some = parses[first : first + SENTENCES_AT_ONCE]
        attention = encoder.word_attention([unspaced(parse.words) for parse in some])
        for parse, weights in zip(some, attention, strict=True):
            n_layers, n_heads = weights.shape[:2]
            word = [i for i, own in enumerate(parse.words) for _ in unspaced([own])]
            if len(word) > len(parse):
                weights = attention_of_words(weights, word, n_words=len(parse))
            # (words, layers x heads): the word that each head attends to most.
            predicted = weights.argmax(-1).flatten(0, 1).T
            hits.append(_found(predicted.cpu().numpy(), parse))
    heads = [f"layer {i + 1} head {j + 1}" for i in range(n_layers) for j in range(n_heads)]
    return _hits(parses, hits, heads)


def unspaced(words: Sequence[str]) -> list[str]:
    """Words as encoders take them: one with blanks inside is several."""
    return [part for word in words for part in word.split() or [word]]


def offset_hits(parses: Sequence[DependencyParse], *, furthest: int = 8) -> DependencyHits:
    """The dependencies that fixed offsets find: what attention to positions alone can know.

    `furthest`: offsets from -furthest to furthest; words beyond the ends of a sentence are none
    """
    offsets = np.arange(-furthest, furthest + 1)
    hits = [_found(np.arange(len(parse))[:, None] + offsets, parse) for parse in parses]
    return _hits(parses, hits, [f"offset {offset:+d}" for offset in offsets])


def best_predictors(hits: DependencyHits) -> dict[str, str]:
    """The predictor that finds most dependencies of each relation; the first of equals."""
    return {
        relation: hits.predictors[int(hits.hits[hits.relation == relation].sum(0).argmax())]
        for relation in np.unique(hits.relation).tolist()
    }


def score_predictors(
    hits: DependencyHits, chosen: Mapping[str, str], *, seed: int = 0
) -> list[DependencyScore]:
    """How often the chosen predictors are right, relation by relation, the most frequent first.

    Relations that have no predictor are left out. Raises DataError if nothing is left.
    """
    check_whole("seed", seed, least=0)
    scores = []
    for relation in sorted({*hits.relation.tolist()} & {*chosen}):
        own = hits.relation == relation
        right = hits.hits[own, hits.predictors.index(chosen[relation])].astype(np.float64)
        accuracy = paired_bootstrap(right, hits.sentence[own], seed=seed)
        scores.append(DependencyScore(relation, chosen[relation], int(own.sum()), accuracy))
    if not scores:
        raise DataError("`hits` must have dependencies of a relation in `chosen`, got none.")
    return sorted(scores, key=lambda score: -score.n_edges)


def distance_accuracy(hits: DependencyHits, chosen: Mapping[str, str]) -> dict[int, float]:
    """Distance of two words -> how many of the dependencies so far apart the predictors find."""
    known = np.isin(hits.relation, list(chosen))
    names = [chosen[relation] for relation in hits.relation[known]]
    columns = np.array([hits.predictors.index(name) for name in names], dtype=np.int64)
    right = np.take_along_axis(hits.hits[known], columns[:, None], 1)[:, 0]
    far = hits.distance[known]
    return {int(distance): float(right[far == distance].mean()) for distance in np.unique(far)}


def _heads(parse: DependencyParse) -> Int64[np.ndarray, "words"]:
    """The head of each word; a root's is itself."""
    return np.where(parse.heads < 0, np.arange(len(parse)), parse.heads)


def _found(
    predicted: Int64[np.ndarray, "words predictors"], parse: DependencyParse
) -> Bool[np.ndarray, "words predictors_both_ways"]:
    """Of each word's dependency, whether each predictor finds it to the head, or from there."""
    heads = _heads(parse)
    to_dependent = predicted[heads] == np.arange(len(parse))[:, None]
    return np.concatenate([predicted == heads[:, None], to_dependent], 1)


def _hits(
    parses: Sequence[DependencyParse], hits: list[np.ndarray], names: Sequence[str]
) -> DependencyHits:
    if not parses:
        raise DataError("`parses` must hold at least one sentence, got none.")
    return DependencyHits(
        np.concatenate(hits),
        np.array([relation for parse in parses for relation in parse.relations]),
        np.concatenate([np.abs(np.arange(len(parse)) - _heads(parse)) for parse in parses]),
        np.repeat(np.arange(len(parses)), [len(parse) for parse in parses]),
        tuple(f"{name} {way}" for way in ("to-head", "to-dependent") for name in names),
    )
