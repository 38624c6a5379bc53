"""Information of pairs against its definition, and the estimator that factorizes it."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from exfam.checks import DataError, ExfamError
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.text import prepare_text
from exfam.words.pmi import PMIFactorization
from exfam.words.pmi_matrix import association, context_probability
from words.simulated_words import simulate_words


@pytest.fixture(scope="module")
def counts():
    random = np.random.default_rng(0)
    upper = np.triu(random.poisson(1.5, (12, 12)))
    upper[3] = upper[:, 3] = 0
    dense = upper + upper.T
    assert (dense == 0).sum() > 30 and dense.max() > 4
    return scipy.sparse.csr_array(dense)


def by_definition(dense, exponent=1.0):
    """Entry by entry: log of the joint probability over the product of the two marginals."""
    joint = dense / dense.sum()
    word, context = joint.sum(axis=1), joint.sum(axis=0) ** exponent
    context = context / context.sum()
    table = np.zeros(dense.shape)
    for j, i in np.argwhere(dense):
        table[j, i] = np.log(joint[j, i] / (word[j] * context[i]))
    return table


@pytest.mark.parametrize("exponent", [1.0, 0.75])
def test_information_is_what_its_definition_says(counts, exponent):
    information = association(counts, exponent=exponent)
    expected = by_definition(counts.toarray(), exponent)
    np.testing.assert_allclose(information.toarray(), expected, atol=1e-12)
    assert information.nnz == counts.nnz
    is_symmetric = np.array_equal(information.toarray(), information.toarray().T)
    assert is_symmetric == (exponent == 1.0)


def test_shifts_and_floors_touch_only_pairs_that_were_seen(counts):
    plain, dense = by_definition(counts.toarray()), counts.toarray()
    shifted = association(counts, shift=np.log(2)).toarray()
    np.testing.assert_allclose(shifted, np.where(dense > 0, plain - np.log(2), 0), atol=1e-12)
    floored = association(counts, shift=np.log(2), positive=True)
    np.testing.assert_allclose(floored.toarray(), np.maximum(shifted, 0), atol=1e-12)
    assert 0 < floored.nnz == (shifted > 0).sum() < counts.nnz


def test_scale_of_counts_changes_nothing(counts):
    np.testing.assert_allclose(
        association(counts * 7.5).toarray(), association(counts).toarray(), atol=1e-12
    )


def test_independent_words_have_no_information():
    share = np.array([4.0, 2.0, 1.0])
    information = association(scipy.sparse.csr_array(np.outer(share, share)))
    np.testing.assert_allclose(information.toarray(), 0, atol=1e-15)


def test_zeros_that_are_stored_count_as_never_seen(counts):
    stored = counts.copy()
    stored.data[5] = 0
    information = association(stored)
    assert np.isfinite(information.data).all() and information.nnz == counts.nnz - 1


def test_contexts_without_counts_have_no_probability(counts):
    for exponent in (0.5, 1.0):
        share = context_probability(counts, exponent=exponent)
        assert share[3] == 0 and share.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ([[0.0, -1.0], [1.0, 0.0]], "`counts` must be finite numbers >= 0, got -1.0"),
        ([[0.0, np.nan], [1.0, 0.0]], "`counts` must be finite numbers >= 0, got nan"),
        ([[0.0, 0.0], [0.0, 0.0]], "`counts` must hold at least one pair, got none"),
    ],
)
def test_counts_that_are_none_are_refused(broken, message):
    with pytest.raises(DataError, match=message):
        association(scipy.sparse.csr_array(broken))


@pytest.mark.parametrize(("name", "value"), [("shift", -1.0), ("exponent", 0.0)])
def test_settings_of_information_are_checked(name, value):
    with pytest.raises(ExfamError, match=f"`{name}` must be a number"):
        association(scipy.sparse.csr_array([[0, 1], [1, 0]]), **{name: value})


N_WORDS = 60


def sentences(seed, n=1_500):
    """Pairs of words j, i drawn from the paper's model, one pair a sentence."""
    truth = simulate_words(N_WORDS, dim=6, alpha=0.5, seed=1)
    # Information of a size that a short text shows.
    strong = type(truth)(truth.words * 1.6, truth.transform, truth.probability)
    drawn = strong.draw_counts(n, seed=seed).tocoo()
    pairs = np.repeat(np.stack([drawn.row, drawn.col], 1), drawn.data, axis=0)
    shuffled = np.random.default_rng(seed).permutation(pairs)
    return [[f"w{j}", f"w{i}"] for j, i in shuffled.tolist()]


