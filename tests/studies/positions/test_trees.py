"""Trees read from brackets: their words and constituents, and what is refused."""

import random

import pytest

from exfam.checks import DataError
from exfam_studies.positions.trees import constituents, depth, parse_brackets, plain_words

TEXT = (
    "(ROOT (S (NP (NP (CD Four) (NNS men)) (PRN (-LRB- -LRB-) (JJ young) (-RRB- -RRB-))) "
    "(VP (VBP sit) (PP (IN on) (NP (DT the) (NN floor)))) (. .)))"
)


def read(text):
    return parse_brackets(text, where="line 3 of a.txt")


def grown(rng, levels):
    """Brackets of random shape."""
    label = rng.choice(["S", "NP", "VP"])
    if levels == 0 or rng.random() < 0.2:
        return f"({label}-tag {rng.choice('abc')})"
    return f"({label} {' '.join(grown(rng, levels - 1) for _ in range(rng.randint(1, 3)))})"


def slow_constituents(tree, first=0):
    """The words of a tree and its constituents, by recursion."""
    if isinstance(tree[0], str):
        return 1, []
    n, below = 0, []
    for child in tree:
        more, inside = slow_constituents(child, first + n)
        n, below = n + more, below + inside
    return n, [(tree.label(), first, first + n - 1), *below]


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_is_what_its_brackets_say(seed):
    text = grown(random.Random(seed), 5)
    tree = read(text)
    assert " ".join(str(tree).split()) == text
    n, spans = slow_constituents(tree)
    assert [(node.label(), first, last) for node, first, last in constituents(tree)] == spans
    assert len(plain_words(tree)) == n and (depth(tree) == 1) == (not spans)


def test_words_and_depth():
    tree = read(TEXT)
    words = ("Four", "men", "(", "young", ")", "sit", "on", "the", "floor", ".")
    assert plain_words(tree) == words and depth(tree) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`text` must be one tree in brackets, got '' .*'end-of-string'.* at line 3 of a.txt."),
        ("(NN man) (NN man)", "expected 'end-of-string'"),
        ("(NP (NN man)", r"expected '\)' but got 'end-of-string'"),
        ("(NP " * 600 + "(NN man)" + ")" * 600, "nesting depth exceeds .*500"),
        ("((NN man))", "must have a label, and a word or constituents, in each bracket, got "),
        ("(NP)", r"a word or constituents, in each bracket, got '\(NP \)' at"),
        ("(NP (NN man) a)", r"got '\(NP \(NN man\) a\)' at line 3"),
    ],
)
def test_what_is_no_tree_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        read(text)
