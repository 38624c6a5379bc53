"""Who does what to whom, the other way around: a verb's agent and patient change places.

Source: Chen, Varoquaux & Suchanek (2023), Algorithm 1. Their roles come from a labeling model; here
from constituents (`tree_roles`), or from wherever one has them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from exfam.checks import DataError
from exfam_studies.positions.swaps.sentences import Sentence

# The first word's place and the last one's, from 0.
Span = tuple[int, int]

_HELP = (
    "be am is are was were been being 'm 's 're have has had having 've 'd do does did done doing "
    "can could may might must shall should will would ca wo sha 'll ought ai"
)
AUXILIARIES = frozenset(_HELP.split())
# A pronoun as the subject <-> as the object; "you" and "it" are the same as both.
_CASES = (("I", "me"), ("he", "him"), ("she", "her"), ("we", "us"), ("they", "them"))
PRONOUNS = {one.lower(): other for pair in _CASES for one, other in (pair, pair[::-1])}
# They name the other of the two, and cannot stand before it.
_SELVES = (
    "myself yourself himself herself itself oneself ourselves yourselves themselves themself "
    "each-other one-another"
)
_REFLEXIVE = frozenset(_SELVES.split())


class Roles(NamedTuple):
    """A verb's place, and the spans of words of who does it, and to whom it is done.

    A span is the place of its first word and of its last one, from 0; None: the verb has none.
    """

    verb: int
    agent: Span | None
    patient: Span | None


class RoleSwap(NamedTuple):
    """A sentence whose agent and patient changed places, and where they now are.

    `roles`: the agent is what was the patient
    """

    sentence: Sentence
    roles: Roles


def swap_roles(sentence: Sentence, roles: Sequence[Roles]) -> RoleSwap | None:
    """The agent and the patient of the first verb that has both change places.

    Verbs are taken in the order given; those of AUXILIARIES are left out, and so are those whose
    agent or patient is a reflexive pronoun, or whose sentence stays the same. Pronouns that are a
    span by themselves change their case ("I" <-> "me"), verbs do not change their number, and the
    sentence begins with a capital if it did before. None if no verb is left.

    Raises DataError for spans that are not inside the sentence, or overlap.

    >>> words = ("She", "sees", "a", "man", ".")
    >>> sentence = Sentence(words, (True, False, False, False, True), (False,) * 5)
    >>> str(swap_roles(sentence, [Roles(1, agent=(0, 0), patient=(2, 3))]).sentence)
    'A man sees her.'
    """
    for each in roles:
        _check(sentence, each)
        if sentence.words[each.verb].lower() in AUXILIARIES:
            continue
        if each.agent is None or each.patient is None:
            continue
        swap = _swapped(sentence, each.verb, each.agent, each.patient)
        if swap is not None:
            return swap
    return None


def _check(sentence: Sentence, roles: Roles) -> None:
    n = len(sentence.words)
    spans = [span for span in (roles.agent, roles.patient) if span is not None]
    for first, last in (*spans, (roles.verb, roles.verb)):
        if not 0 <= first <= last < n:
            raise DataError(
                f"`roles` must be inside the sentence of {n} words, got words {first} to {last}."
            )
    if len(spans) == 2 and spans[0][0] <= spans[1][1] and spans[1][0] <= spans[0][1]:
        raise DataError(
            f"`roles` must have an agent and a patient that do not overlap, got words "
            f"{spans[0][0]} to {spans[0][1]} and {spans[1][0]} to {spans[1][1]}."
        )


def _swapped(sentence: Sentence, verb: int, agent: Span, patient: Span) -> RoleSwap | None:
    plain = sentence.uncapitalized()
    left, right = sorted((agent, patient))
    between = range(left[1] + 1, right[0])
    order = [
        *range(left[0]), *range(right[0], right[1] + 1), *between, *range(left[0], left[1] + 1),
        *range(right[1] + 1, len(plain.words)),
    ]  # fmt: skip
    words = _recased(plain.words, left, right)
    if words is None:
        return None
    # A place keeps the blank before it; inside a span the blanks go with the words.
    heads = {left[0]: right[0], right[0]: left[0]}
    swapped = Sentence(
        tuple(words[place] for place in order),
        tuple(plain.glued[heads.get(place, place)] for place in order),
        tuple(plain.names[place] for place in order),
    )
    if [word.lower() for word in swapped.words] == [word.lower() for word in plain.words]:
        return None
    swapped = swapped.capitalized() if sentence.begins_with_capital else swapped
    place = {old: new for new, old in enumerate(order)}
    moved = [(place[first], place[last]) for first, last in (patient, agent)]
    return RoleSwap(swapped, Roles(place[verb], *moved))


def _recased(words: Sequence[str], *spans: Span) -> list[str] | None:
    """Pronouns that are a span by themselves in their other case; None of reflexive ones."""
    recased = list(words)
    for first, last in spans:
        if "-".join(words[first : last + 1]).lower() in _REFLEXIVE:
            return None
        if first == last:
            recased[first] = PRONOUNS.get(words[first].lower(), words[first])
    return recased
