"""Swaps of words and of roles that leave sentences whole."""

import collections

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam_studies.positions.snli import LABELS
from exfam_studies.positions.swaps.roles import Roles, swap_roles, tree_roles
from exfam_studies.positions.swaps.sentences import (
    Sentence,
    phrases_of_length,
    shuffle_phrases,
    shuffle_words,
    tree_sentence,
    written_words,
)
from exfam_studies.positions.swaps.sets import (
    phrase_shuffles,
    role_swaps,
    swap_accuracy,
    swap_sets,
    word_shuffles,
)
from studies.positions.swap_cases import GUITAR, PLAIN, pair, parsed, real_pairs, words_of


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
    moving = {bare.index(p) for entry in phrases_of_length(sentence, tree, length=length)
              for p in entry}  # fmt: skip
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
    for own in {own.premise: own for own in pairs}.values():
        sentence = tree_sentence(own.premise_parse, text=own.premise)
        assert str(sentence) == " ".join(own.premise.split())
        old = words_of(own.premise)
        phrases = shuffle_phrases(sentence, own.premise_parse, length=3, rng=generator)
        n += phrases is not None
        for shuffled in filter(None, (phrases, shuffle_words(sentence, rng=generator))):
            assert words_of(shuffled) != old and sorted(words_of(shuffled)) == sorted(old)
    assert n > 70


# Sets of pairs

MAN = ("A man sings.", "(S (NP (DT A) (NN man)) (VP (VBZ sings)) (. .))")
PAIRS = [
    pair(GUITAR, PLAIN),
    pair(GUITAR, MAN, "neutral"),
    pair(MAN, PLAIN),
    pair(MAN, "No parse.", "contradiction"),
    pair("No parse.", PLAIN),
    pair(GUITAR, PLAIN, None),
    pair(("A man sleeps.", MAN[1]), MAN),
]


def test_premises_change_and_labels_and_hypotheses_stay():
    for length, changed in ((2, PAIRS[:4]), (3, PAIRS[:2]), (5, [])):
        swaps = phrase_shuffles(PAIRS, length=length)
        assert swaps.name == f"shuffle-{length}"
        # Without a label, a parse, or a parse of these words nothing can be tried.
        assert swaps.n_tried == 4 and [entry.before for entry in swaps.pairs] == changed
        for entry in swaps.pairs:
            old = entry.before
            assert (entry.label, entry.hypothesis) == (old.label, old.hypothesis)
            assert words_of(entry.premise) != words_of(old.premise)
            assert sorted(words_of(entry.premise)) == sorted(words_of(old.premise))


def test_whole_premises_need_a_phrase_as_well():
    bare = pair(("Men go", "(S (NP (NNS Men)) (VP (VBP go)))"), MAN)
    swaps = word_shuffles([*PAIRS, bare])
    assert (len(swaps), swaps.n_tried, swaps.name) == (4, 5, "shuffle-all")
    assert all(entry.premise.endswith(".") for entry in swaps.pairs)


def test_one_side_of_an_entailment_changes_the_premise_first():
    swaps = role_swaps(PAIRS)
    assert [(entry.premise, entry.hypothesis) for entry in swaps.pairs] == [
        ("The man's electric guitar plays a young man, loudly, on stage.", PLAIN[0]),
        (MAN[0], "he sees her"),
        ("No parse.", "he sees her"),
    ]
    assert {entry.label for entry in swaps.pairs} == {"contradiction"} and swaps.n_tried == 4


def test_a_premise_is_shuffled_in_the_same_way_in_any_company():
    swaps = phrase_shuffles(PAIRS, length=4)
    assert len({entry.premise for entry in swaps.pairs}) == 1
    alone = phrase_shuffles(PAIRS[:0:-1], length=4)
    assert alone.pairs == swaps.pairs[1:] and len(alone) == 1
    assert len({phrase_shuffles(PAIRS, length=4, seed=seed).pairs for seed in range(8)}) > 3


