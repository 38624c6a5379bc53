"""Sentences to swap words of."""

import gzip
from itertools import islice

import pytest

from exfam_studies.positions.snli import SentencePair, read_snli
from exfam_studies.positions.swaps.sentences import tree_sentence
from exfam_studies.positions.trees import parse_brackets, plain_words

# Written words, then constituents.
GUITAR = (
    "A young man plays the man's electric guitar, loudly, on stage.",
    "(ROOT (S (NP (DT A) (JJ young) (NN man)) (VP (VBZ plays) (NP (NP (DT the) (NN man) (POS 's)) "
    "(JJ electric) (NN guitar)) (, ,) (ADVP (RB loudly)) (, ,) (PP (IN on) (NP (NN stage)))) "
    "(. .)))",
)
PLAIN = ("she sees him", "(S (NP (PRP she)) (VP (VBZ sees) (NP (PRP him))))")


def parsed(text, brackets):
    tree = parse_brackets(brackets, where="here")
    sentence = tree_sentence(tree, text=text)
    assert sentence is not None, plain_words(tree)
    return sentence, tree


def pair(premise, hypothesis, label="entailment"):
    """A pair of texts with constituents, each a pair of the two; or of a text alone."""
    sides = [
        entry if isinstance(entry, tuple) else (entry, None) for entry in (premise, hypothesis)
    ]
    trees = [brackets and parse_brackets(brackets, where="here") for _, brackets in sides]
    return SentencePair(sides[0][0], sides[1][0], label, *trees)


def words_of(text):
    """Words in any case, without punctuation."""
    bare = (word.strip(".,!?\"'()") for word in text.lower().split())
    return [word for word in bare if word]


def real_pairs(data_folder, tmp_path):
    """The first pairs of the published extract with parses: all of it takes long to read."""
    published = data_folder / "sentences" / "snli_1.0_test_partial_with_parses.jsonl.gz"
    if not published.is_file():
        pytest.skip("the folder has no SNLI")
    with gzip.open(published) as file:
        (tmp_path / "pairs.jsonl").write_bytes(b"".join(islice(file, 300)))
    return read_snli(tmp_path / "pairs.jsonl")
