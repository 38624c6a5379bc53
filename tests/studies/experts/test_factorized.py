"""What word models factorize, and attention over the words of a context."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from exfam.checks import DataError, ExfamError
from exfam.efa.networks.factor_network import LatentFactorItems
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.reading.text import prepare_text
from exfam_studies.experts.context_words import CONTEXT_WEIGHTS, ContextWords
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
    WordAttention,
    attention_factors,
    attention_log_matrix,
    attention_matrix,
    gamma_sums,
    word_nats,
)
from model_cases import generator, redraw

LOG_TAU = np.array([0.3, -0.9, 1.2, 0.1, -0.4, 0.7])


def text_of(sentences):
    return prepare_text(sentences, min_count=1)


def drawn(n, *, lengths):
    """A text of five words, and its sentences as codes."""
    random = np.random.default_rng(0)
    share = np.array([0.35, 0.25, 0.2, 0.12, 0.08])
    sentences = [
        list(random.choice(list("abcde"), p=share, size=random.choice(lengths))) for _ in range(n)
    ]
    text = text_of(sentences)
    assert len(text.vocabulary) == 5
    return text, [[text.vocabulary.code(word) for word in sentence] for sentence in sentences]


def instances(codes, window=None):
    """Each center and its context, by the definition."""
    for sentence in codes:
        for position, center in enumerate(sentence):
            reach = len(sentence) if window is None else window
            before, after = sentence[max(0, position - reach) : position], sentence[position + 1 :]
            yield center, [*before, *after[:reach]]


def gradient(loss, values):
    """Of the loss at a matrix of products that are free to be anything."""
    products = torch.tensor(values, requires_grad=True)
    (result,) = torch.autograd.grad(loss(products), products)
    return result.numpy()


@pytest.mark.parametrize("window", [None, 3])
def test_pairs_are_those_counted_by_hand(window):
    text, codes = drawn(60, lengths=[1, 2, 5, 6])
    pairs = count_word_pairs(text, window=window)
    counts, sizes = np.zeros((5, 5)), []
    for center, near in instances(codes, window):
        sizes.append(len(near))
        np.add.at(counts[center], near, 1)
    assert counts.std() > 1 and 0 in sizes
    np.testing.assert_array_equal(pairs.weights, counts)
    np.testing.assert_array_equal(pairs.context_sizes, np.bincount(sizes))
    np.testing.assert_allclose(pairs.joint, counts / counts.sum())
    text = text_of([["a"], ["b"]])
    for count in (lambda: count_word_pairs(text, window=2), lambda: gamma_sums(text, np.zeros(3))):
        with pytest.raises(DataError, match="`text` must hold a sentence of two words or more"):
            count()


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
    text, codes = drawn(50, lengths=[4])
    pairs = count_word_pairs(text, window=None)
    matrix = cbow_linear_matrix(pairs)
    assert matrix.defined.all() and matrix.values.std() > 0.1
    np.testing.assert_allclose(gradient(bounded_cbow(codes, None), matrix.values), 0, atol=1e-12)
    assert not any("one size" in failed for failed in matrix.failed_assumptions)
    np.testing.assert_allclose(np.exp(cbow_log_matrix(pairs).values), 1 + matrix.values)
    # Contexts of several sizes break the proof, and the matrix says so.
    matrix = cbow_linear_matrix(count_word_pairs(text, window=1))
    assert "all contexts must have one size, got 1 to 2 words" in matrix.failed_assumptions
    assert np.abs(gradient(bounded_cbow(codes, 1), matrix.values)).max() > 1e-2


def test_words_and_pairs_that_never_occur_are_reported_and_not_defined():
    pairs = count_word_pairs(text_of(["a b", "a b", "b", "a"]), window=None)
    failed = cbow_linear_matrix(pairs).failed_assumptions
    assert failed[0] == "every center must have a context, got 2 without"
    text = text_of(["a b", "a b", "c", "a b"])
    pairs, sums, code = count_word_pairs(text, window=None), gamma_sums(text, np.zeros(4)), 2
    linear, log = cbow_linear_matrix(pairs), cbow_log_matrix(pairs)
    sgns = sgns_matrix(pairs, negatives=1)
    for matrix in (linear, log, sgns, attention_matrix(sums), attention_log_matrix(sums)):
        assert np.isnan(matrix.values[:, code]).all()
        assert "every word must be a context, got 1 that are not" in matrix.failed_assumptions
    assert (linear.values[code, :code] == -1).all() and not log.defined[code].any()
    for matrix in (log, sgns):
        assert "every pair must occur, got 4 of 9 that do not" in matrix.failed_assumptions
    assert np.isnan(sums.zeta[code])
    apart = cbow_log_matrix(count_word_pairs(text_of(["a b", "c d", "e f"]), window=None))
    assert "entries of the linear form must be within 1 of 0" in str(apart.failed_assumptions)


@pytest.mark.parametrize("excused", [False, True])
def test_sgns_matrix_is_the_least_of_the_expected_loss(excused):
    text, codes = drawn(80, lengths=[3, 5])
    pairs, k = count_word_pairs(text, window=2), 3
    joint, log_sigmoid = pairs.joint, torch.nn.functional.logsigmoid

    def loss(products):
        total = products.sum() * 0
        for center, near in instances(codes, 2):
            noise = torch.tensor(joint.sum(axis=1))
            noise[center] *= not excused
            for context in near:
                of_noise = (noise * log_sigmoid(-products[:, context])).sum()
                total = total - log_sigmoid(products[center, context]) - k * of_noise
        return total

    matrix = sgns_matrix(pairs, negatives=k, excused=excused)
    assert matrix.defined.all() and matrix.failed_assumptions == ()
    np.testing.assert_allclose(gradient(loss, matrix.values), 0, atol=1e-10)
    if not excused:
        expected = np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))
        np.testing.assert_allclose(matrix.values, expected - np.log(k))
    with pytest.raises(ExfamError, match="`negatives` must be an integer >= 1, got 0"):
        sgns_matrix(pairs, negatives=0)
    lonely = count_word_pairs(text_of(["a b"]), window=None)
    failed = sgns_matrix(lonely, negatives=1, excused=True).failed_assumptions
    assert "no word may be alone near a context, got 2 that are" in failed


@pytest.mark.parametrize("spread", [1, 20])
def test_gamma_is_summed_over_all_pairs(spread):
    text, codes = drawn(60, lengths=[1, 2, 4, 7])
    total, squares, bounds = np.zeros((5, 5)), np.zeros(5), np.zeros(5)
    *tau, of_mask = np.exp(spread * LOG_TAU)
    for center, others in instances(codes):
        for context in others:
            gamma = tau[context] / (sum(tau[word] for word in others) + of_mask)
            total[center, context] += gamma
            squares[context] += gamma**2
            bounds[context] += (len(others) + 1) * gamma**2
    sums = gamma_sums(text, spread * LOG_TAU + 100)
    for result, expected in (
        (sums.total, total), (sums.squares, squares), (sums.bounds, bounds),
        (sums.zeta, squares / total.sum(axis=0)), (sums.p_bar, total / total.sum()),
        (sums.lengths, np.bincount([len(sentence) for sentence in codes])),
    ):  # fmt: skip
        np.testing.assert_allclose(result, expected, rtol=1e-9)
    for log_tau in (np.zeros(5), np.array([0, 0, 0, 0, 0, np.nan])):
        with pytest.raises(DataError, match="`log_tau` must be 6 finite numbers, one for each"):
            gamma_sums(text, log_tau)


@pytest.mark.parametrize("lengths", [[4], [2, 3, 6]])
def test_attentions_matrix_is_the_least_of_its_linearized_loss(lengths):
    """Equation 1 of appendix G, expanded and bounded as CBOW's loss is in appendix H."""
    text, codes = drawn(60, lengths=lengths)
    tau = np.exp(LOG_TAU)

    def loss(products):
        n_words, total = products.shape[0], products.sum() * 0
        for sentence in codes:
            for m, center in enumerate(sentence):
                seen = [5 if at == m else word for at, word in enumerate(sentence)]
                x = products[:, seen] * torch.tensor(tau[seen] / tau[seen].sum())
                bound = len(sentence) * (x**2).sum() / (2 * n_words)
                total = total - x[center].sum() + x.sum() / n_words + bound
        return total

    sums = gamma_sums(text, LOG_TAU)
    matrix = attention_matrix(sums)
    uneven = f"all sentences must have one length, got {lengths[0]} to {lengths[-1]} words"
    assert (uneven in matrix.failed_assumptions) == (len(lengths) > 1)
    # The last column is MASK's, whose products the others do not depend on.
    products = np.column_stack([matrix.values, np.full(5, 0.3)])
    slope = gradient(loss, products)
    np.testing.assert_allclose(slope[:, :-1], 0, atol=1e-11)
    assert np.abs(slope[:, -1]).max() > 0.1
    # w . c-tilde is |V| p-bar / p-bar(c) - 1 where w . c is the matrix of proposition 6.
    scaled = sums.c_tilde(matrix.values.T).T
    np.testing.assert_allclose(np.log1p(scaled), attention_log_matrix(sums).values)


