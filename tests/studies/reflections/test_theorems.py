"""The paper's statements hold where its assumptions do, and say so where those fail."""

import numpy as np
import pytest

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


@pytest.fixture(scope="module")
def uneven(truth):
    """Vectors of the same directions and very different lengths, as frequent and rare words'."""
    return truth.words * np.random.default_rng(2).exponential(size=(N, 1))


ROTATION = np.linalg.qr(np.random.default_rng(1).standard_normal((DIM, DIM)))[0]


def failed(check):
    assert not check.applies
    return " ".join(check.failed_assumptions)


def test_lemma_1(truth, uneven):
    turn = np.kron(np.eye(DIM // 2), [[0.0, 1.0], [-1.0, 0.0]])
    for transform in (truth.transform, ROTATION, turn):
        check = check_lemma_1(truth.words, transform, t=1.5)
        assert check.applies and check.holds, check
    # w'Qw is 0 for every w where Q turns all by a right angle.
    assert check.measured["variance"] == pytest.approx(0, abs=1e-25)
    check = check_lemma_1(truth.words, np.eye(DIM), t=1.0)
    exceeding = np.abs((truth.words**2).sum(axis=1) - 1) > np.sqrt(2 / DIM)
    assert check.measured["exceeding share"] == pytest.approx(exceeding.mean())
    assert check.expected["variance"] == pytest.approx(2 / DIM)
    check = check_lemma_1(uneven, np.eye(DIM), t=3.0)
    assert "squared lengths" in failed(check)
    assert {words[:6] for words in check.failed_conclusions} == {"eq. 9:", "eq. 10"}
    check = check_lemma_1(truth.words, 3 * np.eye(DIM), t=2.0)
    assert failed(check) == "assumption 2: Q must be orthogonal, got |QQ' - 1| / sqrt(dim) = 8"


def test_lemma_2(truth):
    check = check_lemma_2(truth.words, truth.transform, truth.probability)
    assert check.applies and check.holds, check
    assert check.measured["alpha"] == pytest.approx(0.25)
    share = np.full(N, 0.5 / (N - 1))
    share[0] = 0.5
    check = check_lemma_2(truth.words, truth.transform, share)
    assert "assumption 3" in failed(check) and "eq. 25" in check.failed_conclusions[0]
    check = check_lemma_2(3 * truth.words, truth.transform, truth.probability)
    assert "assumption 1" in failed(check) and "eq. 18" in check.failed_conclusions[0]


def test_lemma_3(truth):
    for transform in (truth.transform, ROTATION @ truth.transform @ ROTATION.T):
        simulated = simulate_words(N, dim=DIM, transform=transform, seed=0)
        check = check_lemma_3(simulated.words, simulated.information())
        assert check.applies and check.holds, check
    turned = simulate_words(N, dim=DIM, transform=ROTATION, seed=0)
    check = check_lemma_3(turned.words, turned.information())
    assert "information must be symmetric" in failed(check)
    assert "eq. 27" in check.failed_conclusions[0]
    scale = np.diag(np.linspace(0.2, 2, DIM))
    check = check_lemma_3(truth.words, truth.words @ scale @ truth.words.T)
    assert "assumption 2" in failed(check) and not check.holds


@pytest.mark.parametrize("n_positive", [0, 30, 48])
def test_theorem_1(n_positive):
    truth = simulate_words(N, dim=DIM, n_positive=n_positive, seed=0)
    check = check_theorem_1(truth.words, truth.information())
    assert check.measured["share of +1"] == n_positive / DIM
    assert check.measured["off-diagonal variance"] == pytest.approx(1 / DIM, rel=0.05)
    assert check.measured["trace / n"] == pytest.approx(2 * n_positive / DIM - 1, abs=0.05)
    means = (figures["diagonal mean"] for figures in (check.measured, check.expected))
    assert next(means) == pytest.approx(next(means), abs=0.05)
    assert check.applies == check.holds == (n_positive == 30)
    if n_positive != 30:
        # All else that it assumes is so: assumptions 1 to 3 leave the number of signs open.
        assert len(check.failed_assumptions) == 1 and "equation 36" in failed(check)


def test_theorem_1_says_that_vectors_are_not_gaussian(truth, uneven):
    check = check_theorem_1(uneven, uneven @ truth.transform @ uneven.T)
    assert "assumption 1" in failed(check)
    assert {text[:6] for text in check.failed_conclusions} >= {"eq. 31", "eq. 32"}
