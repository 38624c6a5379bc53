"""What embeddings factorize: matrices, against losses written out instance by instance."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch

from exfam.checks import DataError, ExfamError
from exfam.reading.text import prepare_text
from exfam_studies.experts.factorized import (
    FactorMatrix,
    agreement,
    agreement_by_band,
    asymmetry,
    attention_log_matrix,
    attention_matrix,
    cbow_linear_matrix,
    cbow_log_matrix,
    count_word_pairs,
    gamma_sums,
    sgns_excused_matrix,
    sgns_matrix,
)
from exfam_studies.experts.paraphrases import (
    WordLaw,
    attention_scales,
    attention_windows,
    sentence_windows,
)

WORDS = "abcde"


def sentences(n, *, lengths, seed=0):
    random = np.random.default_rng(seed)
    share = np.array([0.35, 0.25, 0.2, 0.12, 0.08])
    drawn = [
        list(random.choice(list(WORDS), p=share, size=random.choice(lengths))) for _ in range(n)
    ]
    assert {word for sentence in drawn for word in sentence} == set(WORDS)
    return drawn


def text_of(drawn):
    return prepare_text(drawn, min_count=1)


def coded(text, drawn):
    return [[text.vocabulary.code(word) for word in sentence] for sentence in drawn]


def instances(codes, window):
    """Each center and its context, by the definition."""
    for sentence in codes:
        for place, center in enumerate(sentence):
            near = [
                other
                for at, other in enumerate(sentence)
                if at != place and (window is None or abs(at - place) <= window)
            ]
            yield center, near


def gradient(loss, values):
    """Of the loss at a matrix of products that are free to be anything."""
    products = torch.tensor(values, requires_grad=True)
    (result,) = torch.autograd.grad(loss(products), products)
    return result.numpy()


@pytest.mark.parametrize("window", [None, 1, 3])
def test_pairs_are_those_counted_by_hand(window):
    drawn = sentences(60, lengths=[1, 2, 5, 6])
    text = text_of(drawn)
    pairs = count_word_pairs(text, window=window)
    counts, sizes = np.zeros((5, 5)), []
    for center, near in instances(coded(text, drawn), window):
        sizes.append(len(near))
        for other in near:
            counts[center, other] += 1
    assert counts.std() > 1 and 0 in sizes
    np.testing.assert_array_equal(pairs.weights, counts)
    np.testing.assert_array_equal(pairs.context_sizes, np.bincount(sizes))
    np.testing.assert_allclose(pairs.joint.sum(), 1)
    np.testing.assert_allclose(pairs.joint.sum(axis=0), pairs.context)
    np.testing.assert_allclose(pairs.joint.sum(axis=1), pairs.center)
    np.testing.assert_allclose(pairs.conditional * pairs.context, pairs.joint)


def test_words_out_of_the_vocabulary_are_as_if_not_written():
    drawn = [list("abxba"), list("bya"), list("ab")] * 2
    kept = prepare_text(drawn, min_count=4)
    without = prepare_text([[w for w in each if w in "ab"] for each in drawn], min_count=1)
    assert kept.vocabulary.words == without.vocabulary.words
    one, other = (count_word_pairs(text, window=2) for text in (kept, without))
    np.testing.assert_array_equal(one.weights, other.weights)


def test_a_text_without_pairs_is_refused():
    text = text_of([["a"], ["b"]])
    with pytest.raises(DataError, match="`text` must hold a sentence of two words or more, got no"):
        count_word_pairs(text, window=2)
    with pytest.raises(DataError, match="`text` must hold a sentence of two words or more, got no"):
        gamma_sums(text, np.zeros(3))


def bounded_cbow(codes, window):
    """The loss of appendix H, expanded and bounded as there, of all instances."""

    def loss(products):
        n_words, total = len(products), products.sum() * 0
        for center, near in instances(codes, window):
            x = products[:, near]
            first = x.sum() / (len(near) * n_words)
            total = total - x[center].mean() + first + (x**2).sum() / (2 * len(near) * n_words)
        return total

    return loss


def test_cbows_matrix_is_the_least_of_its_linearized_loss():
    drawn = sentences(50, lengths=[4])
    text = text_of(drawn)
    matrix = cbow_linear_matrix(count_word_pairs(text, window=None))
    loss = bounded_cbow(coded(text, drawn), None)
    assert matrix.defined.all() and matrix.values.std() > 0.1
    np.testing.assert_allclose(gradient(loss, matrix.values), 0, atol=1e-12)
    assert np.abs(gradient(loss, matrix.values + 0.1)).min() > 1e-3


def test_contexts_of_several_sizes_break_the_proof_and_the_matrix_says_so():
    drawn = sentences(50, lengths=[4])
    text = text_of(drawn)
    matrix = cbow_linear_matrix(count_word_pairs(text, window=1))
    assert "all contexts must have one size, got 1 to 2 words" in matrix.failed_assumptions
    loss = bounded_cbow(coded(text, drawn), 1)
    assert np.abs(gradient(loss, matrix.values)).max() > 1e-2
    whole = cbow_linear_matrix(count_word_pairs(text, window=None))
    assert not any("one size" in each for each in whole.failed_assumptions)


def test_centers_without_context_are_told():
    pairs = count_word_pairs(text_of(["a b", "a b", "b", "a"]), window=None)
    failed = cbow_linear_matrix(pairs).failed_assumptions
    assert failed[0] == "every center must have a context, got 2 without"


def test_words_and_pairs_that_never_occur_are_told_and_not_defined():
    pairs = count_word_pairs(text_of(["a b", "a b", "c", "a b"]), window=None)
    code = 2  # "c", the rarest
    linear, log = cbow_linear_matrix(pairs), cbow_log_matrix(pairs)
    sgns = sgns_matrix(pairs, negatives=1)
    for matrix in (linear, log, sgns):
        assert np.isnan(matrix.values[:, code]).all()
        assert "every word must be a context, got 1 that is not" in matrix.failed_assumptions
    assert (linear.values[code, :code] == -1).all()
    assert (log.values[code, :code] == -np.inf).all() and not log.defined[code].any()
    assert "every pair must occur, got 4 of 9 that do not" in log.failed_assumptions
    assert "every pair must occur, got 4 of 9 that do not" in sgns.failed_assumptions


def test_the_log_form_is_the_linear_one_where_that_is_small():
    pairs = count_word_pairs(text_of(sentences(300, lengths=[6])), window=None)
    linear, log = cbow_linear_matrix(pairs), cbow_log_matrix(pairs)
    np.testing.assert_allclose(np.exp(log.values), 1 + linear.values)
    assert "entries of the linear form must be within 1 of 0" not in str(log.failed_assumptions)
    apart = count_word_pairs(text_of(["a b", "c d", "e f"]), window=None)
    for matrix in (cbow_linear_matrix(apart), cbow_log_matrix(apart)):
        assert "entries of the linear form must be within 1 of 0" in str(matrix.failed_assumptions)


@pytest.mark.parametrize("excused", [False, True])
@pytest.mark.parametrize("exponent", [1.0, 0.75])
def test_sgns_matrix_is_the_least_of_the_expected_loss(excused, exponent):
    drawn = sentences(80, lengths=[3, 5])
    text = text_of(drawn)
    pairs, k = count_word_pairs(text, window=2), 3
    noise = pairs.center**exponent
    noise /= noise.sum()

    def loss(products):
        total = products.sum() * 0
        for center, near in instances(coded(text, drawn), 2):
            for context in near:
                total = total - torch.nn.functional.logsigmoid(products[center, context])
                drawn_for = torch.tensor(noise.copy())
                if excused:
                    drawn_for[center] = 0
                result = torch.nn.functional.logsigmoid(-products[:, context])
                total = total - k * (drawn_for * result).sum()
        return total

    of = sgns_excused_matrix if excused else sgns_matrix
    matrix = of(pairs, negatives=k, exponent=exponent)
    assert matrix.defined.all() and matrix.failed_assumptions == ()
    np.testing.assert_allclose(gradient(loss, matrix.values), 0, atol=1e-10)
    other = (sgns_matrix if excused else sgns_excused_matrix)(pairs, negatives=k, exponent=exponent)
    assert np.abs(gradient(loss, other.values)).max() > 0.1


def test_sgns_matrix_is_mutual_information_less_log_k():
    pairs = count_word_pairs(text_of(sentences(80, lengths=[5])), window=2)
    matrix = sgns_matrix(pairs, negatives=5)
    expected = np.log(pairs.joint / np.outer(pairs.center, pairs.context)) - np.log(5)
    np.testing.assert_allclose(matrix.values, expected)
    with pytest.raises(ExfamError, match="`negatives` must be an integer >= 1, got 0"):
        sgns_matrix(pairs, negatives=0)


def brute_gamma(codes, tau, of_mask):
    """(center, context, gamma, length) of every pair, by the definition."""
    for sentence in codes:
        for m, center in enumerate(sentence):
            others = [word for at, word in enumerate(sentence) if at != m]
            whole = sum(tau[word] for word in others) + of_mask
            for word in others:
                yield center, word, tau[word] / whole, len(sentence)


@pytest.mark.parametrize("spread", [0.5, 12.0])
def test_gamma_is_summed_over_all_pairs(spread):
    drawn = sentences(60, lengths=[1, 2, 4, 7])
    text = text_of(drawn)
    log_tau = spread * np.random.default_rng(3).standard_normal(6)
    total, squares, bounds = np.zeros((5, 5)), np.zeros(5), np.zeros(5)
    *tau, of_mask = np.exp(log_tau)
    for center, context, gamma, length in brute_gamma(coded(text, drawn), tau, of_mask):
        total[center, context] += gamma
        squares[context] += gamma**2
        bounds[context] += length * gamma**2
    sums = gamma_sums(text, log_tau + 100)
    np.testing.assert_allclose(sums.total, total, rtol=1e-9)
    np.testing.assert_allclose(sums.squares, squares, rtol=1e-9)
    np.testing.assert_allclose(sums.bounds, bounds, rtol=1e-9)
    np.testing.assert_array_equal(sums.lengths, np.bincount([len(each) for each in drawn]))
    np.testing.assert_allclose(sums.zeta, squares / total.sum(axis=0))
    np.testing.assert_allclose(sums.p_bar, total / total.sum())
    vectors = np.random.default_rng(4).standard_normal((5, 3))
    scale = (bounds / total.sum(axis=0))[:, None]
    np.testing.assert_allclose(sums.c_tilde(vectors), scale * vectors)


def bounded_attention(codes, log_tau):
    """Equation 1 of appendix G, expanded and bounded as CBOW's loss is in appendix H."""
    tau = np.exp(log_tau)

    def loss(products):
        n_words, total = products.shape[0], products.sum() * 0
        for sentence in codes:
            for m, center in enumerate(sentence):
                seen = [len(tau) - 1 if at == m else word for at, word in enumerate(sentence)]
                gamma = torch.tensor(tau[seen] / tau[seen].sum())
                x = products[:, seen] * gamma
                bound = len(sentence) * (x**2).sum() / (2 * n_words)
                total = total - x[center].sum() + x.sum() / n_words + bound
        return total

    return loss


