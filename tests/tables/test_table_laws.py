"""The families of columns, together and in their own units, and where a fresh network starts."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
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
from exfam.tables.data.schema import TableSchema
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.independent import independent_columns
from exfam.tables.networks.standardized import (
    FamilyBank,
    StandardizedFamily,
    standardized_families,
)
from exfam.tables.networks.table_network import TableSettings
from table_model_cases import cells_of, labels
from table_network_cases import (
    ALIKE,
    ALIKE_FAMILIES,
    MIXED,
    MIXED_FAMILIES,
    SETTINGS,
    alike_cells,
    mixed_cells,
    table_model,
)

FAMILIES = (
    StandardizedFamily(Categorical(3)),
    StandardizedFamily(Gaussian(), center=-3.0, scale=5.0),
    StandardizedFamily(Categorical(1)),
    StandardizedFamily(StudentT(), center=100.0, scale=0.1),
    StandardizedFamily(NegativeBinomial()),
    StandardizedFamily(Gaussian(), center=7.0, scale=0.5),
    StandardizedFamily(Categorical(4, start=1)),
    StandardizedFamily(Poisson()),
    StandardizedFamily(Histogram((0.0, 1.0, 4.0))),
    StandardizedFamily(Histogram((0.0, 2.0, 4.0))),
    StandardizedFamily(Ordinal(3)),
    StandardizedFamily(Gaussian(scale=2.0)),
    StandardizedFamily(Categorical(5)),
)


def draws(*, members=2, rows=7):
    """Parameters, and a value of each family in its own unit."""
    generator = torch.Generator().manual_seed(0)
    n_params = max(distribution.family.n_params for distribution in FAMILIES)
    shape = (members, rows, len(FAMILIES), n_params)
    eta = torch.randn(shape, generator=generator, dtype=torch.float64)
    value = [
        distribution.own.sample(eta[0, :, j, : distribution.family.n_params], generator=generator)
        for j, distribution in enumerate(FAMILIES)
    ]
    return eta, torch.stack(value, -1)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("targets", [range(13), [12, 5, 0], [3], [2], [4, 7, 8, 9]])
def test_standardized_values_have_the_density_of_their_own_unit(targets, members):
    targets = list(targets)
    eta, value = draws()
    standardized = torch.stack(
        [
            (value[..., j] - distribution.center) / distribution.scale
            for j, distribution in enumerate(FAMILIES)
        ],
        -1,
    )
    seen = standardized[None, :, targets].expand(members, -1, -1)
    result = FamilyBank(FAMILIES).log_prob(eta[:, :, targets], seen, targets)
    assert result.shape == (2, 7, len(targets))
    for index, target in enumerate(targets):
        distribution = FAMILIES[target]
        own = eta[:, :, target, : distribution.family.n_params]
        expected = distribution.own.log_prob(value[:, target], own)
        assert expected.isfinite().all()
        torch.testing.assert_close(result[:, :, index], expected, rtol=1e-9, atol=1e-9)


def test_parameters_beyond_a_family_s_own_are_not_read_and_get_no_gradient():
    eta, value = draws()
    bank, columns = FamilyBank(FAMILIES), list(range(len(FAMILIES)))
    own = torch.stack(
        [torch.arange(eta.shape[-1]) < distribution.family.n_params for distribution in FAMILIES]
    )
    assert not own.all()
    value = torch.stack(
        [
            (value[..., j] - distribution.center) / distribution.scale
            for j, distribution in enumerate(FAMILIES)
        ],
        1,
    )
    eta.requires_grad_()
    result = bank.log_prob(eta, value[None], columns)
    result.sum().backward()
    assert eta.grad.isfinite().all() and not eta.grad[:, :, ~own].any()
    other = torch.where(own, eta, 9.0)
    torch.testing.assert_close(bank.log_prob(other, value[None], columns), result)


def test_only_distributions_with_a_location_and_a_scale_are_standardized():
    columns = standardized_families(MIXED, MIXED_FAMILIES)
    assert [distribution.center for distribution in columns] == [0.0, 0.0, 0.0, 2.0, 0.0, 0.0]
    assert [distribution.scale for distribution in columns] == [1.0, 1.0, 1.0, 4.0, 1.0, 1.0]
    families = (*MIXED_FAMILIES[:3], Gaussian(scale=1.0), *MIXED_FAMILIES[4:])
    known = standardized_families(MIXED, families)[3]
    assert (known.scale, known.family) == (4.0, Gaussian(scale=0.25))
    families = (*MIXED_FAMILIES[:3], StudentT(), *MIXED_FAMILIES[4:])
    assert standardized_families(MIXED, families)[3].scale == 4.0


def test_positive_numbers_are_divided_by_their_mean_except_in_older_stored_models():
    families = (*MIXED_FAMILIES[:3], Gamma(), *MIXED_FAMILIES[4:])
    distribution = standardized_families(MIXED, families)[3]
    assert (distribution.center, distribution.scale) == (0.0, 2.0)
    assert standardized_families(MIXED, families, positive_in_units=False)[3].scale == 1.0
    stored = asdict(SETTINGS)
    del stored["positive_in_units"]
    assert not TableSettings(**stored).positive_in_units


# Where a fresh network starts


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


def test_a_column_of_one_label_is_certain():
    schema = TableSchema((labels("only", 1), labels("b", 3, "ordinal")))
    cells = cells_of(schema, np.array([[0.0, 2.0], [0.0, 1.0], [0.0, np.nan]]))
    model = build_masked_table(
        schema,
        SETTINGS,
        families=(Categorical(1), Categorical(3)),
        cells=cells,
        generator=torch.Generator().manual_seed(0),
    )
    batch = model.rows(cells).pad(np.arange(3))
    result = model.log_prob(batch, batch, [0, 1])
    assert not result[..., 0].any() and result[:, :2, 1].lt(0).all() and not result[:, 2, 1].any()


# What networks are made of


def built(**changes):
    options = {"schema": ALIKE, "families": ALIKE_FAMILIES, "cells": alike_cells(), **changes}
    schema = options.pop("schema")
    settings = replace(SETTINGS, **options.pop("settings", {}))
    return build_masked_table(
        schema, settings, generator=torch.Generator().manual_seed(0), **options
    )


@pytest.mark.parametrize("name", ["network", "categories"])
def test_unknown_choices_are_refused(name):
    with pytest.raises(ExfamError, match=f"`{name}` must be .*got 'cubic'"):
        built(settings={name: "cubic"})


def test_tokens_of_ordered_columns_lie_on_a_line_that_rises_with_the_label():
    model = table_model(ordinal=(True, False), cells=mixed_cells(200))
    tokens = model.network.tokens
    scores = [part.numpy() for part in tokens.scores.split(list(tokens.plan.sizes), dim=1)]
    for column, steps in enumerate(np.diff(each) for each in scores):
        ordered, free = (not steps[member].any() for member in (1, 0))
        kind = MIXED.columns[column].kind
        # Numbers between knots lie on a line in every member; bins and labels where chosen.
        line = kind == "count" or (kind == "numeric" and not MIXED.columns[column].binned)
        assert ordered is (not line) or kind not in ("ordinal", "numeric")
        assert free is (kind not in ("ordinal", "numeric", "count"))
        if not free:
            assert (steps[0] > 0).all()
    knots = MIXED.columns[3].knots
    np.testing.assert_allclose(scores[3][1], np.clip((knots - 2.0) / 4.0, -3, 3), rtol=1e-6)


def test_ordered_outputs_are_a_normal_distribution_cut_into_labels():
    """Moving only the two shared raw outputs moves the logits by s u - s^2 v / 2."""
    model = built(settings={"ordinal": (True, False)})
    readout, scores = model.network.readout, model.network.tokens.scores[0, :4]
    with torch.no_grad():
        readout.raw.zero_()
        readout.raw[:, :, 4] = 0.5
        readout.raw[:, :, 5] = 0.2
    weight, _ = readout.columns()
    expected = 3.0 * (0.5 * scores - 0.1 * scores**2)
    torch.testing.assert_close(weight[0, 0, :, 0], expected)
    assert not weight[1].any()


def test_a_model_to_load_into_is_the_saved_one_after_loading():
    cells = mixed_cells()
    model = table_model(cells=cells)
    empty = table_model(seed=5).float()
    shell = build_masked_table(
        MIXED,
        SETTINGS,
        families=MIXED_FAMILIES,
        cells=None,
        generator=torch.Generator().manual_seed(9),
    ).double()
    assert not shell.network.readout.bias.any()
    shell.load_state_dict(model.state_dict())
    for own, other in zip(model.eta(cells, [0, 1, 3]), shell.eta(cells, [0, 1, 3]), strict=True):
        torch.testing.assert_close(own, other, rtol=0.0, atol=0.0)
    assert empty.families == shell.families


def test_a_subclass_has_parameters_and_a_density_of_its_own():
    class Other(Gaussian):
        name = "other"

    class Tempered(Categorical):
        name = "tempered"

        def _log_prob(self, value, eta):
            return super()._log_prob(value, eta / 2)

    assert StandardizedFamily(Gaussian()).has_scale and not StandardizedFamily(Other()).has_scale
    eta, value = torch.randn(1, 2, 1, 3), torch.tensor([[[0.0], [2.0]]])
    own = Tempered(3).log_prob(value, eta)
    torch.testing.assert_close(
        FamilyBank([StandardizedFamily(Tempered(3))]).log_prob(eta, value, [0]), own
    )
