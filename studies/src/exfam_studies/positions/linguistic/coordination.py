"""Whether two coordinate clauses have changed places.

Source: Conneau et al. (2018), section 2, "Coordination inversion".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from exfam_studies.positions.linguistic.main_clauses import below, dependents, root_of
from exfam_studies.positions.linguistic.splitting import ALL, Rule, Sizes, balanced_task
from exfam_studies.positions.linguistic.tasks import Example, ProbingTask
from exfam_studies.positions.parses import DependencyParse

__all__ = ["coordination_inversion_task"]

_RULE = Rule("CoordInv", "1", ("original", "inverted"))


def coordination_inversion_task(
    parses: Sequence[DependencyParse], *, seed: int = 0, sizes: Sizes = ALL
) -> ProbingTask:
    """CoordInv: whether the two clauses of "Cats sleep and dogs bark ." have changed places.

    Sentences of two main clauses with a subject each, a conjunction between them, and nothing
    besides but punctuation before the conjunction and at the ends. Such sentences are rare: each
    is there in both orders, in the same part. Capitals are those of the new order.
    Raises DataError where sentences are too few.
    """
    examples = []
    for parse in parses:
        if (clauses := _clauses(parse)) is not None:
            group = " ".join(parse.words)
            examples.append(Example(parse.words, "original", group=group))
            examples.append(Example(_inverted(parse, clauses), "inverted", group=group))
    return balanced_task(_RULE, examples, seed=seed, sizes=sizes)


@dataclass(frozen=True)
class _Clauses:
    """Where the two clauses are: the first place of each, and the one after its last."""

    first: tuple[int, int]
    second: tuple[int, int]


def _clauses(parse: DependencyParse) -> _Clauses | None:
    root = root_of(parse)
    joined = dependents(parse, root, "conj")
    if len(joined) != 1:
        return None
    (second,) = joined
    conjunctions = dependents(parse, second, "cc")
    if len(conjunctions) != 1 or not all(_has_subject(parse, verb) for verb in (root, second)):
        return None
    if {"conj", "parataxis"} & set(_relations(parse, second)) or _relations(parse, root).count(
        "cc"
    ):
        return None
    own = below(parse, second)
    end = _before_punctuation(parse, len(parse))
    first_end = _before_punctuation(parse, conjunctions[0])
    # The second clause goes from its conjunction to the end.
    rest = set(range(first_end, len(parse)))
    begins = min(own - set(conjunctions) - _punctuation(parse))
    is_whole = set(range(conjunctions[0], end)) <= own and own <= rest
    if not is_whole or not root < conjunctions[0] < begins or _opens_with_mark(parse):
        return None
    return _Clauses((0, first_end), (conjunctions[0] + 1, end))


def _relations(parse: DependencyParse, head: int) -> list[str]:
    own = zip(parse.heads.tolist(), parse.relations, strict=True)
    return [relation.split(":")[0] for at, relation in own if at == head]


def _has_subject(parse: DependencyParse, verb: int) -> bool:
    return bool(dependents(parse, verb, "nsubj", "csubj", "expl"))


def _punctuation(parse: DependencyParse) -> set[int]:
    return {place for place, tag in enumerate(parse.tags) if tag == "PUNCT"}


def _before_punctuation(parse: DependencyParse, end: int) -> int:
    """The end of what comes before a place, without punctuation there."""
    while end and parse.tags[end - 1] == "PUNCT":
        end -= 1
    return end


def _opens_with_mark(parse: DependencyParse) -> bool:
    return parse.tags[0] in ("PUNCT", "CCONJ")


def _inverted(parse: DependencyParse, clauses: _Clauses) -> tuple[str, ...]:
    words = parse.words
    first, second = words[slice(*clauses.first)], words[slice(*clauses.second)]
    if words[0][:1].isupper():
        first = (_uncapitalized(words[0], parse.tags[0]), *first[1:])
        second = (second[0][:1].upper() + second[0][1:], *second[1:])
    between = words[clauses.first[1] : clauses.second[0]]
    return (*second, *between, *first, *words[clauses.second[1] :])


def _uncapitalized(word: str, tag: str) -> str:
    """The word as it is written inside a sentence: names, "I" and acronyms stay."""
    is_kept = tag == "PROPN" or word == "I" or word.startswith(("I'", "I’")) or word[1:2].isupper()
    return word if is_kept else word[:1].lower() + word[1:]