@pytest.mark.parametrize("lengths", [[4], [2, 3, 6]])
def test_attentions_matrix_is_the_least_of_its_linearized_loss(lengths):
    drawn = sentences(60, lengths=lengths)
    text = text_of(drawn)
    log_tau = 0.7 * np.random.default_rng(5).standard_normal(6)
    matrix = attention_matrix(gamma_sums(text, log_tau))
    result = [each for each in matrix.failed_assumptions if each.startswith("all sentences must")]
    uneven = f"all sentences must have one length, got {lengths[0]} to {lengths[-1]} words"
    assert result == ([uneven] if len(lengths) > 1 else [])
    # The last column is MASK's, whose products the others do not depend on.
    products = np.column_stack([matrix.values, np.full(5, 0.3)])
    found = gradient(bounded_attention(coded(text, drawn), log_tau), products)
    np.testing.assert_allclose(found[:, :-1], 0, atol=1e-11)
    assert np.abs(found[:, -1]).max() > 0.1
    cbow = cbow_linear_matrix(count_word_pairs(text, window=None)).values
    assert np.abs(cbow - matrix.values).max() > 0.1


def test_attention_to_all_alike_is_cbow():
    text = text_of(sentences(60, lengths=[4]))
    sums, pairs = gamma_sums(text, np.full(6, 1.5)), count_word_pairs(text, window=None)
    np.testing.assert_allclose(attention_matrix(sums).values, cbow_linear_matrix(pairs).values)
    np.testing.assert_allclose(attention_log_matrix(sums).values, cbow_log_matrix(pairs).values)
    np.testing.assert_allclose(sums.p_bar, pairs.joint)
    np.testing.assert_allclose(sums.zeta, 1 / 4)
    # S zeta = 1: c-tilde is c.
    vectors = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(sums.c_tilde(vectors), vectors)
    assert asymmetry(sums.p_bar) == pytest.approx(0, abs=1e-15)


