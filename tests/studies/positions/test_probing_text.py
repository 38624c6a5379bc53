"""Probing tasks made of raw sentences: labels, what was changed, and how they are divided."""

import itertools
from collections import Counter
from functools import partial

import pytest

from exfam.checks import DataError
from exfam_studies.positions.linguistic.balancing import Example, balanced_task, distinct
from exfam_studies.positions.linguistic.of_sentences import (
    bigram_shift_task,
    count_bigrams,
    kinds_of_words,
    odd_word_task,
    sentence_length_task,
    word_content_task,
)
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
    "SentLen": partial(sentence_length_task, TEXT),
    "WC": partial(word_content_task, made_text(900, words=20), n_words=8, skip=4, least=8),
    "BShift": partial(bigram_shift_task, TEXT),
    "SOMO": partial(odd_word_task, PLAIN, counts=COUNTS, kinds=KINDS),
}


@pytest.mark.parametrize("name", MAKERS)
def test_classes_are_alike_and_parts_share_no_sentence(name):
    task = MAKERS[name]()
    assert task.name == name
    assert_sound(task)
    assert task == MAKERS[name]() != MAKERS[name](seed=1)


def test_lengths_are_labels_of_as_many_examples_as_wanted():
    task = sentence_length_task(TEXT, bins=[(5, 6), (9, 14)], per_class=20)
    assert task.sizes == {"train": 28, "validation": 6, "test": 6}
    for example in everything(task):
        low, high = map(int, example.label.split("-"))
        assert low <= len(example.words) <= high
    assert task.classes == ("5-6", "9-14")


def test_exactly_one_of_the_words_is_in_a_sentence():
    task = MAKERS["WC"]()
    for example in everything(task):
        assert set(example.words) & set(task.classes) == {example.label}
    frequent = Counter(word for words in made_text(900, words=20) for word in set(words))
    skipped = [word for word, _ in frequent.most_common(3)]
    assert not set(skipped) & set(task.classes)


def changes(task, sources, key):
    """Source, example, and the indices at which they differ, of examples that were changed."""
    for example in everything(task):
        source = sources[key(example)]
        unlike = [at for at in range(len(source)) if source[at] != example.words[at]]
        assert (example.label == "original") == (not unlike)
        if unlike:
            yield source, example, unlike


def test_a_shift_is_one_swap_of_neighbors():
    sources = {" ".join(words): words for words in TEXT}
    for source, example, (first, second) in changes(
        MAKERS["BShift"](), sources, lambda example: example.group
    ):
        assert second == first + 1 and first > 0 and second < len(source) - 1
        assert (example.words[first], example.words[second]) == (source[second], source[first])


def test_an_odd_word_is_one_of_like_frequency():
    sources = {words[0]: words for words in PLAIN}
    positions = set()
    for source, example, (at,) in changes(
        MAKERS["SOMO"](), sources, lambda example: example.words[0]
    ):
        assert example.group == f"replaced by {example.words[at]}"
        assert _alike(source, example.words, at, COUNTS)
        positions.add(at)
    assert positions == {2, 3, 5}


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
        before, word, after = words[at - 1 : at + 2]
        return counts.words[word], counts.after[before][word], counts.after[word][after]

    ratios = [one / other for one, other in zip(result(source), result(changed), strict=True)]
    return KINDS[source[at]] == KINDS[changed[at]] and 0.5 <= min(ratios) <= max(ratios) <= 2


def test_kinds_of_words_are_those_of_nearly_all_occurrences():
    text = "Dogs/NOUN/Number=Plur/nsubj/2 run/VERB/VerbForm=Fin|Tense=Pres/root/0"
    mixed = "a/DET/_/det/2 run/NOUN/Number=Sing/root/0"
    assert kinds_of_words([parsed(text)]) == {"dogs": "NOUN Plur", "run": "VERB Fin Pres"}
    both = [parsed(text)] * 3 + [parsed(mixed)]
    assert kinds_of_words(both) == {"dogs": "NOUN Plur"}


def test_sentences_that_come_again_are_left_out():
    assert distinct([("A", "b"), ("a", "B"), ("c",)]) == [("A", "b"), ("c",)]
    examples = [Example((f"w{at // 2}",), "xy"[at // 2 % 2], f"{at}") for at in range(40)]
    task = balanced_task("T", ("x", "y"), examples)
    assert sum(task.sizes.values()) == 20
    assert_sound(task)


def test_too_few_sentences_are_named():
    few = "`SentLen` must have at least 630 sentences of each class to put into train, got .* of"
    with pytest.raises(DataError, match=few):
        sentence_length_task(TEXT, per_class=900)
    with pytest.raises(DataError, match="`SentLen` must have at least 1 .* got 0 of '40-50'"):
        sentence_length_task(TEXT, bins=[(5, 8), (40, 50)])
    with pytest.raises(DataError, match="`T` must have sentences of at least two classes, got 1"):
        balanced_task("T", ("x",), [Example(("w",), "x", "")])
    with pytest.raises(DataError, match="at least two words that are alone in 20 of them, got 0"):
        word_content_task(TEXT[:30], n_words=1000, skip=10, least=20)
