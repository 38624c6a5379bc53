"""Optimizers of the library are torch's of the same names, without torch's compiler."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from exfam.training.adamw import AdamW, GradientDescent
from exfam.training.lbfgs import LBFGS

# Fits of items and of a table, and what they may not import.
FITS = """
import sys
import numpy as np
from exfam import EFA, Groups, MaskedTableRegressor
random = np.random.default_rng(0)
stop = np.arange(3, 63, 3)
item = random.integers(0, 5, 60)
groups = Groups(start=stop - 3, stop=stop, item=item, vocabulary={"item": [*"abcde"]})
EFA(ensemble=1, max_epochs=1, progress=False).fit(groups)
x = random.normal(size=(40, 2))
MaskedTableRegressor(fast=True, progress=False).fit(x, x.sum(1))
sys.exit(bool({"torch._dynamo", "sympy"} & set(sys.modules)))
"""


def parameters():
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 2), (4,), (), (2, 2))
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def groups_of(parameters):
    return [
        {"params": parameters[:2], "weight_decay": 0.3},
        {"params": parameters[2:], "weight_decay": 0.0},
    ]


def stepped(make, *, n_steps=12, again_at=None):
    """Parameters after steps; the last has no gradient in every third."""
    own = parameters()
    optimizer = make(own)
    for step in range(n_steps):
        if step == again_at:
            state = optimizer.state_dict()
            optimizer = make(own)
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state["state"]})
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (step + 1)
        optimizer.zero_grad()
        used = own[:-1] if step % 3 == 0 else own
        sum((p.cos() * (step + 1)).sum() for p in used).backward()
        optimizer.step()
    return [parameter.detach() for parameter in own]


@pytest.mark.parametrize("again_at", [None, 5])
def test_adamw_is_torchs(again_at):
    expected = stepped(
        lambda own: torch.optim.AdamW(groups_of(own), lr=1.0, betas=(0.9, 0.98), fused=True)
    )
    got = stepped(lambda own: AdamW(groups_of(own), lr=1.0, betas=(0.9, 0.98)), again_at=again_at)
    assert all(map(torch.equal, got, expected))
    assert not any(map(torch.equal, got, parameters()))


def test_descent_is_torchs():
    expected = stepped(lambda own: torch.optim.SGD(own, lr=1.0))
    assert all(map(torch.equal, stepped(lambda own: GradientDescent(own, lr=1.0)), expected))


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, LBFGS])
def test_lbfgs_finds_the_minimum(kind):
    point = torch.tensor([-1.5, 2.0], dtype=torch.float64, requires_grad=True)
    optimizer = kind([point], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def closure():
        optimizer.zero_grad()
        loss = (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    torch.testing.assert_close(point.detach(), torch.ones(2, dtype=torch.float64))


def test_a_fit_imports_no_compiler():
    subprocess.run([sys.executable, "-c", FITS], check=True)
