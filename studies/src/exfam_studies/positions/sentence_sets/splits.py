"""Parts of sentences that share none: drawn by a seed, label by label."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int64

from exfam.checks import check_whole
from exfam_studies.positions.sentence_sets.tasks import Sentence, SentencePart

__all__ = ["draw_parts", "without"]


def draw_parts(
    part: SentencePart, *, fractions: Sequence[float], by_label: bool, seed: int
) -> list[SentencePart]:
    """The rest of a part, then parts of it with those fractions of its different sentences.

    Copies of a sentence, or of a pair, stay together; white space does not make two different.
    `by_label`: each part has its fraction of the sentences of every label (by their first copy)
    Raises ExfamError for a seed that is not an integer >= 0.

    >>> part = SentencePart(tuple("abcdefghij"), np.array(["x", "y"] * 5))
    >>> [len(each) for each in draw_parts(part, fractions=[0.2, 0.4], by_label=True, seed=0)]
    [4, 2, 4]
    """
    check_whole("seed", seed, least=0)
    first, copies = _copies(part.sentences)
    strata = part.targets[first] if by_label else np.zeros(len(first))
    rng = np.random.default_rng(seed)
    part_of = np.zeros(len(first), dtype=np.int64)
    for stratum in np.unique(strata):
        drawn = rng.permutation(np.flatnonzero(strata == stratum))
        ends = np.rint(np.cumsum([0.0, *fractions]) * len(drawn)).astype(np.int64)
        for number, (start, end) in enumerate(zip(ends[:-1], ends[1:], strict=True), 1):
            part_of[drawn[start:end]] = number
    of_rows = part_of[copies]
    rest, *drawn_parts = (
        part.rows(np.flatnonzero(of_rows == k)) for k in range(len(fractions) + 1)
    )
    # A row that was left out is of no part: it is counted once, where most rows are.
    return [rest, *(replace(each, n_left_out=0) for each in drawn_parts)]


def without(part: SentencePart, other: SentencePart) -> SentencePart:
    """The part less what also stands in the other.

    >>> part = SentencePart(("a b", "c"), np.array(["x", "y"]))
    >>> without(part, SentencePart(("a  b ",), np.array(["x"]))).sentences
    ('c',)
    """
    known = {_key(each) for each in other.sentences}
    stays: Bool[np.ndarray, "sentences"] = np.array(
        [_key(each) not in known for each in part.sentences], dtype=bool
    )
    return part.rows(np.flatnonzero(stays))


def _copies(
    sentences: Sequence[Sentence],
) -> tuple[Int64[np.ndarray, "different"], Int64[np.ndarray, "sentences"]]:
    """Place of each different sentence's first copy, and of which one each is a copy."""
    number: dict[Sentence, int] = {}
    copies = np.array([number.setdefault(_key(each), len(number)) for each in sentences])
    first = np.unique(copies, return_index=True)[1]
    return first.astype(np.int64), copies.astype(np.int64)


def _key(sentence: Sentence) -> Sentence:
    if isinstance(sentence, str):
        return " ".join(sentence.split())
    return " ".join(sentence[0].split()), " ".join(sentence[1].split())
