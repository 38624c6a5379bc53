"""Models of words with weights as a part: by hand, proper, without leak; and their expert view."""

import math

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.efa.networks.factor_network import LatentFactorItems
from exfam.groups import Groups
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam.words.cbow import contexts, log_likelihood
from exfam.words.matrices import WordMatrices
from exfam_studies.experts.context_words import CONTEXT_WEIGHTS, ContextWords
from exfam_studies.experts.expert_weights import as_sentences
from exfam_studies.experts.pair_summary import summarize_context_pairs
from exfam_studies.experts.toy_sentences import toy_sentences
from exfam_studies.experts.view import attention_as_experts

N_WORDS, DIM, KEY = 7, 4, 3
EXACT = {"rtol": 0.0, "atol": 1e-10}
CORPUS = Groups(
    start=[0, 6, 8, 9],
    stop=[6, 8, 9, 13],
    item=[2, 0, 2, 4, 6, 1, 5, 3, 0, 1, -1, 1, 2],
    vocabulary={"item": np.arange(N_WORDS)},
)
KINDS = [
    *({"weights": name, "window": window} for name in CONTEXT_WEIGHTS for window in (None, 2)),
    *({"weights": name, "window": 3, "offsets": True} for name in CONTEXT_WEIGHTS),
]


def model(**settings):
    generator = torch.Generator().manual_seed(0)
    network = ContextWords(N_WORDS, dim=DIM, key_dim=KEY, generator=generator, **settings).double()
    with torch.no_grad():
        for parameter in network.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.7 * drawn)
    return network.requires_grad_(False)


def batch(groups=CORPUS):
    return groups.pad(np.arange(len(groups)))


def with_item(position, word):
    item = CORPUS.item.copy()
    item[position] = word
    return Groups(CORPUS.start, CORPUS.stop, item=item, vocabulary=CORPUS.vocabulary)


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
    network = model(**settings)
    eta = network.eta(batch())
    for row, (start, stop) in enumerate(zip(CORPUS.start, CORPUS.stop, strict=True)):
        sentence = CORPUS.item[start:stop].tolist()
        for position in range(len(sentence)):
            expected = torch.tensor(by_hand(network, sentence, position), dtype=torch.float64)
            torch.testing.assert_close(eta[row, position], expected, **EXACT)
    assert float(eta[batch().present].std(0).min()) > 0.01
    view = attention_as_experts(TwoPartModel(direction="bidirectional", item_part=network))
    experts = view.experts(batch())
    torch.testing.assert_close(experts.eta, eta, **EXACT)
    total, some = experts.weights.sum(2), experts.window.there.any(2)
    torch.testing.assert_close(total[some], torch.ones_like(total[some]), **EXACT)
    assert not bool(total[~some].any())
    depends = (experts.weights - experts.weights[..., :1]).abs().max() > 1e-3
    assert bool(depends) == (settings["weights"] == "center")


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_probabilities_sum_to_one_without_a_look_at_the_center(settings):
    """Also with weights that depend on the center word: each candidate has its own."""
    network = model(**settings)
    whole = TwoPartModel(direction="bidirectional", item_part=network)
    p = whole.item_log_probs(batch()).exp()
    torch.testing.assert_close(p.sum(-1), torch.ones_like(p[..., 0]), **EXACT)
    before = network.eta(batch())
    for position in range(6):
        moved = with_item(position, (CORPUS.item[position] + 3) % N_WORDS)
        change = (network.eta(batch(moved)) - before)[0].abs().amax(-1)
        far = network.window or 6
        expected = [0 < abs(other - position) <= far for other in range(6)]
        assert (change > 1e-9).tolist() == expected


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_removal_is_what_the_network_says_without_the_word(settings):
    network = model(**settings)
    experts, eta = network.experts(batch()), network.eta(batch())
    effects, offsets = experts.removal_effects(), experts.window.offset.tolist()
    position, gone = 1, 3
    # An unknown word is no context, and keeps the others where they are.
    expected = (eta - network.eta(batch(with_item(gone, -1))))[0, position]
    result = effects[0, position, offsets.index(gone - position)]
    torch.testing.assert_close(result, expected, **EXACT)
    assert float(expected.abs().max()) > 1e-3
    # The one word around a word of two takes all of the mixture with it.
    alone = effects[1, 0, offsets.index(1)]
    torch.testing.assert_close(alone, eta[1, 0] - network.constant, **EXACT)


