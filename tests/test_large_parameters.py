"""Large tables: gradients of a few rows cost no memory as large as the table, and are the same."""

import pytest
import torch
from torch.nn import functional

from estimator_cases import make, ratings
from exfam import layers
from exfam.layers import rows_of
from exfam.training import optimizer, steps
from exfam.training.optimizer import clip_gradients

FRAME = ratings(least=2)


@pytest.fixture
def large(monkeypatch):
    """All parameters are large ones."""

    def apply():
        for module in (layers, steps, optimizer):
            monkeypatch.setattr(module, "LARGE_PARAMETER", 1)

    return apply


def table_and_index():
    generator = torch.Generator().manual_seed(0)
    table = torch.nn.Parameter(torch.randn(6, 3, generator=generator))
    return table, torch.tensor([[5, 1, 5], [0, 1, 1]])


def weighted(rows):
    return (rows * torch.arange(float(rows.numel())).view_as(rows)).sum()


def test_rows_and_their_gradients_are_those_of_an_embedding(large):
    table, index = table_and_index()
    weighted(functional.embedding(index, table)).backward()
    expected, table.grad = table.grad, None
    large()
    for times in (1, 2, 3):
        rows = rows_of(table, index)
        assert torch.equal(rows, table[index])
        weighted(rows).backward()
        assert table.grad.layout == torch.strided
        torch.testing.assert_close(table.grad, times * expected)


def test_a_gradient_that_is_there_is_added_to_in_place(large):
    large()
    table, index = table_and_index()
    table.grad = torch.ones_like(table)
    memory = table.grad.data_ptr()
    (
        weighted(rows_of(table, index)) + (table**2).sum() + weighted(rows_of(table, index))
    ).backward()
    assert table.grad.data_ptr() == memory
    other = table.detach().clone().requires_grad_()
    (2 * weighted(other[index]) + (other**2).sum()).backward()
    torch.testing.assert_close(table.grad, 1 + other.grad)


def test_tables_that_are_computed_have_gradients_too(large):
    large()
    table, index = table_and_index()
    weighted(rows_of(2 * table, index)).backward()
    expected = torch.autograd.grad(weighted((2 * table)[index]), table)[0]
    torch.testing.assert_close(table.grad, expected)


@pytest.mark.parametrize("limit", [None, 0.5, 1e3])
def test_norms_are_those_of_all_gradients_together(limit, large):
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(n, 2, generator=generator) for n in (3, 1, 40)]
    others = [gradient.clone() for gradient in gradients]
    norm = clip_gradients(gradients, limit)
    large()
    assert clip_gradients(others, limit) == pytest.approx(norm, rel=1e-6)
    for one, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["efa", "latent-factor"])
@pytest.mark.parametrize("n_sampled_items", [0, 3])
def test_fits_are_the_same(kind, n_sampled_items, large):
    parameters = {"n_sampled_items": n_sampled_items, "validation_fraction": 0.0}
    small = make(kind, **parameters).fit(FRAME)
    large()
    told = make(kind, **parameters).fit(FRAME)
    states = [fitted.members_[0].state_dict() for fitted in (small, told)]
    assert all(parameter.grad is not None for parameter in told.members_[0].parameters())
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], tensor, rtol=1e-3, atol=1e-4)
