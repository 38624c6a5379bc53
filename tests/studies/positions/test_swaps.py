"""Sets of changed pairs, and what a swap does to accuracy."""

import pytest

from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam_studies.positions.snli import LABELS
from exfam_studies.positions.swaps import (
    SwapSet,
    phrase_shuffles,
    role_swaps,
    swap_accuracy,
    swap_sets,
    word_shuffles,
)
from exfam_studies.positions.swaps.sets import VERSION
from studies.positions.swap_cases import GUITAR, PLAIN, pair, words_of

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
    for length, changed in ((2, PAIRS[:4]), (3, PAIRS[:2]), (4, PAIRS[:2]), (5, [])):
        swaps = phrase_shuffles(PAIRS, length=length)
        assert (swaps.name, swaps.version) == (f"shuffle-{length}", VERSION)
        # Without a label, a parse, or a parse of these words nothing can be tried.
        assert swaps.n_tried == 4 and [each.before for each in swaps.pairs] == changed
        for each in swaps.pairs:
            old = each.before
            assert (each.side, each.label, each.hypothesis) == (
                "premise",
                old.label,
                old.hypothesis,
            )
            assert words_of(each.premise) != words_of(old.premise)
            assert sorted(words_of(each.premise)) == sorted(words_of(old.premise))


def test_whole_premises_need_a_phrase_as_well():
    bare = pair(("Men go", "(S (NP (NNS Men)) (VP (VBP go)))"), MAN)
    swaps = word_shuffles([*PAIRS, bare])
    assert (len(swaps), swaps.n_tried, swaps.name) == (4, 5, "shuffle-all")
    assert all(each.premise.endswith(".") for each in swaps.pairs)


def test_one_side_of_an_entailment_changes_the_premise_first():
    swaps = role_swaps(PAIRS)
    result = [(each.premise, each.hypothesis, each.side) for each in swaps.pairs]
    assert result == [
        ("The man's electric guitar plays a young man, loudly, on stage.", PLAIN[0], "premise"),
        (MAN[0], "he sees her", "hypothesis"),
        ("No parse.", "he sees her", "hypothesis"),
    ]
    assert {each.label for each in swaps.pairs} == {"contradiction"} and swaps.n_tried == 4


def test_a_premise_is_shuffled_in_the_same_way_in_any_company():
    swaps = phrase_shuffles(PAIRS, length=4)
    assert len({each.premise for each in swaps.pairs}) == 1
    alone = phrase_shuffles(PAIRS[:0:-1], length=4)
    assert alone.pairs == swaps.pairs[1:] and len(alone) == 1
    result = {phrase_shuffles(PAIRS, length=4, seed=seed).pairs for seed in range(8)}
    assert len(result) > 3
    assert phrase_shuffles(PAIRS, length=4, seed=3) == phrase_shuffles(PAIRS, length=4, seed=3)


def test_all_sets_of_the_paper_are_made():
    sets = swap_sets(PAIRS, seed=1)
    names = ["shuffle-3", "shuffle-4", "shuffle-5", "shuffle-all", "swap-roles"]
    assert [each.name for each in sets] == names
    assert sets[0] == phrase_shuffles(PAIRS, length=3, seed=1) and sets[-1] == role_swaps(PAIRS)
    assert swap_sets(iter(PAIRS), seed=1) == sets
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        swap_sets(PAIRS, seed=-1)
    with pytest.raises(ExfamError, match="`length` must be an integer >= 2, got 1"):
        phrase_shuffles(PAIRS, length=1)


# Scoring


class ByOrder:
    """Looks at the premise's first word: entailment of men, else contradiction."""

    def __init__(self):
        self.asked = []

    def __call__(self, pairs):
        self.asked.append(len(pairs))
        return [LABELS[2 * (not premise.startswith("Men"))] for premise, _ in pairs]


