"""Sets of changed pairs, and what a swap does to accuracy."""

import pytest

from exfam.checks import ExfamError
from exfam_studies.positions.snli import LABELS
from exfam_studies.positions.swaps.sets import (
    phrase_shuffles,
    role_swaps,
    swap_accuracy,
    swap_sets,
    word_shuffles,
)
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
    for length, changed in ((2, PAIRS[:4]), (3, PAIRS[:2]), (5, [])):
        swaps = phrase_shuffles(PAIRS, length=length)
        assert swaps.name == f"shuffle-{length}"
        # Without a label, a parse, or a parse of these words nothing can be tried.
        assert swaps.n_tried == 4 and [each.before for each in swaps.pairs] == changed
        for each in swaps.pairs:
            old = each.before
            assert (each.label, each.hypothesis) == (old.label, old.hypothesis)
            assert words_of(each.premise) != words_of(old.premise)
            assert sorted(words_of(each.premise)) == sorted(words_of(old.premise))


def test_whole_premises_need_a_phrase_as_well():
    bare = pair(("Men go", "(S (NP (NNS Men)) (VP (VBP go)))"), MAN)
    swaps = word_shuffles([*PAIRS, bare])
    assert (len(swaps), swaps.n_tried, swaps.name) == (4, 5, "shuffle-all")
    assert all(each.premise.endswith(".") for each in swaps.pairs)


def test_one_side_of_an_entailment_changes_the_premise_first():
    swaps = role_swaps(PAIRS)
    assert [(each.premise, each.hypothesis) for each in swaps.pairs] == [
        ("The man's electric guitar plays a young man, loudly, on stage.", PLAIN[0]),
        (MAN[0], "he sees her"),
        ("No parse.", "he sees her"),
    ]
    assert {each.label for each in swaps.pairs} == {"contradiction"} and swaps.n_tried == 4


def test_a_premise_is_shuffled_in_the_same_way_in_any_company():
    swaps = phrase_shuffles(PAIRS, length=4)
    assert len({each.premise for each in swaps.pairs}) == 1
    alone = phrase_shuffles(PAIRS[:0:-1], length=4)
    assert alone.pairs == swaps.pairs[1:] and len(alone) == 1
    assert len({phrase_shuffles(PAIRS, length=4, seed=seed).pairs for seed in range(8)}) > 3


def test_all_sets_of_the_paper_are_made():
    sets = swap_sets(PAIRS, seed=1)
    names = ["shuffle-3", "shuffle-4", "shuffle-5", "shuffle-all", "swap-roles"]
    assert [each.name for each in sets] == names
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
