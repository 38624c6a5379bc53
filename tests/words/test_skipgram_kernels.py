"""The compiled steps of skip-gram and CBOW against float64 and by their laws."""

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from scipy.special import expit

from exfam.checks import DataError
from exfam.kernels.alias import alias_table, draw_word, next_bits
from exfam.kernels.borrowing import borrowed
from exfam.kernels.sampled import train_cbow, train_skipgram
from exfam.kernels.windows import logistic
from words.skipgram_cases import (
    NEGATIVES,
    NOISE_WORD,
    TIES,
    gradients,
    loss,
    matrices_of,
    plain,
    plan_of,
    run,
    sampling_of,
)

KERNELS = pytest.mark.parametrize("kernel", [train_skipgram, train_cbow], ids=["skip-gram", "cbow"])
# Of the text 0 1 2 with windows of 1: all of them are one group.
WINDOWS = [(0, [1]), (1, [0, 2]), (2, [1])]


@KERNELS
@pytest.mark.parametrize(("tie", "noise"), [*((tie, NOISE_WORD) for tie in TIES), (None, 1)])
def test_a_step_is_the_gradient(kernel, tie, noise):
    """Of a negative that is a window's center for the other windows of the group alone."""
    mean = kernel is train_cbow
    matrices = matrices_of(tie)
    before, signs = plain(matrices), matrices.stored().get("signs")
    expected = gradients(before, signs, WINDOWS, mean=mean, noise=noise)
    totals = run(kernel, [0, 1, 2], matrices, sampling=sampling_of([noise]), plan=plan_of())
    after = plain(matrices)
    assert set(expected) == set(after)
    if "transform" in expected:
        # All three windows train it: it takes the mean of their steps.
        expected["transform"] /= len(WINDOWS)
    for name in after:
        assert np.abs(expected[name]).max() > 0.1
        np.testing.assert_allclose(before[name] - after[name], expected[name], atol=2e-6)
    nats = loss(before, signs, WINDOWS, mean=mean, noise=noise)
    assert totals[0] == pytest.approx(nats, rel=1e-5)
    if noise == NOISE_WORD:
        assert totals[1] == (3 if mean else 4) * (1 + NEGATIVES)


@KERNELS
def test_negatives_count_by_their_weight(kernel):
    """Four of half the weight are two."""
    steps = []
    for plan in (plan_of(negatives=2), plan_of(negatives=4, weight=0.5)):
        matrices = matrices_of(None)
        totals = run(kernel, [0, 1, 2], matrices, sampling=sampling_of([3]), plan=plan)
        steps.append((matrices, totals))
    (two, of_two), (four, of_four) = steps
    np.testing.assert_allclose(two.center, four.center, atol=2e-6)
    np.testing.assert_allclose(two.context, four.context, atol=2e-6)
    assert of_two == pytest.approx(of_four, rel=1e-6)


def test_the_same_word_twice_in_a_window_takes_both_steps():
    matrices = matrices_of(None)
    before = plain(matrices)
    run(train_skipgram, [1, 0, 1, -1], matrices, sampling=sampling_of([3]), plan=plan_of())
    expected = gradients(before, None, [(1, [0]), (0, [1, 1]), (1, [0])], mean=False, noise=3)
    for name, after in plain(matrices).items():
        np.testing.assert_allclose(before[name] - after, expected[name], atol=2e-6)


@pytest.mark.parametrize("tie", TIES)
def test_padding_stays_zero(tie):
    matrices = matrices_of(tie)
    run(train_skipgram, [0, 1, 2, 4], matrices, sampling=sampling_of([3]), plan=plan_of())
    for array in matrices.arrays.values():
        assert not array[:, matrices.dim :].any()
    if matrices.transform is not None:
        assert not matrices.transform[matrices.dim :].any()


@pytest.mark.parametrize("together", [1, 2, 3])
def test_windows_do_not_cross_ends_of_sentences(together):
    options = {"sampling": sampling_of([3]), "plan": plan_of(window=4, together=together)}
    totals = run(train_skipgram, [0, 1, -1, -1, 2, 4, -1, 0], matrices_of(None), **options)
    assert totals[1] == 4 * (1 + NEGATIVES)
    alone = matrices_of(None)
    run(train_skipgram, [0, -1, 1, -1, 2], alone, **options)
    np.testing.assert_array_equal(alone.center, matrices_of(None).center)


