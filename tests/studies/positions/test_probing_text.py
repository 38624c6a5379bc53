"""Probing tasks made of raw sentences: labels, what was changed, and how they are divided."""

import itertools
from collections import Counter

import pytest

from exfam.checks import DataError, ExfamError
from exfam_studies.positions.linguistic import (
    Example,
    Sizes,
    balanced_task,
    bigram_shift_task,
    count_bigrams,
    kinds_of_words,
    odd_word_task,
    sentence_length_task,
    word_content_task,
)
from exfam_studies.positions.linguistic.balancing import distinct
from studies.positions.probing_cases import assert_sound, everything, made_text, parsed

TEXT = made_text(900)
NOUNS, VERBS = [f"n{at}" for at in "abcdef"], [f"v{at}" for at in "abcdef"]
KINDS = {word: "NOUN Sing" for word in NOUNS} | {word: "VERB Fin Past" for word in VERBS}
PLAIN = [
    (f"Day{at}", "the", noun, verb, "the", other, ".")
    for at, (noun, verb, other) in enumerate(itertools.product(NOUNS, VERBS, NOUNS))
]
COUNTS = count_bigrams(PLAIN)

MAKERS = {
    "SentLen": lambda seed, sizes: sentence_length_task(TEXT, seed=seed, sizes=sizes),
    "WC": lambda seed, sizes: word_content_task(
        made_text(900, words=20), n_words=8, skip=4, least=8, seed=seed, sizes=sizes
    ),
    "BShift": lambda seed, sizes: bigram_shift_task(TEXT, seed=seed, sizes=sizes),
    "SOMO": lambda seed, sizes: odd_word_task(
        PLAIN, counts=COUNTS, kinds=KINDS, seed=seed, sizes=sizes
    ),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("seed", range(3))
def test_classes_are_alike_and_parts_share_no_sentence(name, seed):
    task = MAKERS[name](seed, Sizes())
    assert task.name == name
    assert_sound(task)


@pytest.mark.parametrize("name", MAKERS)
def test_seeds_tell_tasks_apart(name):
    first, again, other = (MAKERS[name](seed, Sizes()) for seed in (0, 0, 1))
    assert first == again and first.version == again.version
    assert first != other and first.version != other.version


@pytest.mark.parametrize("name", ["SentLen", "BShift"])
def test_as_many_as_asked_for(name):
    task = MAKERS[name](0, Sizes(per_class=20, validation=0.2, test=0.3))
    n = len(task.classes)
    assert task.sizes == {"train": 10 * n, "validation": 4 * n, "test": 6 * n}
    assert_sound(task)


def test_lengths_are_told():
    task = sentence_length_task(TEXT, bins=[(5, 6), (9, 14)])
    for example in everything(task):
        low, high = map(int, example.label.split("-"))
        assert low <= len(example.words) <= high
    assert task.classes == ("5-6", "9-14")


def test_exactly_one_of_the_words_is_in_a_sentence():
    task = MAKERS["WC"](0, Sizes())
    for example in everything(task):
        assert set(example.words) & set(task.classes) == {example.label}
    frequent = Counter(word for words in made_text(900, words=20) for word in set(words))
    skipped = [word for word, _ in frequent.most_common(3)]
    assert not set(skipped) & set(task.classes)


def test_a_shift_is_one_swap_of_neighbors():
    task = MAKERS["BShift"](0, Sizes())
    sources = {" ".join(words): words for words in TEXT}
    assert {example.label for example in everything(task)} == {"original", "shifted"}
    for example in everything(task):
        source = sources[example.group]
        unlike = [at for at in range(len(source)) if source[at] != example.words[at]]
        if example.label == "original":
            assert not unlike
            continue
        first, second = unlike
        assert second == first + 1 and first > 0 and second < len(source) - 1
        assert (example.words[first], example.words[second]) == (source[second], source[first])


def test_sentences_that_cannot_be_shifted_are_left_out():
    fit = [("It", f"r{at}".replace("0", "o"), "x", "y") for at in "abcdefghijkl"]
    unfit = [("It", "is", "is", "."), ("It", "1", "is", ".")]
    result = everything(bigram_shift_task([*fit, *unfit]))
    assert result and {example.group for example in result} <= {" ".join(words) for words in fit}


def test_an_odd_word_is_one_of_like_frequency():
    sources = {words[0]: words for words in PLAIN}
    places = set()
    for example in everything(MAKERS["SOMO"](0, Sizes())):
        source = sources[example.words[0]]
        unlike = [at for at in range(len(source)) if source[at] != example.words[at]]
        if example.label == "original":
            assert not unlike
            continue
        (at,) = unlike
        assert example.group == f"replaced by {example.words[at]}"
        assert _alike(source, example.words, at, COUNTS)
        places.add(at)
    assert places == {2, 3, 5}


def test_replacements_agree_in_kind_and_neighbors():
    fit, rare, plural, strange = ([f"{kind}{at}" for at in "abcdefgh"] for kind in "frps")
    kinds = dict.fromkeys([*fit, *rare, *strange], "NOUN Sing") | dict.fromkeys(plural, "NOUN Plur")
    # Those that are rarer by more than a factor of 2, and those that never run, do not fit.
    counted = [("the", word, "ran") for word in [*fit, *plural] for _ in range(4)]
    counted += [("the", word, "ran") for word in rare]
    counted += [("the", word, "sat") for word in strange for _ in range(4)]
    text = [(f"Day{at}", "the", fit[at % 8], "ran", ".") for at in range(80)]
    task = odd_word_task(text, counts=count_bigrams(counted), kinds=kinds)
    odd = {example.words[2] for example in everything(task) if example.label == "odd"}
    assert len(odd) > 2 and odd <= set(fit)


def _alike(source, changed, at, counts):
    def result(words):
        return (
            counts.words[words[at]],
            counts.after[words[at - 1]][words[at]],
            counts.after[words[at]][words[at + 1]],
        )

    same_kind = KINDS[source[at]] == KINDS[changed[at]]
    return same_kind and all(
        0.5 <= one / other <= 2 for one, other in zip(result(source), result(changed), strict=True)
    )


def test_kinds_of_words_are_those_of_nearly_all_occurrences():
    text = "Dogs/NOUN/Number=Plur/nsubj/2 run/VERB/VerbForm=Fin|Tense=Pres/root/0"
    mixed = "a/DET/_/det/2 run/NOUN/Number=Sing/root/0"
    assert kinds_of_words([parsed(text)]) == {"dogs": "NOUN Plur", "run": "VERB Fin Pres"}
    both = [parsed(text)] * 3 + [parsed(mixed)]
    assert kinds_of_words(both) == {"dogs": "NOUN Plur"}
    assert kinds_of_words(both, share=0.7)["run"] == "VERB Fin Pres"


def test_bigrams_are_counted_in_lower_case():
    counts = count_bigrams([["A", "cat", "a", "cat"], ["cat"]])
    assert counts.words == {"a": 2, "cat": 3}
    assert counts.after == {"a": {"cat": 2}, "cat": {"a": 1}}
    assert counts.before == {"cat": {"a": 2}, "a": {"cat": 1}}


def test_sentences_that_come_again_are_left_out():
    assert distinct([("A", "b"), ("a", "B"), ("c",)]) == [("A", "b"), ("c",)]
    examples = [Example((f"w{at // 2}",), "xy"[at // 2 % 2], f"{at}") for at in range(40)]
    task = balanced_task("T", ("x", "y"), examples, seed=0, sizes=Sizes())
    assert sum(task.sizes.values()) == 20
    assert_sound(task)


def test_groups_stay_together():
    examples = [Example((f"w{at}",), "xy"[at % 2], f"group {at // 5}") for at in range(300)]
    task = balanced_task("T", ("x", "y"), examples, seed=0, sizes=Sizes())
    assert_sound(task)
    assert task.sizes["test"] > 20


# What is refused


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.1, 0.0), (0.5, 0.5)])
def test_every_part_has_a_share(shares):
    with pytest.raises(ExfamError, match="`validation` and `test` must be shares > 0 that leave"):
        Sizes(validation=shares[0], test=shares[1])
    with pytest.raises(ExfamError, match="`per_class` must be an integer >= 3, got 2"):
        Sizes(per_class=2)
    with pytest.raises(ExfamError, match="`per_class` must leave some to train .* 0.69, got 5"):
        Sizes(per_class=5, validation=0.3, test=0.69)


def test_too_few_sentences_are_told():
    with pytest.raises(
        DataError, match="`SentLen` must have at least 900 sentences of each class, got .* '5-8'"
    ):
        sentence_length_task(TEXT, sizes=Sizes(per_class=900))
    with pytest.raises(DataError, match="`SentLen` must have at least 3 .* got 0 of '40-50'"):
        sentence_length_task(TEXT, bins=[(5, 8), (40, 50)])
    one_group = [Example((f"w{at}",), "xy"[at % 2], f"{at % 2}") for at in range(40)]
    with pytest.raises(DataError, match="`T` must have at least 1 .* to put into valid.* got 0 of"):
        balanced_task("T", ("x", "y"), one_group, seed=0, sizes=Sizes())
    with pytest.raises(DataError, match="`T` must have sentences of at least two classes, got 1"):
        balanced_task("T", ("x",), one_group, seed=0, sizes=Sizes())


@pytest.mark.parametrize("bins", [[(5, 8), (8, 9)], [(9, 8)], [(10, 12), (5, 8)]])
def test_ranges_of_lengths_increase(bins):
    with pytest.raises(DataError, match="`bins` must be ranges that increase without overlap"):
        sentence_length_task(TEXT, bins=bins)


@pytest.mark.parametrize("bins", [[], [(5, 8)]])
def test_ranges_of_lengths_are_several(bins):
    with pytest.raises(DataError, match=f"`bins` must hold at least two ranges, got {len(bins)}"):
        sentence_length_task(TEXT, bins=bins)


@pytest.mark.parametrize("name", MAKERS)
def test_seeds_are_not_negative(name):
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        MAKERS[name](-1, Sizes())


def test_words_that_are_too_rare_are_told():
    with pytest.raises(DataError, match="at least two words that are alone in 20 of them, got 0"):
        word_content_task(TEXT[:30], skip=10)


def test_a_factor_below_1_is_refused():
    with pytest.raises(DataError, match="`factor` must be at least 1, got 0.5"):
        odd_word_task(PLAIN, counts=COUNTS, kinds=KINDS, factor=0.5)