def test_attention_to_all_alike_is_cbow():
    text, _ = drawn(60, lengths=[4])
    sums, pairs = gamma_sums(text, np.full(6, 1.5)), count_word_pairs(text, window=None)
    np.testing.assert_allclose(attention_matrix(sums).values, cbow_linear_matrix(pairs).values)
    np.testing.assert_allclose(sums.p_bar, pairs.joint)
    # S zeta = 1: c-tilde is c.
    np.testing.assert_allclose(sums.c_tilde(np.eye(5)), np.eye(5))
    assert asymmetry(pairs.joint) == 0
    assert asymmetry(gamma_sums(text, np.array([2.0, -1, 0, 0, 0, 0])).p_bar) > 0.1


def test_agreement_is_scipys_and_bands_part_the_cells_by_the_rarer_word():
    random = np.random.default_rng(0)
    values = random.standard_normal((40, 40))
    products = values + random.standard_normal((40, 40))
    values[random.random((40, 40)) < 0.2] = -np.inf
    values[:, 3] = np.nan
    matrix, frequency = FactorMatrix(values, "", ()), random.integers(1, 1000, size=40)
    result = agreement(products.astype(np.float32), matrix)
    known, finite = ~np.isnan(values), np.isfinite(values)
    # scipy ranks no infinite numbers.
    ranked = np.where(finite, values, -1e9)[known]
    spearman = scipy.stats.spearmanr(products[known], ranked).statistic
    pearson = scipy.stats.pearsonr(products[finite], values[finite]).statistic
    assert (result.spearman, result.pearson) == pytest.approx((spearman, pearson), abs=1e-6)
    assert (result.n_cells, result.n_defined) == (known.sum(), finite.sum())
    alike = agreement(np.ones_like(products), matrix)
    assert np.isnan([alike.spearman, alike.pearson]).all() and alike.n_cells > 0
    bands = agreement_by_band(products, matrix, frequency=frequency, bounds=[200, 500.5])
    assert [own.band for own in bands] == ["below 200", "200 to 500.5", "500.5 and more"]
    assert sum(own.n_cells for own in bands) == result.n_cells
    rarer = np.minimum.outer(frequency, frequency)
    cells = finite & (rarer >= 200) & (rarer < 500.5)
    assert bands[1].n_defined == cells.sum() > 100
    assert bands[1].pearson == pytest.approx(np.corrcoef(products[cells], values[cells])[0, 1])
    at_bound = agreement_by_band(products, matrix, frequency=np.full(40, 200), bounds=[200])
    assert at_bound[0].n_cells == 0 and np.isnan([at_bound[0].spearman, at_bound[0].pearson]).all()


