"""Reflected tying of an LSTM is plain tying in other coordinates."""

import pytest
import torch

from exfam.checks import ExfamError
from exfam.language.networks.lstm_network import CarriedNats, cut
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam_studies.reflections.lstm_table3 import plain_from_reflected
from words.lstm_cases import network, tokens


@pytest.mark.parametrize("n_layers", [1, 3])
def test_a_reflected_network_is_a_plainly_tied_one_with_mapped_weights(n_layers):
    given, targets = tokens(20, 4), tokens(20, 4, seed=1)
    reflected = network(tie="reflection", n_layers=n_layers).double()
    with torch.no_grad():
        for parameter in reflected.parameters():
            parameter.mul_(4.0)  # far from where an LSTM is linear
    plain = plain_from_reflected(reflected)
    assert plain.output is plain.words
    reported, state = reflected.log_prob(given, targets, reflected.initial_state(4))
    same, state_of_plain = plain.log_prob(given, targets, plain.initial_state(4))
    assert (reported - same).abs().max() <= 1e-10 and reported.std() > 0.01
    for own, other in zip(state, state_of_plain, strict=True):
        # The top layer's signs flip.
        own[-1] *= reflected.output.signs
        assert (own - other).abs().max() <= 1e-10 < (own + other).abs().max()


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
        torch.testing.assert_close(mapped.get_parameter(name), weights, rtol=0, atol=1e-10)
    with pytest.raises(ExfamError, match="outputs that are its inputs, reflected, got Item"):
        plain_from_reflected(network(tie="tied"))
