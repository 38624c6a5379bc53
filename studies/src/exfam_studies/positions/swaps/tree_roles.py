"""Agents and patients of verbs, by the constituents of a sentence."""

from dataclasses import dataclass, field

from exfam_studies.positions.parses import Tree
from exfam_studies.positions.swaps.roles import Roles, Span

__all__ = ["tree_roles"]

_CLAUSES = ("S", "SINV", "SQ")
_BE_OR_GET = "be am is are was were been being 'm 's 're get gets got getting gotten"
_BE = frozenset(_BE_OR_GET.split())
_RELATIVE = ("who", "that", "which")
# Without a preposition these tell when, and are no objects.
_WHEN = (
    "today tonight tomorrow yesterday now day days night nights morning mornings afternoon "
    "evening week weeks month year years time times hour hours minute minutes"
)
_TIMES = frozenset(_WHEN.split())


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
    verbs = [node for node in _laid_out(tree) if node.word and node.label.startswith("VB")]
    return [_roles(verb) for verb in verbs]


@dataclass(eq=False)
class _Node:
    """A constituent with what is above it, and its words' places."""

    label: str
    word: str
    parent: "_Node | None"
    first: int = 0
    last: int = -1
    children: list["_Node"] = field(default_factory=list)

    @property
    def span(self) -> Span:
        return self.first, self.last

    def before(self, child: "_Node") -> list["_Node"]:
        """The children before one of them, the nearest first."""
        return self.children[: self.children.index(child)][::-1]


def _laid_out(tree: Tree) -> list[_Node]:
    """All constituents, each before those inside it; without recursion, as trees may be deep."""
    nodes: list[_Node] = []
    rest: list[tuple[Tree, _Node | None]] = [(tree, None)]
    while rest:
        each, parent = rest.pop()
        node = _Node(each.label, (each.word or "").lower(), parent)
        nodes.append(node)
        if parent is not None:
            parent.children.append(node)
        rest.extend((child, node) for child in reversed(each.children))
    at = 0
    for node in nodes:
        node.first = at
        at += bool(node.word)
    for node in reversed(nodes):
        node.last = node.first if node.word else node.children[-1].last
    return nodes


def _roles(verb: _Node) -> Roles:
    phrase = verb.parent
    if phrase is None or phrase.label != "VP":
        return Roles(verb.first, None, None)
    subject = _subject(phrase)
    if _is_passive(verb, phrase):
        return Roles(verb.first, _by(phrase), subject)
    return Roles(verb.first, subject, _object(verb, phrase))


def _object(verb: _Node, phrase: _Node) -> Span | None:
    """The first noun phrase after the verb, and before any clause."""
    for node in phrase.children[phrase.children.index(verb) + 1 :]:
        if node.label in ("VP", *_CLAUSES, "SBAR"):
            return None
        if node.label == "NP" and not _is_time(node):
            return node.span
    return None


def _by(phrase: _Node) -> Span | None:
    for node in phrase.children:
        if node.label == "PP" and node.children[0].word == "by":
            return next((each.span for each in node.children if each.label == "NP"), None)
    return None


def _is_passive(verb: _Node, phrase: _Node) -> bool:
    """Whether a participle follows a form of "be", or is what a noun phrase goes on with."""
    if verb.label != "VBN":
        return False
    above = phrase.parent
    while above is not None and above.label == "VP":
        verbs = [node.word for node in above.children if node.label.startswith("VB")]
        if verbs:
            return verbs[-1] in _BE
        above = above.parent
    return above is not None and above.label == "NP"


def _subject(phrase: _Node) -> Span | None:
    node = phrase
    while node.parent is not None and node.parent.label == "VP":
        node = node.parent
    above = node.parent
    if above is None:
        return None
    if above.label == "NP":
        return _antecedent(above, node)
    if above.label not in _CLAUSES:
        return None
    for each in above.before(node):
        if each.label == "NP" and not _is_time(each):
            return None if _leaf(each).label == "EX" else each.span
    return _of_relative_clause(above)


def _of_relative_clause(clause: _Node) -> Span | None:
    whole = clause.parent
    if whole is None or whole.label != "SBAR" or whole.parent is None:
        return None
    who = whole.children[0]
    is_relative = who.label == "WHNP" and who.first == who.last and _leaf(who).word in _RELATIVE
    return _antecedent(whole.parent, whole) if is_relative and whole.parent.label == "NP" else None


def _antecedent(phrase: _Node, clause: _Node) -> Span | None:
    """The words of a noun phrase before what it goes on with, such as "who plays" or "playing"."""
    words: list[_Node] = []
    for node in phrase.children:
        if node is clause or node.label in ("VP", "SBAR", *_CLAUSES):
            break
        words.append(node)
    while words and (words[-1].label == "CC" or not words[-1].label[0].isalpha()):
        words.pop()
    has_noun = any(node.label == "NP" or node.label.startswith("NN") for node in words)
    return (words[0].first, words[-1].last) if has_noun else None


def _is_time(phrase: _Node) -> bool:
    return _leaf(phrase).word in _TIMES


def _leaf(node: _Node) -> _Node:
    """The last word of a constituent."""
    while node.children:
        node = node.children[-1]
    return node