def test_products_with_c_tilde_are_those_of_the_attention_matrix_scaled():
    """w . c-tilde is |V| p-bar / p-bar(c) - 1 where w . c is the matrix of proposition 6."""
    text = text_of(sentences(60, lengths=[2, 5]))
    sums = gamma_sums(text, np.random.default_rng(1).standard_normal(6))
    values = attention_matrix(sums).values
    scaled = sums.c_tilde(values.T).T
    np.testing.assert_allclose(np.log1p(scaled), attention_log_matrix(sums).values)


def test_attention_that_knows_words_apart_is_not_symmetric():
    text = text_of(sentences(60, lengths=[4]))
    pairs = count_word_pairs(text, window=None)
    assert asymmetry(pairs.joint) == 0
    assert asymmetry(gamma_sums(text, np.array([2.0, -1, 0, 0, 0, 0])).p_bar) > 0.1
    with pytest.raises(DataError, match=r"`joint` must be square, got shape \(2, 3\)"):
        asymmetry(np.ones((2, 3)))


def test_gamma_is_that_of_paraphrases_of_words():
    """Two ways through the sentences, which share no code."""
    drawn = sentences(60, lengths=[2, 3, 6])
    text, log_tau = text_of(drawn), np.random.default_rng(2).standard_normal(6)
    sums = gamma_sums(text, log_tau)
    windows = sentence_windows(drawn)
    order = [windows.words.index(word) for word in text.vocabulary.words]
    tau = np.empty(5)
    tau[order] = np.exp(log_tau[:-1])
    mask = float(np.exp(log_tau[-1]))
    scales = attention_scales(windows, tau, mask=mask)
    np.testing.assert_allclose(scales.zeta[order], sums.zeta)
    np.testing.assert_allclose(scales.scale[order, None], sums.c_tilde(np.ones((5, 1))))
    law = WordLaw(attention_windows(windows, tau, mask=mask))
    assert asymmetry(law.pairs * law.context) == pytest.approx(asymmetry(sums.p_bar))


