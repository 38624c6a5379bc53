"""Probing tasks drawn from parses and from text."""

import itertools
from collections import Counter
from functools import partial

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam_studies.positions.linguistic.balancing import Example, balanced_task, distinct
from exfam_studies.positions.linguistic.of_parses import (
    coordination_inversion_task,
    feature_task,
    top_constituents_task,
    tree_depth_task,
)
from exfam_studies.positions.linguistic.of_sentences import (
    bigram_shift_task,
    count_bigrams,
    kinds_of_words,
    odd_word_task,
    sentence_length_task,
    word_content_task,
)
from exfam_studies.positions.trees import parse_brackets
from studies.positions.probing_cases import assert_sound, everything, made_text, parsed

FINITE = "VERB/VerbForm=Fin|Tense="


def spelled(at):
    """A word of its own for each number."""
    return "".join("abcdefghij"[int(digit)] for digit in str(at))


def clause(at, *, tense="Past", subject="Sing", object_="Sing"):
    """Subject, verb, object and a full stop, of words whose forms show their features."""
    verb = f"v{tense}{at}/{FINITE}{tense}/root/0"
    return parsed(
        f"x{subject}{spelled(at)}/NOUN/Number={subject}/nsubj/2 {verb} "
        f"y{object_}{spelled(at)}/NOUN/Number={object_}/obj/2 ./PUNCT/_/punct/2"
    )


CLAUSES = [
    clause(at, tense=tense, subject=subject, object_=object_)
    for at in range(6)
    for tense in ("Past", "Pres")
    for subject in ("Sing", "Plur")
    for object_ in ("Sing", "Plur")
]
NAMES = {"Past": "past", "Pres": "present", "Sing": "singular", "Plur": "plural"}


@pytest.mark.parametrize(("name", "position"), [("Tense", 1), ("SubjNum", 0), ("ObjNum", 2)])
@pytest.mark.parametrize("seed", range(2))
def test_features_of_the_main_clause_are_labels(name, position, seed):
    task = feature_task(name, CLAUSES, seed=seed)
    assert_sound(task)
    assert task.name == name and task == feature_task(name, CLAUSES, seed=seed)
    for example in everything(task):
        word = example.words[position]
        assert example.label == NAMES[word[1:5]]
        assert example.group == word.lower()


AUXILIARY = f"He/PRON/_/nsubj/3 has/AUX/VerbForm=Fin|Tense=Pres/aux/3 gone/{FINITE}Past/root/0"
PARTICIPLE = "Gone/VERB/VerbForm=Part|Tense=Past/root/0"
BELOW = (
    f"say/{FINITE}Pres/root/0 dogs/NOUN/Number=Plur/nsubj/3 bit/{FINITE}Past/ccomp/1 "
    "men/NOUN/Number=Plur/obj/3"
)
PRONOUN = f"We/PRON/Number=Plur/nsubj/2 saw/{FINITE}Past/root/0 them/PRON/Number=Plur/obj/2"
PASSIVE = "Dogs/NOUN/Number=Plur/nsubj:pass/2 seen/VERB/VerbForm=Part/root/0"


@pytest.mark.parametrize(
    ("name", "text", "label"),
    [
        ("Tense", AUXILIARY, None),
        ("Tense", PARTICIPLE, None),
        ("Tense", BELOW, "present"),
        ("SubjNum", BELOW, None),
        ("SubjNum", PRONOUN, None),
        ("SubjNum", PASSIVE, "plural"),
        ("ObjNum", BELOW, None),
    ],
)
def test_only_the_main_clause_counts(name, text, label):
    case = parsed(text)
    # So many alike that one of them is drawn, whatever the seed, if they count at all.
    many = [
        parsed(" ".join([*text.split(), f"w{spelled(at)}/X/_/dep/{int(case.heads.argmin()) + 1}"]))
        for at in range(60)
    ]
    task = feature_task(name, [*many, *CLAUSES])
    matches = [entry for entry in everything(task) if entry.words[: len(case)] == case.words]
    if label is None:
        assert not matches
    else:
        assert matches and {entry.label for entry in matches} == {label}


# Two clauses


def pair(first="Cats", tag="NOUN", tail=""):
    return parsed(
        f"{first}/{tag}/_/nsubj/2 sleep/VERB/_/root/0 ,/PUNCT/_/punct/6 and/CCONJ/_/cc/6 "
        f"dogs/NOUN/_/nsubj/6 bark/VERB/_/conj/2 {tail} !/PUNCT/_/punct/2"
    )


FILLERS = [pair(f"C{spelled(at)}s") for at in range(40)]


@pytest.mark.parametrize(
    ("case", "inverted"),
    [
        (pair(), "Dogs bark , and cats sleep !"),
        (pair("Ann", "PROPN"), "Dogs bark , and Ann sleep !"),
        (pair("I", "PRON"), "Dogs bark , and I sleep !"),
        (pair(tail="loudly/ADV/_/advmod/6"), "Dogs bark loudly , and cats sleep !"),
        (
            parsed("It/PRON/_/nsubj/2 rains/VERB/_/root/0 or/CCONJ/_/cc/5 it/PRON/_/nsubj/5 "
                   "snows/VERB/_/conj/2"),
            "It snows or it rains",
        ),
    ],
)  # fmt: skip
def test_clauses_change_places(case, inverted):
    result = everything(coordination_inversion_task([case, *FILLERS]))
    own = {entry.label: entry.words for entry in result if entry.group == " ".join(case.words)}
    assert own == {"original": case.words, "inverted": tuple(inverted.split())}


