"""Skip-gram and CBOW: what is learned, by which steps, and what is refused."""

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.families import Bernoulli, Categorical
from exfam.reading.text import prepare_text
from exfam.words import SkipGram
from exfam.words.cbow import CBOW, AdamPass, adam_arrays, contexts, log_likelihood
from exfam.words.matrices import initial_matrices

TOPICS = [[f"{name}{n}" for n in range(6)] for name in ("sea", "sky")]


def topical(n_sentences=600, *, seed=0, topics=TOPICS):
    """Sentences of words of one topic each."""
    random = np.random.default_rng(seed)
    return [list(random.choice(topics[random.integers(2)], size=8)) for _ in range(n_sentences)]


def make(**changed):
    options = {
        "dim": 8, "learning_rate": 0.025, "subsample": 0.0, "min_count": 1, "deterministic": True,
        "epochs": 8,
    } | changed  # fmt: skip
    return SkipGram(**options)


def units(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("tie", [None, "reflection", "random", "linear"])
def test_topics_are_separated(tie):
    model = make(tie=tie, dim=16).fit(topical())
    vectors = units(model.input_vectors_)
    topic = np.array([word.startswith("sea") for word in model.vectors_.words])
    same, cosine = topic[:, None] == topic, vectors @ vectors.T
    assert cosine[same & ~np.eye(12, dtype=bool)].min() > cosine[~same].max()
    untrained = make(tie=tie, dim=16, learning_rate=1e-9, epochs=1).fit(topical())
    held_out = topical(seed=1)
    assert untrained.score(held_out) == pytest.approx(np.log(0.5), abs=1e-3)
    assert model.score(held_out) > untrained.score(held_out) + 0.02
    rows = model.history_.rows
    assert len(rows) == 8 and rows[-1].train_nats < rows[0].train_nats
    if tie == "reflection":
        # Those of training are of one window in sixteen, while it is trained.
        assert rows[-1].train_nats == pytest.approx(-model.score(topical()), abs=0.02)
    if tie == "linear":
        first, q = (fit.matrices_.transform[:16, :16] for fit in (untrained, model))
        np.testing.assert_allclose(model.output_vectors_, model.input_vectors_ @ q.T, rtol=1e-5)
        np.testing.assert_allclose(first @ first.T, np.eye(16), atol=1e-5)


def test_what_is_learned_by_two_threads_and_many_negatives_is_alike():
    one = make().fit(topical()).score(topical(seed=1))
    two = make(deterministic=False, threads=2).fit(topical()).score(topical(seed=1))
    assert two == pytest.approx(one, abs=0.01)
    many = make(negatives=20).fit(topical())
    assert many.score(topical(seed=1)) > np.log(0.5)
    assert isinstance(many.family, Bernoulli)


def test_the_score_is_the_mean_over_pairs_and_negatives():
    """By hand: windows of 1 in sentences of two words, whose only negative is the third word."""
    model = make(window=1, negatives=3, epochs=1).fit(["a b"] * 40 + ["c"])
    x, c = model.input_vectors_.astype(float), model.output_vectors_.astype(float)
    a, b, noise = (model.vectors_.code(word) for word in "abc")
    model.vocabulary_.counts[[a, b]] = 0
    results = []
    for row, center in ((a, b), (b, a)):
        results += [-np.log1p(np.exp(-x[row] @ c[center]))]
        results += [-np.log1p(np.exp(x[row] @ c[noise]))] * 3
    assert model.score(["a b"]) == pytest.approx(np.mean(results), rel=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_vectors_tied_by_reflection_are_one_matrix_and_signs_of_the_share_wanted(share, tmp_path):
    model = make(tie="reflection", positive_share=share, epochs=1).fit(topical(20))
    vectors = model.vectors_
    assert vectors.tied and vectors.context is None
    assert vectors.signs.tolist() == [1] * int(8 * share) + [-1] * int(8 - 8 * share)
    np.testing.assert_array_equal(model.output_vectors_, vectors.center * vectors.signs)
    drawn = make(tie="random", positive_share=share, dim=1000, epochs=1).fit(topical(20))
    assert (drawn.vectors_.signs == 1).mean() == pytest.approx(share, abs=0.05)
    sizes = []
    for tie in (None, "reflection"):
        make(tie=tie, epochs=1, dim=512).fit(topical(20)).save(tmp_path / str(tie))
        sizes.append((tmp_path / str(tie) / "model.safetensors").stat().st_size)
    assert sizes[1] < 0.55 * sizes[0]


def test_a_matrix_that_many_windows_train_together_does_not_diverge():
    frequency = 1 / np.arange(1, 301)
    drawn = np.random.default_rng(0).choice(300, (3000, 10), p=frequency / frequency.sum())
    model = make(tie="linear", dim=200, negatives=25, epochs=1)
    model.fit([[f"w{word}" for word in line] for line in drawn.tolist()])
    assert model.history_.rows[-1].train_nats < 0.6


def test_files_prepared_texts_and_sentences_are_alike(tmp_path):
    sentences = topical(100)
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(words) for words in sentences))
    prepare_text(path, folder=tmp_path / "prepared", min_count=1)
    sources = sentences, path, tmp_path / "prepared", prepare_text(path, min_count=1)
    fits = [make(epochs=1).fit(source) for source in sources]
    fits.append(make(epochs=1).partial_fit(sentences))
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].input_vectors_, other.input_vectors_)
    assert len({fits[0].score(source) for source in sources}) == 1


