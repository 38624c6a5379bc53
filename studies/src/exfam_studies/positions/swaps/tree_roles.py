"""Agents and patients of verbs, by the constituents of a sentence."""

from collections.abc import Mapping

from exfam_studies.positions.parses.brackets import Tree, is_word, spans
from exfam_studies.positions.swaps.roles import Roles, Span

_CLAUSES = ("S", "SINV", "SQ")
_BE_OR_GET = "be am is are was were been being 'm 's 're get gets got getting gotten"
_BE = frozenset(_BE_OR_GET.split())
_RELATIVE = ("who", "that", "which")
# Without a preposition these say when, and are no objects.
_WHEN = (
    "today tonight tomorrow yesterday now day days night nights morning mornings afternoon "
    "evening week weeks month year years time times hour hours minute minutes"
)
_TIMES = frozenset(_WHEN.split())
# First and last word of each constituent, by its identity.
_Spans = Mapping[int, Span]


def tree_roles(tree: Tree) -> list[Roles]:
    """The roles of each verb, in the order of the verbs.

    A verb's subject is the noun phrase before its verb phrase in its clause, also where several
    verb phrases are joined; of a relative clause ("a man who plays", "a man playing", "a song sung
    by") the words that the clause is about. Of an active verb the agent is the subject, and the
    patient the first noun phrase after the verb; of a passive one (a participle after a form of
    "be" or "get", or in "a song sung by") the patient is the subject, and the agent the noun phrase
    after "by". "There" is no subject, nor do noun phrases of time count.

    >>> from exfam_studies.positions.parses import parse_brackets
    >>> text = "(S (NP (NNP Ann)) (VP (VBZ sees) (NP (PRP him))))"
    >>> tree_roles(parse_brackets(text, where="here"))
    [Roles(verb=1, agent=(0, 0), patient=(2, 2))]
    """
    span = {id(node): (first, last) for node, first, last in spans(tree)}
    return [
        _roles(node, span)
        for node in tree.subtrees()
        if is_word(node) and node.label().startswith("VB")
    ]


def _roles(verb: Tree, span: _Spans) -> Roles:
    phrase, at = verb.parent(), span[id(verb)][0]
    if phrase is None or phrase.label() != "VP":
        return Roles(at, None, None)
    subject = _subject(phrase, span)
    if _is_passive(verb, phrase):
        return Roles(at, _by(phrase, span), subject)
    return Roles(at, subject, _object(verb, phrase, span))


def _object(verb: Tree, phrase: Tree, span: _Spans) -> Span | None:
    """The first noun phrase after the verb, and before any clause."""
    for node in phrase[verb.parent_index() + 1 :]:
        if node.label() in ("VP", *_CLAUSES, "SBAR"):
            return None
        if node.label() == "NP" and not _is_time(node):
            return span[id(node)]
    return None


def _by(phrase: Tree, span: _Spans) -> Span | None:
    for node in phrase:
        if (
            node.label() == "PP"
            and not is_word(node)
            and is_word(node[0])
            and _last_word(node[0]) == "by"
        ):
            return next((span[id(part)] for part in node if part.label() == "NP"), None)
    return None


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


def _subject(phrase: Tree, span: _Spans) -> Span | None:
    node = phrase
    while node.parent() is not None and node.parent().label() == "VP":
        node = node.parent()
    above = node.parent()
    if above is None:
        return None
    if above.label() == "NP":
        return _antecedent(above, node, span)
    if above.label() not in _CLAUSES:
        return None
    for before in reversed(above[: node.parent_index()]):
        if before.label() == "NP" and not _is_time(before):
            return None if before.pos()[-1][1] == "EX" else span[id(before)]
    return _of_relative_clause(above, span)


def _of_relative_clause(clause: Tree, span: _Spans) -> Span | None:
    whole = clause.parent()
    if whole is None or whole.label() != "SBAR" or whole.parent() is None:
        return None
    who = whole[0]
    is_relative = who.label() == "WHNP" and len(who.leaves()) == 1 and _last_word(who) in _RELATIVE
    above = whole.parent()
    return _antecedent(above, whole, span) if is_relative and above.label() == "NP" else None


def _antecedent(phrase: Tree, clause: Tree, span: _Spans) -> Span | None:
    """The words of a noun phrase before what it goes on with, such as "who plays" or "playing"."""
    parts: list[Tree] = []
    for node in phrase:
        if node is clause or node.label() in ("VP", "SBAR", *_CLAUSES):
            break
        parts.append(node)
    while parts and (parts[-1].label() == "CC" or not parts[-1].label()[0].isalpha()):
        parts.pop()
    has_noun = any(node.label() == "NP" or node.label().startswith("NN") for node in parts)
    return (span[id(parts[0])][0], span[id(parts[-1])][1]) if has_noun else None


def _is_time(phrase: Tree) -> bool:
    return _last_word(phrase) in _TIMES


def _last_word(tree: Tree) -> str:
    word: str = tree.leaves()[-1]
    return word.lower()
