"""What gensim's users type works: gensim's own tests, but for the differences that are listed."""

import importlib
import re
import tempfile
import unittest
import warnings

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.vectors.gensim_names import INSTEAD
from words import gensim_adapter
from words.vector_cases import some_vectors

pytest.importorskip("gensim", reason="gensim, of the extra `test`, is not installed")

NEW = (
    "vectors are not changed in place, so that what was computed from them stays true",
    r"Use `WordVectors\(words, center\)`, which makes new ones",
)
COUNTS = (
    "counts belong to the vocabulary of a fitted model; a file of vectors holds none",
    "Use `vocabulary_.counts` of a fitted model",
)
# Test of gensim -> why exfam does otherwise, and how that test then ends.
DIFFERENT = {
    "Gensim320Test.test": ("pickles are not read: they can run code", "DataError: `path` must be"),
    "TestKeyedVectors.test_add_multiple": NEW,
    "TestKeyedVectors.test_add_single": NEW,
    "TestKeyedVectors.test_add_type": (
        "there are no vectors without words",
        "'NoneType' object has no attribute 'vectors'",
    ),
    "TestKeyedVectors.test_get_mean_vector": (
        "an unknown word is an error that names it, unless it may be left out",
        "got 'an out-of-vocabulary word'.*ignore_missing=True",
    ),
    "TestKeyedVectors.test_load_model_and_vocab_file_ignore": COUNTS,
    "TestKeyedVectors.test_load_model_and_vocab_file_replace": COUNTS,
    "TestKeyedVectors.test_load_model_and_vocab_file_strict": (
        "the error of a broken word is a DataError, which names line and file",
        "DataError: `path` must have words in UTF-8, .* at line 2 of .*errors='replace'",
    ),
    "TestKeyedVectors.test_most_similar_cosmul_parameter_types": (
        "products of similarities are the rule of analogies; other sums have no such rule",
        'Use `analogy\\(a, b, c, rule="3cosmul"\\)`',
    ),
    "TestKeyedVectors.test_most_similar_topn": (
        "no number means 10, and 0 is an error; all words at once are `distances`",
        "10 != 2747",
    ),
    "TestKeyedVectors.test_set_item": NEW,
    "TestKeyedVectors.test_vectors_for_all_with_copy_vecattrs": COUNTS,
    "TestKeyedVectors.test_vectors_for_all_without_copy_vecattrs": COUNTS,
}