def men(n, *, label="entailment"):
    brackets = "(S (NP (NNS Men)) (VP (VBP see) (NP (NNS dogs{}))))"
    return [
        pair((f"Men see dogs{k // 2}", brackets.format(k // 2)), f"hypothesis {k}", label)
        for k in range(n)
    ]


def test_accuracies_are_those_before_and_after_on_the_same_pairs():
    swaps = role_swaps(men(20))
    score = swap_accuracy(ByOrder(), swaps)
    assert (score.before.mean, score.after.mean, score.change.mean) == (1, 1, 0)
    blind = swap_accuracy(lambda pairs: ["entailment"] * len(pairs), swaps)
    assert (blind.before.mean, blind.after.mean, blind.change.mean) == (1, 0, -1)
    assert (blind.n_pairs, blind.n_premises) == (20, 10)
    assert (blind.name, blind.version) == ("swap-roles", VERSION)
    half = swap_accuracy(
        lambda pairs: [LABELS[int(h[-1]) % 2] for _, h in pairs], SwapSet("x", swaps.pairs, 20)
    )
    assert half.before.mean == 0.5 and half.after.mean == 0
    # Of each premise one of two pairs is right, and premises are what is redrawn.
    assert half.before.low == half.before.high == 0.5


def test_of_several_predictors_the_mean_accuracy_is_told():
    swaps = role_swaps(men(20))

    def blind(pairs):
        return ["entailment"] * len(pairs)

    both = swap_accuracy([ByOrder(), blind], swaps)
    assert (both.before.mean, both.after.mean, both.change.mean) == (1, 0.5, -0.5)
    assert swap_accuracy([blind], swaps) == swap_accuracy(blind, swaps)
    with pytest.raises(DataError, match="`predict` must be at least one predictor, got none"):
        swap_accuracy([], swaps)


def test_intervals_hold_the_mean_and_depend_on_the_seed_alone():
    swaps = role_swaps(men(40))

    def predict(pairs):
        return [LABELS[2 * (int(h.split()[-1]) % 7 < 4)] for _, h in pairs]

    one, again = (swap_accuracy(predict, swaps, seed=0) for _ in range(2))
    assert one == again
    assert len({swap_accuracy(predict, swaps, seed=seed).change for seed in range(9)}) > 1
    for each in (one.before, one.after, one.change):
        assert each.low < each.mean < each.high


@pytest.mark.parametrize("at_once", [1, 3, 7, 1000])
def test_the_number_of_pairs_at_once_changes_nothing(at_once):
    pairs = men(9) + [pair(GUITAR, PLAIN)]
    swaps, predict = role_swaps(pairs), ByOrder()
    assert swap_accuracy(predict, swaps, pairs_at_once=at_once) == swap_accuracy(ByOrder(), swaps)
    assert sum(predict.asked) == 20 and max(predict.asked) == min(at_once, 10)


def test_sets_and_labels_that_cannot_be_scored_are_refused():
    swaps = role_swaps(men(3))
    with pytest.raises(DataError, match="`swaps` must hold at least one pair, got none in swap-ro"):
        swap_accuracy(ByOrder(), role_swaps([]))
    with pytest.raises(DataError, match="`predict` must give a label for each pair, got 0 for 3"):
        swap_accuracy(lambda pairs: [], swaps)
    with pytest.raises(DataError, match="`predict` must give labels of entailment.*, got 'yes'"):
        swap_accuracy(lambda pairs: ["yes"] * len(pairs), swaps)
    with pytest.raises(DataError, match="`predict` must give a label .*, got NoneType for 3 pairs"):
        swap_accuracy(lambda pairs: None, swaps)
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        swap_accuracy(ByOrder(), swaps, seed=-1)
    with pytest.raises(ExfamError, match="`pairs_at_once` must be an integer >= 1, got 0"):
        swap_accuracy(ByOrder(), swaps, pairs_at_once=0)


def test_a_pair_that_a_model_refuses_is_named_by_its_place_among_all():
    def picky(pairs):
        for place, (_, hypothesis) in enumerate(pairs):
            if hypothesis.endswith(" 17"):
                raise UnknownItemError(f"Sentence {place} must have at most 8 tokens, got 9.")
        return ["entailment"] * len(pairs)

    for at_once in (1, 5, 100):
        with pytest.raises(UnknownItemError, match="^Sentence 17 must have at most 8 tokens, got"):
            swap_accuracy(picky, role_swaps(men(20)), pairs_at_once=at_once)
