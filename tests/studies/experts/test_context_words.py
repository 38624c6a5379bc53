"""Models of words with weights as a part: by hand, proper, without leak; and their expert view."""

import math

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.efa.networks.factor_network import LatentFactorItems
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.experts.context_words import CONTEXT_WEIGHTS, ContextWords
from model_cases import generator, redraw

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
