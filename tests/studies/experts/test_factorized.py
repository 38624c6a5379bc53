"""What embeddings factorize: matrices, against losses written out instance by instance."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch

from exfam.checks import DataError, ExfamError
from exfam.groups import Groups
from exfam.reading.text import prepare_text
from exfam_studies.experts.factorized import (
    FactorMatrix,
    agreement,
    agreement_by_band,
    asymmetry,
    cbow_linear_matrix,
    cbow_log_matrix,
    count_word_pairs,
    sgns_matrix,
)
from exfam_studies.experts.factorized_attention import (
    attention_factors,
    attention_log_matrix,
    attention_matrix,
    gamma_sums,
)
from exfam_studies.experts.word_attention import WordAttention, word_nats

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
        for position, center in enumerate(sentence):
            yield (
                center,
                [
                    other
                    for at, other in enumerate(sentence)
                    if at != position and (window is None or abs(at - position) <= window)
                ],
            )


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
    np.testing.assert_allclose(pairs.joint, counts / counts.sum())


def test_words_out_of_the_vocabulary_are_as_if_not_written():
    drawn = [list("abxba"), list("bya"), list("ab")] * 2
    kept = prepare_text(drawn, min_count=4)
    without = text_of([[w for w in sentence if w in "ab"] for sentence in drawn])
    assert kept.vocabulary.words == without.vocabulary.words
    left_out, never = (count_word_pairs(text, window=2).weights for text in (kept, without))
    np.testing.assert_array_equal(left_out, never)


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
    assert not any("one size" in failed for failed in matrix.failed_assumptions)
    # Contexts of several sizes break the proof, and the matrix says so.
    matrix = cbow_linear_matrix(count_word_pairs(text, window=1))
    assert "all contexts must have one size, got 1 to 2 words" in matrix.failed_assumptions
    assert np.abs(gradient(bounded_cbow(coded(text, drawn), 1), matrix.values)).max() > 1e-2


def test_words_and_pairs_that_never_occur_are_reported_and_not_defined():
    pairs = count_word_pairs(text_of(["a b", "a b", "b", "a"]), window=None)
    failed = cbow_linear_matrix(pairs).failed_assumptions
    assert failed[0] == "every center must have a context, got 2 without"
    text = text_of(["a b", "a b", "c", "a b"])
    pairs, sums, code = count_word_pairs(text, window=None), gamma_sums(text, np.zeros(4)), 2
    linear, log, sgns = (
        cbow_linear_matrix(pairs), cbow_log_matrix(pairs), sgns_matrix(pairs, negatives=1)
    )  # fmt: skip
    for matrix in (linear, log, sgns, attention_matrix(sums), attention_log_matrix(sums)):
        assert np.isnan(matrix.values[:, code]).all()
        assert "every word must be a context, got 1 that is not" in matrix.failed_assumptions
    assert (linear.values[code, :code] == -1).all()
    assert (log.values[code, :code] == -np.inf).all() and not log.defined[code].any()
    for matrix in (log, sgns):
        assert "every pair must occur, got 4 of 9 that do not" in matrix.failed_assumptions
    assert np.isnan(sums.zeta[code]) and np.isnan(sums.c_tilde(np.ones((3, 2)))[code]).all()


def test_the_log_form_is_the_linear_one_where_that_is_small():
    pairs = count_word_pairs(text_of(sentences(300, lengths=[6])), window=None)
    linear, log = cbow_linear_matrix(pairs), cbow_log_matrix(pairs)
    np.testing.assert_allclose(np.exp(log.values), 1 + linear.values)
    assert "entries of the linear form must be within 1 of 0" not in str(log.failed_assumptions)
    apart = count_word_pairs(text_of(["a b", "c d", "e f"]), window=None)
    for matrix in (cbow_linear_matrix(apart), cbow_log_matrix(apart)):
        assert "entries of the linear form must be within 1 of 0" in str(matrix.failed_assumptions)


@pytest.mark.parametrize("excused", [False, True])
def test_sgns_matrix_is_the_least_of_the_expected_loss(excused):
    drawn = sentences(80, lengths=[3, 5])
    text = text_of(drawn)
    pairs, k = count_word_pairs(text, window=2), 3
    noise = pairs.joint.sum(axis=1)

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

    matrix = sgns_matrix(pairs, negatives=k, excused=excused)
    assert matrix.defined.all() and matrix.failed_assumptions == ()
    np.testing.assert_allclose(gradient(loss, matrix.values), 0, atol=1e-10)
    other = sgns_matrix(pairs, negatives=k, excused=not excused)
    assert np.abs(gradient(loss, other.values)).max() > 0.1


def test_sgns_matrix_is_mutual_information_less_log_k():
    pairs = count_word_pairs(text_of(sentences(80, lengths=[5])), window=2)
    joint = pairs.joint
    expected = np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))) - np.log(5)
    np.testing.assert_allclose(sgns_matrix(pairs, negatives=5).values, expected)
    with pytest.raises(ExfamError, match="`negatives` must be an integer >= 1, got 0"):
        sgns_matrix(pairs, negatives=0)
    lonely = count_word_pairs(text_of(["a b"]), window=None)
    failed = sgns_matrix(lonely, negatives=1, excused=True).failed_assumptions
    assert "no word may be alone near a context, got 2 that are" in failed


@pytest.mark.parametrize("spread", [0.5, 12.0])
def test_gamma_is_summed_over_all_pairs(spread):
    drawn = sentences(60, lengths=[1, 2, 4, 7])
    text = text_of(drawn)
    log_tau = spread * np.random.default_rng(3).standard_normal(6)
    total, squares, bounds = np.zeros((5, 5)), np.zeros(5), np.zeros(5)
    *tau, of_mask = np.exp(log_tau)
    for center, others in instances(coded(text, drawn), None):
        for context in others:
            gamma = tau[context] / (sum(tau[word] for word in others) + of_mask)
            total[center, context] += gamma
            squares[context] += gamma**2
            bounds[context] += (len(others) + 1) * gamma**2
    sums = gamma_sums(text, log_tau + 100)
    np.testing.assert_allclose(sums.total, total, rtol=1e-9)
    np.testing.assert_allclose(sums.squares, squares, rtol=1e-9)
    np.testing.assert_allclose(sums.bounds, bounds, rtol=1e-9)
    np.testing.assert_array_equal(sums.lengths, np.bincount([len(sentence) for sentence in drawn]))
    np.testing.assert_allclose(sums.zeta, squares / total.sum(axis=0))
    np.testing.assert_allclose(sums.p_bar, total / total.sum())
    for log_tau in (np.zeros(5), np.array([0, 0, 0, 0, 0, np.nan])):
        with pytest.raises(DataError, match="`log_tau` must be 6 finite numbers, one for each"):
            gamma_sums(text, log_tau)


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
    sums = gamma_sums(text, log_tau)
    matrix = attention_matrix(sums)
    uneven = f"all sentences must have one length, got {lengths[0]} to {lengths[-1]} words"
    assert (uneven in matrix.failed_assumptions) == (len(lengths) > 1)
    # The last column is MASK's, whose products the others do not depend on.
    products = np.column_stack([matrix.values, np.full(5, 0.3)])
    slope = gradient(bounded_attention(coded(text, drawn), log_tau), products)
    np.testing.assert_allclose(slope[:, :-1], 0, atol=1e-11)
    assert np.abs(slope[:, -1]).max() > 0.1
    # w . c-tilde is |V| p-bar / p-bar(c) - 1 where w . c is the matrix of proposition 6.
    scaled = sums.c_tilde(matrix.values.T).T
    np.testing.assert_allclose(np.log1p(scaled), attention_log_matrix(sums).values)


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
    assert asymmetry(pairs.joint) == 0 and asymmetry(sums.p_bar) == pytest.approx(0, abs=1e-15)
    assert asymmetry(gamma_sums(text, np.array([2.0, -1, 0, 0, 0, 0])).p_bar) > 0.1


def random_case(seed=0, n=40):
    random = np.random.default_rng(seed)
    values = random.standard_normal((n, n))
    products = values + random.standard_normal((n, n))
    values[random.random((n, n)) < 0.2] = -np.inf
    values[:, 3] = np.nan
    return products, FactorMatrix(values, "", ()), random.integers(1, 1000, size=n)


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
    alike = agreement(np.ones_like(products), matrix)
    assert np.isnan([alike.spearman, alike.pearson]).all() and alike.n_cells > 0


def test_bands_part_the_cells_by_the_rarer_word():
    products, matrix, frequency = random_case(1)
    bands = agreement_by_band(products, matrix, frequency=frequency, bounds=[200, 500.5])
    assert [own.band for own in bands] == ["below 200", "200 to 500.5", "500.5 and more"]
    whole = agreement(products, matrix)
    assert sum(own.n_cells for own in bands) == whole.n_cells
    assert sum(own.n_defined for own in bands) == whole.n_defined
    cells = [
        (products[i, j], matrix.values[i, j])
        for i, j in itertools.product(range(len(products)), repeat=2)
        if 200 <= min(frequency[i], frequency[j]) < 500.5 and np.isfinite(matrix.values[i, j])
    ]
    assert len(cells) == bands[1].n_defined > 100
    assert bands[1].pearson == pytest.approx(np.corrcoef(np.array(cells).T)[0, 1])
    at_bound = agreement_by_band(products, matrix, frequency=np.full(40, 200), bounds=[200])
    assert at_bound[0].n_cells == 0 and np.isnan([at_bound[0].spearman, at_bound[0].pearson]).all()


@pytest.fixture
def model():
    generator = torch.Generator().manual_seed(0)
    built = WordAttention(6, embed_dim=4, generator=generator)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return built.double()


def test_logits_are_the_mixture_of_products(model):
    """At every position by equation 1 of appendix G."""
    factors, mask = attention_factors(model), model.words.weight[-1].detach().numpy()
    listed = [[0, 3, 3, 5], [2, 1], [4]]
    tokens = torch.zeros(3, 4, dtype=torch.long)
    present = torch.zeros(3, 4, dtype=torch.bool)
    for row, sentence in enumerate(listed):
        tokens[row, : len(sentence)] = torch.tensor(sentence)
        present[row, : len(sentence)] = True
    logits = model(tokens, present).detach().numpy()
    assert factors.log_tau.std() > 0.3
    for row, sentence in enumerate(listed):
        for m in range(len(sentence)):
            others = [word for at, word in enumerate(sentence) if at != m]
            tau = np.exp(factors.log_tau[[*others, -1]])
            rows = np.vstack([factors.contexts[others], mask])
            expected = factors.words @ rows.T @ (tau / tau.sum())
            np.testing.assert_allclose(logits[row, m], expected, rtol=1e-9)


def test_logits_do_not_see_the_center_or_padding_or_order(model):
    tokens = torch.tensor([[0, 3, 3, 5]])
    present = torch.ones_like(tokens, dtype=torch.bool)
    result = model(tokens, present)
    other = model(torch.tensor([[0, 1, 3, 5]]), present)
    torch.testing.assert_close(result[:, 1], other[:, 1])
    assert (result[:, 0] - other[:, 0]).abs().max() > 1e-3
    padded = model(torch.tensor([[5, 0, 3, 3, 2]]), torch.tensor([[True, True, True, True, False]]))
    torch.testing.assert_close(padded[:, [1, 2, 3, 0]], result)


def test_the_objective_is_of_words_that_have_a_context(model):
    batch = Groups(start=[0, 3], stop=[3, 4], item=[0, 3, 5, 2]).pad([0, 1])
    nats, n = word_nats(model, batch)
    expected = model(batch.item[:1], batch.present[:1])[0].log_softmax(-1)
    torch.testing.assert_close(nats, -expected[range(3), [0, 3, 5]].sum())
    assert int(n) == 3
