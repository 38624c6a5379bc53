"""Models of words with weights as a part: by hand, proper, without leak; and their expert view."""

import math

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.efa.networks.factor_network import LatentFactorItems
from exfam.embeddings import ItemEmbedding
from exfam.groups import Groups
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.reading.text import prepare_text
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam.words.matrices import WordMatrices
from exfam.words.softmax import contexts, log_likelihood
from exfam_studies.experts.attended_words import WordAttention
from exfam_studies.experts.context_words import (
    CONTEXT_WEIGHTS,
    ContextWords,
    ContextWordsSettings,
    EvenScores,
    WithOffsets,
    build_context_words,
)
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


def model(seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    choices = ContextWordsSettings(dim=DIM, key_dim=KEY, **settings)
    network = build_context_words(N_WORDS, choices, generator=generator).double()
    with torch.no_grad():
        for parameter in network.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.7 * drawn)
    return network.requires_grad_(False)


def batch(groups=CORPUS):
    return groups.pad(np.arange(len(groups)))


def by_hand(network, sentence, place):
    """eta of all candidates at one place, from the module's formulas, one candidate at a time."""
    w = {name: p.numpy() for name, p in network.named_parameters()}
    v, u = w["given.table.weight"], w["predicted.table.weight"]
    far = network.window or len(sentence)
    near = [j for j, word in enumerate(sentence) if 0 < abs(j - place) <= far and word >= 0]
    eta = []
    for b in range(N_WORDS):
        scores = []
        for j in near:
            x = sentence[j]
            score = 0.0
            if any(name.endswith("asked") for name in w):
                score = v[x] @ next(w[name] for name in w if name.endswith("asked"))
            if any(name.endswith("query") for name in w):
                query = next(w[name] for name in w if name.endswith("query"))
                key = next(w[name] for name in w if name.endswith("key"))
                score = query[b] @ key[x] / math.sqrt(KEY)
            if "scores.of_offset" in w:
                most = len(w["scores.of_offset"]) // 2
                numbers = [o for o in range(-most, most + 1) if o]
                score += w["scores.of_offset"][numbers.index(j - place)]
            scores.append(math.exp(score))
        mixture = sum(
            a / sum(scores) * (u[b] @ v[sentence[j]]) for a, j in zip(scores, near, strict=True)
        )
        eta.append(mixture + w["constant"][b])
    return eta


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_outputs_are_the_mixture_that_is_predicted(settings):
    network = model(**settings)
    eta = network.eta(batch())
    for row, (start, stop) in enumerate(zip(CORPUS.start, CORPUS.stop, strict=True)):
        sentence = CORPUS.item[start:stop].tolist()
        for place in range(len(sentence)):
            expected = torch.tensor(by_hand(network, sentence, place), dtype=torch.float64)
            torch.testing.assert_close(eta[row, place], expected, **EXACT)
    assert float(eta[batch().present].std(0).min()) > 0.01


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_the_expert_view_is_the_network(settings):
    network = model(**settings)
    view = attention_as_experts(TwoPartModel(direction="bidirectional", item_part=network))
    assert isinstance(view, WordAttention)
    experts = view.experts(batch())
    torch.testing.assert_close(experts.eta, network.eta(batch()), **EXACT)
    total = experts.weights.sum(2)
    some = experts.window.there.any(2)
    torch.testing.assert_close(total[some], torch.ones_like(total[some]), **EXACT)
    assert not bool(total[~some].any())
    depends = (experts.weights - experts.weights[..., :1]).abs().max() > 1e-3
    assert bool(depends) == (settings["weights"] == "center")


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_probabilities_sum_to_one_without_a_look_at_the_center(settings):
    """Also with weights that depend on the center word: each candidate has its own."""
    network = model(**settings)
    whole = TwoPartModel(direction="bidirectional", item_part=network)
    law = whole.item_log_probs(batch()).exp()
    torch.testing.assert_close(law.sum(-1), torch.ones_like(law[..., 0]), **EXACT)
    assert float(law.min()) > 0
    before = network.eta(batch())
    for place in range(6):
        item = CORPUS.item.copy()
        item[place] = (item[place] + 3) % N_WORDS
        moved = Groups(CORPUS.start, CORPUS.stop, item=item, vocabulary=CORPUS.vocabulary)
        change = (network.eta(batch(moved)) - before)[0].abs().amax(-1)
        far = network.window or 6
        expected = [0 < abs(other - place) <= far for other in range(6)]
        assert (change > 1e-9).tolist() == expected


