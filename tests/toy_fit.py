"""A small model to train in tests: it predicts each value from its item, with dropout."""

import numpy as np
import torch
from torch import nn

from exfam.embeddings import rows_of
from exfam.groups import Groups
from exfam.layers import Dropout
from exfam.training.batching import Weighted
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam.training.torch_engine import TorchEngine

N_ITEMS = 5
# Calls of the objective before the first step, and after the last one, that look for divergence.
N_SAMPLED = 4


class ToyModel(nn.Module):
    def __init__(self, *, seed=0, dim=4, dropout=0.2):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.item = nn.Embedding.from_pretrained(
            torch.randn(N_ITEMS, dim, generator=generator), freeze=False
        )
        self.dropout = Dropout(dropout)
        self.out = nn.Linear(dim, 1)
        with torch.no_grad():
            self.out.weight.copy_(torch.randn(1, dim, generator=generator))
            self.out.bias.zero_()

    def forward(self, batch):
        return self.out(self.dropout(self.item(batch.item)))[..., 0]


class RowModel(ToyModel):
    """The same, with a table that may be trained by row; most of its rows are never read."""

    def __init__(self, *, n_rows=N_ITEMS, **options):
        super().__init__(**options)
        weight = self.item.weight
        more = weight.new_zeros(n_rows - len(weight), weight.shape[1])
        self.item = nn.Embedding.from_pretrained(torch.cat([weight.detach(), more]), freeze=False)

    def row_tables(self):
        return [self.item.weight]

    def forward(self, batch):
        vectors = rows_of(self.item.weight, batch.item.long())
        return self.out(self.dropout(vectors))[..., 0]


def squares(model, batch):
    weight = batch.target.float() if batch.weight is None else batch.weight * batch.target
    return ((model(batch) - batch.values["value"]) ** 2 * weight).sum(), weight.sum()


def toy_groups(*, n_groups=40, seed=0):
    generator = np.random.default_rng(seed)
    stop = np.cumsum(generator.integers(1, 7, size=n_groups))
    item = generator.integers(0, N_ITEMS, size=stop[-1])
    value = item - 2.0 + generator.normal(size=stop[-1])
    return Groups(start=np.r_[0, stop[:-1]], stop=stop, item=item, values={"value": value})


def toy_settings(**changes):
    return TrainingSettings(**{"batch_size": 8, "max_epochs": 4, "seed": 3, **changes})


def toy_fit(model=None, *, objective=squares, settings=None, **options):
    """Model and history of a fit of the toy model to toy groups."""
    model = ToyModel() if model is None else model
    data = {"train": toy_groups(), "validation": toy_groups(seed=1, n_groups=15)}
    settings = toy_settings() if settings is None else settings
    history = fit(model, objective=objective, settings=settings, **{**data, **options})
    return model, history


def toy_engine(settings=None, *, model=None, objective=squares, train=None, **options):
    """What takes the steps of such a fit, without validation unless given."""
    return TorchEngine(
        ToyModel() if model is None else model,
        objective,
        train=Weighted(toy_groups()) if train is None else train,
        settings=toy_settings() if settings is None else settings,
        **{"validation": None} | options,
    )


def same_bits(model, other):
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def without_times(history):
    """A history but for its times, which no two fits share."""
    columns = history.to_dict()
    del columns["cpu_seconds"]
    return columns, history.stopped


def cut_step(patch, engine, at):
    """Have the lights go out at step number `at` of an engine; the list of steps to come."""
    real, steps = engine.step, []

    def step(self, index):
        steps.append(index)
        if len(steps) == at:
            raise OSError("the lights went out")
        return real(self, index)

    patch.setattr(engine, "step", step)
    return steps


def counting(objective=squares, *, at=None, act=None):
    """The objective, calling `act` at its call number `at` (from 1) of those in training mode."""
    calls = []

    def counted(model, batch):
        calls.append(model.training)
        if sum(calls) == at and model.training:
            return act(model, batch)
        return objective(model, batch)

    counted.calls = calls
    return counted
