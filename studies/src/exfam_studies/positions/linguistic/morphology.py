"""Tense of the main clause's verb, number of its subject and of its direct object.

Source: Conneau et al. (2018), section 2, "Semantic information". Words whose form is the same are
in one part alone, so that forms cannot be learned by heart.
"""

from collections.abc import Callable, Sequence

from exfam_studies.positions.linguistic.main_clauses import dependents, features_of, root_of
from exfam_studies.positions.linguistic.splitting import ALL, Rule, Sizes, balanced_task
from exfam_studies.positions.linguistic.tasks import Example, ProbingTask
from exfam_studies.positions.parses import DependencyParse

__all__ = ["object_number_task", "subject_number_task", "tense_task"]

_TENSES = {"Pres": "present", "Past": "past"}
_NUMBERS = {"Sing": "singular", "Plur": "plural"}


def tense_task(
    parses: Sequence[DependencyParse], *, seed: int = 0, sizes: Sizes = ALL
) -> ProbingTask:
    """Tense: whether the main clause's verb is in the present or in the past.

    Sentences whose root is a finite verb; those with an auxiliary or copula, which would have the
    tense instead, are left out.
    Raises DataError where sentences are too few.
    """
    rule = Rule("Tense", "1", tuple(_TENSES.values()))
    return balanced_task(rule, _examples(parses, _finite_verb, "Tense"), seed=seed, sizes=sizes)


def subject_number_task(
    parses: Sequence[DependencyParse], *, seed: int = 0, sizes: Sizes = ALL
) -> ProbingTask:
    """SubjNum: whether the main clause's subject, if that is a common noun, is one or several.

    Raises DataError where sentences are too few.
    """
    rule = Rule("SubjNum", "1", tuple(_NUMBERS.values()))
    examples = _examples(parses, _only("nsubj"), "Number")
    return balanced_task(rule, examples, seed=seed, sizes=sizes)


def object_number_task(
    parses: Sequence[DependencyParse], *, seed: int = 0, sizes: Sizes = ALL
) -> ProbingTask:
    """ObjNum: whether the main clause's direct object, if a common noun, is one or several.

    Raises DataError where sentences are too few.
    """
    rule = Rule("ObjNum", "1", tuple(_NUMBERS.values()))
    return balanced_task(rule, _examples(parses, _only("obj"), "Number"), seed=seed, sizes=sizes)


def _examples(
    parses: Sequence[DependencyParse],
    target: Callable[[DependencyParse], int | None],
    feature: str,
) -> list[Example]:
    names = _TENSES | _NUMBERS
    examples = []
    for parse in parses:
        at = target(parse)
        if at is not None and (value := features_of(parse, at).get(feature)) in names:
            examples.append(Example(parse.words, names[value], group=parse.words[at].lower()))
    return examples


def _finite_verb(parse: DependencyParse) -> int | None:
    root = root_of(parse)
    is_finite = parse.tags[root] == "VERB" and features_of(parse, root).get("VerbForm") == "Fin"
    return root if is_finite and not dependents(parse, root, "aux", "cop") else None


def _only(*relations: str) -> Callable[[DependencyParse], int | None]:
    """The root's only dependent of such a relation, if it is a common noun."""

    def found(parse: DependencyParse) -> int | None:
        places = dependents(parse, root_of(parse), *relations)
        return places[0] if len(places) == 1 and parse.tags[places[0]] == "NOUN" else None

    return found