@pytest.mark.parametrize(
    "text",
    [
        # Without a second subject; with a third clause; with something behind; begun by "and".
        "A/NOUN/_/nsubj/2 b/VERB/_/root/0 and/CCONJ/_/cc/4 c/VERB/_/conj/2",
        "A/NOUN/_/nsubj/2 b/VERB/_/root/0 and/CCONJ/_/cc/5 c/NOUN/_/nsubj/5 d/VERB/_/conj/2 "
        "and/CCONJ/_/cc/8 e/NOUN/_/nsubj/8 f/VERB/_/conj/2",
        "A/NOUN/_/nsubj/2 b/VERB/_/root/0 and/CCONJ/_/cc/5 c/NOUN/_/nsubj/5 d/VERB/_/conj/2 "
        "e/ADV/_/advmod/2",
        "And/CCONJ/_/cc/3 a/NOUN/_/nsubj/3 b/VERB/_/root/0 and/CCONJ/_/cc/6 c/NOUN/_/nsubj/6 "
        "d/VERB/_/conj/3",
        # Without a conjunction; with a subject of the second clause before the first.
        "A/NOUN/_/nsubj/2 b/VERB/_/root/0 ,/PUNCT/_/punct/5 c/NOUN/_/nsubj/5 d/VERB/_/conj/2",
        "A/NOUN/_/nsubj/6 b/NOUN/_/nsubj/3 c/VERB/_/root/0 and/CCONJ/_/cc/6 d/NOUN/_/nsubj/6 "
        "e/VERB/_/conj/3",
    ],
)
def test_other_sentences_are_no_two_clauses(text):
    case = parsed(text)
    result = everything(coordination_inversion_task([case, *FILLERS]))
    assert result and not [entry for entry in result if entry.group == " ".join(case.words)]


def test_both_orders_have_the_same_words_in_one_part():
    task = coordination_inversion_task(FILLERS)
    for examples in task.parts.values():
        bags = Counter(tuple(sorted(map(str.lower, entry.words))) for entry in examples)
        assert set(bags.values()) == {2}
    assert len({entry.group for entry in everything(task)}) == len(FILLERS)


# Constituents


def tree(text):
    return parse_brackets(text, where="here")


def nested(levels, words, name):
    """A tree of so many levels; words are all its own."""
    inner = " ".join(f"(X {name}{spelled(at)})" for at in range(words))
    return tree(f"(ROOT {'(S ' * (levels - 2)}{inner}{')' * (levels - 2)})")


@pytest.mark.parametrize("seed", range(2))
def test_depths_are_labels_whatever_the_length(seed):
    random = np.random.default_rng(seed)
    # Long sentences are deep, as they are in earnest.
    trees = [
        nested(int(np.clip(words + random.integers(-2, 3), 3, None)), words, f"w{spelled(at)}z")
        for at in range(400)
        for words in [int(random.integers(3, 9))]
    ]
    groups = [f"{at // 3}" for at in range(400)]
    task = tree_depth_task(trees, groups, depths=(5, 7), seed=seed)
    assert task.classes == ("<=4", "5-6", ">=7")
    assert task == tree_depth_task(trees, groups, depths=(5, 7), seed=seed)
    depths = {leaf: own.height() - 1 for own in trees for leaf in own.leaves()}
    lengths = {label: Counter() for label in task.classes}
    for example in everything(task):
        depth = depths[example.words[0]]
        assert example.label == ("<=4" if depth <= 4 else "5-6" if depth <= 6 else ">=7")
        lengths[example.label][len(example.words)] += 1
    means = [np.average(list(entry), weights=list(entry.values())) for entry in lengths.values()]
    assert np.ptp(means) < 0.4
    shared = Counter(group for part in task.parts.values() for group in {e.group for e in part})
    assert set(shared.values()) == {1}


def test_top_constituents_are_labels():
    shapes = {
        "S: NP VP": "(ROOT (S (NP (N a{0})) (VP (V b{0}))))",
        "NP: NP PP": "(ROOT (NP (NP (N a{0})) (PP (P c{0}))))",
        "other": "(ROOT (FRAG (N a{0}) (X d{0}) (X {0})))",
    }
    counts = {"S: NP VP": 40, "NP: NP PP": 30, "other": 12}
    trees = [
        tree(shapes[label].format(spelled(at))) for label, n in counts.items() for at in range(n)
    ]
    task = top_constituents_task(trees, [f"{at}" for at in range(len(trees))], least=20)
    assert task.classes == ("S: NP VP", "NP: NP PP", "other")
    assert_sound(task)
    for example in everything(task):
        kind = {"b": "S: NP VP", "c": "NP: NP PP", "d": "other"}[example.words[1][0]]
        assert example.label == kind
    fewer = top_constituents_task(trees, [f"{at // 2}" for at in range(82)], n_frequent=1, least=20)
    assert fewer.classes == ("S: NP VP", "other")
    assert max(Counter(entry.group for entry in everything(fewer)).values()) == 2


def test_too_few_sentences_of_a_class_are_refused():
    trees = [nested(5, 3, "a"), nested(4, 3, "b")]
    with pytest.raises(DataError, match="`TopConst` must have sentences of at least two classes"):
        top_constituents_task(trees, ["a", "b"])
    with pytest.raises(DataError, match="`Tense` must have at least 1 sentences of each class"):
        feature_task("Tense", [clause(at, tense="Past") for at in range(9)])
    with pytest.raises(ExfamError, match="`name` must be one of 'Tense', 'SubjNum', 'ObjNum', got"):
        feature_task("Number", CLAUSES)


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