def test_all_sets_of_the_paper_are_made():
    sets = swap_sets(PAIRS, seed=1)
    names = ["shuffle-3", "shuffle-4", "shuffle-5", "shuffle-all", "swap-roles"]
    assert [entry.name for entry in sets] == names
    assert sets[0] == phrase_shuffles(PAIRS, length=3, seed=1) and sets[-1] == role_swaps(PAIRS)
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        swap_sets(PAIRS, seed=-1)


# Scoring


def by_order(pairs):
    """Looks at the premise's first word: entailment of men, else contradiction."""
    return [LABELS[2 * (not premise.startswith("Men"))] for premise, _ in pairs]


def blind(pairs):
    return ["entailment"] * len(pairs)


def men(n, *, label="entailment"):
    brackets = "(S (NP (NNS Men)) (VP (VBP see) (NP (NNS dogs{}))))"
    return [
        pair((f"Men see dogs{k // 2}", brackets.format(k // 2)), f"hypothesis {k}", label)
        for k in range(n)
    ]


def test_accuracies_are_those_before_and_after_on_the_same_pairs():
    swaps = role_swaps(men(20))

    def means(*predictors):
        return tuple(interval.mean for interval in swap_accuracy(predictors, swaps))

    assert means(by_order) == (1, 1, 0) and means(blind) == (1, 0, -1)
    # Of several predictors the mean accuracy counts.
    assert means(by_order, blind) == (1, 0.5, -0.5)
    half = swap_accuracy([lambda pairs: [LABELS[int(h[-1]) % 2] for _, h in pairs]], swaps)
    assert half.before.mean == 0.5 and half.after.mean == 0
    # Of each premise one of two pairs is right, and premises are what is redrawn.
    assert half.before.low == half.before.high == 0.5


def plain(text, names=()):
    """A sentence of words between blanks, the marks at its end apart."""
    words = tuple(text.replace(".", " .").replace(",", " ,").split())
    glued = tuple(word in ".," or at == 0 for at, word in enumerate(words))
    return Sentence(words, glued, tuple(word in names for word in words))


def swapped(sentence, *roles):
    result = swap_roles(sentence, roles)
    return None if result is None else str(result.sentence)


# Given spans


@pytest.mark.parametrize(
    ("text", "verb", "agent", "patient", "result"),
    [
        ("A man sees two dogs.", 2, (0, 1), (3, 4), "Two dogs sees a man."),
        ("A song is sung by two men.", 3, (5, 6), (0, 1), "Two men is sung by a song."),
        ("I see him.", 1, (0, 0), (2, 2), "He see me."),
        ("They, today, see us.", 4, (0, 0), (5, 5), "We, today, see them."),
        ("It sees Ann", 1, (0, 0), (2, 2), "Ann sees it"),
        ("Today he and I see them.", 4, (1, 3), (5, 5), "Today they see he and I."),
    ],
)
def test_spans_change_places_and_pronouns_their_case(text, verb, agent, patient, result):
    sentence = plain(text, names=("Ann",))
    swap = swap_roles(sentence, [Roles(verb, agent, patient)])
    assert str(swap.sentence) == result
    again = swap_roles(swap.sentence, [swap.roles])
    assert str(again.sentence) == text and again.roles == Roles(verb, agent, patient)
    assert swap.sentence.words[swap.roles.verb] == sentence.words[verb]


def test_the_first_verb_with_both_roles_counts():
    sentence = plain("men who have seen dogs, hear cats")
    see, hear = Roles(3, (0, 0), (4, 4)), Roles(6, (0, 0), (7, 7))
    assert swapped(sentence, see, hear) == "dogs who have seen men, hear cats"
    assert swapped(sentence, hear, see) == "cats who have seen dogs, hear men"
    one_sided = Roles(3, None, (4, 4)), Roles(3, (0, 0), None), Roles(3, None, None)
    assert swapped(sentence, *one_sided, hear) == "cats who have seen dogs, hear men"
    assert swapped(sentence, *one_sided) is None and swapped(sentence) is None


@pytest.mark.parametrize(
    "text", ["men Has hats", "men 's hats", "He sees himself", "They see each other", "Men see men"]
)
def test_what_cannot_be_swapped_is_left_out(text):
    n = len(text.split())
    assert swapped(plain(text), Roles(1, (0, 0), (2, n - 1))) is None


# From constituents

TREES = [
    ("A man plays a guitar.",
     "(S (NP (DT A) (NN man)) (VP (VBZ plays) (NP (DT a) (NN guitar))) (. .))",
     "A guitar plays a man."),
    ("a man playing an electric guitar on stage",
     "(NP (NP (DT a) (NN man)) (VP (VBG playing) (NP (DT an) (JJ electric) (NN guitar)) "
     "(PP (IN on) (NP (NN stage)))))",
     "an electric guitar playing a man on stage"),
    ("A song is sung by us.",
     "(S (NP (DT A) (NN song)) (VP (VBZ is) (VP (VBN sung) (PP (IN by) (NP (PRP us))))) (. .))",
     "We is sung by a song."),
    ("Men sit and, today, play songs",
     "(S (NP (NNS Men)) (VP (VP (VBP sit)) (CC and) (, ,) (NP (NN today)) (, ,) "
     "(VP (VBP play) (NP (NNS songs)))))",
     "Songs sit and, today, play men"),
    ("the man in hats, who sees dogs, sits",
     "(S (NP (NP (DT the) (NN man)) (PP (IN in) (NP (NNS hats))) (, ,) (SBAR (WHNP (WP who)) "
     "(S (VP (VBZ sees) (NP (NNS dogs))))) (, ,)) (VP (VBZ sits)))",
     "dogs, who sees the man in hats, sits"),
    ("men see all day dogs",
     "(S (NP (NNS men)) (VP (VBP see) (NP (DT all) (NN day)) (NP (NNS dogs))))",
     "dogs see all day men"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "brackets", "result"), TREES, ids=[entry[0] for entry in TREES])
def test_constituents_show_the_roles(text, brackets, result):
    sentence, tree = parsed(text, brackets)
    assert swapped(sentence, *tree_roles(tree)) == result


@pytest.mark.parametrize(
    ("text", "brackets"),
    [
        ("There see men", "(S (NP (EX There)) (VP (VBP see) (NP (NNS men))))"),
        ("men sit today", "(S (NP (NNS men)) (VP (VBP sit) (NP (NN today))))"),
        ("men say dogs bark",
         "(S (NP (NNS men)) (VP (VBP say) (SBAR (S (NP (NNS dogs)) (VP (VBP bark))))))"),
        ("men want to see dogs", "(S (NP (NNS men)) (VP (VBP want) (S (VP (TO to) (VP (VB see) "
         "(NP (NNS dogs)))))))"),
        ("songs are sung on stage", "(S (NP (NNS songs)) (VP (VBP are) (VP (VBN sung) (PP (IN on) "
         "(NP (NN stage))))))"),
        ("what men, whose see dogs", "(NP (NP (WDT what) (NNS men)) (, ,) (SBAR (WHNP (WP$ whose)) "
         "(S (VP (VBP see) (NP (NNS dogs))))))"),
        ("here seeing dogs", "(NP (ADVP (RB here)) (VP (VBG seeing) (NP (NNS dogs))))"),
        ("men", "(NP (NNS men))"),
    ],
)  # fmt: skip
def test_constituents_without_both_roles(text, brackets):
    sentence, tree = parsed(text, brackets)
    assert swap_roles(sentence, tree_roles(tree)) is None


def test_twice_is_once_on_real_constituents(data_folder, tmp_path):
    swaps = []
    for real in real_pairs(data_folder, tmp_path):
        sentence = tree_sentence(real.premise_parse, text=real.premise)
        swap = swap_roles(sentence, tree_roles(real.premise_parse))
        if swap is not None:
            swaps.append(swap)
            assert str(swap.sentence) != str(sentence)
            again = swap_roles(swap.sentence, [swap.roles])
            assert str(again.sentence).lower() == str(sentence).lower()
    assert 50 < len(swaps) < 150