@pytest.mark.parametrize("is_prepared", [False, True])
def test_more_text_grows_the_vocabulary(is_prepared):
    model = make().fit(topical())
    before, words = model.input_vectors_.copy(), model.vectors_.words
    more = topical(seed=2, topics=[[*TOPICS[0], "river0", "river1"], TOPICS[1]])
    model.partial_fit(prepare_text(more, min_count=1) if is_prepared else more)
    assert model.vectors_.words[:12] == words
    assert set(model.vectors_.words[12:]) == {"river0", "river1"}
    assert (model.input_vectors_[:12] != before).any() and len(model.histories_) == 2
    vectors = units(model.input_vectors_)
    river = vectors[model.vectors_.code("river0")]
    near = {word: river @ vectors[model.vectors_.code(word)] for word in words}
    assert min(near[word] for word in TOPICS[0]) > max(near[word] for word in TOPICS[1])
    assert model.vocabulary_.counts.sum() == 2 * 600 * 8


def test_a_text_whose_words_stand_alone_is_refused():
    with pytest.raises(DataError, match="must have words beside each other"):
        make().fit(["a", "b"] * 10)
    fitted = make(epochs=1).fit(["a b"] * 9)
    with pytest.raises(DataError, match="must hold a sentence of at least two known words"):
        fitted.score(["a", "b"])
    with pytest.raises(DataError, match="must hold words of the vocabulary, got none of its 2"):
        fitted.score(prepare_text(["unknown words"], min_count=1))


SUBJECTS = ["mathematics", "statistics", "sociology", "history"]
ADJECTIVES = ["fun", "boring", "easy", "difficult"]


def corpus(n_sentences, *, seed):
    """Of each subject two of four adjectives are said."""
    random = np.random.default_rng(seed)
    lines = []
    for subject, first, second in random.integers([4, 2, 2], size=(n_sentences, 3)).tolist():
        said = [ADJECTIVES[(subject + k) % 4] for k in (first, second)]
        lines.append(f"{SUBJECTS[subject]} is {said[0]} and {said[1]}")
    return lines


TRAIN, TEST = corpus(2000, seed=0), corpus(500, seed=1)
SOFTMAX = {"likelihood": "softmax", "window": None, "dim": 8}


def test_softmax_beats_the_words_frequencies_by_the_categorical_family():
    fitted = CBOW(**SOFTMAX, learning_rate=1e-2).fit(TRAIN)
    frequency = fitted.vocabulary_.counts / fitted.vocabulary_.counts.sum()
    codes = [fitted.vocabulary_.code(word) for line in TEST for word in line.split()]
    assert fitted.score(TEST) > np.log(frequency[codes]).mean() + 0.2
    rows = fitted.history_.rows
    assert [row.learning_rate for row in rows] == [1e-2] * 5
    assert rows[-1].train_nats < rows[0].train_nats < np.log(10)
    # Each word of a sentence by the exact softmax of the mean of the other two.
    codes = [fitted.vocabulary_.code(word) for word in ("history", "is", "fun")]
    eta = [
        fitted.output_vectors_ @ fitted.input_vectors_[np.setdiff1d(codes, code)].mean(axis=0)
        for code in codes
    ]
    expected = torch.log_softmax(torch.tensor(np.array(eta)), dim=1)[range(3), codes].mean()
    assert fitted.score(["history is fun"]) == pytest.approx(expected.item(), rel=1e-5)
    assert isinstance(fitted.family, Categorical)


