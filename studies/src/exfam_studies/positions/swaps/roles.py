"""Who does what to whom, the other way around: a verb's agent and patient change places.

Source: Chen, Varoquaux & Suchanek (2023), Algorithm 1, whose roles are those of a labeling model.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from exfam_studies.positions.swaps.sentences import Sentence
from exfam_studies.positions.trees import Tree, is_leaf, spans

# The first word's index and the last one's, from 0.
Span = tuple[int, int]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AUXILIARIES = _words(
    "be am is are was were been being 'm 's 're have has had having 've 'd do does did done doing "
    "can could may might must shall should will would ca wo sha 'll ought ai"
)
# A pronoun as the subject <-> as the object; "you" and "it" are the same as both.
_CASES = (("I", "me"), ("he", "him"), ("she", "her"), ("we", "us"), ("they", "them"))
PRONOUNS = {one.lower(): other for pair in _CASES for one, other in (pair, pair[::-1])}
# They name the other of the two, and cannot stand before it.
_REFLEXIVE = _words(
    "myself yourself himself herself itself oneself ourselves yourselves themselves themself "
    "each-other one-another"
)
_MAIN = ("S", "SINV", "SQ")
_CLAUSES = ("VP", "SBAR", *_MAIN)
_BE = _words("be am is are was were been being 'm 's 're get gets got getting gotten")
_RELATIVE = ("who", "that", "which")
# Without a preposition these say when, and are no objects.
_TIMES = _words(
    "today tonight tomorrow yesterday now day days night nights morning mornings afternoon "
    "evening week weeks month year years time times hour hours minute minutes"
)
# Constituents side by side.
Parts = list[Tree]


class Roles(NamedTuple):
    """A verb's index, and the spans of words of who does it, and to whom it is done, if any."""

    verb: int
    agent: Span | None
    patient: Span | None


class RoleSwap(NamedTuple):
    """A sentence whose agent and patient changed places; `roles`: where they now are."""

    sentence: Sentence
    roles: Roles


def swap_roles(sentence: Sentence, roles: Sequence[Roles]) -> RoleSwap | None:
    """The agent and the patient of the first verb that has both change places.

    Verbs of AUXILIARIES are left out, and so are those whose agent or patient is a reflexive
    pronoun, or whose sentence stays the same. Pronouns that are a span by themselves change their
    case ("I" <-> "me"), verbs do not change their number, and the sentence begins with a capital if
    it did before. None if no verb is left.
    """
    for verb, agent, patient in roles:
        if agent and patient and sentence.words[verb].lower() not in AUXILIARIES:
            swap = _swapped(sentence, verb, agent, patient)
            if swap is not None:
                return swap
    return None


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
    # A position keeps the blank before it; inside a span the blanks go with the words.
    heads = {left[0]: right[0], right[0]: left[0]}
    swapped = Sentence(
        tuple(words[index] for index in order),
        tuple(plain.glued[heads.get(index, index)] for index in order),
        tuple(plain.names[index] for index in order),
    )
    if [word.lower() for word in swapped.words] == [word.lower() for word in plain.words]:
        return None
    now = {old: new for new, old in enumerate(order)}
    moved = [(now[first], now[last]) for first, last in (patient, agent)]
    return RoleSwap(swapped.capitalized_like(sentence), Roles(now[verb], *moved))


def _recased(words: Sequence[str], *sides: Span) -> list[str] | None:
    """Pronouns that are a span by themselves in their other case; None of reflexive ones."""
    recased = list(words)
    for first, last in sides:
        span = "-".join(words[first : last + 1])
        if span.lower() in _REFLEXIVE:
            return None
        if first == last:
            recased[first] = PRONOUNS.get(span.lower(), span)
    return recased


def tree_roles(tree: Tree) -> list[Roles]:
    """The roles of each verb, in the order of the verbs.

    A verb's subject is the noun phrase before its verb phrase in its clause, also where several
    verb phrases are joined; of a relative clause ("a man who plays", "a man playing", "a song sung
    by") the words that the clause is about. Of an active verb the agent is the subject, and the
    patient the first noun phrase after the verb; of a passive one (a participle after a form of
    "be" or "get", or in "a song sung by") the patient is the subject, and the agent what follows
    "by". "There" is no subject, nor do noun phrases of time count.
    """
    span = {id(node): (first, last) for node, first, last in spans(tree)}

    def words(parts: Parts) -> Span | None:
        return (span[id(parts[0])][0], span[id(parts[-1])][1]) if parts else None

    roles = []
    for verb in tree.subtrees():
        if is_leaf(verb) and verb.label().startswith("VB"):
            agent, patient = _agent_and_patient(verb)
            roles.append(Roles(span[id(verb)][0], words(agent), words(patient)))
    return roles


def _agent_and_patient(verb: Tree) -> tuple[Parts, Parts]:
    phrase = verb.parent()
    if phrase is None or phrase.label() != "VP":
        return [], []
    if _is_passive(verb, phrase):
        return _by(phrase), _subject(phrase)
    return _subject(phrase), _object(verb, phrase)


def _object(verb: Tree, phrase: Tree) -> Parts:
    """The first noun phrase after the verb, and before any clause."""
    for node in phrase[verb.parent_index() + 1 :]:
        if node.label() in _CLAUSES:
            break
        if _is_participant(node):
            return [node]
    return []


def _by(phrase: Tree) -> Parts:
    for node in phrase:
        is_phrase = node.label() == "PP" and not is_leaf(node) and is_leaf(node[0])
        if is_phrase and _last_word(node[0]) == "by":
            return [part for part in node if part.label() == "NP"][:1]
    return []


def _is_passive(verb: Tree, phrase: Tree) -> bool:
    """Whether a participle follows a form of "be", or is what a noun phrase goes on with."""
    if verb.label() != "VBN":
        return False
    above = phrase.parent()
    while above is not None and above.label() == "VP":
        verbs = [_last_word(node) for node in above if node.label().startswith("VB")]
        if verbs:
            return verbs[-1] in _BE
        above = above.parent()
    return above is not None and above.label() == "NP"


def _subject(phrase: Tree) -> Parts:
    node = phrase
    while node.parent() is not None and node.parent().label() == "VP":
        node = node.parent()
    above = node.parent()
    if above is None:
        return []
    if above.label() == "NP":
        return _antecedent(above)
    if above.label() not in _MAIN:
        return []
    for before in reversed(above[: node.parent_index()]):
        if _is_participant(before):
            return [] if before.pos()[-1][1] == "EX" else [before]
    whole = above.parent()
    if whole is None or whole.label() != "SBAR" or whole.parent() is None:
        return []
    who, phrase = whole[0], whole.parent()
    is_relative = who.label() == "WHNP" and len(who.leaves()) == 1 and _last_word(who) in _RELATIVE
    return _antecedent(phrase) if is_relative and phrase.label() == "NP" else []


def _antecedent(phrase: Tree) -> Parts:
    """What a noun phrase has before what it goes on with, such as "who plays" or "playing"."""
    parts = list(takewhile(lambda node: node.label() not in _CLAUSES, phrase))
    while parts and (parts[-1].label() == "CC" or not parts[-1].label()[0].isalpha()):
        parts.pop()
    has_noun = any(node.label() == "NP" or node.label().startswith("NN") for node in parts)
    return parts if has_noun else []


def _is_participant(node: Tree) -> bool:
    return node.label() == "NP" and _last_word(node) not in _TIMES


def _last_word(tree: Tree) -> str:
    return str(tree.leaves()[-1]).lower()
