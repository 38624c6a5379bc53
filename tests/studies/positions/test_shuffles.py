"""Words shuffled inside phrases: which ones move, and what stays."""

import collections

import numpy as np
import pytest

from exfam_studies.positions.swaps.sentences import (
    Sentence,
    phrases_of_length,
    shuffle_phrases,
    shuffle_words,
    tree_sentence,
    written_words,
)
from studies.positions.swap_cases import GUITAR, PLAIN, parsed, real_pairs, words_of


def rng(seed=0):
    return np.random.default_rng(seed)


def test_a_sentence_is_written_as_it_was():
    sentence, tree = parsed(*GUITAR)
    assert str(sentence) == GUITAR[0]
    whole, index = written_words(sentence)
    assert str(whole) == GUITAR[0] and "man's" in whole.words and "," in whole.words
    assert index[4:7] == (4, 5, 5)
    spread = GUITAR[0].replace(" ", "  \t")
    assert str(tree_sentence(tree, text=spread)) == GUITAR[0]
    for other in ("A young man plays", GUITAR[0] + " Yes.", GUITAR[0].replace("man", "men")):
        assert tree_sentence(tree, text=other) is None


def test_marks_that_a_parser_rewrote_are_those_of_the_text():
    text = 'A "big 1/2" (man)'
    tree = "(NP (DT A) (`` ``) (JJ big) (CD 1\\/2) ('' '') (-LRB- -LRB-) (NN man) (-RRB- -RRB-))"
    sentence, _ = parsed(text, tree)
    assert str(sentence) == text and "(" in sentence.words and "1/2" in sentence.words


def test_phrases_are_counted_in_written_words_without_punctuation():
    sentence, tree = parsed(*GUITAR)
    whole, _ = written_words(sentence)
    phrases = {
        2: ["the man's", "on stage"],
        3: ["A young man"],
        4: ["the man's electric guitar"],
        8: ["plays the man's electric guitar loudly on stage"],
    }
    for length in range(2, 9):
        result = phrases_of_length(sentence, tree, length=length)
        written = [" ".join(whole.words[index] for index in phrase) for phrase in result]
        assert written == phrases.get(length, [])


def test_phrases_that_cut_a_written_word_are_left_alone_and_those_of_the_same_words_are_one():
    text = "The dog's in a park."
    tree = "(S (NP (DT The) (NN dog)) (VP (VBZ 's) (PP (IN in) (NP (DT a) (NN park)))) (. .))"
    sentence, tree = parsed(text, tree)
    assert phrases_of_length(sentence, tree, length=4) == []
    assert phrases_of_length(sentence, tree, length=2) == [(3, 4)]
    brackets = "(S (NP (NP (NP (DT a) (NN man)) (. .))) (ADVP (RB here) (RB now)) (X (Y y) (Z z)))"
    sentence, tree = parsed("a man. here now y z", brackets)
    assert phrases_of_length(sentence, tree, length=2) == [(0, 1), (3, 4)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("length", [2, 3, 4, 8])
def test_words_move_inside_their_phrases_alone(seed, length):
    sentence, tree = parsed(*GUITAR)
    result = shuffle_phrases(sentence, tree, length=length, rng=rng(seed))
    old, new = words_of(GUITAR[0]), words_of(result)
    whole, _ = written_words(sentence)
    bare = [index for index, word in enumerate(whole.words) if word not in ",."]
    moving = {bare.index(p) for each in phrases_of_length(sentence, tree, length=length)
              for p in each}  # fmt: skip
    assert sorted(old) == sorted(new) and old != new
    assert all(new[index] == old[index] for index in range(len(old)) if index not in moving)
    assert result[0].isupper() and result.endswith(".") and result.count(",") == 2
    assert result[1:] == result[1:].lower()


def test_all_other_orders_are_equally_probable():
    sentence, tree = parsed("a b c", "(NP (X a) (X b) (X c))")
    generator = rng()
    count = collections.Counter(
        shuffle_phrases(sentence, tree, length=3, rng=generator) for _ in range(1000)
    )
    assert len(count) == 5 and "a b c" not in count
    assert max(count.values()) - min(count.values()) < 100


def test_without_another_order_there_is_none():
    sentence, tree = parsed("The the, THE.", "(NP (X The) (X the) (, ,) (X THE) (. .))")
    assert shuffle_phrases(sentence, tree, length=3, rng=rng()) is None
    assert shuffle_words(sentence, rng=rng()) is None
    sentence, tree = parsed(*PLAIN)
    assert shuffle_phrases(sentence, tree, length=5, rng=rng()) is None
    assert shuffle_words(Sentence((".",), (True,), (False,)), rng=rng()) is None


def test_names_keep_their_capitals():
    sentence, tree = parsed("Ann sings", "(S (NP (NNP Ann)) (VP (VBZ sings)))")
    assert shuffle_words(sentence, rng=rng()) == "Sings Ann"
    for first, inside in (("TVs", "TVs"), ("Men", "men")):
        sentence, _ = parsed(f"{first} go", f"(S (NP (X {first})) (VP (VBP go)))")
        assert shuffle_words(sentence, rng=rng()) == f"Go {inside}"


def test_words_are_others_in_order_alone_on_real_parses(data_folder, tmp_path):
    pairs, generator, n = real_pairs(data_folder, tmp_path), rng(), 0
    for pair in {pair.premise: pair for pair in pairs}.values():
        sentence = tree_sentence(pair.premise_parse, text=pair.premise)
        assert str(sentence) == " ".join(pair.premise.split())
        old = words_of(pair.premise)
        phrases = shuffle_phrases(sentence, pair.premise_parse, length=3, rng=generator)
        n += phrases is not None
        for shuffled in filter(None, (phrases, shuffle_words(sentence, rng=generator))):
            assert words_of(shuffled) != old and sorted(words_of(shuffled)) == sorted(old)
    assert n > 70