def test_logits_are_the_mixture_of_products():
    """At every position by equation 1 of appendix G; the objective is of words with a context."""
    model = redraw(WordAttention(6, embed_dim=4, generator=generator()).double(), generator(1))
    factors, mask = attention_factors(model), model.words.weight[-1].detach().numpy()
    listed = [[0, 3, 3, 5], [2, 1], [4]]
    batch = Groups(start=[0, 4, 6], stop=[4, 6, 7], item=sum(listed, [])).pad(range(3))
    logits = model(batch.item, batch.present)
    for row, sentence in enumerate(listed):
        for m in range(len(sentence)):
            others = sentence[:m] + sentence[m + 1 :]
            tau = np.exp(factors.log_tau[[*others, -1]])
            rows = np.vstack([factors.contexts[others], mask])
            expected = factors.words @ rows.T @ (tau / tau.sum())
            np.testing.assert_allclose(logits[row, m].detach(), expected, rtol=1e-9)
    nats, n = word_nats(model, batch)
    log_p = logits.log_softmax(-1)
    expected = [log_p[row, m, w] for row in (0, 1) for m, w in enumerate(listed[row])]
    torch.testing.assert_close(nats, -sum(expected))
    assert int(n) == 6


N_WORDS, DIM, KEY = 7, 4, 3
EXACT = {"rtol": 0.0, "atol": 1e-10}
ITEMS = [2, 0, 2, 4, 6, 1, 5, 3, 0, 1, -1, 1, 2]
KINDS = [
    *({"weights": name, "window": window} for name in CONTEXT_WEIGHTS for window in (None, 2)),
    *({"weights": name, "window": 3, "offsets": True} for name in CONTEXT_WEIGHTS),
]


