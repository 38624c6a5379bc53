"""Trees read from brackets: what they tell of words and constituents, what is refused."""

import random

import pytest

from exfam.checks import DataError
from exfam_studies.positions.parses import (
    Tree,
    constituents,
    depth,
    leaves,
    parse_brackets,
    plain_words,
    top_constituents,
)

TEXT = (
    "(ROOT (S (NP (NP (CD Four) (NNS men)) (PRN (-LRB- -LRB-) (JJ young) (-RRB- -RRB-))) "
    "(VP (VBP sit) (PP (IN on) (NP (DT the) (NN floor)))) (. .)))"
)


def read(text):
    return parse_brackets(text, where="line 3 of a.txt")


def grown(rng, levels):
    """A tree of random shape."""
    label = rng.choice(["S", "NP", "VP"])
    if levels == 0 or rng.random() < 0.2:
        return Tree(f"{label}-tag", word=rng.choice("abc"))
    return Tree(label, tuple(grown(rng, levels - 1) for _ in range(rng.randint(1, 3))))


def slow_constituents(tree, first=0):
    """The words of a tree and its constituents, by recursion."""
    if tree.word is not None:
        return 1, []
    n, below = 0, []
    for child in tree.children:
        more, found = slow_constituents(child, first + n)
        n, below = n + more, below + found
    return n, [(tree.label, first, first + n - 1), *below]


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_is_what_its_brackets_say(seed):
    tree = grown(random.Random(seed), 5)
    again = read(str(tree))
    assert again == tree and hash(again) == hash(tree) and repr(again) == str(tree)
    n, spans = slow_constituents(tree)
    assert list(constituents(tree)) == spans
    assert len(leaves(tree)) == len(plain_words(tree)) == n
    assert all(leaf.word is not None and not leaf.children for leaf in leaves(tree))
    assert (depth(tree) == 1) == (not spans)


def test_trees_that_differ_in_words_labels_or_shape_are_not_equal():
    trees = ["(A (B x))", "(A (B y))", "(A (C x))", "(B x)", "(A (A (B x)))", "(A (B x) (B x))"]
    for one in trees:
        assert [read(one) == read(other) for other in trees].count(True) == 1
    assert len({read(text) for text in trees + trees}) == len(trees)
    assert read("(B x)") != "(B x)"


def test_words_spans_depth_and_top_constituents():
    tree = read(TEXT)
    words = ("Four", "men", "(", "young", ")", "sit", "on", "the", "floor", ".")
    assert plain_words(tree) == words
    assert [leaf.label for leaf in leaves(tree)][:3] == ["CD", "NNS", "-LRB-"]
    told = [(each.label, words[each.first], words[each.last]) for each in constituents(tree)]
    assert told == [
        ("ROOT", "Four", "."), ("S", "Four", "."), ("NP", "Four", ")"), ("NP", "Four", "men"),
        ("PRN", "(", ")"), ("VP", "sit", "floor"), ("PP", "on", "floor"), ("NP", "the", "floor"),
    ]  # fmt: skip
    assert depth(tree) == 6
    assert top_constituents(tree) == ("NP", "VP", ".")


def test_the_topmost_sentence_is_the_highest_and_of_these_the_first():
    assert top_constituents(read("(ROOT (X (S (A a))) (S (B b)) (S (C c)))")) == ("B",)
    assert top_constituents(read("(ROOT (NP (S (A a)) (S (B b))))")) == ("A",)
    assert top_constituents(read("(ROOT (NP (S s)))")) == ()


def test_white_space_and_lines_do_not_matter():
    assert read(f"\n {TEXT} \n".replace(" (", "\n\t (").replace(")", " )")) == read(TEXT)


def test_nesting_may_be_deeper_than_the_stack():
    n = 5_000
    text = "(NP " * n + "(NN man)" + ")" * n
    tree = read(text)
    assert str(tree) == text and tree == read(text) and hash(tree) == hash(read(text))
    assert depth(tree) == n + 1 and len(constituents(tree)) == n
    assert plain_words(tree) == ("man",) and top_constituents(tree) == ()
    del tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`text` must have a tree, got an empty text at line 3 of a.txt."),
        (" \n", "must have a tree, got an empty text"),
        ("man", "must have all text inside brackets, got 'man' outside at line 3"),
        (")", r"must have all text inside brackets, got '\)' outside"),
        ("(NN man) (NN man)", r"must have one tree only, got '\(' after its end"),
        ("(NN man))", r"must have one tree only, got '\)' after its end"),
        ("(NP (NN man)", "a closing bracket for each opening one, got 1 too few"),
        ("((NN man))", "must have a label, and a word or constituents, .* got one without a label"),
        ("()", "got one without a label at line 3"),
        ("(NP)", r"must have a label, and a word or constituents, in each bracket, got \(NP\) at"),
        ("(NP a man)", r"got \(NP a man\) at line 3"),
        ("(NP a (NN man))", r"got \(NP a \(\.\.\.\)\) at line 3"),
        ("(NP (NN man) a)", "got 'a' after a constituent at line 3"),
    ],
)
def test_what_is_no_tree_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        read(text)
