"""Which head attends from a word to its syntactic head, or from there to the word.

Each attention head predicts, for each word, the word that it attends to most. The best one of each
relation is chosen on some sentences and scored on others; what it has to beat is the best fixed
offset, such as "the word before", chosen in the same way.
Source: Chen, Varoquaux & Suchanek (2023), section 3.4, after Clark et al. (2019).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from exfam.checks import DataError, check_positive, check_whole
from exfam.language.word_pieces import attention_of_words
from exfam.scores.metrics import Interval, paired_bootstrap
from exfam_studies.positions.parses import DependencyParse

# Which of the two words looks for the other.
DIRECTIONS = ("to-head", "to-dependent")
# The two words of a short relation are at most so far apart.
SHORT = 4


@dataclass(frozen=True, eq=False)
class DependencyHits:
    """Of each dependency, which predictors find it.

    A root's head is itself. `distance`: of the two words; `sentence`: the place of theirs
    `predictors`: such as "layer 2 head 5 to-head" or "offset -1 to-dependent"
    """

    hits: Bool[np.ndarray, "edges predictors"]
    relation: Shaped[np.ndarray, "edges"]
    distance: Int64[np.ndarray, "edges"]
    sentence: Int64[np.ndarray, "edges"]
    predictors: tuple[str, ...]

    def only(self, chosen: Bool[np.ndarray, "edges"]) -> "DependencyHits":
        """Some of the dependencies."""
        return DependencyHits(
            self.hits[chosen],
            self.relation[chosen],
            self.distance[chosen],
            self.sentence[chosen],
            self.predictors,
        )

    def short(self) -> "DependencyHits":
        """Dependencies of words at most 4 apart."""
        return self.only(self.distance <= SHORT)

    def long(self) -> "DependencyHits":
        """Dependencies of words more than 4 apart."""
        return self.only(self.distance > SHORT)


@dataclass(frozen=True, kw_only=True)
class DependencyScore:
    """How often a relation's predictor is right; the interval redraws sentences."""

    relation: str
    predictor: str
    n_edges: int
    accuracy: Interval