def test_words_that_attention_never_sees_are_told():
    sums = gamma_sums(text_of(["a b", "a b", "c", "a b"]), np.zeros(4))
    for matrix in (attention_matrix(sums), attention_log_matrix(sums)):
        assert np.isnan(matrix.values[:, 2]).all()
        assert "every word must be a context, got 1 that is not" in matrix.failed_assumptions
        assert matrix.failed_assumptions[0].endswith("got 1 to 2 words")
    assert np.isnan(sums.zeta[2]) and np.isnan(sums.c_tilde(np.ones((3, 2)))[2]).all()


@pytest.mark.parametrize("log_tau", [np.zeros(5), np.array([0, 0, 0, 0, 0, np.nan])])
def test_tau_must_be_of_all_words_and_mask(log_tau):
    text = text_of(sentences(60, lengths=[4]))
    with pytest.raises(DataError, match="`log_tau` must be 6 finite numbers, one for each word"):
        gamma_sums(text, log_tau)


def random_case(seed=0, n=40):
    random = np.random.default_rng(seed)
    values = random.standard_normal((n, n))
    products = values + random.standard_normal((n, n))
    values[random.random((n, n)) < 0.2] = -np.inf
    values[:, 3] = np.nan
    frequency = random.integers(1, 1000, size=n)
    return products, FactorMatrix(values, "", ()), frequency


