"""What networks of tables start from and what they are trained to predict."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import kl_divergence

from exfam.checks import ExfamError
from exfam.families import (
    Categorical,
    Gamma,
    Gaussian,
    Histogram,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
)
from exfam.families.mixtures import Mixture
from exfam.layers import lend_generator
from exfam.tables.answers.distributions import independent_columns
from exfam.tables.data import Cells, TableSchema
from exfam.tables.networks import batch as batch_module
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.batch import ABSENT, TableRows
from exfam.tables.networks.masked_table_model import MASKINGS, MaskedCells
from exfam.tables.networks.standardized import FamilyBank, StandardizedFamily, standardized_families
from exfam.training.batching import Source
from table_model_cases import cells_of, labels
from table_network_cases import (
    ALIKE,
    ALIKE_FAMILIES,
    MIXED,
    MIXED_FAMILIES,
    SETTINGS,
    alike_cells,
    batch_of,
    mixed_cells,
    table_model,
)

N = 50
CENTER, SCALE = np.linspace(-1.0, 3.0, 6), np.linspace(0.5, 2.0, 6)


def rows_of(weight=None, *, n=N):
    return TableRows(mixed_cells(n), center=CENTER, scale=SCALE, weight=weight)


def weights(*shape):
    return np.random.default_rng(4).gamma(1.0, size=shape)


WEIGHTS = {"none": None, "a row": weights(N), "a member and row": weights(3, N)}
WEIGHED = pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)


def test_every_row_comes_once_an_epoch_in_another_order():
    rows, generator = rows_of(), np.random.default_rng(1)
    assert isinstance(rows, Source) and rows.lengths.tolist() == [6] * N
    for sizes, largest in (((7, None), 7), ((None, 63), 10), ((None, 2), 1), ((1000, None), N)):
        options = dict(zip(("batch_size", "max_tokens"), sizes, strict=True))
        drawn, again = (list(rows.epoch_batches(generator=generator, **options)) for _ in range(2))
        assert [len(batch) for batch in drawn[:-1]] == [largest] * (len(drawn) - 1)
        order = np.concatenate(drawn)
        assert sorted(order) == list(range(N)) and (np.concatenate(again) != order).any()
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
    assert rows.total(0, 13) + rows.total(13, N) == pytest.approx(rows.total(0, N))


def test_a_batch_has_standardized_values_and_no_nan():
    rows, index = rows_of(WEIGHTS["a member and row"]), np.array([4, 0, 31])
    batch = rows.pad(index)
    value = (rows.cells.value[index] - rows.center) / rows.scale
    there = rows.cells.code[index] >= 0
    np.testing.assert_array_equal(batch.present[0].numpy(), there)
    np.testing.assert_allclose(batch.value[0].numpy()[there], value[there], rtol=1e-6)
    assert not batch.value[0].numpy()[~there].any()
    np.testing.assert_array_equal(batch.code[0].numpy(), rows.cells.code[index])
    np.testing.assert_allclose(batch.weight.numpy(), rows.weight[:, index], rtol=1e-6)
    # Seconds since 1970 differ by less than single precision holds.
    cells = mixed_cells(3, absent=0.0)
    large = Cells(cells.code, cells.fraction, 1.7e9 + np.arange(18.0).reshape(3, 6))
    rows = TableRows(large, center=np.full(6, 1.7e9), scale=np.ones(6))
    assert rows.pad(np.arange(3)).value.flatten().tolist() == list(range(18))


def test_a_fingerprint_differs_where_any_array_does():
    rows = rows_of(weights(N))
    cells, changes = rows.cells, []
    for k, v in vars(cells).items():
        changes.append({"cells": replace(cells, **{k: np.nan_to_num(v) + 1})})
    changes += [{k: getattr(rows, k) + 1} for k in ("center", "scale", "weight")]
    changes += [{"weight": None}, {"weight": rows.weight[None]}, {"orders": np.arange(N)[None]}]
    others = [replace(rows, **change) for change in changes]
    others.append(replace(rows, cells=cells[1:], weight=rows.weight[1:]))
    assert rows.fingerprint() == rows_of(weights(N)).fingerprint()
    assert len({other.fingerprint()["cells"] for other in [rows, *others]}) == len(others) + 1


@WEIGHED
def test_members_may_see_rows_in_orders_of_their_own(weight):
    generator = np.random.default_rng(0)
    orders = np.stack([generator.permutation(N) for _ in range(3)])
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


LOSS = MaskedCells(3, None, (0.0,), "absent", n_targets=99)


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
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
@pytest.mark.parametrize("shape", [(24,), (2, 24)])
def test_the_response_has_its_share_of_the_weight_and_rows_have_their_own(share, shape):
    model, cells = table_model().train(), mixed_cells(absent=0.0)
    weight = np.random.default_rng(0).gamma(1.0, size=shape)
    weight[..., ::3] = 0.0
    nats, total = replace(LOSS, response_share=share)(model, batch_of(model, cells, weight))
    of_column = np.ones(6) if share is None else np.full(6, (1 - share) * 6 / 5)
    if share is not None:
        of_column[3] = share * 6
    own = np.broadcast_to(weight, (2, 24))
    assert float(total) == pytest.approx(6 * own.sum(), rel=1e-5)
    expected = -(log_probs(model, cells) @ of_column * own).sum()
    assert float(nats) == pytest.approx(expected, rel=1e-5)


def test_targets_of_a_wide_table_are_drawn_and_hold_the_response():
    model, loss = table_model().train(), replace(LOSS, n_targets=3)
    with lend_generator(torch.Generator().manual_seed(0), model):
        drawn = [loss._targets(model) for _ in range(200)]
    assert all(3 in targets and targets == sorted(set(targets)) for targets in drawn)
    assert {len(targets) for targets in drawn} == {3}
    often = np.bincount(np.concatenate(drawn), minlength=6) / 200
    np.testing.assert_allclose(np.delete(often, 3), 0.4, atol=0.12)
    assert len(replace(loss, response=None)._targets(model)) == 3


@pytest.mark.parametrize("masked_as", MASKINGS)
def test_extra_masking_hides_its_share_and_another_in_each_member(masked_as):
    model = table_model(alike=True).train()

    def hidden(share, cells):
        """A batch, and what is shown of it in a training step."""
        batch = batch_of(model, cells)
        with lend_generator(torch.Generator().manual_seed(1), model):
            loss = replace(LOSS, extra_masking=share, masked_as=masked_as)
            return batch, loss._shown(batch, model)

    batch, shown = hidden((0.6,), alike_cells(4000, absent=0.0))
    gone = shown.code != batch.code
    assert set(shown.code[gone].unique().tolist()) == {MASKINGS[masked_as]}
    # A share uniform from 0 to 0.6 of each row: 0.3 of the cells, and all four more often than by
    # chance alone, 0.6^4 / 5 rather than 0.3^4.
    assert gone.float().mean().item() == pytest.approx(0.3, abs=0.015)
    assert gone.all(-1).float().mean().item() == pytest.approx(0.0259, abs=0.008)
    assert (gone[0] & gone[1]).float().mean().item() == pytest.approx(0.09, abs=0.02)
    torch.testing.assert_close(shown.value, batch.value)
    batch, shown = hidden((0.0, 1.0), alike_cells(4000))
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
    assert float(loss(model, batch)[1]) == 2 * (cells.code >= 0).sum()


PLAIN = [
    *(Categorical(3), Categorical(1), Categorical(4, start=1), Categorical(5), Ordinal(3)),
    *(NegativeBinomial(), Poisson(), Gaussian(scale=2.0)),
    *(Histogram((0.0, 1.0, 4.0)), Histogram((0.0, 2.0, 4.0))),
]
FAMILIES = [
    StandardizedFamily(Gaussian(), center=-3.0, scale=5.0),
    StandardizedFamily(StudentT(), center=100.0, scale=0.1),
    StandardizedFamily(Gaussian(), center=7.0, scale=0.5),
    *map(StandardizedFamily, PLAIN),
]
SIZES = [standardized.family.n_params for standardized in FAMILIES]


def draws():
    """Parameters of two members and seven rows, and values of each family in its own unit."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, 7, len(FAMILIES), max(SIZES))
    eta = torch.randn(shape, generator=generator, dtype=torch.float64)
    value = [
        standardized.own.sample(eta[0, :, j, : SIZES[j]], generator=generator)
        for j, standardized in enumerate(FAMILIES)
    ]
    return eta, torch.stack(value, -1)


