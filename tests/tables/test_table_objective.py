"""The masked likelihood of table rows: which cells count, and which are shown."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.families.mixtures import Mixture
from exfam.layers import lend_generator
from exfam.tables.networks.batch import ABSENT
from exfam.tables.networks.masked_table_model import MASKINGS, MaskedCells
from table_network_cases import alike_cells, batch_of, mixed_cells, table_model

LOSS = MaskedCells(3, None, (0.0,), "absent", n_targets=99)


@pytest.fixture(autouse=True)
def _no_gradient(request):
    with torch.set_grad_enabled("gradient" in request.node.name):
        yield


def log_probs(model, cells):
    """Log-probability of each cell by each member, in its own unit, from the model's eta."""
    result = np.zeros((2, *cells.code.shape))
    for column, eta in enumerate(model.eta(cells, list(range(len(model.families))))):
        there = cells.code[:, column] >= 0
        value = torch.from_numpy(cells.value[there, column])
        for member in range(2):
            distribution = Mixture(model.families[column], eta[member : member + 1, there])
            result[member, there, column] = distribution.log_prob(value).numpy()
    return result


@pytest.mark.parametrize("network", ["linear", "deep"])
def test_in_evaluation_only_the_response_counts_or_all_cells(network):
    model, cells = table_model(network=network), mixed_cells()
    loss = replace(LOSS, extra_masking=(1.0,), n_targets=2)
    result, there = log_probs(model, cells), cells.code >= 0
    for response, columns in ((3, [3]), (None, list(range(6)))):
        nats, weight = replace(loss, response=response)(model, batch_of(model, cells))
        assert float(weight) == 2 * there[:, columns].sum() and not there[:, columns].all()
        assert float(nats) == pytest.approx(-result[..., columns].sum(), rel=1e-6)


@pytest.mark.parametrize("share", [None, 0.0, 0.25, 1.0])
def test_the_response_has_its_share_of_the_weight(share):
    model, cells = table_model().train(), mixed_cells(absent=0.0)
    nats, weight = replace(LOSS, response_share=share)(model, batch_of(model, cells))
    of_column = np.ones(6) if share is None else np.full(6, (1 - share) * 6 / 5)
    if share is not None:
        of_column[3] = share * 6
    assert float(weight) == pytest.approx(2 * 6 * len(cells))
    assert float(nats) == pytest.approx(-(log_probs(model, cells) @ of_column).sum(), rel=1e-5)


def test_a_share_of_one_column_is_all():
    model, cells = table_model().train(), mixed_cells(absent=0.0)
    loss = replace(LOSS, response_share=0.2, n_targets=1)
    nats, weight = loss(model, batch_of(model, cells))
    assert float(weight) == 2 * len(cells)
    assert float(nats) == pytest.approx(-log_probs(model, cells)[..., 3].sum(), rel=1e-6)


@pytest.mark.parametrize("shape", [(24,), (2, 24)])
def test_rows_count_by_their_weight(shape):
    model, cells = table_model().train(), mixed_cells()
    weight = np.random.default_rng(0).gamma(1.0, size=shape)
    weight[..., ::3] = 0.0
    nats, total = LOSS(model, batch_of(model, cells, weight))
    own = np.broadcast_to(weight, (2, 24))[..., None]
    assert float(nats) == pytest.approx(-(log_probs(model, cells) * own).sum(), rel=1e-5)
    assert float(total) == pytest.approx(((cells.code >= 0) * own).sum(), rel=1e-5)


def test_rows_without_weight_give_no_gradient_to_that_member():
    model, cells = table_model().train(), mixed_cells()
    weight = np.ones((2, 24))
    weight[1] = 0.0
    LOSS(model, batch_of(model, cells, weight))[0].backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(not gradient[1].any() for gradient in gradients)
    assert any(gradient[0].any() for gradient in gradients)


def test_targets_of_a_wide_table_are_drawn_and_hold_the_response():
    model, loss = table_model().train(), replace(LOSS, n_targets=3)
    with lend_generator(torch.Generator().manual_seed(0), model):
        drawn = [loss._targets(model) for _ in range(200)]
    assert all(3 in targets and targets == sorted(set(targets)) for targets in drawn)
    assert {len(targets) for targets in drawn} == {3}
    often = np.bincount(np.concatenate(drawn), minlength=6) / 200
    np.testing.assert_allclose(np.delete(often, 3), 0.4, atol=0.12)
    assert len(replace(loss, response=None)._targets(model)) == 3


def hidden(loss, model, cells):
    """What is shown of a batch in a training step."""
    batch = batch_of(model, cells)
    with lend_generator(torch.Generator().manual_seed(1), model):
        return batch, loss._shown(batch, model)


@pytest.mark.parametrize("masked_as", MASKINGS)
def test_extra_masking_hides_its_share_and_another_in_each_member(masked_as):
    model, cells = table_model(alike=True).train(), alike_cells(4000, absent=0.0)
    loss = replace(LOSS, extra_masking=(0.6,), masked_as=masked_as)
    batch, shown = hidden(loss, model, cells)
    gone = shown.code != batch.code
    assert set(shown.code[gone].unique().tolist()) == {MASKINGS[masked_as]}
    # A share uniform from 0 to 0.6 of each row: 0.3 of the cells, and all four more often than by
    # chance alone, 0.6^4 / 5 rather than 0.3^4.
    assert gone.float().mean().item() == pytest.approx(0.3, abs=0.015)
    assert gone.all(-1).float().mean().item() == pytest.approx(0.0259, abs=0.008)
    assert (gone[0] & gone[1]).float().mean().item() == pytest.approx(0.09, abs=0.02)
    torch.testing.assert_close(shown.value, batch.value)
    batch, shown = hidden(replace(loss, extra_masking=(0.0, 1.0)), model, alike_cells(4000))
    absent = (batch.code == ABSENT).expand_as(shown.code)
    assert absent.any() and (shown.code[absent] == ABSENT).all()
    gone = (shown.code != batch.code)[:, ~absent[0]].float().mean(1)
    assert gone[0] == 0.0 and gone[1].item() == pytest.approx(0.5, abs=0.02)


def test_nothing_is_hidden_in_evaluation_and_hidden_cells_are_still_targets():
    model, cells = table_model(), mixed_cells()
    batch = batch_of(model, cells)
    assert LOSS._shown(batch, model) is batch
    loss = replace(LOSS, extra_masking=(1.0,))
    assert float(loss(model, batch)[0]) == float(LOSS(model, batch)[0])
    model.train()
    assert float(loss(model, batch)[0]) != float(LOSS(model, batch)[0])
    for masked_as in MASKINGS:
        own = replace(loss, masked_as=masked_as)
        assert float(own(model, batch)[1]) == 2 * (cells.code >= 0).sum()
