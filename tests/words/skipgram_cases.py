"""Small groups of windows whose draws are known, and what their gradients must be."""

import numpy as np

from exfam.kernels.alias import alias_table
from exfam.kernels.windows import Plan, Sampling
from exfam.words.matrices import WordMatrices, initial_matrices

TIES = [None, "reflection", "random", "linear"]
N_WORDS, DIM, NEGATIVES, NOISE_WORD = 5, 7, 2, 3


def matrices_of(tie, *, n_words=N_WORDS, seed=0) -> WordMatrices:
    """Numbers of a size at which all sigmoids differ."""
    random = np.random.default_rng(seed)
    matrices = initial_matrices(n_words, DIM, tie=tie, positive_share=0.5, seed=seed)
    for array in (matrices.center, matrices.context):
        if array is not None:
            array[:, :DIM] = random.normal(size=(n_words, DIM)) * 0.6
    return matrices


def sampling_of(noise, *, n_words=N_WORDS, keep=1.0) -> Sampling:
    """All words are kept with one probability; `noise`: the words drawn, alike often."""
    probability = np.zeros(n_words)
    probability[noise] = 1.0
    kept = np.full(n_words, int(keep * 2**32), np.uint64)
    return Sampling(kept, alias_table(probability))


def plan_of(*, window=1, negatives=NEGATIVES, weight=1.0, together=3) -> Plan:
    return Plan(window, negatives, np.float32(weight), together, nats_every=1)


def run(kernel, tokens, matrices, *, sampling, plan, rate=1.0, seed=1):
    """One pass in place; nats and how many yes and no."""
    totals = np.zeros(2)
    tokens = np.array(tokens, np.int32)
    fixed = matrices.vectors, matrices.kind, sampling, plan
    kernel(tokens, *fixed, np.float32(rate), np.uint64(seed), totals)
    return totals


def plain(matrices) -> dict[str, np.ndarray]:
    """What is trained, in float64 and without padding."""
    stored = matrices.stored().items()
    return {name: array.astype(np.float64) for name, array in stored if name != "signs"}


def contexts_of(numbers, signs) -> np.ndarray:
    if "context" in numbers:
        return numbers["context"]
    if "transform" in numbers:
        return numbers["center"] @ numbers["transform"].T
    return numbers["center"] * signs


def loss(numbers, signs, windows, *, mean=False, noise=NOISE_WORD, negatives=NEGATIVES) -> float:
    """Nats of windows, each (center, context words), by the formula of the paper on word2vec."""
    x, c = numbers["center"], contexts_of(numbers, signs)
    total = 0.0
    for center, words in windows:
        rows = [x[words].mean(axis=0)] if mean else x[words]
        for row in rows:
            total += np.log1p(np.exp(-row @ c[center]))
            if noise != center:
                total += negatives * np.log1p(np.exp(row @ c[noise]))
    return total


def gradients(numbers, signs, windows, **options) -> dict[str, np.ndarray]:
    """Central differences in float64."""
    slopes = {}
    for name, array in numbers.items():
        slopes[name] = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            sides = []
            for change in (1e-5, -1e-5):
                moved = {other: value.copy() for other, value in numbers.items()}
                moved[name][index] += change
                sides.append(loss(moved, signs, windows, **options))
            slopes[name][index] = (sides[0] - sides[1]) / 2e-5
    return slopes
