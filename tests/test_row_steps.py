"""Steps by row are AdamW's: of tables, of fits, over checkpoints; only rows that were used move."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from estimator_cases import make, ratings
from exfam.checks import CheckpointError, ExfamError
from exfam.embeddings import rows_of
from exfam.training import rows, torch_engine
from exfam.training.adamw import AdamW
from exfam.training.checkpoints import Checkpoint
from exfam.training.optimizer import TrainingSettings, make_optimizer
from exfam.training.ranks import ONE_PROCESS
from exfam.training.rows import RowTable, RowTables
from toy_fit import (
    RowModel,
    counting,
    cut_step,
    same_bits,
    squares,
    toy_engine,
    toy_fit,
    toy_settings,
)


@pytest.fixture
def by_row(monkeypatch):
    """Calls a function with no table stepped by row, and with all that may be."""

    def call(function):
        result = []
        for least in (10**9, 1):
            monkeypatch.setattr(rows, "ROWS_FROM", least)
            result.append(function())
        return result

    return call


def random_gradients(random, *, n_rows, row, n_steps):
    """Of each step: a few rows, some of them again, and their gradients."""
    for _ in range(n_steps):
        index = torch.from_numpy(random.integers(0, n_rows, random.integers(0, 5)))
        yield index, torch.from_numpy(random.normal(size=(len(index), *row)))


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("row", [(), (3,)])
def test_rows_are_those_of_adamw_whenever_they_are_read(row, decay):
    random, n_rows = np.random.default_rng(0), 7
    start = torch.from_numpy(random.normal(size=(n_rows, *row)))
    dense, table = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW([dense], betas=(0.9, 0.98), weight_decay=decay, fused=True)
    own = AdamW([table], lr=0.0, betas=(0.9, 0.98), weight_decay=decay)
    by_row, read = RowTable(table, own), []
    for index, gradient in random_gradients(random, n_rows=n_rows, row=row, n_steps=60):
        optimizer.param_groups[0]["lr"] = rate = float(random.uniform(0, 0.02))
        own.param_groups[0]["lr"] = rate
        dense.grad = torch.zeros_like(dense).index_add_(0, index, gradient)
        optimizer.step()
        by_row.receive(index, gradient)
        by_row.collect()
        assert by_row.index.tolist() == sorted(set(index.tolist()))
        by_row.step()
        looked = torch.from_numpy(random.integers(0, n_rows, (2, 3)))
        before = table.detach().clone()
        read.append(by_row.read(looked))
        assert torch.equal(table, before), "reading moves nothing"
        assert_close(read[-1], dense.detach()[looked], rtol=1e-6, atol=1e-6)
        if random.random() < 0.1:
            by_row.flush()
            assert_close(table, dense, rtol=1e-6, atol=1e-6)
    by_row.flush()
    moments = optimizer.state[dense]
    for own, witness in ((by_row.first, "exp_avg"), (by_row.second, "exp_avg_sq")):
        assert_close(own, moments[witness])
    assert len({float(rows.sum()) for rows in read}) == 60


def test_only_rows_that_were_used_move():
    table = nn.Parameter(torch.ones(6, 2))
    by_row = RowTable(table, AdamW([table], lr=0.1, weight_decay=0.1))
    for used in ([4, 1], [1]):
        by_row.receive(torch.tensor(used), torch.ones(len(used), 2))
        by_row.collect()
        by_row.step()
    moved = (table != 1).any(1)
    assert moved.tolist() == [False, True, False, False, True, False]
    by_row.flush()
    assert (table != 1).all(), "weight decay is of all rows"


def test_rows_of_a_table_that_is_trained_by_row_have_the_gradients_of_others():
    model = RowModel(dropout=0.0)
    weight, index = model.item.weight, torch.tensor([[3, 1, 3], [0, 1, 1]])
    factors = torch.arange(24.0).view(2, 3, 4)
    (rows_of(weight, index) * factors).sum().backward()
    expected, weight.grad = weight.grad, None
    tables = RowTables(model, make_optimizer(model, toy_settings()), n_ranks=2)
    assert not tables.names
    optimizer = make_optimizer(model, toy_settings())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "ROWS_FROM", 1)
        tables = RowTables(model, optimizer)
    assert tables.names == ["item.weight"] and tables.parameters == [weight]
    assert all(weight is not p for group in optimizer.param_groups for p in group["params"])
    for part in (slice(0, 1), slice(1, 2)):
        (rows_of(weight, index[part]) * factors[part]).sum().backward()
    assert tables.collect(ONE_PROCESS) == [] and weight.grad is None
    (gradient,) = tables.gradients(ONE_PROCESS, [])
    assert_close(gradient, expected[[0, 1, 3]])
    tables.close()
    assert not tables.names and torch.equal(rows_of(weight, index), weight[index])


@pytest.mark.parametrize("schedule", ["cosine", "descending"])
def test_a_fit_is_the_same(schedule, by_row):
    settings = toy_settings(weight_decay=0.1, schedule=schedule, max_epochs=6)
    (dense, first), (other, second) = by_row(lambda: toy_fit(RowModel(), settings=settings))
    assert_close(dict(other.state_dict()), dict(dense.state_dict()), rtol=1e-5, atol=1e-5)
    assert second.to_dict()["validation_nats"] == pytest.approx(
        first.to_dict()["validation_nats"], rel=1e-5
    )
    assert not hasattr(other.item.weight, "by_row")


CHOICES = [
    {"kind": "latent-factor"},
    {"kind": "latent-factor", "direction": "causal"},
    {"kind": "efa"},
    {"kind": "efa", "tie": "reflection", "support": "penalty"},
    {"kind": "efa", "tie": "same", "base": "none"},
    {"kind": "efa", "direction": "causal", "base": "none"},
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_estimators_are_the_same(choice, by_row):
    """All that training reads of items by row, and what reads whole tables afterwards."""
    options = {"validation_fraction": 0.2, "n_sampled_items": 3, "learning_rate": 1e-3, **choice}
    frame = ratings(least=2)

    def fitted():
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            real = RowTables.close
            patch.setattr(RowTables, "close", lambda own: seen.append(own.names) or real(own))
            return make(**options).fit(frame), seen

    (dense, without), (other, names) = by_row(fitted)
    assert not any(without) and all(len(own) > 1 for own in names) and names
    for member, witness in zip(other.members_, dense.members_, strict=True):
        assert_close(dict(member.state_dict()), dict(witness.state_dict()), rtol=1e-3, atol=1e-5)
    assert other.score(frame) == pytest.approx(dense.score(frame), rel=1e-5)


def test_a_fit_that_was_cut_short_goes_on_to_the_same_bits(monkeypatch, tmp_path):
    monkeypatch.setattr(rows, "ROWS_FROM", 1)
    whole, _ = toy_fit(RowModel())
    checkpoint = Checkpoint(tmp_path / "fit", seconds=0.0)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="lights"):
        cut_step(patch, torch_engine.TorchEngine, at=8)
        toy_fit(RowModel(), checkpoint=checkpoint)
    model, _ = toy_fit(RowModel(), checkpoint=checkpoint)
    assert same_bits(model, whole)
    monkeypatch.setattr(rows, "ROWS_FROM", 10**9)
    with pytest.raises(CheckpointError, match=r"steps of item\.weight"):
        toy_fit(RowModel(), checkpoint=checkpoint)


def test_a_fit_that_fails_leaves_its_best_weights_and_no_reader(monkeypatch):
    monkeypatch.setattr(rows, "ROWS_FROM", 1)

    def fail(model, batch):
        nats, weight = squares(model, batch)
        return nats * math.nan, weight

    model = RowModel()
    with pytest.raises(ExfamError, match="Training nats must be finite.*best weights so far"):
        toy_fit(model, objective=counting(at=8, act=fail))
    best, _ = toy_fit(RowModel(), settings=toy_settings(max_epochs=1, schedule="constant"))
    assert not hasattr(model.item.weight, "by_row")
    assert model.item.weight.isfinite().all()


def test_other_optimizers_step_all_rows(monkeypatch):
    monkeypatch.setattr(rows, "ROWS_FROM", 1)
    engine = toy_engine(toy_settings(optimizer="descent"), model=RowModel())
    assert not engine.rows.names
    assert isinstance(make_optimizer(RowModel(), TrainingSettings()), AdamW)