@pytest.mark.parametrize("window", [1, 2, None])
def test_contexts_are_averages_by_the_definition(window):
    tokens = np.array([0, 1, 2, -1, 3, -1, -1, 1, 1, 0, 2, -1, 3, 2], np.int32)
    mean, centers = contexts(tokens, n_words=4, window=window)
    rows, expected = [], []
    for position, center in enumerate(tokens):
        near = []
        for other in range(len(tokens)):
            between = tokens[min(position, other) : max(position, other) + 1]
            if 0 < abs(other - position) <= (window or 99) and (between >= 0).all():
                near.append(tokens[other])
        if near and center >= 0:
            rows.append(np.bincount(near, minlength=4) / len(near))
            expected.append(center)
    np.testing.assert_allclose(mean.toarray(), rows, atol=1e-7)
    assert centers.tolist() == expected


def test_a_step_of_adam_is_torchs():
    tokens = np.array([0, 1, 2, -1, 3, 2, 1, 0], np.int32)
    matrices = initial_matrices(4, 3, tie=None, positive_share=0.5, seed=0)
    matrices.center[:, :3] = np.random.default_rng(0).normal(size=(4, 3))
    given, weights = (
        torch.tensor(array.copy(), requires_grad=True)
        for array in (matrices.inputs, matrices.outputs)
    )
    mean, centers = contexts(tokens, n_words=4, window=None)
    optimizer = torch.optim.Adam([given, weights], lr=0.01)
    result = AdamPass(matrices, adam_arrays(matrices), window=None, batch_size=100)
    for seed in range(4):
        optimizer.zero_grad()
        logits = torch.tensor(mean.toarray()) @ given @ weights.T
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(centers))
        loss.backward()
        optimizer.step()
        nats, n = result(tokens, rate=0.01, seed=seed)
        assert nats / n == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(matrices.inputs, given.detach().numpy(), rtol=1e-4)
    np.testing.assert_allclose(matrices.outputs, weights.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert matrices.outputs.any()
    logits = torch.tensor(mean.toarray()) @ given @ weights.T
    expected = torch.log_softmax(logits, dim=1)[range(len(centers)), centers]
    nats = log_likelihood(mean, centers, matrices)
    np.testing.assert_allclose(nats, expected.detach().numpy(), rtol=1e-4)


@pytest.mark.parametrize("tie", [None, "reflection", "linear"])
def test_negative_sampling_learns(tie):
    options = {"dim": 8, "tie": tie, "subsample": 0.0, "deterministic": True}
    model = CBOW(**options, learning_rate=0.05).fit(TRAIN)
    start = CBOW(**options, epochs=1, learning_rate=1e-9).fit(TRAIN)
    assert start.score(TEST) == pytest.approx(np.log(0.5), abs=1e-3)
    assert model.score(TEST) > start.score(TEST) + 0.1
    assert isinstance(model.family, Bernoulli)


def test_a_softmax_fit_goes_on_to_the_same_bits(tmp_path):
    whole = CBOW(**SOFTMAX, epochs=2).fit(TRAIN[:400])
    for _ in range(2):
        again = CBOW(**SOFTMAX, epochs=2).fit(TRAIN[:400], checkpoint=tmp_path)
        np.testing.assert_array_equal(whole.output_vectors_, again.output_vectors_)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": None}, "`window` must be an integer >= 1 for negative sampling, got None"),
        ({"likelihood": "softmax", "tie": "linear"}, "`tie` must be None for likelihood='softmax'"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(changed, message):
    with pytest.raises(ExfamError, match=message):
        CBOW(**changed).fit(["a b c"] * 5)
