"""The paper's statements hold where its assumptions do, and say so where those fail."""

import numpy as np
import pytest
import scipy.stats

from exfam_studies.reflections.theorems import (
    check_lemma_1,
    check_lemma_2,
    check_lemma_3,
    check_theorem_1,
)
from words.simulated_words import simulate_words

DIM, N = 60, 1_000


@pytest.fixture(scope="module")
def truth():
    return simulate_words(N, dim=DIM, seed=0)


def rotation(seed=1):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((DIM, DIM)))[0]


def uneven(words):
    """Vectors of the same directions and very different lengths, as frequent and rare words'."""
    length = np.random.default_rng(2).exponential(size=(len(words), 1))
    return words * length


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_positive", [0, 20, 30, 60])
def test_lemmas_1_and_2_hold_with_any_signs(seed, n_positive):
    truth = simulate_words(N, dim=DIM, n_positive=n_positive, seed=seed)
    for check in (
        check_lemma_1(truth.words, truth.transform, t=2.0),
        check_lemma_2(truth.words, truth.transform, truth.probability),
    ):
        assert check.applies and check.holds, check


def test_lemma_1_holds_for_rotations_and_half_turns(truth):
    turn = np.kron(np.eye(DIM // 2), [[0.0, 1.0], [-1.0, 0.0]])
    for transform in (rotation(), turn):
        check = check_lemma_1(truth.words, transform, t=1.5)
        assert check.applies and check.holds, check
    # w'Qw is 0 for every w where Q turns all by a right angle.
    assert check.measured["variance"] == pytest.approx(0, abs=1e-25)


def test_lemma_1_counts_what_exceeds_the_bound(truth):
    check = check_lemma_1(truth.words, np.eye(DIM), t=1.0)
    exceeding = np.abs((truth.words**2).sum(axis=1) - 1) > np.sqrt(2 / DIM)
    assert check.measured["exceeding share"] == pytest.approx(exceeding.mean())
    # Nearly normal: about a third is more than one standard deviation away.
    assert check.measured["exceeding share"] == pytest.approx(2 * scipy.stats.norm.sf(1), abs=0.06)
    assert check.expected["variance"] == pytest.approx(2 / DIM)


def test_lemma_1_says_what_of_its_assumptions_fails(truth):
    check = check_lemma_1(uneven(truth.words), np.eye(DIM), t=3.0)
    assert not check.holds and "squared lengths" in " ".join(check.failed_assumptions)
    assert {words[:6] for words in check.failed_conclusions} == {"eq. 9:", "eq. 10"}
    check = check_lemma_1(truth.words, 3 * np.eye(DIM), t=2.0)
    assert check.failed_assumptions == (
        "assumption 2: Q must be orthogonal, got |QQ' - 1| / sqrt(dim) = 8",
    )


def test_lemma_2_says_what_of_its_assumptions_fails(truth):
    check = check_lemma_2(truth.words, truth.transform, truth.probability)
    assert check.measured["alpha"] == pytest.approx(0.25)
    share = np.full(N, 0.5 / (N - 1))
    share[0] = 0.5
    check = check_lemma_2(truth.words, truth.transform, share)
    assert not check.applies and "assumption 3" in check.failed_assumptions[0]
    assert not check.holds and "eq. 25" in check.failed_conclusions[0]
    check = check_lemma_2(3 * truth.words, truth.transform, truth.probability)
    assert "assumption 1" in check.failed_assumptions[0]
    assert "eq. 18" in check.failed_conclusions[0]


def test_lemma_3_holds_for_reflections(truth):
    basis = rotation()
    turned = simulate_words(N, dim=DIM, transform=basis @ truth.transform @ basis.T, seed=0)
    for simulated in (truth, turned):
        check = check_lemma_3(simulated.words, simulated.information())
        assert check.applies and check.holds, check


def test_lemma_3_says_what_of_its_assumptions_fails(truth):
    turned = simulate_words(N, dim=DIM, transform=rotation(), seed=0)
    check = check_lemma_3(turned.words, turned.information())
    assert "information must be symmetric" in check.failed_assumptions[0]
    assert "eq. 27" in check.failed_conclusions[0]
    scale = np.diag(np.linspace(0.2, 2, DIM))
    check = check_lemma_3(truth.words, truth.words @ scale @ truth.words.T)
    assert check.measured["asymmetry"] < 1e-12
    assert "assumption 2" in check.failed_assumptions[0] and not check.holds


@pytest.mark.parametrize("seed", range(3))
def test_theorem_1_holds_with_half_of_the_signs(seed):
    truth = simulate_words(N, dim=DIM, seed=seed)
    check = check_theorem_1(truth.words, truth.information())
    assert check.applies and check.holds, check
    assert check.measured["share of +1"] == 0.5
    assert check.measured["off-diagonal variance"] == pytest.approx(1 / DIM, rel=0.05)


@pytest.mark.parametrize("n_positive", [0, 48, 60])
def test_theorem_1_says_that_the_trace_is_not_zero(n_positive):
    truth = simulate_words(N, dim=DIM, n_positive=n_positive, seed=0)
    check = check_theorem_1(truth.words, truth.information())
    assert not check.holds and check.measured["share of +1"] == n_positive / DIM
    # All else that it assumes is so: assumptions 1 to 3 leave the number of signs open.
    assert len(check.failed_assumptions) == 1 and "equation 36" in check.failed_assumptions[0]
    assert check.measured["trace / n"] == pytest.approx(2 * n_positive / DIM - 1, abs=0.05)
    assert check.measured["diagonal mean"] == pytest.approx(
        check.expected["diagonal mean"], abs=0.05
    )


def test_theorem_1_says_that_vectors_are_not_gaussian(truth):
    words = uneven(truth.words)
    check = check_theorem_1(words, words @ truth.transform @ words.T)
    assert "assumption 1" in check.failed_assumptions[0]
    assert {text[:6] for text in check.failed_conclusions} >= {"eq. 31", "eq. 32"}