def test_even_weights_are_cbow_and_the_latent_factor_model():
    network = model(weights="even")
    same = LatentFactorItems(
        network.given,
        network.predicted,
        direction="bidirectional",
        pooling="mean",
        intercept=network.constant.detach(),
    )
    whole = Groups([0, 6], [6, 8], item=CORPUS.item[:8], vocabulary=CORPUS.vocabulary)
    torch.testing.assert_close(network.eta(batch(whole)), same.eta(batch(whole)), **EXACT)
    # The estimator CBOW computes the same from a text.
    network = model(weights="even", window=2)
    with torch.no_grad():
        network.constant.zero_()
    tokens = np.array([2, 0, 2, 4, 6, 1, -1, 5, 3], np.int32)
    mean, centers = contexts(tokens, n_words=N_WORDS, window=2)
    vectors = {"center": network.given, "context": network.predicted}
    matrices = WordMatrices.restored(
        {name: words.vectors().float().numpy() for name, words in vectors.items()}
    )
    expected = log_likelihood(mean, centers, matrices)
    log_p = network.eta(batch(whole)).log_softmax(-1).numpy()
    result = [log_p[0, i, w] for i, w in enumerate(tokens[:6])]
    result += [log_p[1, i, w] for i, w in enumerate(tokens[7:])]
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_choices_that_do_not_fit_are_refused():
    generator = torch.Generator().manual_seed(0)
    for wrong, message in (
        ({"weights": "centre"}, "`weights` must be one of 'center', 'even', 'mask'"),
        ({"offsets": True}, "`window` must be an integer >= 1, got None"),
        ({"window": 0}, "`window` must be an integer >= 1, got 0"),
    ):
        with pytest.raises(ExfamError, match=message):
            ContextWords(5, generator=generator, **wrong)
    without = Groups(start=[0], stop=[2], values={"x": [1.0, 2.0]})
    with pytest.raises(ExfamError, match="`item` must be given for a model of words"):
        model().around(without.pad([0]))


@pytest.mark.parametrize("weights", CONTEXT_WEIGHTS)
def test_a_summary_is_of_words_and_distances(weights, monkeypatch):
    monkeypatch.setattr("exfam_studies.experts.pair_summary._AT_ONCE", 3)
    network = model(weights=weights, window=2, offsets=True)
    summary = summarize_context_pairs(network, CORPUS)
    assert summary.distances == (-2, -1, 1, 2)
    # Word 2 stands one before word 0 and, in its second position, one before word 4.
    assert summary.count[1, 2] == 2 and summary.count[1, 3] == 0
    experts = network.experts(batch())
    alpha = (experts.weights[0, 1, 1, 0] + experts.weights[0, 3, 1, 4]) / 2
    assert summary.weight[1, 2] == pytest.approx(float(alpha))
    nats = []
    for position in (1, 3):
        whole, effects = experts.eta[0, position], experts.removal_effects()[0, position, 1]
        log_p, without = whole.log_softmax(-1), (whole - effects).log_softmax(-1)
        nats.append(float((log_p.exp() * (log_p - without)).sum()))
    assert summary.nats[1, 2] == pytest.approx(np.mean(nats))
    result = summary.strongest(5, names=list("abcdefg"))
    assert [own["nats"] for own in result] == sorted(summary.nats.ravel())[::-1][:5]
    assert summary.strongest(1, names=list("abcdefg"), by="weight", least=2)[0]["count"] >= 2
    assert summary.strongest(3, names=list("abcdefg"), least=99) == []
    with pytest.raises(ExfamError, match="`by` must be one of 'weight', 'nats'"):
        summary.strongest(3, names=list("abcdefg"), by="size")
    with pytest.raises(ExfamError, match="`network` must have a window to have distances"):
        summarize_context_pairs(model(weights=weights), CORPUS)
    with pytest.raises(ExfamError, match="`groups` must hold at least one word with a context"):
        summarize_context_pairs(network, CORPUS[2:3])


def test_a_fit_learns_weights_that_depend_on_the_center():
    """Beyond the words' frequencies, and beyond where it starts, in exact nats."""
    sentences = toy_sentences(200, seed=0)
    train = as_sentences(sentences, sorted({word for words in sentences for word in words}))
    network = ContextWords(
        12, weights="center", dim=8, window=4, offsets=True,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert float(network.eta(batch(train)).detach().abs().max()) == 0.0
    whole = TwoPartModel(direction="bidirectional", item_part=network)
    chosen = TrainingSettings(learning_rate=0.05, max_epochs=10, batch_size=50)
    fit(whole, objective=Likelihood("bidirectional"), train=train, settings=chosen, progress=False)
    with torch.no_grad():
        nats, weight = Likelihood("bidirectional")(whole, batch(train))
    share = np.bincount(train.item, minlength=12) / len(train.item)
    assert float(nats / weight) < -0.6 * (share * np.log(share)).sum()
    assert float(network.experts(batch(train)).weights.std(-1).mean()) > 0.01
