"""Information of pairs against its definition, and the estimator that factorizes it."""

import numpy as np
import pytest
import scipy.sparse

import exfam
from exfam.checks import ExfamError, ModelFileError
from exfam.estimator.storage import save_folder
from exfam.families import Categorical
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.text import prepare_text
from exfam.vectors import WordVectors
from exfam.vectors.word_vectors import model_vectors
from exfam.words.matrices import initial_matrices
from exfam.words.pmi import PMIFactorization, association
from words.simulated_words import SimulatedWords, simulate_words


@pytest.fixture(scope="module")
def counts():
    upper = np.triu(np.random.default_rng(0).poisson(1.5, (12, 12)))
    upper[3] = upper[:, 3] = 0
    dense = upper + upper.T
    assert (dense == 0).sum() > 30 and dense.max() > 4
    return scipy.sparse.csr_array(dense)


@pytest.mark.parametrize("shift", [0.0, np.log(2)])
@pytest.mark.parametrize("exponent", [1.0, 0.75])
def test_information_is_what_its_definition_says_of_pairs_that_were_seen(counts, exponent, shift):
    symmetric = association(counts, shift=shift).toarray()
    np.testing.assert_array_equal(symmetric, symmetric.T)
    counts = counts.copy()
    counts.data[5] = 0
    joint = counts.toarray() / counts.sum()
    word, context = joint.sum(axis=1), joint.sum(axis=0) ** exponent
    context = context / context.sum()
    expected = np.zeros(joint.shape)
    for j, i in np.argwhere(joint):
        expected[j, i] = np.log(joint[j, i] / (word[j] * context[i])) - shift
    options = {"exponent": exponent, "shift": shift}
    information = association(counts, **options)
    np.testing.assert_allclose(information.toarray(), expected, atol=1e-12)
    assert information.nnz == counts.nnz - 1
    floored = association(counts, **options, positive=True)
    np.testing.assert_allclose(floored.toarray(), np.maximum(expected, 0), atol=1e-12)
    assert 0 < floored.nnz == (expected > 0).sum() < counts.nnz


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ([[0.0, -1.0], [1.0, 0.0]], "`counts` must be finite numbers >= 0, got -1.0"),
        ([[0.0, np.nan], [1.0, 0.0]], "`counts` must be finite numbers >= 0, got nan"),
        ([[0.0, 0.0], [0.0, 0.0]], "`counts` must hold at least one pair, got none"),
    ],
)
def test_what_has_no_information_is_refused(broken, message):
    with pytest.raises(ExfamError, match=message):
        association(scipy.sparse.csr_array(broken))


def sentences(seed, n=1_500):
    """Pairs of words j, i drawn from the paper's model, one pair a sentence."""
    truth, random = simulate_words(60, dim=6, alpha=0.5, seed=1), np.random.default_rng(seed)
    # Information of a size that a short text shows.
    truth = SimulatedWords(truth.words * 1.6, truth.transform, truth.probability)
    joint = np.exp(truth.log_conditional()) * truth.probability[:, None]
    drawn = random.choice(joint.size, size=n, p=(joint / joint.sum()).ravel())
    return [[f"w{j}", f"w{i}"] for j, i in zip(*np.divmod(drawn, 60), strict=True)]


SETTINGS = {"dim": 6, "window": 1, "min_count": 20}


@pytest.fixture(scope="module")
def text():
    return prepare_text(sentences(0, 12_000), min_count=1)


@pytest.fixture(scope="module")
def fitted(text):
    return PMIFactorization(**SETTINGS).fit(text)


def information_of(model, text, **options):
    pairs = count_cooccurrences(text.tokens, len(model.vectors_), window=1)
    return association(pairs, **options).toarray()


def test_the_vectors_are_those_of_a_dense_solver(fitted, text, tmp_path):
    values, vectors = np.linalg.eigh(information_of(fitted, text))
    largest = np.argsort(-np.abs(values))[:6]
    np.testing.assert_allclose(fitted.eigenvalues_, values[largest], rtol=1e-8)
    model = fitted.vectors_
    np.testing.assert_array_equal(model.signs, np.sign(values[largest]))
    best = (vectors[:, largest] * values[largest]) @ vectors[:, largest].T
    assert {-1, 1} == set(model.signs.tolist())
    # Singular vectors make the same model, and take other exponents.
    other = PMIFactorization(**SETTINGS, method="svd").fit(text)
    np.testing.assert_allclose(other.singular_values_, np.abs(fitted.eigenvalues_), rtol=1e-8)
    for vectors in (model, other.vectors_):
        np.testing.assert_allclose(vectors.center @ vectors.matrix("context").T, best, atol=1e-4)
    model = PMIFactorization(**SETTINGS, method="svd", exponent=0.75).fit(text)
    values = np.linalg.svd(information_of(model, text, exponent=0.75), compute_uv=False)
    np.testing.assert_allclose(model.singular_values_, values[:6], rtol=1e-8)
    # A fit goes on from the folder of its counts.
    again = PMIFactorization(**SETTINGS).fit(text, folder=tmp_path)
    np.testing.assert_array_equal(again.vectors_.center, fitted.vectors_.center)
    assert (tmp_path / "counting.json").exists()


