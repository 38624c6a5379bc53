"""Reflected tying of an LSTM is plain tying in other coordinates."""

import pytest
import torch

from exfam.checks import ExfamError
from exfam.language.networks.lstm_network import CarriedNats, cut
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam_studies.reflections.tied_lstm import plain_from_reflected
from words.lstm_cases import network, tokens

close = torch.testing.assert_close


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-6), (torch.float64, 1e-10)])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_a_reflected_network_is_a_plainly_tied_one_with_mapped_weights(n_layers, dtype, limit):
    given, targets = tokens(20, 4), tokens(20, 4, seed=1)
    reflected = network(tie="reflection", n_layers=n_layers).to(dtype)
    with torch.no_grad():
        for parameter in reflected.parameters():
            parameter.mul_(4.0)  # far from where an LSTM is linear
    plain = plain_from_reflected(reflected)
    assert plain.output is plain.words
    reported, state = reflected.log_prob(given, targets, reflected.initial_state(4))
    same, state_of_plain = plain.log_prob(given, targets, plain.initial_state(4))
    assert (reported - same).abs().max() <= limit and reported.std() > 0.01
    for own, other in zip(state, state_of_plain, strict=True):
        # The top layer's signs flip.
        own[-1] *= reflected.output.signs
        assert (own - other).abs().max() <= limit < (own + other).abs().max()
    # Without the map they are two models.
    other = network(tie="tied", n_layers=n_layers).to(dtype)
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(reflected.get_parameter(name))
    assert (other.log_prob(given, targets, other.initial_state(4))[0] - reported).abs().max() > 0.01


def test_training_keeps_the_two_the_same():
    """With mapped initial weights and the same dropout, all steps are mapped steps."""
    reflected = network(tie="reflection", dropout=0.3).double()
    plain = plain_from_reflected(reflected)
    initial = plain.words.vectors().detach().clone()
    settings = TrainingSettings(
        optimizer="descent", learning_rate=5.0, batch_tokens=20, max_epochs=1, clip=0.25, seed=7
    )
    for model in (reflected, plain):
        train = cut(tokens(400).numpy(), 4, start=0, whole=False)
        fit(model, objective=CarriedNats(), train=train, settings=settings, progress=False)
    assert (plain.words.vectors() - initial).abs().max() > 0.05
    mapped = plain_from_reflected(reflected)
    for name, weights in plain.named_parameters():
        close(mapped.get_parameter(name), weights, rtol=0, atol=1e-10)


def test_only_tied_networks_are_mapped():
    for tie in (None, "tied"):
        with pytest.raises(ExfamError, match="outputs that are its inputs, reflected, got Item"):
            plain_from_reflected(network(tie=tie))
