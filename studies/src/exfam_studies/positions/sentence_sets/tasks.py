"""Sentences, or pairs of sentences, with a label or a number each, in parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int64, Shaped

__all__ = ["Sentence", "SentencePart", "SentenceTask"]

# A sentence, or a pair of sentences.
Sentence = str | tuple[str, str]


@dataclass(frozen=True, eq=False)
class SentencePart:
    """Sentences, or pairs of them, and the target of each: its label (str) or number (float).

    `n_left_out`: rows of the file that were broken and left out, where that was asked for

    >>> part = SentencePart(("so good", "so bad"), np.array(["positive", "negative"]))
    >>> part.rows(np.array([1])).sentences
    ('so bad',)
    """

    sentences: tuple[str, ...] | tuple[tuple[str, str], ...]
    targets: Shaped[np.ndarray, "sentences"]
    n_left_out: int = 0

    def __len__(self) -> int:
        return len(self.sentences)

    def rows(self, places: Int64[np.ndarray, "places"]) -> "SentencePart":
        """The sentences at some places, in that order."""
        sentences = tuple(self.sentences[place] for place in places)
        return replace(self, sentences=sentences, targets=self.targets[places])

    def spread(self, n: int) -> "SentencePart":
        """At most `n` sentences, from the first to the last at equal steps.

        >>> SentencePart(("a", "b", "c"), np.arange(3.0)).spread(2).sentences
        ('a', 'c')
        """
        places = np.linspace(0, len(self) - 1, min(n, len(self)))
        return self.rows(places.astype(np.int64))


@dataclass(frozen=True, eq=False)
class SentenceTask:
    """Sentences to fit on, to choose by and to report on; the three share no sentence or pair.

    `kind`: "classification" or "regression"
    `metric`: what is reported: "accuracy" or "spearman"

    >>> part = SentencePart(("so good", "so bad"), np.array(["positive", "negative"]))
    >>> task = SentenceTask("toy", "classification", "accuracy", part, part, part)
    >>> task.labels, task.has_pairs
    (('negative', 'positive'), False)
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
        """The labels to tell apart, sorted; none for a regression."""
        if self.kind == "regression":
            return ()
        return tuple(sorted({str(label) for label in self.train.targets}))

    @property
    def has_pairs(self) -> bool:
        """Whether a target is of two sentences."""
        sentences: Sequence[Sentence] = self.train.sentences
        return not isinstance(sentences[0], str)
