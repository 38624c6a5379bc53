"""Constituents of sentences, from brackets: (ROOT (S (NP (DT A) (NN man)) (VP (VBZ sings))))."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from exfam.checks import DataError

__all__ = [
    "Constituent",
    "Tree",
    "constituents",
    "depth",
    "leaves",
    "parse_brackets",
    "plain_words",
    "top_constituents",
]

_TOKEN = re.compile(r"[()]|[^\s()]+")
# What stands for brackets and quotation marks in the Penn Treebank.
_PLAIN = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"', "''": '"',
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A constituent: its label, and what it is made of.

    `children`: constituents in order; none of a word
    `word`: the word as it was written, where `label` is its part of speech; else None

    >>> tree = Tree("NP", (Tree("DT", word="a"), Tree("NN", word="man")))
    >>> tree
    (NP (DT a) (NN man))
    >>> tree == parse_brackets("(NP (DT a) (NN man))", where="here")
    True
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    # None of these may recur: a file may nest deeper than Python's stack.
    def nodes(self) -> Iterator["Tree"]:
        """This one and all below, each before its children."""
        rest = [self]
        while rest:
            node = rest.pop()
            yield node
            rest.extend(reversed(node.children))

    def _shape(self) -> list[tuple[str, str | None, int]]:
        return [(node.label, node.word, len(node.children)) for node in self.nodes()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._shape() == other._shape()

    def __hash__(self) -> int:
        return hash(tuple(self._shape()))

    def __repr__(self) -> str:
        parts: list[str] = []
        rest: list[Tree | None] = [self]  # None: a bracket closes
        while rest:
            node = rest.pop()
            if node is None:
                parts.append(")")
                continue
            parts.append(f" ({node.label}")
            if node.word is not None:
                parts.append(f" {node.word}")
            rest.append(None)
            rest.extend(reversed(node.children))
        return "".join(parts).lstrip()


class Constituent(NamedTuple):
    """Which words a constituent spans: from the place `first` to `last`, both its own, from 0."""

    label: str
    first: int
    last: int


def parse_brackets(text: str, *, where: str) -> Tree:
    """The tree that a text in brackets tells; `where` names file and line in errors.

    Words stay as they are written, such as "-LRB-" (see `plain_words`).
    Raises DataError for a text without brackets, brackets that do not match, more than one tree,
    brackets without a label, with nothing in them, or with both a word and something else.

    >>> tree = parse_brackets("(ROOT (S (NP (PRP I)) (VP (VBP sing))))", where="line 1 of a.txt")
    >>> plain_words(tree), depth(tree), top_constituents(tree)
    (('I', 'sing'), 4, ('NP', 'VP'))
    """
    open_: list[_Open] = []
    found: Tree | None = None
    for match in _TOKEN.finditer(text):
        token = match[0]
        if found is not None:
            raise _error("one tree only", f"{token!r} after its end", where)
        if token == "(":
            open_.append(_Open())
        elif not open_:
            raise _error("all text inside brackets", f"{token!r} outside", where)
        elif token != ")":
            open_[-1].take(token, where)
        else:
            tree = open_.pop().closed(where)
            if open_:
                open_[-1].children.append(tree)
            else:
                found = tree
    if open_:
        raise _error("a closing bracket for each opening one", f"{len(open_)} too few", where)
    if found is None:
        raise _error("a tree", "an empty text", where)
    return found


class _Open:
    """A bracket that is not yet closed."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.children: list[Tree] = []

    def take(self, text: str, where: str) -> None:
        if self.children:
            rule = "a label, and a word or constituents, in each bracket"
            raise _error(rule, f"{text!r} after a constituent", where)
        self.texts.append(text)

    def closed(self, where: str) -> Tree:
        rule = "a label, and a word or constituents, in each bracket"
        if not self.texts:
            raise _error(rule, "one without a label", where)
        label, *words = self.texts
        if len(words) + bool(self.children) != 1:
            got = " ".join(self.texts)[:60] + " (...)" * bool(self.children)
            raise _error(rule, f"({got})", where)
        return Tree(label, tuple(self.children), words[0] if words else None)


def _error(rule: str, got: str, where: str) -> DataError:
    return DataError(f"`text` must have {rule}, got {got} at {where}.")


def leaves(tree: Tree) -> tuple[Tree, ...]:
    """The words with their parts of speech, in order.

    >>> leaves(parse_brackets("(NP (DT a) (NN man))", where="here"))
    ((DT a), (NN man))
    """
    return tuple(node for node in tree.nodes() if node.word is not None)


def plain_words(tree: Tree) -> tuple[str, ...]:
    """The words in order, with brackets and quotation marks instead of what stands for them.

    >>> plain_words(parse_brackets("(PRN (-LRB- -LRB-) (NN man) (-RRB- -RRB-))", where="here"))
    ('(', 'man', ')')
    """
    words = (leaf.word or "" for leaf in leaves(tree))
    return tuple(_PLAIN.get(word, word) for word in words)


def depth(tree: Tree) -> int:
    """The most labels above a word, parts of speech and the root's included; at least 1.

    >>> depth(parse_brackets("(NN man)", where="here"))
    1
    """
    deepest = 0
    level = [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in node.children]
    return deepest


def constituents(tree: Tree) -> tuple[Constituent, ...]:
    """All constituents that are not single parts of speech, each before those inside it.

    >>> for each in constituents(parse_brackets("(S (NP (DT A) (NN man)) (. .))", where="here")):
    ...     print(*each)
    S 0 2
    NP 0 1
    """
    nodes = list(tree.nodes())
    # From the last node back, a node's words are those of its children, which are all known.
    n_words: dict[int, int] = {}
    for node in reversed(nodes):
        below = sum(n_words[id(child)] for child in node.children)
        n_words[id(node)] = below + (node.word is not None)
    found, first = [], 0
    for node in nodes:
        if node.word is None:
            found.append(Constituent(node.label, first, first + n_words[id(node)] - 1))
        else:
            first += 1
    return tuple(found)


def top_constituents(tree: Tree) -> tuple[str, ...]:
    """The labels of what the sentence is made of: the children of the topmost S.

    The first of several that are equally high; none of a tree without an S, such as a bare NP.
    Source: Conneau et al. (2018), "What you can cram into a single vector", task TopConst.

    >>> text = "(ROOT (S (NP (DT A) (NN man)) (VP (VBZ sings)) (. .)))"
    >>> top_constituents(parse_brackets(text, where="here"))
    ('NP', 'VP', '.')
    """
    level = deque([tree])
    while level:
        node = level.popleft()
        if node.label == "S" and node.children:
            return tuple(child.label for child in node.children)
        level.extend(node.children)
    return ()
