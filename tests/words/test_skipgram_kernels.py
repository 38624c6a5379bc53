"""The compiled steps of skip-gram and CBOW against float64 and by their laws."""

import numpy as np
import pytest
from exfam.kernels.cbow import train_cbow
from exfam.kernels.randomness import next_bits
from exfam.kernels.sigmoid import logistic
from exfam.kernels.skipgram import train_skipgram
from numba import njit
from numba.core.errors import TypingError
from scipy.special import expit

from exfam.checks import DataError
from exfam.kernels.alias import alias_table, draw_word
from exfam.kernels.borrowing import borrowed
from words.skipgram_cases import (
    N_WORDS,
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

# Of the text 0 1 2 with windows of 1: all of them are one group.
WINDOWS = [(0, [1]), (1, [0, 2]), (2, [1])]


def check_step(kernel, tie, *, mean, noise=NOISE_WORD):
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
    assert totals[0] == pytest.approx(
        loss(before, signs, WINDOWS, mean=mean, noise=noise), rel=1e-5
    )
    return totals


@pytest.mark.parametrize("tie", TIES)
def test_a_step_of_skipgram_is_the_gradient(tie):
    totals = check_step(train_skipgram, tie, mean=False)
    assert totals[1] == 4 * (1 + NEGATIVES)


@pytest.mark.parametrize("tie", TIES)
def test_a_step_of_cbow_is_the_gradient(tie):
    totals = check_step(train_cbow, tie, mean=True)
    assert totals[1] == 3 * (1 + NEGATIVES)


@pytest.mark.parametrize(("kernel", "mean"), [(train_skipgram, False), (train_cbow, True)])
def test_a_negative_that_is_the_center_is_passed_over(kernel, mean):
    """Only for the window whose center it is, not for the others of its group."""
    check_step(kernel, None, mean=mean, noise=1)


@pytest.mark.parametrize("kernel", [train_skipgram, train_cbow])
def test_negatives_count_by_their_weight(kernel):
    """Four of half the weight are two."""
    found = []
    for plan in (plan_of(negatives=2), plan_of(negatives=4, weight=0.5)):
        matrices = matrices_of(None)
        totals = run(kernel, [0, 1, 2], matrices, sampling=sampling_of([3]), plan=plan)
        found.append((matrices, totals))
    (two, of_two), (four, of_four) = found
    np.testing.assert_allclose(two.center, four.center, atol=2e-6)
    np.testing.assert_allclose(two.context, four.context, atol=2e-6)
    assert of_two == pytest.approx(of_four, rel=1e-6)


def test_the_same_word_twice_in_a_window_takes_both_steps():
    """Rows 1 and 1 of one block; the center is predicted by both."""
    matrices = matrices_of(None)
    before = plain(matrices)
    run(
        train_skipgram, [1, 0, 1, -1], matrices, sampling=sampling_of([3]),
        plan=plan_of(window=1, together=3),
    )  # fmt: skip
    windows = [(1, [0]), (0, [1, 1]), (1, [0])]
    expected = gradients(before, None, windows, mean=False, noise=3)
    for name, after in plain(matrices).items():
        np.testing.assert_allclose(before[name] - after, expected[name], atol=2e-6)


def test_padding_stays_zero():
    for tie in TIES:
        matrices = matrices_of(tie)
        run(train_skipgram, [0, 1, 2, 4], matrices, sampling=sampling_of([3]), plan=plan_of())
        for array in matrices.arrays.values():
            assert not array[:, matrices.dim :].any()
        if matrices.transform is not None:
            assert not matrices.transform[matrices.dim :].any()


@pytest.mark.parametrize("together", [1, 2, 3])
def test_windows_do_not_cross_ends_of_sentences(together):
    plan = plan_of(window=4, together=together)
    totals = run(
        train_skipgram, [0, 1, -1, -1, 2, 4, -1, 0], matrices_of(None),
        sampling=sampling_of([3]), plan=plan,
    )  # fmt: skip
    assert totals[1] == 4 * (1 + NEGATIVES)
    alone = matrices_of(None)
    run(train_skipgram, [0, -1, 1, -1, 2], alone, sampling=sampling_of([3]), plan=plan)
    np.testing.assert_array_equal(alone.center, matrices_of(None).center)


def test_windows_are_of_all_sizes_alike_often():
    """In a long sentence a window of at most 4 has 2, 4, 6 or 8 contexts, 5 on average."""
    tokens = np.random.default_rng(0).integers(0, 3, 20_000)
    plan = plan_of(window=4, negatives=1, together=1)
    totals = run(train_skipgram, tokens, matrices_of(None), sampling=sampling_of([4]), plan=plan)
    assert totals[1] / len(tokens) / 2 == pytest.approx(5, rel=0.02)


def test_subsampling_keeps_its_share():
    tokens = np.random.default_rng(0).integers(0, 3, 20_000)
    matrices, sampling = matrices_of(None), sampling_of([4], keep=0.3)
    totals = run(
        train_skipgram, tokens, matrices, sampling=sampling, plan=plan_of(negatives=1, together=1)
    )
    assert totals[1] / len(tokens) / 4 == pytest.approx(0.3, rel=0.05)


def test_the_groups_size_changes_no_counts_of_pairs():
    tokens = np.random.default_rng(0).integers(0, 3, 3000)
    totals = [
        run(
            train_skipgram, tokens, matrices_of(None), rate=0.0, sampling=sampling_of([4]),
            plan=plan_of(window=3, together=together),
        )[1]
        for together in (1, 3)
    ]  # fmt: skip
    # Sizes of windows are drawn from other numbers: equal in law.
    assert totals[0] == pytest.approx(totals[1], rel=0.03)


def test_a_rate_of_zero_changes_nothing():
    matrices = matrices_of("reflection")
    run(train_skipgram, [0, 1, 2], matrices, rate=0.0, sampling=sampling_of([3]), plan=plan_of())
    np.testing.assert_array_equal(matrices.center, matrices_of("reflection").center)


def test_nats_of_large_logits_are_exact():
    matrices = matrices_of(None)
    matrices.center[...] = matrices.context[...] = 0
    matrices.center[:, 0], matrices.context[0, 0], matrices.context[4, 0] = 40.0, 1.0, 1.0
    totals = run(
        train_skipgram, [0, 0], matrices, rate=0.0,
        sampling=sampling_of([4]), plan=plan_of(negatives=1),
    )  # fmt: skip
    assert totals[0] == pytest.approx(2 * 40.0, rel=1e-6)


def test_nan_stays_nan():
    matrices = matrices_of(None)
    matrices.center[0, 0] = np.nan
    totals = run(train_skipgram, [0, 1], matrices, sampling=sampling_of([3]), plan=plan_of())
    assert np.isnan(totals[0])


def test_words_are_drawn_as_often_as_they_should():
    probability = np.array([0.5, 0.0, 0.3, 0.15, 0.05, 0.0])
    table, state = alias_table(probability), np.zeros(1, np.uint64)
    bits = (np.uint64(next_bits(state)) for _ in range(40_000))
    drawn = np.bincount([draw_word(each, table) for each in bits], minlength=6)
    np.testing.assert_allclose(drawn / drawn.sum(), probability, atol=0.01)
    assert drawn[1] == drawn[5] == 0


@pytest.mark.parametrize("probability", [[0.0, 0.0], [0.5, -0.1], [np.nan, 1.0]])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(DataError, match="`probability` must be finite and >= 0 with a sum above 0"):
        alias_table(np.array(probability))


def test_the_same_seed_gives_the_same_bits():
    totals = []
    for seed in (1, 1, 2):
        matrices = matrices_of(None)
        tokens = np.random.default_rng(0).integers(0, N_WORDS, 200)
        sampling = sampling_of([0, 1, 2, 3, 4])
        run(train_skipgram, tokens, matrices, seed=seed, sampling=sampling, plan=plan_of(window=3))
        totals.append(matrices.center.copy())
    np.testing.assert_array_equal(totals[0], totals[1])
    assert (totals[0] != totals[2]).any()


def test_the_logistic_function_is_near_for_every_logit():
    logits = np.concatenate([np.linspace(-200, 200, 4001), np.linspace(-6, 6, 4001)])
    found = logits.astype(np.float32)
    each(found)
    np.testing.assert_allclose(found, expit(logits.astype(np.float32).astype(float)), atol=3e-7)
    assert found[0] >= 0.0
    assert found[4000] == 1.0


@njit
def each(logits):
    logistic(logits, np.float32(1.0), len(logits))


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

    @njit
    def of_number(held):
        return borrowed(held)

    with pytest.raises(TypingError, match="`held` must be an array or a tuple of arrays, got int"):
        of_number(1)