@pytest.mark.parametrize(
    ("window", "keep", "pairs"), [(4, 1.0, 2 * 5), (1, 0.3, 4 * 0.3), (3, 1.0, 3 * 4)]
)
def test_windows_are_of_all_sizes_alike_often_and_words_kept_by_their_share(window, keep, pairs):
    """In a long sentence a window of at most 4 has 2, 4, 6 or 8 contexts, 5 on average."""
    tokens = np.random.default_rng(0).integers(0, 3, 20_000)
    sampling, negatives = sampling_of([4], keep=keep), 2 if window == 3 else 1
    for together in (1, 3):
        plan = plan_of(window=window, negatives=negatives, together=together)
        totals = run(
            train_skipgram, tokens, matrices_of(None), rate=0.0, sampling=sampling, plan=plan
        )
        assert totals[1] / len(tokens) == pytest.approx(pairs, rel=0.05)


def test_a_rate_of_zero_changes_nothing():
    matrices = matrices_of("reflection")
    run(train_skipgram, [0, 1, 2], matrices, rate=0.0, sampling=sampling_of([3]), plan=plan_of())
    np.testing.assert_array_equal(matrices.center, matrices_of("reflection").center)


def test_nats_of_large_logits_are_exact_and_nan_stays_nan():
    matrices = matrices_of(None)
    matrices.center[...] = matrices.context[...] = 0
    matrices.center[:, 0], matrices.context[0, 0], matrices.context[4, 0] = 40.0, 1.0, 1.0
    options = {"sampling": sampling_of([4]), "plan": plan_of(negatives=1)}
    totals = run(train_skipgram, [0, 0], matrices, rate=0.0, **options)
    assert totals[0] == pytest.approx(2 * 40.0, rel=1e-6)
    matrices.center[0, 0] = np.nan
    assert np.isnan(run(train_skipgram, [0, 1], matrices, **options)[0])


def test_words_are_drawn_as_often_as_they_should():
    probability = np.array([0.5, 0.0, 0.3, 0.15, 0.05, 0.0])
    table, state = alias_table(probability), np.zeros(1, np.uint64)
    assert hex(next_bits(np.zeros(1, np.uint64))) == "0xe220a8397b1dcdaf"
    drawn = [draw_word(np.uint64(next_bits(state)), table) for _ in range(40_000)]
    share = np.bincount(drawn, minlength=6) / len(drawn)
    np.testing.assert_allclose(share, probability, atol=0.01)
    assert share[1] == share[5] == 0


@pytest.mark.parametrize("probability", [[0.0, 0.0], [0.5, -0.1], [np.nan, 1.0]])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(DataError, match="`probability` must be finite and >= 0 with a sum above 0"):
        alias_table(np.array(probability))


@njit
def all_of(logits):
    logistic(logits, np.float32(1.0), len(logits))


def test_the_logistic_function_is_near_for_every_logit():
    logits = np.concatenate([np.linspace(-200, 200, 4001), np.linspace(-6, 6, 4001)])
    shares = logits.astype(np.float32)
    all_of(shares)
    np.testing.assert_allclose(shares, expit(logits.astype(np.float32).astype(float)), atol=3e-7)
    assert shares[0] >= 0.0 and shares[4000] == 1.0


def test_only_arrays_are_borrowed():
    """Tuples of them, and numbers within, as they are; what is borrowed is the same memory."""

    @njit
    def add_one(held):
        (one, n), other = borrowed(held)
        one += n
        other += 1

    one, other = np.zeros(2), np.zeros(2)
    add_one(((one, 3), other))
    assert one.tolist() == [3, 3] and other.tolist() == [1, 1]
    with pytest.raises(TypingError, match="`held` must be an array or a tuple of arrays, got int"):
        njit(lambda held: borrowed(held))(1)
