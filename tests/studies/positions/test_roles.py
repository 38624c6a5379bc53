"""Agents and patients: where parses show them, and how they change places."""

import pytest

from exfam_studies.positions.swaps.roles import Roles, swap_roles, tree_roles
from exfam_studies.positions.swaps.sentences import Sentence, tree_sentence
from studies.positions.swap_cases import parsed, real_pairs


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
    for pair in real_pairs(data_folder, tmp_path):
        sentence = tree_sentence(pair.premise_parse, text=pair.premise)
        swap = swap_roles(sentence, tree_roles(pair.premise_parse))
        if swap is not None:
            swaps.append(swap)
            assert str(swap.sentence) != str(sentence)
            again = swap_roles(swap.sentence, [swap.roles])
            assert str(again.sentence).lower() == str(sentence).lower()
    assert 50 < len(swaps) < 150
