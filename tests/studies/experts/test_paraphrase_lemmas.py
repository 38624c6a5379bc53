"""Lemmas 11 and 15 are identities, and say so where what they assume is not."""

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.experts.paraphrases import (
    WordLaw,
    check_lemma_11,
    check_lemma_15,
    disjoint_pairs,
)
from exfam_studies.experts.toy_sentences import toy_population, toy_sentences
from studies.experts.paraphrase_cases import MASK, drawn_tau, toy_windows


def drawn(seed=0):
    words = toy_windows().words
    return dict(zip(words, drawn_tau(len(words), seed).tolist(), strict=True)), MASK


def some_pairs():
    return disjoint_pairs(toy_windows().words)[::10]


def test_lemma_11_is_an_identity_on_the_toy_grammar():
    check = check_lemma_11(*toy_population())
    assert check.applies and check.holds
    assert check.measured["max difference"] < 1e-8
    # All pairs of sets of two of 12 words that share none; 31 % of the cells are finite.
    assert check.measured["pairs of sets"] == 66 * 45 / 2
    assert check.measured["cells"] == 1485 * 12
    assert check.measured["finite cells"] == 5549


def test_lemma_15_is_an_identity_on_the_toy_grammar():
    check = check_lemma_15(*toy_population(), tau=drawn())
    assert check.applies and check.holds and check.measured["max difference"] < 1e-8
    assert check.measured["finite cells"] == 5549


def test_the_identities_hold_for_larger_sets_and_narrow_windows():
    words = ["mathematics", "history", "fun", "boring", "is", "and"]
    for size, window in ((1, 1), (2, 2), (3, None)):
        pairs = disjoint_pairs(words, size)
        for check in (
            check_lemma_11(*toy_population(), pairs=pairs, window=window),
            check_lemma_15(*toy_population(), tau=drawn(), pairs=pairs, window=window),
        ):
            assert check.holds and check.measured["finite cells"] > 0


def test_they_hold_for_samples_as_for_populations():
    sentences = [tuple(each) for each in toy_sentences(500, seed=0)]
    different = sorted(set(sentences))
    counts = np.array([float(sentences.count(each)) for each in different])
    check = check_lemma_11(different, counts, pairs=some_pairs())
    assert check.holds and check.measured["finite cells"] > 100


def test_sets_of_other_sizes_are_no_case_of_the_lemma():
    check = check_lemma_11(*toy_population(), pairs=[(("boring", "history"), ("is",))])
    assert not check.applies and not check.holds
    assert "2 and 1 in W = {boring, history}, W* = {is}" in check.failed_assumptions[0]
    # log |V| is left over.
    assert check.measured["max difference"] == pytest.approx(np.log(12))


def test_sets_that_never_occur_are_no_case_of_the_lemma():
    check = check_lemma_15(
        *toy_population(), tau=drawn(), pairs=[(("I", "is"), ("fun", "history"))]
    )
    assert not check.applies and check.measured["finite cells"] == 0
    assert check.failed_assumptions[0] == "p(W) must be above 0, got 0 for {I, is}"


def test_a_wrong_probability_is_found(monkeypatch):
    right = WordLaw._drawn
    monkeypatch.setattr(
        WordLaw, "_drawn", lambda law, at, members: right(law, at, members) * (1 + at % 3)
    )
    check = check_lemma_11(*toy_population(), pairs=some_pairs())
    assert not check.holds and check.measured["max difference"] > 0.1


def test_what_is_missing_is_told():
    of_word, of_mask = drawn()
    del of_word["fun"]
    with pytest.raises(DataError, match="`tau` must have a number for each word, got none for 'f"):
        check_lemma_15(*toy_population(), tau=(of_word, of_mask))
    with pytest.raises(DataError, match="`pairs` must hold at least one pair"):
        check_lemma_11(*toy_population(), pairs=[])