def test_the_true_centers_weights_for_all_candidates_would_be_no_law():
    """What the model does not do: weights of the answer itself leave a sum that is not 1."""
    network = model(weights="center", window=2)
    experts = WordAttention(network).experts(batch())
    at = 0, 2
    of_each = [
        (experts.weights[at][:, b, None] * experts.contributions[at]).sum(0) + experts.constant
        for b in range(N_WORDS)
    ]
    improper = sum(float(eta.softmax(-1)[b]) for b, eta in enumerate(of_each))
    assert abs(improper - 1) > 1e-3


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_removal_is_what_the_network_says_without_the_word(settings):
    network = model(**settings)
    effects = WordAttention(network).experts(batch()).removal_effects()
    window = network.around(batch())
    place, gone = 1, 3
    item = CORPUS.item.copy()
    item[gone] = -1  # an unknown word is no context, and keeps the others where they are
    less = Groups(CORPUS.start, CORPUS.stop, item=item, vocabulary=CORPUS.vocabulary)
    column = window.offset.tolist().index(gone - place)
    expected = (network.eta(batch()) - network.eta(batch(less)))[0, place]
    torch.testing.assert_close(effects[0, place, column], expected, **EXACT)
    assert float(expected.abs().max()) > 1e-3
    # The one word around a word of two takes all of the mixture with it.
    only = window.offset.tolist().index(1)
    torch.testing.assert_close(
        effects[1, 0, only], network.eta(batch())[1, 0] - network.constant, **EXACT
    )


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


def test_center_weights_without_queries_are_even():
    network = model(weights="center", window=2)
    even = model(weights="even", window=2)
    even.load_state_dict({n: p for n, p in network.state_dict().items() if "scores" not in n})
    network.scores.query.zero_()
    torch.testing.assert_close(network.eta(batch()), even.eta(batch()), **EXACT)


def test_a_network_at_its_start_tells_all_words_alike():
    for weights in CONTEXT_WEIGHTS:
        settings = ContextWordsSettings(weights=weights, dim=DIM)
        start = build_context_words(N_WORDS, settings, generator=torch.Generator().manual_seed(1))
        assert float(start.eta(batch()).detach().abs().max()) == 0.0


def test_choices_that_do_not_fit_are_refused():
    with pytest.raises(ExfamError, match="`weights` must be one of 'center', 'even', 'mask'"):
        ContextWordsSettings(weights="centre")
    with pytest.raises(ExfamError, match="`dim` must be a number > 0"):
        ContextWordsSettings(dim=0)
    with pytest.raises(ExfamError, match="`window` must be an integer >= 1 for scores of offsets"):
        ContextWordsSettings(offsets=True)
    with pytest.raises(ExfamError, match="`most` must be an integer >= 1"):
        WithOffsets(EvenScores(), most=0)
    generator = torch.Generator().manual_seed(0)
    one, two = (ItemEmbedding(5, dim, generator=generator) for dim in (3, 4))
    with pytest.raises(ExfamError, match="`predicted` must have 5 vectors of length 3 as `given`"):
        ContextWords(one, two, EvenScores(), window=None)
    with pytest.raises(ExfamError, match="`window` must be an integer >= 1, got 0"):
        ContextWords(one, one, EvenScores(), window=0)
    without = Groups(start=[0], stop=[2], values={"x": [1.0, 2.0]})
    with pytest.raises(ExfamError, match="`item` must be given for a model of words"):
        model().around(without.pad([0]))


def sentences_of(n, *, seed):
    text = prepare_text(toy_sentences(n, seed=seed), min_count=1)
    tokens = text.tokens[text.tokens >= 0].reshape(-1, 5)
    return Groups(
        start=5 * np.arange(n),
        stop=5 * np.arange(n) + 5,
        item=tokens.ravel(),
        vocabulary={"item": np.arange(12)},
    )


def test_a_fit_learns_weights_that_depend_on_the_center():
    """Beyond the words' frequencies, and beyond where it starts, in exact nats."""
    train = sentences_of(200, seed=0)
    settings = ContextWordsSettings(weights="center", dim=8, window=4, offsets=True)
    network = build_context_words(12, settings, generator=torch.Generator().manual_seed(0))
    whole = TwoPartModel(direction="bidirectional", item_part=network)
    chosen = TrainingSettings(learning_rate=0.05, max_epochs=10, batch_size=50)
    fit(whole, objective=Likelihood("bidirectional"), train=train, settings=chosen, progress=False)
    with torch.no_grad():
        nats, weight = Likelihood("bidirectional")(whole, batch(train))
    counts = np.bincount(train.item, minlength=12)
    frequencies = -(counts / counts.sum() * np.log(counts / counts.sum())).sum()
    assert float(nats / weight) < 0.6 * frequencies
    spread = WordAttention(network).experts(batch(train)).weights.std(-1)
    assert float(spread.mean()) > 0.01
