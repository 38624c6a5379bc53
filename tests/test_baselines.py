from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

from baseline_cases import BY_MEAN, DRAWS, N_ITEMS, RATINGS, drawn, groups_of, score
from exfam.checks import ExfamError
from exfam.efa.networks.marginals import (
    Sample,
    fit_marginal_items,
    fit_marginal_values,
    most_likely,
)
from exfam.efa.networks.shrunk_offsets import fit_shrunk_offset
from exfam.families import (
    Bernoulli,
    Categorical,
    Gamma,
    Gaussian,
    NegativeBinomial,
    PerItem,
    Poisson,
)
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.likelihoods.support import DIRECTIONS, SUPPORTS, HardExclusion
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.efa.movielens_splits import movielens_items, movielens_ratings
from model_cases import (
    make_groups,
    more_padding,
    whole,
)

# Marginal items


def test_marginal_items_are_smoothed_frequencies_of_the_targets():
    role = np.where(np.arange(18) == 0, CONTEXT, TARGET).astype(np.int8)
    groups = make_groups(repeats=True, role=role)
    code = groups.item.copy()
    code[1] = -1
    part = fit_marginal_items(groups.with_(item=code), N_ITEMS, smoothing=0.5)
    count = np.bincount(code[2:], minlength=N_ITEMS) + 0.5
    torch.testing.assert_close(
        part.log_frequency.exp(), torch.from_numpy(count / count.sum()).float()
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_unigram_nats_are_the_cross_entropy(direction):
    train = make_groups(seed=0, repeats=True, lengths=[30, 20])
    test = make_groups(seed=1, repeats=True)
    part = fit_marginal_items(train, N_ITEMS)
    share = np.bincount(test.item, minlength=N_ITEMS) / len(test.item)
    expected = share @ part.log_frequency.double().numpy()
    assert score(part, test, direction=direction) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_marginal_items_give_a_distribution_under_every_support(direction, support):
    part = fit_marginal_items(make_groups(repeats=True), N_ITEMS)
    model = TwoPartModel(direction=direction, item_part=part, support=SUPPORTS[support]())
    batch = more_padding(whole(make_groups()))
    total = model.item_log_probs(batch).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(batch.item.shape))


def test_exclusion_renormalizes_the_frequencies_of_the_rest():
    groups = make_groups(lengths=[2], n_items=3, item=np.array([0, 2], dtype=np.int32))
    part = fit_marginal_items(groups, 3, smoothing=1.0)
    model = TwoPartModel(direction="causal", item_part=part, support=HardExclusion())
    probs = model.item_log_probs(whole(groups)).exp()[0]
    torch.testing.assert_close(probs[0], torch.tensor([0.4, 0.2, 0.4]))
    torch.testing.assert_close(probs[1], torch.tensor([0.0, 1 / 3, 2 / 3]))


def test_item_weights_count_like_repeated_elements():
    groups = make_groups(repeats=True)
    weight = np.random.default_rng(0).integers(0, 3, 18).astype(np.float64)
    twice = np.repeat(groups.item, weight.astype(int))
    repeated = make_groups(lengths=[len(twice)], item=twice)
    torch.testing.assert_close(
        fit_marginal_items(groups, N_ITEMS, weight=weight).log_frequency,
        fit_marginal_items(repeated, N_ITEMS).log_frequency,
    )


@pytest.mark.parametrize("smoothing", [1e308, 1e-320])
def test_any_smoothing_gives_a_distribution(smoothing):
    fitted = fit_marginal_items(make_groups(repeats=True), N_ITEMS, smoothing=smoothing)
    np.testing.assert_allclose(fitted.log_frequency.exp().sum(), 1, rtol=1e-5)
    assert np.isfinite(fitted.log_frequency.numpy()).all()


def test_item_frequencies_need_items_and_smoothing():
    with pytest.raises(ExfamError, match="`item` must be given for item frequencies"):
        fit_marginal_items(Groups(start=[0], stop=[2]), 3)
    with pytest.raises(ExfamError, match="`smoothing` must be a number > 0, got 0.0"):
        fit_marginal_items(make_groups(), N_ITEMS, smoothing=0.0)


# Marginal values


@pytest.mark.parametrize("name", DRAWS)
def test_no_other_constant_is_more_likely(name):
    family, value = drawn(name)
    eta = fit_marginal_values(groups_of(value), {"value": family}).table[0].double()
    eta.requires_grad_()
    nats = family.log_prob(torch.from_numpy(value), eta.expand(len(value), -1)).mean()
    (gradient,) = torch.autograd.grad(nats, eta)
    assert gradient.abs().max() < 1e-4