def test_the_score_is_the_mean_over_pairs_of_softmaxes(fitted):
    vectors = fitted.vectors_
    log_p = fitted.log_conditional(vectors.words)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1)
    logits = vectors.matrix("context").astype(float) @ vectors.center[0]
    expected = fitted.frequencies_ * np.exp(logits)
    np.testing.assert_allclose(np.exp(log_p[0]), expected / expected.sum(), rtol=1e-6)
    assert fitted.family == Categorical(len(vectors))
    nats, held_out = [], sentences(1, 200)
    for pair in held_out:
        if set(pair) <= set(vectors.index):
            j, i = vectors.codes(pair)
            nats += [log_p[j, i], log_p[i, j]]
    assert 200 < len(nats) <= 400
    assert fitted.score(held_out) == pytest.approx(np.mean(nats), abs=1e-9)


def test_parts_of_a_text_come_to_the_whole():
    lines, settings = sentences(3, 4_000), {**SETTINGS, "dim": 4}
    fit = PMIFactorization(**settings).fit(lines)
    whole = PMIFactorization(**settings).partial_fit(lines)
    parts = PMIFactorization(**settings)
    for part in (lines[:2_500], lines[2_500:]):
        parts.partial_fit(part)
    order = parts.vectors_.codes(whole.vectors_.words)
    assert sorted(order) == list(range(len(parts.vectors_)))
    for other in (parts, fit):
        np.testing.assert_allclose(other.eigenvalues_, whole.eigenvalues_, rtol=1e-9)
    log_p = parts.log_conditional(whole.vectors_.words)[:, order]
    np.testing.assert_allclose(log_p, whole.log_conditional(whole.vectors_.words), atol=1e-4)
    grown = len(parts.vectors_)
    parts.partial_fit([["new", "newer"]] * 30)
    assert len(parts.vectors_) == grown + 2 and "newer" in parts.vectors_


def test_rare_words_keep_their_positions():
    lines = [["a", "rare", "b"], ["b", "a", "c"], ["c", "b", "a"]] * 4 + [["a", "c"]]
    lines[0][1] = "rarer"
    model = PMIFactorization(dim=1, window=1, min_count=12).partial_fit(lines)
    assert set(model.vectors_.words) == {"a", "b"}
    # a and b are beside each other in 8 lines, and not where a rare word stands between them.
    assert model._counted.kept(12).pairs.sum() == 16


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": 2_000_000_000}, "`window` must be an integer <= 1000000, got 2000000000"),
        ({"exponent": 0.75}, "`exponent` must be 1 for method='eigen', got 0.75"),
        ({"dim": 60}, "`X` must hold more than dim = 60 words read at least 20 times, got"),
        ({"positive": True, "shift": 99.0}, "The matrix must have as many pairs as are wanted"),
        ({"method": "svd", "positive": True, "shift": 99.0}, "as many pairs as are wanted, got"),
    ],
)
def test_what_cannot_be_fitted_is_refused(text, changed, message):
    with pytest.raises(ExfamError, match=message):
        PMIFactorization(**{**SETTINGS, **changed}).fit(text)


TEXT = ["a b a c", "c b a", "b c a b", "d c d", "d a d b"] * 3


@pytest.mark.parametrize("method", ["eigen", "svd"])
def test_a_saved_factorization_goes_on_and_its_vectors_are_read_alone(method, tmp_path):
    fitted = PMIFactorization(dim=2, min_count=2, method=method).fit(TEXT)
    fitted.set_params(seed=np.int64(3)).save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert (type(loaded.seed), loaded.seed) == (int, 3)
    name = {"eigen": "eigenvalues_", "svd": "singular_values_"}[method]
    np.testing.assert_array_equal(getattr(loaded, name), getattr(fitted, name))
    vectors = WordVectors(*model_vectors(tmp_path / "model"))
    assert vectors.words == fitted.vectors_.words
    for of in ("center", "context"):
        np.testing.assert_array_equal(vectors.matrix(of), fitted.vectors_.matrix(of))
    both = loaded.partial_fit(["a e a e"] * 3)
    whole = PMIFactorization(**loaded.get_params()).fit(TEXT + ["a e a e"] * 3)
    assert both.frequencies_.tolist() == whole.frequencies_.tolist() and "e" in both.vectors_


def test_linear_ties_are_worked_out_and_a_model_without_vectors_is_refused(tmp_path):
    matrices = initial_matrices(3, 4, tie="linear", positive_share=0.5, seed=0)
    words = {"word": np.array(["a", "b", "c"], dtype=object)}
    save_folder(tmp_path / "m", tensors=matrices.stored(), config={}, vocabulary=words)
    vectors = WordVectors(*model_vectors(tmp_path / "m"))
    np.testing.assert_allclose(vectors.matrix("context"), matrices.outputs, rtol=1e-6)
    save_folder(tmp_path / "n", tensors={}, config={"estimator": "efa"}, vocabulary={})
    with pytest.raises(ModelFileError, match="of words with vectors, got one of kind 'efa' in"):
        model_vectors(tmp_path / "n")
