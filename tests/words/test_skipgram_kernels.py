"""The compiled steps of skip-gram and CBOW against float64 and by their laws."""

import numpy as np
import pytest
import torch
from numba import njit
from numba.core.errors import TypingError
from scipy.special import expit
from torch.nn.functional import softplus

from exfam.checks import DataError
from exfam.kernels.alias import alias_table, draw_word, next_bits
from exfam.kernels.borrowing import borrowed
from exfam.kernels.sampled import train_cbow, train_skipgram
from exfam.kernels.windows import Plan, Sampling, logistic
from exfam.words.matrices import initial_matrices

TIES = [None, "reflection", "random", "linear"]
N_WORDS, DIM, NEGATIVES, NOISE_WORD = 5, 7, 2, 3


def matrices_of(tie):
    """Numbers of a size at which all sigmoids differ."""
    random = np.random.default_rng(0)
    matrices = initial_matrices(N_WORDS, DIM, tie=tie, positive_share=0.5, seed=0)
    for array in (matrices.center, matrices.context):
        if array is not None:
            array[:, :DIM] = random.normal(size=(N_WORDS, DIM)) * 0.6
    return matrices


def sampling_of(noise, *, keep=1.0):
    """All words are kept with one probability; `noise`: the words drawn, alike often."""
    probability = np.zeros(N_WORDS)
    probability[noise] = 1.0
    kept = np.full(N_WORDS, int(keep * 2**32), np.uint64)
    return Sampling(kept, alias_table(probability))


def plan_of(*, window=1, negatives=NEGATIVES, weight=1.0, together=3):
    return Plan(window, negatives, np.float32(weight), together, nats_every=1)


def run(kernel, tokens, matrices, *, sampling, plan, rate=1.0):
    """One pass in place; nats and how many yes and no."""
    totals, tokens = np.zeros(2), np.array(tokens, np.int32)
    fixed = matrices.vectors, matrices.transform, sampling, plan
    kernel(tokens, *fixed, np.float32(rate), np.uint64(1), totals)
    return totals


def plain(matrices):
    """What is trained, in float64 and without padding."""
    stored = matrices.stored().items()
    return {name: array.astype(np.float64) for name, array in stored if name != "signs"}


def loss(numbers, signs, windows, *, mean=False, noise=NOISE_WORD):
    """Nats of windows, each (center, context words), by the formula of the paper on word2vec."""
    x, total = numbers["center"], 0.0
    c = numbers.get("context", x if signs is None else x * signs)
    if "transform" in numbers:
        c = x @ numbers["transform"].T
    for center, words in windows:
        for row in [x[words].mean(0)] if mean else x[words]:
            total += softplus(-row @ c[center])
            if noise != center:
                total += NEGATIVES * softplus(row @ c[noise])
    return total


def gradients(numbers, signs, windows, **options):
    """Of the loss in float64, by torch; and the loss."""
    numbers = {name: torch.tensor(array, requires_grad=True) for name, array in numbers.items()}
    signs = None if signs is None else torch.tensor(signs)
    nats = loss(numbers, signs, windows, **options)
    nats.backward()
    return {name: array.grad.numpy() for name, array in numbers.items()}, nats.item()


KERNELS = pytest.mark.parametrize("kernel", [train_skipgram, train_cbow], ids=["skip-gram", "cbow"])
# Of the text 0 1 2 with windows of 1: all of them are one group.
WINDOWS = [(0, [1]), (1, [0, 2]), (2, [1])]


@KERNELS
@pytest.mark.parametrize(("tie", "noise"), [*((tie, NOISE_WORD) for tie in TIES), (None, 1)])
def test_a_step_is_the_gradient(kernel, tie, noise):
    """Of a negative that is a window's center for the other windows of the group alone."""
    mean, matrices = kernel is train_cbow, matrices_of(tie)
    before, signs = plain(matrices), matrices.stored().get("signs")
    expected, nats = gradients(before, signs, WINDOWS, mean=mean, noise=noise)
    totals = run(kernel, [0, 1, 2], matrices, sampling=sampling_of([noise]), plan=plan_of())
    after = plain(matrices)
    assert set(expected) == set(after)
    if "transform" in expected:
        # All three windows train it: it takes the mean of their steps.
        expected["transform"] /= len(WINDOWS)
        assert not matrices.transform[matrices.dim :].any()
    for name in after:
        assert np.abs(expected[name]).max() > 0.1
        np.testing.assert_allclose(before[name] - after[name], expected[name], atol=2e-6)
    for array in matrices.arrays.values():
        assert not array[:, matrices.dim :].any(), "padding stays zero"
    assert totals[0] == pytest.approx(nats, rel=1e-5)
    if noise == NOISE_WORD:
        assert totals[1] == (3 if mean else 4) * (1 + NEGATIVES)
    # Four negatives of half the weight are two.
    four, plan = matrices_of(tie), plan_of(negatives=4, weight=0.5)
    again = run(kernel, [0, 1, 2], four, sampling=sampling_of([noise]), plan=plan)
    np.testing.assert_allclose(four.center, matrices.center, atol=2e-6)
    assert again[0] == pytest.approx(totals[0], rel=1e-6)


def test_the_same_word_twice_in_a_window_takes_both_steps():
    matrices = matrices_of(None)
    before = plain(matrices)
    run(train_skipgram, [1, 0, 1, -1], matrices, sampling=sampling_of([3]), plan=plan_of())
    expected, _ = gradients(before, None, [(1, [0]), (0, [1, 1]), (1, [0])])
    for name, after in plain(matrices).items():
        np.testing.assert_allclose(before[name] - after, expected[name], atol=2e-6)


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


@njit(error_model="numpy")
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
