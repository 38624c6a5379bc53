"""Sentences, or pairs of sentences, with a label or a number each, in parts that share none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int64, Shaped

from exfam.checks import check_whole

# A sentence, or a pair of sentences.
Sentence = str | tuple[str, str]


@dataclass(frozen=True, eq=False)
class SentencePart:
    """Sentences, or pairs of them, and the target of each: its label (str) or number (float).

    `n_left_out`: rows of the file that were broken and left out, where that was wanted
    """

    sentences: tuple[str, ...] | tuple[tuple[str, str], ...]
    targets: Shaped[np.ndarray, "sentences"]
    n_left_out: int = 0

    def __len__(self) -> int:
        return len(self.sentences)

    def rows(self, indices: Int64[np.ndarray, "indices"]) -> "SentencePart":
        """The sentences at some indices, in that order."""
        sentences = tuple(self.sentences[index] for index in indices)
        return replace(self, sentences=sentences, targets=self.targets[indices])

    def spread(self, n: int) -> "SentencePart":
        """At most `n` sentences, from the first to the last at equal steps.

        >>> SentencePart(("a", "b", "c"), np.arange(3.0)).spread(2).sentences
        ('a', 'c')
        """
        indices = np.linspace(0, len(self) - 1, min(n, len(self)))
        return self.rows(indices.astype(np.int64))


@dataclass(frozen=True, eq=False)
class SentenceTask:
    """Sentences to fit on, to choose by and to report on; the three share no sentence or pair.

    `kind`: "classification" or "regression"
    `metric`: what is reported: "accuracy" or "spearman"
    """

    name: str
    kind: str
    metric: str
    train: SentencePart
    validation: SentencePart
    test: SentencePart

    def spread(self, n: int) -> "SentenceTask":
        """At most `n` sentences of each part, as for a smoke run."""
        parts = {name: getattr(self, name).spread(n) for name in ("train", "validation", "test")}
        return replace(self, **parts)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, sorted; none for a regression."""
        if self.kind == "regression":
            return ()
        return tuple(sorted({str(label) for label in self.train.targets}))

    @property
    def has_pairs(self) -> bool:
        """Whether a target is of two sentences."""
        return not isinstance(self.train.sentences[0], str)


def draw_parts(
    part: SentencePart, *, fractions: Sequence[float], by_label: bool, seed: int
) -> list[SentencePart]:
    """The rest of a part, then parts of it with those fractions of its different sentences.

    Copies of a sentence, or of a pair, stay together; white space does not make two different.
    `by_label`: each part has its fraction of the sentences of every label (by their first copy)
    Raises ExfamError for a seed that is not an integer >= 0.

    >>> part = SentencePart(tuple("abcdefghij"), np.array(["x", "y"] * 5))
    >>> [len(drawn) for drawn in draw_parts(part, fractions=[0.2, 0.4], by_label=True, seed=0)]
    [4, 2, 4]
    """
    check_whole("seed", seed, least=0)
    number: dict[Sentence, int] = {}
    copy_of = np.array([number.setdefault(_key(s), len(number)) for s in part.sentences])
    first = np.unique(copy_of, return_index=True)[1]
    strata = part.targets[first] if by_label else np.zeros(len(first))
    rng = np.random.default_rng(seed)
    part_of = np.zeros(len(first), dtype=np.int64)
    for stratum in np.unique(strata):
        drawn = rng.permutation(np.flatnonzero(strata == stratum))
        ends = np.rint(np.cumsum([0.0, *fractions]) * len(drawn)).astype(np.int64)
        for k, (start, end) in enumerate(zip(ends[:-1], ends[1:], strict=True), 1):
            part_of[drawn[start:end]] = k
    rest, *drawn_parts = (
        part.rows(np.flatnonzero(part_of[copy_of] == k)) for k in range(len(fractions) + 1)
    )
    # A row that was left out is of no part: it is counted once, where most rows are.
    return [rest, *(replace(drawn, n_left_out=0) for drawn in drawn_parts)]


def without(part: SentencePart, other: SentencePart) -> SentencePart:
    """The part less what also stands in the other.

    >>> part = SentencePart(("a b", "c"), np.array(["x", "y"]))
    >>> without(part, SentencePart(("a  b ",), np.array(["x"]))).sentences
    ('c',)
    """
    known = {_key(sentence) for sentence in other.sentences}
    stays = np.array([_key(sentence) not in known for sentence in part.sentences], dtype=bool)
    return part.rows(np.flatnonzero(stays))


def _key(sentence: Sentence) -> Sentence:
    if isinstance(sentence, str):
        return " ".join(sentence.split())
    return " ".join(sentence[0].split()), " ".join(sentence[1].split())
