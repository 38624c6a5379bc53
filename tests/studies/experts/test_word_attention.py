"""The masked model of proposition 6, and what its factors are taken of."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.experts import Sentences, forward, random_network
from exfam.groups import Groups
from exfam.language.networks.masked_lm import MaskedLMSizes, build_masked_lm
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam_studies.experts.factorized import attention_factors
from exfam_studies.experts.word_attention import build_word_attention, word_nats

N_WORDS = 6


@pytest.fixture
def model():
    generator = torch.Generator().manual_seed(0)
    built = build_word_attention(N_WORDS, embed_dim=4, head_dim=3, generator=generator)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return built.double()


def mixture(factors, of_mask, sentence):
    """Logits at every place by equation 1 of appendix G."""
    result = []
    for m in range(len(sentence)):
        others = [word for at, word in enumerate(sentence) if at != m]
        tau = np.exp(factors.log_tau[[*others, -1]])
        rows = np.vstack([factors.contexts[others], of_mask])
        result.append(factors.words @ rows.T @ (tau / tau.sum()))
    return np.array(result)


def test_logits_are_the_mixture_of_products(model):
    factors = attention_factors(model)
    mask = model.words.weight[-1].detach().numpy()
    sentences = [[0, 3, 3, 5], [2, 1], [4]]
    tokens = torch.zeros(3, 4, dtype=torch.long)
    present = torch.zeros(3, 4, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        tokens[row, : len(sentence)] = torch.tensor(sentence)
        present[row, : len(sentence)] = True
    logits = model(tokens, present).detach().numpy()
    assert factors.log_tau.std() > 0.3
    for row, sentence in enumerate(sentences):
        expected = mixture(factors, mask, sentence)
        np.testing.assert_allclose(logits[row, : len(sentence)], expected, rtol=1e-9)


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
    with pytest.raises(ExfamError, match="`item` must be given for this model, got groups without"):
        word_nats(model, Groups(start=[0], stop=[3]).pad([0]))


def test_a_fit_learns_what_goes_with_what():
    sentences = np.array([[0, 1, 2], [3, 4, 5]] * 40)
    groups = Groups(start=np.arange(0, 240, 3), stop=np.arange(3, 243, 3), item=sentences.ravel())
    model = build_word_attention(N_WORDS, embed_dim=4, generator=torch.Generator().manual_seed(0))
    settings = TrainingSettings(learning_rate=0.03, max_epochs=30, batch_size=16)
    history = fit(model, objective=word_nats, train=groups, settings=settings, progress=False)
    assert history.rows[0].train_nats > 1.5 and history.rows[-1].train_nats < 0.2
    factors = attention_factors(SimpleNamespace(model_=model))
    products = factors.products
    assert products[0, 1] > products[0, 4] and products[5, 3] > products[5, 2]


@pytest.mark.parametrize("size", ["n_words", "embed_dim", "head_dim"])
def test_sizes_must_be_whole(size):
    sizes = {"n_words": 3, "embed_dim": 2, "head_dim": 2} | {size: 0}
    n_words = sizes.pop("n_words")
    with pytest.raises(ExfamError, match=f"`{size}` must be an integer >= 1, got 0"):
        build_word_attention(n_words, **sizes, generator=torch.Generator())


def without_residual():
    """A linear network whose readout takes back what residual connections and biases add."""
    network = random_network(torch.Generator().manual_seed(1), n_heads=1)
    readout = network.readout[:1].expand_as(network.readout)
    to_logits = readout[0] + readout[0] @ network.hidden
    added = network.mask + network.out_bias + network.out[0] @ network.value_bias[0]
    g = to_logits @ added + readout[0] @ network.hidden_bias
    return replace(
        network,
        positions=torch.zeros_like(network.positions),
        readout=readout,
        readout_bias=(2.5 - g).expand_as(network.readout_bias),
    )


def test_factors_of_a_linear_network_are_its_logits():
    network = without_residual()
    factors, sentence = attention_factors(network), [4, 0, 4]
    expected = forward(network, Sentences(torch.tensor([sentence])), [0, 1, 2])[0].numpy()
    result = mixture(factors, network.mask.numpy(), sentence)
    # A constant that is the same for all words is none of the factors.
    np.testing.assert_allclose(result - result[:, :1], expected - expected[:, :1], atol=1e-10)
    assert np.abs(result).max() > 0.05


def test_models_of_which_the_proposition_says_nothing_are_refused():
    network = without_residual()
    random = torch.Generator().manual_seed(1)
    cases = {
        "got 2 heads, each with a tau of its own": random_network(random),
        "got positions, which change scores": replace(
            network, positions=torch.ones_like(network.positions)
        ),
        "got another last layer at each position": replace(
            network, readout=network.readout + torch.arange(3.0)[:, None, None]
        ),
        "got a residual connection or biases, which change logits by up to": replace(
            network, readout_bias=torch.randn(network.readout_bias.shape).double()
        ),
    }
    for message, case in cases.items():
        with pytest.raises(ExfamError, match=f"one head of attention .* {message}"):
            attention_factors(case)


def test_a_language_model_with_layer_norm_is_refused():
    sizes = MaskedLMSizes(n_tokens=7, n_positions=5, mask=4, embed_dim=8, n_heads=2, n_layers=1)
    model = build_masked_lm(sizes, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ExfamError, match="got MaskedLM, whose layer norms, GELU and residual conn"):
        attention_factors(model)
