"""What probing tasks ask of dependency parses: roots, dependents, features, spans."""

from collections.abc import Mapping

from exfam_studies.positions.parses import DependencyParse

__all__ = ["below", "dependents", "features_of", "root_of"]


def root_of(parse: DependencyParse) -> int:
    """The place of the root: the main clause's verb, or what is predicated."""
    return int((parse.heads < 0).argmax())


def dependents(parse: DependencyParse, head: int, *relations: str) -> list[int]:
    """Places of the words that are in one of the relations to a head, in order.

    A relation stands for its subtypes, as "nsubj" does for "nsubj:pass".
    """
    return [
        place
        for place, relation in enumerate(parse.relations)
        if parse.heads[place] == head and relation.split(":")[0] in relations
    ]


def features_of(parse: DependencyParse, place: int) -> Mapping[str, str]:
    """A word's morphological features, such as {"Number": "Sing"}."""
    told = parse.features[place]
    return dict(each.split("=", 1) for each in told.split("|")) if told else {}


def below(parse: DependencyParse, head: int) -> set[int]:
    """Places of a word and of all that depends on it, at whatever remove."""
    found, fresh = {head}, {head}
    while fresh:
        fresh = {place for place in range(len(parse)) if int(parse.heads[place]) in fresh}
        found |= fresh
    return found