def model(**settings):
    source = generator()
    network = ContextWords(N_WORDS, dim=DIM, key_dim=KEY, generator=source, **settings).double()
    return redraw(network, source, scale=0.7).requires_grad_(False)


def batch(items=ITEMS):
    vocabulary = {"item": np.arange(N_WORDS)}
    groups = Groups([0, 6, 8, 9], [6, 8, 9, 13], item=items, vocabulary=vocabulary)
    return groups.pad(range(4))


def by_hand(network, sentence, position):
    """eta of all candidates at one position, from the module's formulas, a candidate at a time."""
    w = {name: p.numpy() for name, p in network.named_parameters()}
    v, u = w["given.table.weight"], w["predicted.table.weight"]
    far = network.window or len(sentence)
    near = [j for j, word in enumerate(sentence) if 0 < abs(j - position) <= far and word >= 0]
    eta = []
    for b in range(N_WORDS):
        scores = []
        for j in near:
            x, score = sentence[j], 0.0
            if "scores.mask" in w:
                score = v[x] @ w["scores.mask"]
            if "scores.query" in w:
                score = w["scores.query"][b] @ w["scores.key"][x] / math.sqrt(KEY)
            if "scores.offset" in w:
                offsets = [o for o in range(-network.window, network.window + 1) if o]
                score += w["scores.offset"][offsets.index(j - position)]
            scores.append(math.exp(score))
        mixture = sum(
            a / sum(scores) * (u[b] @ v[sentence[j]]) for a, j in zip(scores, near, strict=True)
        )
        eta.append(mixture + w["constant"][b])
    return eta


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_outputs_are_the_mixture_of_experts(settings):
    """Also with weights that depend on the center word: each candidate has its own."""
    network = model(**settings)
    eta = network.eta(batch())
    for row, sentence in enumerate((ITEMS[:6], ITEMS[6:8], ITEMS[8:9], ITEMS[9:])):
        for position in range(len(sentence)):
            expected = torch.tensor(by_hand(network, sentence, position), dtype=torch.float64)
            torch.testing.assert_close(eta[row, position], expected, **EXACT)
    assert float(eta[batch().present].std(0).min()) > 0.01
    whole = TwoPartModel(direction="bidirectional", item_part=network)
    p = whole.item_log_probs(batch()).exp()
    torch.testing.assert_close(p.sum(-1), torch.ones_like(p[..., 0]), **EXACT)
    experts = network.experts(batch())
    mixture = (experts.weights * experts.contributions).sum(2) + experts.constant
    torch.testing.assert_close(mixture, eta, **EXACT)
    total, some = experts.weights.sum(2), network.around(batch()).there.any(2)
    torch.testing.assert_close(total[some], torch.ones_like(total[some]), **EXACT)
    assert not bool(total[~some].any())
    depends = (experts.weights - experts.weights[..., :1]).abs().max() > 1e-3
    assert bool(depends) == (settings["weights"] == "center")


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_a_word_moves_those_around_it_and_not_itself(settings):
    network = model(**settings)
    for position in range(6):
        moved = [*ITEMS[:position], (ITEMS[position] + 3) % N_WORDS, *ITEMS[position + 1 :]]
        change = (network.eta(batch(moved)) - network.eta(batch()))[0].abs().amax(-1)
        far = network.window or 6
        expected = [0 < abs(other - position) <= far for other in range(6)]
        assert (change > 1e-9).tolist() == expected


def test_even_weights_are_the_latent_factor_model():
    network = model(weights="even")
    same = LatentFactorItems(
        network.given,
        network.predicted,
        direction="bidirectional",
        pooling="mean",
        intercept=network.constant.detach(),
    )
    known = [max(item, 0) for item in ITEMS]
    torch.testing.assert_close(network.eta(batch(known)), same.eta(batch(known)), **EXACT)


def test_choices_that_do_not_fit_are_refused():
    generator = torch.Generator().manual_seed(0)
    for wrong, message in (
        ({"weights": "centre"}, "`weights` must be one of 'center', 'even', 'mask'"),
        ({"offsets": True}, "`window` must be an integer >= 1, got None"),
    ):
        with pytest.raises(ExfamError, match=message):
            ContextWords(5, generator=generator, **wrong)
    without = Groups(start=[0], stop=[2], values={"x": [1.0, 2.0]})
    with pytest.raises(ExfamError, match="`item` must be given for a model of words"):
        model().around(without.pad([0]))