def test_agreement_is_scipys():
    products, matrix, _ = random_case()
    result = agreement(products.astype(np.float32), matrix)
    known, finite = ~np.isnan(matrix.values), np.isfinite(matrix.values)
    # scipy ranks no infinite numbers.
    ranked = np.where(finite, matrix.values, -1e9)[known]
    spearman = scipy.stats.spearmanr(products[known], ranked).statistic
    pearson = scipy.stats.pearsonr(products[finite], matrix.values[finite]).statistic
    assert result.spearman == pytest.approx(spearman, abs=1e-6)
    assert result.pearson == pytest.approx(pearson, abs=1e-6)
    assert (result.n_cells, result.n_defined) == (known.sum(), finite.sum())


def test_bands_part_the_cells_by_the_rarer_word():
    products, matrix, frequency = random_case(1)
    bands = agreement_by_band(products, matrix, frequency=frequency, bounds=[200, 500.5])
    assert [each.band for each in bands] == ["below 200", "200 to 500.5", "500.5 and more"]
    whole = agreement(products, matrix)
    assert sum(each.n_cells for each in bands) == whole.n_cells
    assert sum(each.n_defined for each in bands) == whole.n_defined
    cells = [
        (products[i, j], matrix.values[i, j])
        for i, j in itertools.product(range(len(products)), repeat=2)
        if 200 <= min(frequency[i], frequency[j]) < 500.5 and np.isfinite(matrix.values[i, j])
    ]
    assert len(cells) == bands[1].n_defined > 100
    assert bands[1].pearson == pytest.approx(np.corrcoef(np.array(cells).T)[0, 1])
    at_bound = agreement_by_band(products, matrix, frequency=np.full(40, 200), bounds=[200])
    assert at_bound[0].n_cells == 0 and np.isnan([at_bound[0].spearman, at_bound[0].pearson]).all()


def test_what_is_all_alike_has_no_correlation():
    products, matrix, _ = random_case()
    result = agreement(np.ones_like(products), matrix)
    assert np.isnan([result.spearman, result.pearson]).all() and result.n_cells > 0


def test_what_does_not_go_with_the_matrix_is_refused():
    products, matrix, frequency = random_case()
    with pytest.raises(DataError, match=r"`products` must have the matrix's shape \(40, 40\), got"):
        agreement(products[:-1], matrix)
    with pytest.raises(DataError, match="`products` must be finite, got NaN or infinite ones"):
        agreement(np.where(products > 1, np.nan, products), matrix)
    with pytest.raises(DataError, match="`frequency` must have a number for each of 40 words"):
        agreement_by_band(products, matrix, frequency=frequency[1:], bounds=[3])
    for bounds in ([], [3, 3], [5, 2]):
        with pytest.raises(ExfamError, match="`bounds` must be numbers that rise, got"):
            agreement_by_band(products, matrix, frequency=frequency, bounds=bounds)
