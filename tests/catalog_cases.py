"""Choices over small catalogs with everything in them, and the same done densely."""

import pytest
import torch

from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import ContextItems
from exfam.catalog.normalizer import ItemChoice

N_ITEMS, DIM = 11, 3
every_support = pytest.mark.parametrize("support", ["none", "hard", "penalty"])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def context(*, causal=False):
    """Distinct items of some groups (padding and an unknown item among them), and their rows."""
    code = torch.stack([torch.randperm(N_ITEMS, generator=generator(g))[:6] for g in range(5)])
    present = torch.arange(6) < torch.tensor([4, 1, 6, 2, 5])[:, None]
    code[2, 1] = N_ITEMS
    code = torch.where(present, code, N_ITEMS)
    where = present.nonzero(as_tuple=True)
    return code, where, ContextItems.of(code, where, n_items=N_ITEMS, causal=causal)


def pairs(listed, n_rows, n_classes):
    """All listed pairs as a table."""
    table = torch.zeros(n_rows, n_classes, dtype=torch.bool)
    row, column = listed.within(slice(0, n_rows), slice(0, n_classes))
    table[row, column] = True
    assert table.sum() == len(row), "a pair is listed twice"
    return table


def make_choice(*, support="none", dtype=torch.float32, causal=False, seed=0, scale=1.0):
    """A choice for every row of the context's groups, one row of vectors too many."""
    code, where, seen = context(causal=causal)
    source = generator(seed)
    shapes = (len(where[0]), DIM), (N_ITEMS + 1, DIM), (N_ITEMS,)
    drawn = [scale * torch.randn(shape, generator=source, dtype=torch.float64) for shape in shapes]
    eta = LinearEta(*(draw.to(dtype).requires_grad_() for draw in drawn), n_items=N_ITEMS)
    free = pairs(seen, len(where[0]), N_ITEMS).long().argmin(1)
    own = torch.where(code[where] < N_ITEMS, code[where], free)
    if support == "hard":
        return ItemChoice(eta, excluded=(seen,)), own
    if support == "penalty":
        penalty = torch.tensor(1.5, dtype=dtype, requires_grad=True)
        again = pairs(seen, len(own), N_ITEMS)[torch.arange(len(own)), own]
        return ItemChoice(eta, penalized=(seen,), penalty=penalty, again=again), own
    return ItemChoice(eta), own


def tensors(choice):
    """What gradients are taken of."""
    given = [choice.eta.state, choice.eta.vectors, choice.eta.bias, choice.penalty]
    return [tensor for tensor in given if tensor is not None]


def with_tensors(choice, state, vectors, bias, penalty=None):
    eta = choice.eta._replace(state=state, vectors=vectors, bias=bias)
    return ItemChoice(eta, choice.excluded, choice.penalized, penalty, choice.again)


def dense_log_probs(choice):
    """All log-probabilities of a choice, in one product and one softmax."""
    eta = choice.eta.dense()
    for listed in choice.penalized:
        eta = eta - choice.penalty * pairs(listed, *eta.shape)
    for listed in choice.excluded:
        eta = eta.masked_fill(pairs(listed, *eta.shape), -torch.inf)
    return eta.log_softmax(-1)
