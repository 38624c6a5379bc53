"""The families of columns, together and in their own units, and where a fresh network starts."""

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
from exfam.tables.answers.distributions import independent_columns
from exfam.tables.data import TableSchema
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.standardized import FamilyBank, StandardizedFamily, standardized_families
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
