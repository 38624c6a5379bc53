"""Counts of pairs of words, their mutual information and its factorization."""

import json
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import exfam
from exfam.checks import CheckpointError, DataError, ExfamError, ModelFileError
from exfam.estimator.storage import save_folder
from exfam.families import Categorical
from exfam.kernels import counting
from exfam.kernels.cooccurrence import WINDOW_WEIGHTS, count_cooccurrences
from exfam.reading.text import prepare_text
from exfam.vectors import WordVectors
from exfam.vectors.saved import model_vectors
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


WINDOW, N_WORDS = 5, 150
EXACT = {
    "flat": lambda distance: Fraction(1),
    "harmonic": lambda distance: Fraction(1, distance),
    "dynamic": lambda distance: Fraction(WINDOW - distance + 1, WINDOW),
}
# Room for 45 keys and 104 pairs of runs, and a triangle of 14 words: the rest goes to files.
SMALL = {"max_bytes": 5_000, "shard_tokens": 701}


@pytest.fixture(scope="module")
def tokens():
    drawn = np.random.default_rng(0).zipf(1.3, 2_500) - 1
    codes = np.where(drawn < N_WORDS, drawn, -1).astype(np.int32)
    assert (codes == -1).any() and len(np.unique(codes)) > 100
    return codes


def counted_one_by_one(tokens, n_words, weight):
    counts = Counter()
    for position, center in enumerate(tokens.tolist()):
        for side in (-1, 1):
            for distance in range(1, WINDOW + 1):
                at = position + side * distance
                if not 0 <= at < len(tokens) or min(tokens[at], center) < 0:
                    break
                if max(tokens[at], center) < n_words:
                    counts[center, int(tokens[at])] += weight(distance)
    dense = np.zeros((n_words, n_words))
    for pair, total in counts.items():
        dense[pair] = float(total)
    return dense


# Codes from the number of words on keep their positions in windows, and are not counted.
@pytest.mark.parametrize(
    ("weights", "n_words"), [*((name, N_WORDS) for name in EXACT), ("flat", 40)]
)
def test_counts_are_the_exact_sums_of_all_pairs(tokens, weights, n_words, tmp_path):
    assert set(EXACT) == set(WINDOW_WEIGHTS)
    expected = counted_one_by_one(tokens, n_words, EXACT[weights])
    for sizes in ({}, {**SMALL, "folder": tmp_path}):
        counts = count_cooccurrences(tokens, n_words, window=WINDOW, weights=weights, **sizes)
        np.testing.assert_array_equal(counts.toarray(), expected)
        counts.check_format(full_check=True)
        assert counts.has_canonical_format and (counts.data > 0).all()
        assert counts.dtype == (np.int64 if weights == "flat" else np.float64)
    assert len(list(tmp_path.glob("run-*.npy"))) > 1


class Stop(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("weights", ["flat", "harmonic"])
def test_what_was_killed_goes_on_to_the_same_counts(tokens, tmp_path, monkeypatch, weights):
    done, save, write = [], counting.Counting.save, counting.write_atomically

    def killed(self, expected):
        save(self, expected)
        done.append(self.done)
        if len(done) < 3:
            raise Stop(f"after {self.done} tokens")

    def killed_in_writing(*_):
        monkeypatch.setattr(counting, "write_atomically", write)
        raise Stop("while writing")

    def count(**sizes):
        return count_cooccurrences(tokens, N_WORDS, window=WINDOW, weights=weights, **sizes)

    monkeypatch.setattr(counting.Counting, "save", killed)
    for at in ("after 701", "while writing", "after 1402"):
        if at == "while writing":
            monkeypatch.setattr(counting, "write_atomically", killed_in_writing)
        with pytest.raises(Stop, match=at):
            count(folder=tmp_path, **SMALL)
    # The second time all is counted: nothing is left to do, and the result is the same.
    for _ in range(2):
        counts = count(folder=tmp_path, **SMALL)
        assert done == [701, 1402, 2103, 2500]
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(counts, part), getattr(count(), part))


def test_a_full_disk_is_named_with_the_remedy(tokens, tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr(counting, "write_atomically", full_disk)
    with pytest.raises(CheckpointError, match="`folder` must be .*: No space left on device. Free"):
        count_cooccurrences(tokens, N_WORDS, window=2, folder=tmp_path)


def test_other_and_damaged_folders_are_refused(tokens, tmp_path):
    def refused(message, tokens=tokens, window=WINDOW):
        with pytest.raises(CheckpointError, match=message):
            count_cooccurrences(tokens, N_WORDS, window=window, folder=tmp_path, **SMALL)

    count_cooccurrences(tokens, N_WORDS, window=WINDOW, folder=tmp_path, **SMALL)
    refused("one of window = 5 instead of 3", window=3)
    refused("one of crc32 = ", tokens[::-1])
    run = min(tmp_path.glob("run-*.npy"))
    whole = run.read_bytes()
    run.write_bytes(whole[:-1])
    refused(f"instead of {len(whole)} of {run.name}")
    run.unlink()
    refused(f"got 0 bytes instead of {len(whole)}")
    (tmp_path / "counting.json").write_text(json.dumps([1]))
    refused("whole counting.json")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": 0}, "`window` must be an integer >= 1, got 0"),
        ({"folder": ""}, "`folder` must be a path, got an empty one"),
        ({"n_words": 2**32}, "`n_words` must be at most 17.* for a window of 2"),
        ({"weights": "round"}, "`weights` must be one of 'dynamic', 'flat', 'harmonic'"),
        ({"weights": "harmonic", "window": 21}, "`window` must be at most 20 for weights="),
    ],
)
def test_settings_out_of_range_are_refused(changed, message):
    with pytest.raises(ExfamError, match=message):
        count_cooccurrences(np.array([0, 1], np.int32), **{"n_words": 3, "window": 2, **changed})


def test_codes_below_minus_one_are_refused_with_their_index(tokens):
    broken = tokens.copy()
    broken[1_234] = -3
    with pytest.raises(DataError, match=r"got -3 at 1234\."):
        count_cooccurrences(broken, N_WORDS, window=2, **SMALL)
