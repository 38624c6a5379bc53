"""Rows of a table as a source of batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.tables.data import Cells
from exfam.tables.networks import batch as batch_module
from exfam.tables.networks.batch import ABSENT, MASKED, CellBatch, TableRows, cell_batch
from exfam.training.batching import Source
from table_network_cases import mixed_cells

N = 50
CENTER, SCALE = np.linspace(-1.0, 3.0, 6), np.linspace(0.5, 2.0, 6)


def rows_of(weight=None, *, n=N):
    return TableRows(mixed_cells(n), center=CENTER, scale=SCALE, weight=weight)


def weights(*shape):
    return np.random.default_rng(4).gamma(1.0, size=shape)


WEIGHTS = {"none": None, "a row": weights(N), "a member and row": weights(3, N)}
WEIGHED = pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)


@pytest.mark.parametrize(
    ("sizes", "largest"), [((7, None), 7), ((None, 63), 10), ((None, 2), 1), ((1000, None), N)]
)
def test_every_row_comes_once_an_epoch_in_another_order(sizes, largest):
    rows, generator = rows_of(), np.random.default_rng(1)
    assert isinstance(rows, Source) and rows.lengths.tolist() == [6] * N
    options = dict(zip(("batch_size", "max_tokens"), sizes, strict=True))
    with rows.read_at_random():
        drawn, again = (list(rows.epoch_batches(generator=generator, **options)) for _ in range(2))
    assert [len(batch) for batch in drawn[:-1]] == [largest] * (len(drawn) - 1)
    order = np.concatenate(drawn)
    assert sorted(order) == list(range(N)) and order.tolist() != list(range(N))
    assert (np.concatenate(again) != order).any()
    drawn = list(rows.sequential_batches(max_tokens=50))
    assert {len(batch) for batch in drawn} == {8, 2}
    assert np.concatenate(drawn).tolist() == list(range(N))


@pytest.mark.parametrize("block", [7, 1 << 16])
@WEIGHED
def test_the_total_is_the_sum_of_the_batches_weights(weight, block, monkeypatch):
    monkeypatch.setattr(batch_module, "_BLOCK", block)
    rows, summed = rows_of(weight), 0.0
    for index in np.split(np.random.default_rng(1).permutation(N), [8, 30]):
        batch = rows.pad(index)
        own = torch.ones(1, 1) if batch.weight is None else batch.weight
        summed += (batch.present * own[..., None]).sum((1, 2)).mean().item()
    assert rows.total(0, N) == pytest.approx(summed, rel=1e-5)
    cuts = [rows.total(first, last) for first, last in ((0, 13), (13, 13), (13, N))]
    assert cuts[1] == 0.0 and sum(cuts) == pytest.approx(rows.total(0, N))


def test_a_batch_has_standardized_values_and_no_nan():
    rows, index = rows_of(WEIGHTS["a member and row"]), np.array([4, 0, 31])
    batch = rows.pad(index)
    value = (rows.cells.value[index] - rows.center) / rows.scale
    there = rows.cells.code[index] >= 0
    assert there.any() and not there.all()
    np.testing.assert_array_equal(batch.present[0].numpy(), there)
    np.testing.assert_allclose(batch.value[0].numpy()[there], value[there], rtol=1e-6)
    assert not batch.value[0].numpy()[~there].any()
    np.testing.assert_array_equal(batch.code[0].numpy(), rows.cells.code[index])
    np.testing.assert_allclose(batch.weight.numpy(), rows.weight[:, index], rtol=1e-6)
    assert (batch.code.dtype, batch.value.dtype) == (torch.int64, torch.float32)


def test_values_are_standardized_before_they_lose_digits():
    """Seconds since 1970 differ by less than single precision holds."""
    cells = mixed_cells(3, absent=0.0)
    large = Cells(cells.code, cells.fraction, 1.7e9 + np.arange(18.0).reshape(3, 6))
    rows = TableRows(large, center=np.full(6, 1.7e9), scale=np.ones(6))
    assert rows.pad(np.arange(3)).value.flatten().tolist() == list(range(18))


def test_fractions_are_of_cells_between_tokens():
    zeros, code = np.zeros((2, 1)), np.array([[1], [0]])
    assert cell_batch(code, zeros, zeros).between is None
    assert cell_batch(code, zeros + 0.25, zeros).between.flatten().tolist() == [0.25, 0.25]
    code = torch.tensor([[[2, ABSENT, MASKED]]])
    batch = CellBatch(code, torch.full((1, 1, 3), 0.5), torch.zeros(1, 1, 3))
    assert batch.between.flatten().tolist() == [0.5, 0.0, 0.0]
    assert batch.present.flatten().tolist() == [True, False, False]


@WEIGHED
def test_a_batch_goes_to_a_device_as_a_whole(weight):
    batch = rows_of(weight).pad(np.arange(4))
    moved = batch.to(torch.device("meta"))
    for name, own in vars(batch).items():
        other = getattr(moved, name)
        assert (own is None) == (other is None)
        assert other is None or (other.is_meta and other.shape == own.shape)


def changed(array):
    other = np.nan_to_num(array)
    other.flat[5] += 1
    return other


def test_a_fingerprint_differs_where_any_array_does():
    rows = rows_of(weights(N))
    cells, flat = rows.cells, np.zeros((6, 1))
    narrow = Cells(flat.astype(np.int32), flat.astype(np.float32), flat)
    wide = Cells(*(part.reshape(1, 6) for part in vars(narrow).values()))
    others = [
        *(replace(rows, cells=replace(cells, **{k: changed(v)})) for k, v in vars(cells).items()),
        *(replace(rows, **{k: changed(getattr(rows, k))}) for k in ("center", "scale", "weight")),
        replace(rows, weight=None),
        replace(rows, weight=rows.weight[None]),
        replace(rows, cells=cells[1:], weight=rows.weight[1:]),
        replace(rows, orders=np.arange(N)[None]),
        *(TableRows(part, center=np.zeros(1), scale=np.ones(1)) for part in (narrow, wide)),
    ]
    assert rows.fingerprint() == rows_of(weights(N)).fingerprint()
    assert len({other.fingerprint()["cells"] for other in [rows, *others]}) == len(others) + 1


@WEIGHED
def test_members_may_meet_rows_in_orders_of_their_own(weight):
    generator = np.random.default_rng(0)
    orders = np.stack([generator.permutation(N) for _ in range(3)])
    assert len({tuple(order) for order in orders}) == 3
    shared, own = rows_of(weight), replace(rows_of(weight), orders=orders)
    every, batch = shared.pad(np.arange(N)), own.pad(np.array([4, 0, 9]))
    for member, order in enumerate(orders):
        rows = order[[4, 0, 9]]
        torch.testing.assert_close(batch.code[member], every.code[0, rows])
        torch.testing.assert_close(batch.value[member], every.value[0, rows])
        if weight is not None:
            of_member = every.weight[member if weight.ndim == 2 else 0]
            result = batch.weight[member if len(batch.weight) > 1 else 0]
            torch.testing.assert_close(result, of_member[rows])
    assert own.total(0, N) == shared.total(0, N)
