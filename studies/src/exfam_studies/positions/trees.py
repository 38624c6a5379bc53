"""Constituents of sentences, from brackets: (ROOT (S (NP (DT A) (NN man)) (VP (VBZ sings)))).

Trees are those of NLTK. Part of speech and word make the lowest constituents, such as (NN man).
"""

from collections.abc import Iterator

from nltk.tree import ParentedTree

from exfam.checks import DataError

Tree = ParentedTree
# A constituent, and the indices of its first and its last word.
Span = tuple[ParentedTree, int, int]
# What stands for brackets and quotation marks in the Penn Treebank.
_PLAIN = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"', "''": '"',
}  # fmt: skip


def parse_brackets(text: str, *, where: str) -> ParentedTree:
    """The tree that a text in brackets writes; `where` names file and line in errors.

    Words stay as they are written, such as "-LRB-" (see `plain_words`).
    Raises DataError for a text that is not one tree in brackets that match, nested at most 500
    deep, and for brackets without a label, with nothing in them, or with a word and something else.
    """
    try:
        tree = ParentedTree.fromstring(text)
    except ValueError as error:
        why = str(error).splitlines()[0].removeprefix("ParentedTree.read(): ")
        raise DataError(
            f"`text` must be one tree in brackets, got {text[:60]!r} ({why}) at {where}."
        ) from error
    for node in tree.subtrees():
        has_parts = len(node) and all(isinstance(part, Tree) for part in node)
        if not node.label() or not (is_leaf(node) or has_parts):
            raise DataError(
                "`text` must have a label, and a word or constituents, in each bracket, got "
                f"{' '.join(str(node).split())[:60]!r} at {where}."
            )
    return tree


def is_leaf(tree: ParentedTree) -> bool:
    """Whether this is a word with its part of speech."""
    return len(tree) == 1 and isinstance(tree[0], str)


def plain_words(tree: ParentedTree) -> tuple[str, ...]:
    """The words in order, with brackets and quotation marks instead of what stands for them."""
    return tuple(_PLAIN.get(word, word) for word in tree.leaves())


def depth(tree: ParentedTree) -> int:
    """The most labels above a word, parts of speech and the root's included; at least 1."""
    return int(tree.height()) - 1


def spans(tree: ParentedTree) -> Iterator[Span]:
    """All constituents and single words, each before those inside it."""
    first = 0
    for node in tree.subtrees():
        yield node, first, first + len(node.leaves()) - 1
        first += is_leaf(node)


def constituents(tree: ParentedTree) -> tuple[Span, ...]:
    """All constituents that are not single words, each before those inside it."""
    return tuple(span for span in spans(tree) if not is_leaf(span[0]))