def test_marginals_are_the_known_closed_forms():
    _, rating = drawn("categorical")
    part = fit_marginal_values(groups_of(rating), {"value": Categorical(3, start=1)})
    share = np.bincount(rating.astype(int), minlength=4)[1:] / len(rating)
    np.testing.assert_allclose(part.table[0].softmax(-1), share, rtol=1e-5)
    _, count = drawn("poisson")
    part = fit_marginal_values(groups_of(count), {"value": Poisson(shift=1)})
    assert float(part.table[0, 0].exp()) == pytest.approx(count.mean() - 1, rel=1e-5)
    _, time = drawn("gamma")
    part = fit_marginal_values(groups_of(time), {"value": Gamma()})
    shape, _, scale = scipy.stats.gamma.fit(time, floc=0)
    np.testing.assert_allclose(part.table[0].exp(), [shape * scale, shape], rtol=1e-4)


@pytest.mark.parametrize("name", DRAWS)
def test_rare_items_borrow_and_unseen_items_have_the_global_distribution(name):
    family, value = drawn(name, n=400)
    item = np.random.default_rng(1).choice([0, 0, 0, 1, 1, 2], 400).astype(np.int32)
    item[0] = 3
    groups = make_groups(lengths=[400], item=item, values={"value": value}, n_items=5)
    part = fit_marginal_values(groups, {"value": family}, n_items=5, prior=4.0)
    overall = fit_marginal_values(groups, {"value": family})
    torch.testing.assert_close(part.table[5], overall.table[0])
    mean = family.mean(part.table.double())
    # The item never seen: all its values are borrowed (by 64 quantiles, if there are more).
    assert float(mean[4]) == pytest.approx(float(mean[5]), rel=0.02)
    if name in BY_MEAN and name not in ("negative-binomial", "student-t"):
        for code in (0, 1, 2, 3):
            own = value[item == code]
            expected = (own.sum() + 4 * value.mean()) / (len(own) + 4)
            assert float(mean[code]) == pytest.approx(expected, rel=0.02)


def test_an_element_has_the_distribution_of_its_item():
    family, value = drawn("gaussian")
    groups = groups_of(value)
    part = fit_marginal_values(groups, {"value": family}, n_items=N_ITEMS)
    batch = whole(groups)
    assert torch.equal(part.eta(batch)[3, 1], part.table[batch.item[3, 1]])
    assert part.table[:, 0].std() > 0.01
    unknown = replace(batch, item=torch.full_like(batch.item, -1))
    assert torch.equal(part.eta(unknown)[0, 0], part.table[-1])
    assert torch.equal(part.eta(replace(batch, item=None))[0, 0], part.table[-1])


def test_values_need_no_items():
    groups = Groups(start=[0], stop=[4], values={"value": np.array([1.0, 2.0, 2.0, 3.0])})
    part = fit_marginal_values(groups, RATINGS)
    assert float(part.eta(whole(groups))[0, 0, 0].exp()) == pytest.approx(1.0, rel=1e-5)
    shrunk = fit_shrunk_offset(groups, RATINGS, k=2.0, direction="bidirectional")
    assert float(shrunk.mean(whole(groups))[0, 0, 0]) == pytest.approx(2 + 1 / 5, rel=1e-5)


def test_columns_are_fitted_side_by_side():
    families = {"count": Poisson(), "size": Gamma()}
    values = {"count": drawn("poisson")[1], "size": drawn("gamma")[1]}
    groups = make_groups(lengths=[4] * 50, values=values)
    table = fit_marginal_values(groups, families).table[0]
    for columns, name in ((slice(0, 1), "count"), (slice(1, 3), "size")):
        alone = fit_marginal_values(groups, {name: families[name]}).table[0]
        torch.testing.assert_close(table[columns], alone)


def test_the_item_chooses_the_family():
    family = PerItem({0: Bernoulli()}, default=Gaussian())
    item = np.tile([0, 1], 50).astype(np.int32)
    random = np.random.default_rng(0)
    value = np.where(item == 0, random.binomial(1, 0.3, 100), random.normal(5, 2, 100))
    groups = make_groups(lengths=[100], item=item, values={"value": value}, n_items=2)
    for part in (
        fit_marginal_values(groups, {"value": family}),
        fit_marginal_values(groups, {"value": family}, n_items=2, prior=0.01),
    ):
        mean = family.mean(part.eta(whole(groups))[0, :2], item=torch.tensor([0, 1]))
        expected = [value[item == 0].mean(), value[item == 1].mean()]
        np.testing.assert_allclose(mean, expected, rtol=0.01)