def standard(value):
    columns = zip(value.T, FAMILIES, strict=True)
    return torch.stack([(own - column.center) / column.scale for own, column in columns], -1)


@pytest.mark.parametrize("targets", [range(13), [12, 5, 0], [3], [2], [4, 7, 8, 9]])
def test_standardized_values_have_the_density_of_their_own_unit(targets):
    targets = list(targets)
    eta, value = draws()
    seen = standard(value)[None, :, targets]
    result = FamilyBank(FAMILIES).log_prob(eta[:, :, targets], seen, targets)
    assert result.shape == (2, 7, len(targets))
    for index, target in enumerate(targets):
        own = eta[:, :, target, : SIZES[target]]
        expected = FAMILIES[target].own.log_prob(value[:, target], own)
        assert expected.isfinite().all()
        torch.testing.assert_close(result[:, :, index], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (Gaussian(), StandardizedFamily(Gaussian(), 2.0, 4.0)),
        (Gaussian(scale=1.0), StandardizedFamily(Gaussian(scale=0.25), 2.0, 4.0)),
        (StudentT(), StandardizedFamily(StudentT(), 2.0, 4.0)),
        (Gamma(), StandardizedFamily(Gamma(), 0.0, 2.0)),
    ],
    ids=str,
)
def test_only_families_with_a_location_or_a_scale_are_standardized(family, expected):
    families = [*MIXED_FAMILIES]
    families[3] = family
    result = standardized_families(MIXED, families)
    assert result.pop(3) == expected
    assert {(other.center, other.scale) for other in result} == {(0.0, 1.0)}
    if family == Gamma():
        # As in models stored before.
        assert standardized_families(MIXED, families, positive_in_units=False)[3].scale == 1.0