@runtime_checkable
class WordEncoder(Protocol):
    """What has attention between words of a sentence."""

    def word_attention(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[Float[Tensor, "layers heads words words"]]:
        """Attention from each word to each, summed over the parts of the word attended to."""
        ...

    def fits(self, sentences: Sequence[Sequence[str]]) -> Bool[np.ndarray, "sentences"]:
        """Which sentences are not too long."""
        ...


def attention_hits(
    encoder: WordEncoder, parses: Iterable[DependencyParse], *, sentences_at_once: int = 16
) -> DependencyHits:
    """The dependencies that each attention head finds, in both directions.

    A word with a blank inside, such as "10 000", is given to the encoder as several, and their
    attention is put together as that of a word's tokens is.
    Raises DataError without a parse, and for one that is longer than the encoder takes.
    """
    check_whole("sentences_at_once", sentences_at_once)
    parses = _listed(parses)
    sentences = [unspaced(parse.words) for parse in parses]
    too_long = np.flatnonzero(~encoder.fits(sentences))
    if len(too_long):
        raise DataError(
            f"`parses` must have sentences that the encoder takes, got {len(too_long)} that are "
            f"too long, the first at place {too_long[0]}. Leave out those that `encoder.fits` "
            "refuses."
        )
    hits: list[np.ndarray] = []
    shape = (0, 0)
    for first in range(0, len(parses), sentences_at_once):
        last = first + sentences_at_once
        attention = encoder.word_attention(sentences[first:last])
        for parse, weights in zip(parses[first:last], attention, strict=True):
            shape = weights.shape[0], weights.shape[1]
            # (words, layers x heads): the word that each head attends to most.
            found = _of_words(weights, parse.words).argmax(-1).flatten(0, 1).T.cpu().numpy()
            hits.append(_found(found, parse))
    heads = [f"layer {i + 1} head {j + 1}" for i in range(shape[0]) for j in range(shape[1])]
    return _hits(parses, hits, heads)


def unspaced(words: Sequence[str]) -> list[str]:
    """Words as encoders take them: one with blanks inside is several.

    >>> unspaced(("some", "10 000", "cats"))
    ['some', '10', '000', 'cats']
    """
    return [part for word in words for part in _parts(word)]


def offset_hits(parses: Iterable[DependencyParse], *, furthest: int = 8) -> DependencyHits:
    """The dependencies that fixed offsets find: what attention to positions alone can know.

    `furthest`: offsets from -furthest to furthest (default 8); words beyond the ends of a sentence
    are none. Raises DataError without a parse.
    """
    check_whole("furthest", furthest)
    parses = _listed(parses)
    offsets = np.arange(-furthest, furthest + 1)
    hits = [_found(np.arange(len(parse))[:, None] + offsets, parse) for parse in parses]
    return _hits(parses, hits, [f"offset {offset:+d}" for offset in offsets])


def best_predictors(hits: DependencyHits) -> dict[str, str]:
    """The predictor that finds most dependencies of each relation; the first of equals.

    >>> parse = DependencyParse(("a", "b"), ("X", "X"), ({}, {}), np.array([1, -1]), ("x", "root"))
    >>> best_predictors(offset_hits([parse], furthest=1))
    {'root': 'offset +0 to-head', 'x': 'offset +1 to-head'}
    """
    return {
        relation: hits.predictors[int(hits.hits[hits.relation == relation].sum(0).argmax())]
        for relation in np.unique(hits.relation).tolist()
    }


def score_predictors(
    hits: DependencyHits, chosen: Mapping[str, str], *, seed: int = 0, level: float = 0.95
) -> list[DependencyScore]:
    """How often the chosen predictors are right, relation by relation, the most frequent first.

    Relations that have no predictor are left out. `level`: of the intervals (default 0.95)
    Raises DataError if nothing is left, or for predictors that `hits` does not have; ExfamError for
    a seed that is not an integer >= 0.
    """
    check_positive("level", level)
    check_whole("seed", seed, least=0)
    place = _places(hits, chosen)
    scores = []
    for relation in np.unique(hits.relation).tolist():
        if relation not in chosen:
            continue
        own = hits.relation == relation
        right = hits.hits[own, place[chosen[relation]]].astype(np.float64)
        interval = paired_bootstrap(right, hits.sentence[own], seed=seed, level=level)
        scores.append(
            DependencyScore(
                relation=relation,
                predictor=chosen[relation],
                n_edges=int(own.sum()),
                accuracy=interval,
            )
        )
    if not scores:
        raise DataError("`hits` must have dependencies of a relation in `chosen`, got none.")
    return sorted(scores, key=lambda score: -score.n_edges)


def distance_accuracy(hits: DependencyHits, chosen: Mapping[str, str]) -> dict[int, float]:
    """Distance of two words -> how many of the dependencies so far apart the predictors find.

    Relations that have no predictor are left out, and distances without a dependency. Raises
    DataError for predictors that `hits` does not have.

    >>> parse = DependencyParse(("a", "b"), ("X", "X"), ({}, {}), np.array([1, -1]), ("x", "root"))
    >>> hits = offset_hits([parse], furthest=1)
    >>> distance_accuracy(hits, {"x": "offset +1 to-head", "root": "offset -1 to-head"})
    {0: 0.0, 1: 1.0}
    """
    place = _places(hits, chosen)
    known = np.isin(hits.relation, list(chosen))
    columns = np.array([place[chosen[each]] for each in hits.relation[known]], dtype=np.int64)
    right = np.take_along_axis(hits.hits[known], columns[:, None], 1)[:, 0]
    far = hits.distance[known]
    return {int(each): float(right[far == each].mean()) for each in np.unique(far)}


def _parts(word: str) -> list[str]:
    return word.split() or [word]


def _of_words(
    weights: Float[Tensor, "layers heads parts parts"], words: Sequence[str]
) -> Float[Tensor, "layers heads words words"]:
    """Attention between words, from that between what they are given as."""
    word = [place for place, each in enumerate(words) for _ in _parts(each)]
    if len(word) == len(words):
        return weights
    return attention_of_words(weights, word, n_words=len(words))


def _places(hits: DependencyHits, chosen: Mapping[str, str]) -> dict[str, int]:
    """The column of each predictor. Raises DataError where a chosen one is not among them."""
    place = {name: number for number, name in enumerate(hits.predictors)}
    unknown = sorted(set(chosen.values()) - set(place))
    if unknown:
        raise DataError(
            f"`chosen` must name predictors of `hits`, got {unknown[0]!r}. Choose them among the "
            "hits of the same encoder."
        )
    return place


def _listed(parses: Iterable[DependencyParse]) -> list[DependencyParse]:
    listed = list(parses)
    if not listed:
        raise DataError("`parses` must hold at least one sentence, got none.")
    return listed


def _found(
    predicted: Int64[np.ndarray, "words predictors"], parse: DependencyParse
) -> Bool[np.ndarray, "words predictors_both_ways"]:
    """Of each word's dependency, whether each predictor finds it to the head, or from there."""
    own = np.arange(len(parse))
    heads = np.where(parse.heads < 0, own, parse.heads)
    to_head = predicted == heads[:, None]
    to_dependent = predicted[heads] == own[:, None]
    return np.concatenate([to_head, to_dependent], 1)


def _hits(
    parses: Sequence[DependencyParse], hits: list[np.ndarray], names: Sequence[str]
) -> DependencyHits:
    return DependencyHits(
        np.concatenate(hits),
        np.array([relation for parse in parses for relation in parse.relations]),
        np.concatenate(list(_distances(parses))),
        np.repeat(np.arange(len(parses)), [len(parse) for parse in parses]),
        tuple(f"{name} {direction}" for direction in DIRECTIONS for name in names),
    )


def _distances(parses: Sequence[DependencyParse]) -> Iterator[Int64[np.ndarray, "words"]]:
    for parse in parses:
        own = np.arange(len(parse))
        yield np.abs(own - np.where(parse.heads < 0, own, parse.heads))