@pytest.fixture(scope="module")
def text():
    return prepare_text(sentences(0, 12_000), min_count=1)


@pytest.fixture(scope="module")
def fitted(text):
    return PMIFactorization(dim=6, window=1, min_count=20).fit(text)


def dense_information(model, text):
    n = len(model.vectors_)
    return association(count_cooccurrences(text.tokens, n, window=1)).toarray()


def test_the_eigenvectors_are_those_of_a_dense_solver(fitted, text):
    values, vectors = np.linalg.eigh(dense_information(fitted, text))
    largest = np.argsort(-np.abs(values))[:6]
    np.testing.assert_allclose(fitted.eigenvalues_, values[largest], rtol=1e-8)
    model = fitted.vectors_
    np.testing.assert_array_equal(model.signs, np.sign(values[largest]))
    product = model.center @ model.matrix("context").T
    best = (vectors[:, largest] * values[largest]) @ vectors[:, largest].T
    np.testing.assert_allclose(product, best, atol=1e-4)
    assert {-1, 1} == set(model.signs.tolist())


def test_singular_vectors_make_the_same_model(fitted, text):
    other = PMIFactorization(dim=6, window=1, min_count=20, method="svd").fit(text)
    np.testing.assert_allclose(other.singular_values_, np.abs(fitted.eigenvalues_), rtol=1e-8)
    one, two = fitted.vectors_, other.vectors_
    np.testing.assert_allclose(
        one.center @ one.matrix("context").T, two.center @ two.context.T, atol=1e-4
    )
    assert other.score(text) == pytest.approx(fitted.score(text), abs=1e-5)


def test_singular_vectors_take_other_exponents(text):
    model = PMIFactorization(dim=6, window=1, min_count=20, method="svd", exponent=0.75).fit(text)
    pairs = count_cooccurrences(text.tokens, len(model.vectors_), window=1)
    dense = association(pairs, exponent=0.75).toarray()
    np.testing.assert_allclose(
        model.singular_values_, np.linalg.svd(dense, compute_uv=False)[:6], rtol=1e-8
    )


def test_probabilities_of_contexts_sum_to_one(fitted):
    log_p = fitted.log_conditional(fitted.vectors_.words[:5])
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1)
    vectors = fitted.vectors_
    logits = vectors.matrix("context").astype(float) @ vectors.center[0]
    expected = fitted.frequencies_ * np.exp(logits)
    np.testing.assert_allclose(np.exp(log_p[0]), expected / expected.sum(), rtol=1e-6)


def test_the_score_is_the_mean_over_pairs_one_by_one(fitted):
    held_out = sentences(1, 200)
    words = set(fitted.vectors_.words)
    nats = []
    for one, other in held_out:
        if {one, other} <= words:
            rows = fitted.log_conditional([one, other])
            index = fitted.vectors_.index
            nats += [rows[0, index[other]], rows[1, index[one]]]
    assert 200 < len(nats) <= 400
    assert fitted.score(held_out) == pytest.approx(np.mean(nats), abs=1e-9)


def test_vectors_predict_new_text_better_than_frequencies(fitted):
    held_out = sentences(2, 3_000)
    pairs = [pair for pair in held_out if set(pair) <= set(fitted.vectors_.words)]
    index = fitted.vectors_.index
    frequency = np.log(fitted.frequencies_)
    alone = np.mean([frequency[index[word]] for pair in pairs for word in pair])
    assert fitted.score(held_out) > alone + 0.1


def test_the_family_is_one_of_all_words(fitted):
    from exfam.families import Categorical

    assert fitted.family == Categorical(len(fitted.vectors_))