def gensims(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def names():
    suite = unittest.defaultTestLoader.loadTestsFromModule(gensims("gensim.test.test_keyedvectors"))
    return sorted(".".join(test.id().split(".")[-2:]) for group in suite for test in group)


@pytest.fixture
def adapted(monkeypatch, tmp_path):
    tests, models = gensims("gensim.test.test_keyedvectors"), gensims("gensim.models")
    for module in (tests, models, models.keyedvectors):
        monkeypatch.setattr(module, "KeyedVectors", gensim_adapter.KeyedVectors)
    monkeypatch.setattr(models.keyedvectors, "_load_word2vec_format", gensim_adapter.loaded)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tests


@pytest.mark.parametrize("name", names())
def test_gensims_own_tests_pass_or_are_listed(adapted, name):
    case, method = name.split(".")
    result = unittest.TestResult()
    getattr(adapted, case)(method).run(result)
    assert result.testsRun == 1 and not result.skipped
    wrong = [text for _, text in (*result.errors, *result.failures)]
    if name not in DIFFERENT:
        assert not wrong, wrong[0]
        return
    reason, message = DIFFERENT[name]
    assert wrong, f"passes, though it is listed: {reason}"
    assert re.search(message, wrong[0]), wrong[0]


def test_all_that_is_listed_is_a_test():
    assert set(DIFFERENT) <= set(names())


@pytest.fixture(scope="module")
def both():
    """The same vectors of words in exfam and in gensim."""
    own = some_vectors(rows=40)
    theirs = gensims("gensim.models").KeyedVectors(own.dim)
    theirs.add_vectors(list(own.words), own.center)
    return own, theirs


VECTOR = np.arange(8.0)
# Of gensim's public names those that users hardly type.
INTERNAL = {
    "allocate_vecattrs",
    "intersect_word2vec_format",
    "log_accuracy",
    "log_evaluate_word_pairs",
    "resize_vectors",
    "similarity_unseen_docs",
    "sort_by_descending_frequency",
}
# What is typed in both, and gives the same.
SAME = {
    "rows": lambda v: v[["w3", "w1", 7]],
    "row": lambda v: v[5],
    "inside": lambda v: ["w3" in v, 3 in v, "x" in v, 40 in v, len(v)],
    "names": lambda v: [list(v.index_to_key), v.key_to_index["w9"], v.vector_size],
    "norms": lambda v: np.linalg.norm(v.vectors, axis=1),
    "topn": lambda v: v.most_similar("w1", topn=3),
    "weights": lambda v: v.most_similar([("w1", 0.5), "w2", (VECTOR, 2.0), 4], topn=9),
    "matrix": lambda v: v.most_similar(v.vectors[:3] / 7, ["w5", "w6"]),
    "similar_by_word": lambda v: v.similar_by_word("w4", topn=2),
    "similar_by_vector": lambda v: v.similar_by_vector(VECTOR, topn=2),
    "similarity": lambda v: v.similarity("w1", 2),
    "distance": lambda v: v.distance("w1", "w2"),
    "distances": lambda v: v.distances("w1"),
    "distances of some": lambda v: v.distances(VECTOR, ["w3", "w1"]),
    "n_similarity": lambda v: v.n_similarity(["w1", "w2", "w3"], ["w4", "w1"]),
    "doesnt_match": lambda v: [v.doesnt_match([f"w{j}", "w3", "w5", "w9"]) for j in range(10, 40)],
    "given": lambda v: v.most_similar_to_given("w1", ["w2", "w7", "w9", "w11"]),
    "rank": lambda v: [v.rank("w1", word) for word in v.index_to_key],
    "closer_than": lambda v: sorted(v.closer_than("w1", "w2")),
    "mean": lambda v: v.get_mean_vector(["w1", "w2", VECTOR]),
    "plain mean": lambda v: v.get_mean_vector(["w1", 2, 3], [1.0, -2.0, 0.5], pre_normalize=False),
    "unit mean": lambda v: v.get_mean_vector(["w1", "w2"], post_normalize=True),
}  # fmt: skip


def plain(result):
    """Words and numbers apart."""
    if isinstance(result, list) and result and isinstance(result[0], tuple):
        words, scores = zip(*result, strict=True)
        return list(words), np.array(scores)
    return (result, 0.0) if isinstance(result, str | list) else ([], np.asarray(result))


@pytest.mark.parametrize("use", SAME)
def test_the_same_words_give_the_same_as_in_gensim(both, use):
    (words, numbers), (their_words, their_numbers) = (plain(SAME[use](v)) for v in both)
    assert words == their_words
    np.testing.assert_allclose(numbers, their_numbers, atol=2e-6)


def test_negative_weights_are_refused_which_gensim_adds(both):
    own, theirs = both
    # In gensim the weight of a negative word is not turned round: it must be given as -0.5.
    subtracted = theirs.most_similar(["w1"], [("w2", -0.5)], topn=3)
    assert [near.word for near in own.most_similar("w1", [("w2", 0.5)], topn=3)] == [
        word for word, _ in subtracted
    ]
    with pytest.raises(ExfamError, match=r"`negative` must have weights > 0, got -0.5\. The words"):
        own.most_similar("w1", [("w2", -0.5)])


@pytest.mark.parametrize("name", INSTEAD)
def test_names_of_gensim_that_are_not_here_say_what_to_write(both, name):
    own, _ = both
    keyed = gensims("gensim.models").KeyedVectors
    assert name in vars(keyed) and not hasattr(own, name)
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. Use "):
        getattr(own, name)
    for call in re.findall(r"(?<!exfam\.)vectors\.(\w+)|^`(\w+)\(", INSTEAD[name]):
        assert hasattr(own, "".join(call)) or call[1] == "WordVectors"


def test_every_public_name_of_gensim_is_here_or_points_to_what_is(both):
    own, _ = both
    public = {name for name in vars(gensims("gensim.models").KeyedVectors) if name[0] != "_"}
    absent = {name for name in public if not hasattr(own, name)} - set(INSTEAD)
    assert absent == INTERNAL
    with pytest.raises(AttributeError, match="no attribute 'colour'$"):
        _ = own.colour
