"""Tasks made of dependencies: tense and number in the main clause, and clauses that swapped places.

Of tense and number, words whose form is the same are in one part alone, so that forms cannot be
learned by heart.
"""

from collections.abc import Callable, Sequence
from typing import Any

from exfam_studies.positions.linguistic.balancing import Example, ProbingTask, balanced_task
from exfam_studies.positions.parses import DependencyParse

_TENSES = {"Pres": "present", "Past": "past"}
_NUMBERS = {"Sing": "singular", "Plur": "plural"}
Parses = Sequence[DependencyParse]


def tense_task(parses: Parses, **drawing: Any) -> ProbingTask:
    """Tense: whether the main clause's verb is in the present or in the past.

    Sentences whose root is a finite verb; those with an auxiliary or copula, which would have the
    tense instead, are left out.
    """
    return _feature_task("Tense", parses, _finite_verb, "Tense", _TENSES, **drawing)


def subject_number_task(parses: Parses, **drawing: Any) -> ProbingTask:
    """SubjNum: whether the main clause's subject, if that is a common noun, is one or several."""
    return _feature_task("SubjNum", parses, _only("nsubj"), "Number", _NUMBERS, **drawing)


def object_number_task(parses: Parses, **drawing: Any) -> ProbingTask:
    """ObjNum: whether the main clause's direct object, if a common noun, is one or several."""
    return _feature_task("ObjNum", parses, _only("obj"), "Number", _NUMBERS, **drawing)


def _feature_task(
    name: str,
    parses: Parses,
    target: Callable[[DependencyParse], int | None],
    feature: str,
    names: dict[str, str],
    **drawing: Any,
) -> ProbingTask:
    """Sentences labeled by a feature of a word, of which those of one form are a group."""
    examples = []
    for parse in parses:
        at = target(parse)
        if at is not None and (value := parse.features[at].get(feature)) in names:
            examples.append(Example(parse.words, names[value], group=parse.words[at].lower()))
    return balanced_task(name, tuple(names.values()), examples, **drawing)


def coordination_inversion_task(parses: Parses, **drawing: Any) -> ProbingTask:
    """CoordInv: whether the two clauses of "Cats sleep and dogs bark ." have changed places.

    Sentences of two main clauses with a subject each, a conjunction between them, and nothing
    besides but punctuation before the conjunction and at the ends. Such sentences are rare: each
    is there in both orders, in the same part. Capitals are those of the new order.
    """
    examples = []
    for parse in parses:
        if (clauses := _clauses(parse)) is not None:
            group = " ".join(parse.words)
            examples.append(Example(parse.words, "original", group))
            examples.append(Example(_inverted(parse, *clauses), "inverted", group))
    return balanced_task("CoordInv", ("original", "inverted"), examples, **drawing)


def _root(parse: DependencyParse) -> int:
    """The index of the main clause's verb, or of what is predicated."""
    return int((parse.heads < 0).argmax())


def _related(parse: DependencyParse, head: int, *relations: str) -> list[int]:
    """The words that depend on a head in some relations: "nsubj" also for "nsubj:pass"."""
    return [
        word
        for word, relation in enumerate(parse.relations)
        if parse.heads[word] == head and relation.split(":")[0] in relations
    ]


def _below(parse: DependencyParse, head: int) -> set[int]:
    """A word and all that depends on it, at whatever remove."""
    below = {head}
    for word in range(len(parse)):
        path = [word]
        while path[-1] >= 0 and path[-1] not in below:
            path.append(int(parse.heads[path[-1]]))
        below |= set(path) if path[-1] >= 0 else set()
    return below


def _finite_verb(parse: DependencyParse) -> int | None:
    root = _root(parse)
    is_finite = parse.tags[root] == "VERB" and parse.features[root].get("VerbForm") == "Fin"
    return root if is_finite and not _related(parse, root, "aux", "cop") else None


def _only(relation: str) -> Callable[[DependencyParse], int | None]:
    """What finds the root's only dependent of such a relation, if it is a common noun."""

    def target(parse: DependencyParse) -> int | None:
        words = _related(parse, _root(parse), relation)
        return words[0] if len(words) == 1 and parse.tags[words[0]] == "NOUN" else None

    return target


def _clauses(parse: DependencyParse) -> tuple[slice, slice] | None:
    """Where the two clauses are; None of a sentence that is not made of two."""
    root = _root(parse)
    joined = _related(parse, root, "conj")
    if len(joined) != 1:
        return None
    (second,) = joined
    conjunctions = _related(parse, second, "cc")
    subjects = [_related(parse, verb, "nsubj", "csubj", "expl") for verb in (root, second)]
    if len(conjunctions) != 1 or not all(subjects):
        return None
    if _related(parse, second, "conj", "parataxis") or _related(parse, root, "cc"):
        return None
    own, conjunction = _below(parse, second), conjunctions[0]
    end = _before_punctuation(parse, len(parse))
    first_end = _before_punctuation(parse, conjunction)
    # The second clause goes from its conjunction to the end.
    is_whole = {*range(conjunction, end)} <= own and own <= {*range(first_end, len(parse))}
    begins = min(word for word in own - {conjunction} if parse.tags[word] != "PUNCT")
    if not is_whole or not root < conjunction < begins or parse.tags[0] in ("PUNCT", "CCONJ"):
        return None
    return slice(0, first_end), slice(conjunction + 1, end)


def _before_punctuation(parse: DependencyParse, end: int) -> int:
    """The end of what comes before an index, without punctuation there."""
    while end and parse.tags[end - 1] == "PUNCT":
        end -= 1
    return end


def _inverted(parse: DependencyParse, one: slice, two: slice) -> tuple[str, ...]:
    words = parse.words
    first, second = words[one], words[two]
    if words[0][:1].isupper():
        first = (_uncapitalized(words[0], parse.tags[0]), *first[1:])
        second = (second[0][:1].upper() + second[0][1:], *second[1:])
    return (*second, *words[one.stop : two.start], *first, *words[two.stop :])


def _uncapitalized(word: str, tag: str) -> str:
    """The word as it is written inside a sentence: names, "I" and acronyms stay."""
    is_kept = tag == "PROPN" or word == "I" or word.startswith(("I'", "I’")) or word[1:2].isupper()
    return word if is_kept else word[:1].lower() + word[1:]