@pytest.mark.parametrize("n_items", [0, N_ITEMS])
def test_value_weights_count_like_repeated_elements(n_items):
    family, value = drawn("gamma", n=40)
    groups = groups_of(value)
    weight = np.random.default_rng(0).integers(0, 3, 40)
    index = np.repeat(np.arange(40), weight)
    repeated = make_groups(
        lengths=[len(index)], item=groups.item[index], values={"value": value[index]}
    )
    families = {"value": family}
    torch.testing.assert_close(
        fit_marginal_values(groups, families, n_items=n_items, weight=weight.astype(float)).table,
        fit_marginal_values(repeated, families, n_items=n_items).table,
        rtol=1e-3,
        atol=1e-3,
    )


def test_a_value_of_weight_zero_is_not_there():
    value = np.array([1.0, 2.0, 3.0, -1e6])
    groups = Groups(start=[0], stop=[4], values={"value": value})
    weight = np.array([1.0, 1.0, 1.0, 0.0])
    part = fit_marginal_values(groups, {"value": Poisson(shift=1)}, weight=weight)
    assert float(part.table[0, 0].exp()) == pytest.approx(1.0, rel=1e-5)
    kwargs = {"k": 1.0, "direction": "causal", "weight": weight}
    shrunk = fit_shrunk_offset(groups, {"value": Gaussian()}, **kwargs)
    assert float(shrunk.low) == pytest.approx(1.1)


def test_frequent_items_do_not_drown_the_fit_of_rare_ones():
    random = np.random.default_rng(0)
    item = np.minimum(random.zipf(1.3, 20_000) - 1, 299).astype(np.int32)
    mean = np.exp(random.normal(0, 1, 300))[item]
    value = random.negative_binomial(2, 2 / (2 + mean)).astype(np.float64)
    groups = make_groups(lengths=[len(item)], item=item, values={"value": value}, n_items=300)
    family = NegativeBinomial()
    part = fit_marginal_values(groups, {"value": family}, n_items=300, prior=5.0)
    count = np.bincount(item, minlength=300)
    total = np.bincount(item, weights=value, minlength=300)
    expected = (total + 5 * value.mean()) / (count + 5)
    np.testing.assert_allclose(family.mean(part.table[:-1]), expected, rtol=1e-5)


def test_unobserved_and_context_only_values_are_not_fitted():
    value = np.array([1.0, 2.0, np.nan, 99.0])
    groups = Groups(
        start=[0],
        stop=[4],
        values={"value": value},
        observed=np.array([True, True, False, True]),
        role=np.array([TARGET, TARGET, TARGET, CONTEXT]),
    )
    part = fit_marginal_values(groups, {"value": Gaussian()})
    assert float(part.table[0, 0]) == pytest.approx(1.5)


def test_value_fits_refuse_what_they_cannot_use():
    groups = make_groups()
    with pytest.raises(
        ExfamError, match=r"`families` must name value columns of the groups \('value'\), got 'x'"
    ):
        fit_marginal_values(groups, {"x": Gaussian()})
    hidden = groups.with_(observed=np.zeros(18, dtype=bool))
    with pytest.raises(ExfamError, match="`value` must have at least one observed target value"):
        fit_marginal_values(hidden, RATINGS)
    with pytest.raises(ExfamError, match="`prior` must be a number > 0, got 0.0"):
        fit_marginal_values(groups, RATINGS, prior=0.0)


def test_a_sample_of_equal_values_still_has_a_finite_distribution():
    value = torch.full((5,), 2.0, dtype=torch.float64)
    sample = Sample(value, torch.full((5,), -1), torch.ones(5, dtype=torch.float64))
    for family in (Gaussian(), Poisson(shift=1), Poisson(shift=2), Categorical(3, start=1)):
        assert torch.isfinite(most_likely(family, sample)).all()


# MovieLens, as the reference measured it


@pytest.mark.usefixtures("data_folder")
def test_movielens_unigrams_score_as_measured():
    splits = movielens_items()
    part = fit_marginal_items(splits.train, 50)
    nats = {
        (direction, name): -score(part, splits.test, direction=direction, support=SUPPORTS[name]())
        for direction in DIRECTIONS
        for name in ("none", "hard")
    }
    assert nats["causal", "none"] == pytest.approx(3.894, abs=0.001)
    assert nats["bidirectional", "none"] == pytest.approx(3.894, abs=0.001)
    assert nats["bidirectional", "hard"] == pytest.approx(3.297, abs=0.001)
    assert nats["causal", "hard"] == pytest.approx(3.626, abs=0.001)


@pytest.mark.usefixtures("data_folder")
def test_a_constant_categorical_scores_as_measured_on_movielens():
    splits = movielens_ratings()
    families = {"value": Categorical(3, start=1)}
    part = fit_marginal_values(splits.train, families)
    nats = -score(part, splits.test, direction="causal", families=families)
    assert nats == pytest.approx(1.066, abs=0.001)
