"""Rows of a table as a source of batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.tables.data.cells import Cells
from exfam.tables.networks import batch as batch_module
from exfam.tables.networks.batch import TableRows
from table_network_cases import mixed_cells

N = 50


def rows_of(weight=None, *, n=N):
    cells = mixed_cells(n)
    return TableRows(
        cells, center=np.linspace(-1.0, 3.0, 6), scale=np.linspace(0.5, 2.0, 6), weight=weight
    )


def weights(*shape):
    return np.random.default_rng(4).gamma(1.0, size=shape)


WEIGHTS = {"none": None, "a row": weights(N), "a member and row": weights(3, N)}


def batches(rows, **sizes):
    return list(rows.epoch_batches(generator=np.random.default_rng(1), **sizes))


@pytest.mark.parametrize(
    ("sizes", "largest"),
    [
        ({"batch_size": 7, "max_tokens": None}, 7),
        ({"batch_size": None, "max_tokens": 63}, 10),
        ({"batch_size": None, "max_tokens": 2}, 1),
        ({"batch_size": 1000, "max_tokens": None}, N),
    ],
)
def test_every_row_comes_once_an_epoch_in_another_order(sizes, largest):
    drawn = batches(rows_of(), **sizes)
    assert [len(batch) for batch in drawn[:-1]] == [largest] * (len(drawn) - 1)
    order = np.concatenate(drawn)
    assert sorted(order) == list(range(N)) and order.tolist() != list(range(N))
    generator = np.random.default_rng(1)
    once, again = (
        np.concatenate(list(rows_of().epoch_batches(generator=generator, **sizes)))
        for _ in range(2)
    )
    assert (once == order).all() and (again != order).any()


@pytest.mark.parametrize("block", [7, 1 << 16])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_the_total_is_the_sum_of_the_batches_weights(kind, block, monkeypatch):
    monkeypatch.setattr(batch_module, "_BLOCK", block)
    rows = rows_of(WEIGHTS[kind])
    summed = []
    for index in batches(rows, batch_size=8, max_tokens=None):
        batch = rows.pad(index)
        weight = torch.ones(1, 1) if batch.weight is None else batch.weight
        each = batch.present * weight[..., None]
        summed.append(each.sum((1, 2)).mean().item())
    assert rows.total(0, N) == pytest.approx(sum(summed), rel=1e-5)
    cuts = [rows.total(first, last) for first, last in ((0, 13), (13, 13), (13, N))]
    assert cuts[1] == 0.0 and sum(cuts) == pytest.approx(rows.total(0, N))
    assert rows.total(0, N) == pytest.approx(rows.total(0, N // 2) + rows.total(N // 2, N))


def test_a_batch_has_standardized_values_and_no_nan():
    rows = rows_of(WEIGHTS["a member and row"])
    index = np.array([4, 0, 31])
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


def changed(array):
    other = np.array(array)
    other.flat[5] += 1
    return other


CHANGES = {
    "code": lambda rows: with_array(rows, "code"),
    "fraction": lambda rows: with_array(rows, "fraction"),
    "value": lambda rows: with_array(rows, "value"),
    "center": lambda rows: replace(rows, center=changed(rows.center)),
    "scale": lambda rows: replace(rows, scale=changed(rows.scale)),
    "weight": lambda rows: replace(rows, weight=changed(rows.weight)),
    "no weight": lambda rows: replace(rows, weight=None),
    "weights of a member": lambda rows: replace(rows, weight=rows.weight[None]),
    "one row less": lambda rows: replace(rows, cells=rows.cells[1:], weight=rows.weight[1:]),
}


def with_array(rows, name):
    cells = rows.cells
    arrays = {each: getattr(cells, each) for each in ("code", "fraction", "value")}
    value = np.nan_to_num(arrays[name])
    return replace(rows, cells=Cells(**{**arrays, name: changed(value)}))


@pytest.mark.parametrize("name", CHANGES)
def test_a_fingerprint_differs_where_any_array_does(name):
    rows = rows_of(weights(N))
    assert rows.fingerprint() == rows_of(weights(N)).fingerprint()
    assert CHANGES[name](rows).fingerprint() != rows.fingerprint()


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_members_may_meet_rows_in_orders_of_their_own(weight):
    generator = np.random.default_rng(0)
    orders = np.stack([generator.permutation(N) for _ in range(3)])
    assert len({tuple(order) for order in orders}) == 3
    shared, own = rows_of(weight), replace(rows_of(weight), orders=orders)
    every = shared.pad(np.arange(N))
    batch = own.pad(np.array([4, 0, 9]))
    for member, order in enumerate(orders):
        rows = order[[4, 0, 9]]
        torch.testing.assert_close(batch.code[member], every.code[0, rows])
        torch.testing.assert_close(batch.value[member], every.value[0, rows])
        if weight is not None:
            of_member = every.weight[member if weight.ndim == 2 else 0]
            result = batch.weight[member if len(batch.weight) > 1 else 0]
            torch.testing.assert_close(result, of_member[rows])
    assert own.total(0, N) == shared.total(0, N)
    assert own.fingerprint() != shared.fingerprint()