@pytest.mark.parametrize(("network", "most"), [("linear", 0.03), ("deep", 0.4)])
def test_a_fresh_network_starts_close_to_the_marginal_distributions(network, most):
    cells = mixed_cells(300)
    model = table_model(network=network, cells=cells, moved=0.0, embed_dim=20)
    marginal = independent_columns(cells, schema=MIXED, families=MIXED_FAMILIES)
    result = zip(model.eta(cells, range(6)), marginal.eta(cells, range(6)), strict=True)
    families = zip(model.families, MIXED_FAMILIES, strict=True)
    for (family, plain), (eta, expected) in zip(families, result, strict=True):
        if isinstance(family, Categorical):
            pairs = TorchCategorical(logits=expected), TorchCategorical(logits=eta)
            assert 1e-6 < float(kl_divergence(*pairs).mean()) < most
        else:
            apart = (family.mean(eta) - plain.mean(expected)).abs() / family.variance(eta).sqrt()
            assert 1e-6 < float(apart.mean()) < most**0.5


def built(schema=ALIKE, families=ALIKE_FAMILIES, cells=None, **settings):
    return build_masked_table(
        schema,
        replace(SETTINGS, **settings),
        families=families,
        cells=alike_cells() if cells is None else cells,
        generator=torch.Generator().manual_seed(0),
    )


def test_unequal_columns_share_no_categories():
    column = labels("e", 5, "ordinal")
    message = "`categories` must be 'per-column' unless all columns have labels, and equally many, "
    with pytest.raises(ExfamError, match=f"{message}got 'shared' for .*'e' .ordinal. 5"):
        built(TableSchema((*ALIKE.columns[:3], column)), categories="shared")


def test_tokens_of_ordered_columns_lie_on_a_line_that_rises_with_the_label():
    model = table_model(ordinal=(True, False), cells=mixed_cells(200))
    tokens = model.network.tokens
    scores = [part.numpy() for part in tokens.scores.split(list(tokens.plan.sizes), dim=1)]
    for column, steps in zip(MIXED.columns, map(np.diff, scores), strict=True):
        ordered, free = (not steps[member].any() for member in (1, 0))
        kind = column.kind
        # Numbers between knots lie on a line in every member; bins and labels where chosen.
        line = kind == "count" or (kind == "numeric" and not column.binned)
        assert ordered is (not line) or kind not in ("ordinal", "numeric")
        assert free is (kind not in ("ordinal", "numeric", "count"))
        assert free or (steps[0] > 0).all()
    knots = MIXED.columns[3].knots
    np.testing.assert_allclose(scores[3][1], np.clip((knots - 2.0) / 4.0, -3, 3), rtol=1e-6)
    # Normal scores are the middles of the labels' shares.
    code = np.repeat([0.0, 1.0, 2.0, 3.0], [10, 40, 30, 20])
    model = built(cells=cells_of(ALIKE, np.stack([code] * 4, axis=1)))
    expected = norm.ppf([0.05, 0.30, 0.65, 0.90])
    np.testing.assert_allclose(model.network.tokens.scores[0, :4].numpy(), expected, atol=0.03)


def test_ordered_outputs_are_a_normal_distribution_cut_into_labels():
    """Moving only the two shared raw outputs moves the logits by s u - s^2 v / 2."""
    model = built(ordinal=(True, False))
    readout, scores = model.network.readout, model.network.tokens.scores[0, :4]
    with torch.no_grad():
        readout.raw.zero_()
        readout.raw[:, :, 4] = 0.5
        readout.raw[:, :, 5] = 0.2
    weight, _ = readout.columns()
    torch.testing.assert_close(weight[0, 0, :, 0], 3.0 * (0.5 * scores - 0.1 * scores**2))
    assert not weight[1].any()


def test_a_subclass_has_a_density_of_its_own():
    class Tempered(Categorical):
        name = "tempered"

        def _log_prob(self, value, eta):
            return super()._log_prob(value, eta / 2)

    eta, value = torch.randn(1, 2, 1, 3), torch.tensor([[[0.0], [2.0]]])
    bank = FamilyBank([StandardizedFamily(Tempered(3))])
    torch.testing.assert_close(bank.log_prob(eta, value, [0]), Tempered(3).log_prob(value, eta))