def test_parts_of_a_text_come_to_the_whole():
    lines = sentences(3, 4_000)
    whole = PMIFactorization(dim=4, window=1, min_count=20).partial_fit(lines)
    parts = PMIFactorization(dim=4, window=1, min_count=20)
    for part in (lines[:2_500], lines[2_500:]):
        parts.partial_fit(part)
    place = [parts.vectors_.words.index(word) for word in whole.vectors_.words]
    assert sorted(place) == list(range(len(whole.vectors_)))
    np.testing.assert_allclose(parts.eigenvalues_, whole.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(
        parts.log_conditional(whole.vectors_.words)[:, place],
        whole.log_conditional(whole.vectors_.words),
        atol=1e-4,
    )
    fit = PMIFactorization(dim=4, window=1, min_count=20).fit(lines)
    np.testing.assert_allclose(fit.eigenvalues_, whole.eigenvalues_, rtol=1e-9)
    grown = len(parts.vectors_)
    parts.partial_fit([["new", "newer"]] * 30)
    assert len(parts.vectors_) == grown + 2 and "newer" in parts.vectors_


def test_rare_words_keep_their_places():
    lines = [["a", "rare", "b"], ["b", "a", "c"], ["c", "b", "a"]] * 4 + [["a", "c"]]
    lines[0][1] = "rarer"
    model = PMIFactorization(dim=1, window=1, min_count=12)
    kept = model.partial_fit(lines).vectors_.words
    assert set(kept) == {"a", "b"}
    # a and b are beside each other in 8 lines, and not where a rare word stands between them.
    assert model._counted.kept(12).pairs.sum() == 16


def test_the_same_seed_gives_the_same_bits(fitted, text):
    again = clone(fitted).fit(text)
    np.testing.assert_array_equal(again.vectors_.center, fitted.vectors_.center)


def test_a_fit_goes_on_from_a_folder(fitted, text, tmp_path):
    again = clone(fitted).fit(text, folder=tmp_path)
    np.testing.assert_array_equal(again.vectors_.center, fitted.vectors_.center)
    assert (tmp_path / "counting.json").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dim": 0}, "`dim` must be an integer >= 1, got 0"),
        ({"window": 0}, "`window` must be an integer >= 1, got 0"),
        ({"window": 2_000_000_000}, "`window` must be an integer <= 1000000, got 2000000000"),
        ({"min_count": 0}, "`min_count` must be an integer >= 1, got 0"),
        ({"max_bytes": 0}, "`max_bytes` must be an integer >= 1, got 0"),
        ({"seed": -1}, "`seed` must be an integer >= 0, got -1"),
        ({"method": "qr"}, "`method` must be one of 'eigen', 'svd', got 'qr'"),
        ({"weights": "round"}, "`weights` must be one of"),
        ({"shift": -1.0}, "`shift` must be a number >= 0"),
        ({"exponent": 0.75}, "`exponent` must be 1 for method='eigen', got 0.75"),
        ({"dim": 60}, "`X` must hold more than dim = 60 words read at least 20 times, got"),
        ({"min_count": 10**6}, "read at least 1000000 times, got 0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(text, changed, message):
    settings = {"dim": 6, "window": 1, "min_count": 20} | changed
    with pytest.raises(ExfamError, match=message):
        PMIFactorization(**settings).fit(text)


def test_text_without_known_pairs_has_no_score(fitted):
    with pytest.raises(DataError, match="`X` must hold at least one pair of words"):
        fitted.score([["unknown", "words"]])


@pytest.mark.parametrize("method", ["eigen", "svd"])
def test_a_text_without_information_is_refused(method):
    model = PMIFactorization(dim=1, min_count=1, method=method, positive=True, shift=9.0)
    with pytest.raises(DataError, match="The matrix must have as many pairs as are wanted, got"):
        model.fit(["a b", "b c"] * 4)


def test_factorizing_needs_no_torch():
    code = (
        "import sys; from exfam.words.pmi import PMIFactorization as P; "
        "m = P(dim=1, min_count=1).fit([['a', 'b', 'c']] * 3); m.score([['a', 'b']]); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
