"""Embeddings of two fits agree up to an affine map where the theorem says so."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from efa_cases import N_ITEMS, rich_groups, rich_schema, small_model
from exfam.checks import DataError, ExfamError
from exfam.efa.networks.factor_network import LatentFactorSettings, build_latent_factor_items
from exfam.estimator.schema import Schema
from exfam.families import Gaussian
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.efa.diversity import (
    check_items,
    context_diversity,
    diversity_of,
    failed_diversity,
    item_diversity,
    shift_diversity,
)
from exfam_studies.efa.identifiability import (
    ItemEmbeddings,
    affine_map,
    align,
    explained,
    item_embeddings,
    rotation_map,
    shuffled_contexts,
    shuffled_names,
)
from exfam_studies.efa.identifiability_values import (
    ValueEmbeddings,
    check_values,
    value_counterexample,
    value_embeddings,
)

DIM, ITEMS, CONTEXTS = 3, 12, 400
SHIFT = np.array([0.5, -2.0, 1.0])


def turn():
    """An invertible map that is far from a rotation."""
    return np.array([[3.0, 1.0, 0.0], [0.0, 0.5, 0.2], [1.0, 0.0, 1.0]])


def drawn(*, dim=DIM, items=ITEMS, seed=0):
    random = np.random.default_rng(seed)
    return ItemEmbeddings(
        random.normal(size=(CONTEXTS, dim)),
        random.normal(size=(items, dim)),
        random.normal(size=items),
        np.arange(CONTEXTS) // 4,
    )


def carried(fit, matrix, shift):
    """The same distribution in other coordinates; a vector is added to every center for nothing."""
    center = fit.center @ np.linalg.inv(matrix)
    bias = fit.bias - center @ shift + 7.0
    return ItemEmbeddings(fit.context @ matrix.T + shift, center + 0.3, bias, fit.group)


CHOICES = {
    "static": {"conditional": "static", "n_layers": 2},
    "copies": {"conditional": "copies", "connection": "post-norm"},
    "exact": {"conditional": "exact", "connection": "residual"},
    "two_stream": {"conditional": "two_stream", "direction": "causal"},
    "tied": {"tie": "reflection", "connection": "residual"},
}


@pytest.mark.parametrize("name", CHOICES)
def test_embeddings_make_the_models_own_probabilities(name):
    groups = rich_groups()
    model = small_model(rich_schema(groups), **CHOICES[name]).eval()
    fit = item_embeddings(model, groups)
    batch = groups.pad(np.arange(len(groups)))
    with torch.inference_mode():
        wanted = model.item_log_probs(batch)[batch.target].double().numpy()
    rows = batch.element[batch.target].numpy()
    np.testing.assert_allclose(fit.log_probs(), wanted[np.argsort(rows)], atol=1e-4)
    assert np.std(fit.context, axis=0).min() > 1e-3, "contexts differ"
    assert fit.group.tolist() == [0] * 5 + [1] + [2] * 4
    some = item_embeddings(model, groups[[2, 0]])
    assert some.group.tolist() == [1] * 5 + [0] * 4
    np.testing.assert_allclose(some.context[5:], fit.context[6:], atol=1e-5)


def test_shuffled_names_are_the_same_model_of_other_groups():
    groups = rich_groups()
    model = small_model(rich_schema(groups))
    names = shuffled_names(N_ITEMS, seed=1)
    plain, shuffled = item_embeddings(model, groups), item_embeddings(model, groups, names=names)
    renamed = groups.with_(item=names[groups.item].astype(np.int32))
    there = item_embeddings(model, renamed)
    np.testing.assert_allclose(shuffled.context, there.context, atol=1e-6)
    np.testing.assert_allclose(shuffled.log_probs(), there.log_probs()[:, names], atol=1e-5)
    assert np.abs(plain.context - shuffled.context).max() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_the_theorem_holds_for_one_distribution_in_two_coordinates(seed):
    first = drawn(seed=seed)
    second = carried(first, turn(), SHIFT)
    check = check_items(first, second)
    assert check.applies and check.holds, check
    aligned = align(first, second)
    shares = (
        aligned.context,
        aligned.center,
        aligned.center_transposed,
        aligned.center_effect,
        aligned.bias,
    )
    for both in shares:
        assert both == pytest.approx((1.0, 1.0))
    np.testing.assert_allclose(aligned.context_correlations, 1.0)
    np.testing.assert_allclose(aligned.center_correlations, 1.0)
    # A rotation is not enough, and the items show it as the contexts do.
    assert max(aligned.rotation_context) < 0.95 and max(aligned.rotation_center) < 0.95
    turned = align(first, carried(first, 2 * np.linalg.qr(turn())[0], SHIFT))
    assert turned.rotation_context == pytest.approx((1.0, 1.0))
    assert turned.rotation_center == pytest.approx((1.0, 1.0))
    unbiased = replace(first, bias=np.zeros(ITEMS))
    assert align(unbiased, unbiased).bias is None


def test_correlations_do_not_depend_on_coordinates():
    first = drawn()
    second = carried(first, turn(), SHIFT)
    noise = np.random.default_rng(5).normal(size=second.context.shape)
    second = replace(second, context=second.context + 0.5 * noise)
    plain, moved = align(first, second), align(first, carried(second, turn(), -SHIFT))
    for name in ("context_correlations", "center_correlations"):
        np.testing.assert_allclose(getattr(plain, name), getattr(moved, name), atol=1e-9)
    assert plain.context_correlations.min() < 0.95
    assert plain.center_effect.forward == pytest.approx(moved.center_effect.forward)
    back = align(second, first)
    for name in ("context", "center", "center_effect", "bias", "rotation_context"):
        assert getattr(plain, name) == pytest.approx(getattr(back, name)[::-1])
    assert plain.center_transposed.forward != pytest.approx(moved.center_transposed.forward)


def test_a_direction_that_hardly_varies_hardly_counts():
    """One fit has lost a direction but for noise, and its centers there are noise as well."""
    random = np.random.default_rng(2)
    first = drawn()
    kept = first.context[:, :2]
    full = np.column_stack([kept, random.normal(size=CONTEXTS) / 100])
    centers = np.column_stack([first.center[:, :2], 9 * random.normal(size=ITEMS)])
    aligned = align(first, ItemEmbeddings(full, centers, first.bias, first.group))
    assert aligned.center_effect.forward > 0.98 > 0.2 > aligned.center_transposed.forward
    assert aligned.center.forward < aligned.center_transposed.forward, "the inverse is worse still"


def test_the_map_is_judged_on_groups_that_it_was_not_found_from():
    random = np.random.default_rng(9)
    first = drawn(dim=60, items=70)
    second = replace(first, context=random.normal(size=(CONTEXTS, 60)))
    # 200 contexts of noise find a map of 61 columns that explains a third of themselves.
    assert max(align(first, second).context) < 0.0


def test_fits_of_unequal_lengths_are_no_case_of_the_theorem():
    first, longer = drawn(), drawn(dim=DIM + 1)
    check = check_items(first, longer)
    assert "one length of vectors: got 3 and 4 dimensions" in check.failed_assumptions
    # Three of the four directions are the first fit's own.
    extended = ItemEmbeddings(
        np.column_stack([first.context, longer.context[:, 3]]),
        np.column_stack([first.center, np.zeros(ITEMS)]),
        first.bias,
        first.group,
    )
    aligned = align(first, extended)
    assert aligned.context.backward == pytest.approx(1) and aligned.context.forward < 0.9
    assert len(aligned.context_correlations) == DIM
    assert aligned.center_transposed == pytest.approx((1, 1), abs=0.1)


def test_nulls_agree_in_nothing():
    first = drawn()
    second = carried(first, turn(), SHIFT)
    order = shuffled_names(ITEMS, seed=3)
    assert sorted(order) == list(range(ITEMS)) and not (order == np.arange(ITEMS)).any()
    items = replace(second, center=second.center[order], bias=second.bias[order])
    contexts = align(first, shuffled_contexts(second, seed=3))
    assert max(align(first, items).center_effect) < 0.5
    assert max(contexts.context) < 0.05 and contexts.context_correlations.mean() < 0.2


def test_the_premise_is_part_of_the_check():
    first, second = drawn(), drawn(seed=1)
    check = check_items(first, second)
    assert "same conditionals: mean KL of at most 1e-06 nats" in check.failed_assumptions[0]
    assert not check.holds
    ours, theirs = (torch.from_numpy(fit.log_probs()) for fit in (first, second))
    wanted = torch.nn.functional.kl_div(theirs, ours, log_target=True, reduction="batchmean")
    assert check.measured["mean KL"] == pytest.approx(wanted.item())


def few_items():
    """Three items in a plane: what H does along its normal enters no conditional."""
    first = drawn(items=3)
    across = np.cross(*(first.center[1:] - first.center[0]))
    return first, replace(first, context=first.context + np.sin(5 * first.context[:, :1]) * across)


def flat_contexts():
    """As after a layer norm: coordinates sum to 1, so the bias takes back what centers add."""
    first = drawn()
    flat = first.context - first.context.mean(axis=1, keepdims=True) + 1 / 3
    moved = np.random.default_rng(1).normal(size=(ITEMS, 1))
    other = ItemEmbeddings(flat, first.center + moved, first.bias - moved[:, 0], first.group)
    return replace(first, context=flat), other


@pytest.mark.parametrize(
    ("pair", "failed", "conclusion"),
    [
        (few_items, {"K <= D - 1", "assumption 2"}, "H' = A H + a: R2 of at least 0.999"),
        (flat_contexts, {"contexts in no plane"}, "delta' = inverse(A)' delta + d: R2"),
    ],
)
def test_one_distribution_may_have_other_embeddings_where_an_assumption_fails(
    pair, failed, conclusion
):
    check = check_items(*pair())
    assert check.measured["mean KL"] < 1e-12, "the same distribution"
    assert {text.split(":")[0] for text in check.failed_assumptions} >= failed
    assert any(text.startswith(conclusion) for text in check.failed_conclusions)


def test_diversity_is_rank_and_condition():
    fit = drawn()
    assert item_diversity(fit).needed == DIM
    assert context_diversity(fit).needed == shift_diversity(fit).needed == DIM + 1
    stretched = replace(fit, context=fit.context * [1.0, 1.0, 1e-3])
    assert shift_diversity(stretched).condition > 100 * shift_diversity(fit).condition
    assert diversity_of(np.zeros((2, 0))).rank == 0
    wide = np.random.default_rng(0).normal(size=(4, 50))
    others = [np.linalg.cond(wide[:, first : first + 4]) for first in range(46)]
    assert diversity_of(wide).condition < np.median(others)
    same = replace(fit, context=np.ones((CONTEXTS, DIM)))
    assert [text[:12] for text in failed_diversity(same)] == ["assumption 3", "contexts in "]
    groups = rich_groups(lengths=(6,) * 12)
    for connection, rank in (("pre-norm", 6), ("residual", 7)):
        model = small_model(rich_schema(groups), embed_dim=6, connection=connection)
        embeddings = item_embeddings(model, groups)
        assert shift_diversity(embeddings).rank == rank
        assert (failed_diversity(embeddings) == ()) == (rank == 7)


def test_embeddings_that_do_not_go_together_are_refused():
    fit = drawn()
    few = ItemEmbeddings(fit.context[:8], fit.center, fit.bias, fit.group[:8])
    same = replace(fit, context=np.ones((CONTEXTS, DIM)))
    for first, second, match in (
        (fit, drawn(items=ITEMS + 1), "`second` must have the contexts and items of `first`"),
        (few, few, "`first` must have 5 contexts or more in each half"),
        (fit, same, "`wanted` must vary for a share of its variance, got rows"),
    ):
        with pytest.raises(DataError, match=match):
            align(first, second)


def test_maps_are_those_of_least_squares():
    random = np.random.default_rng(0)
    given, wanted = random.normal(size=(50, 2)), random.normal(size=(50, 3))
    left = wanted - affine_map(given, wanted)(given)
    np.testing.assert_allclose(left.T @ np.column_stack([given, np.ones(50)]), 0, atol=1e-10)
    rotation = rotation_map(given, wanted[:, :2])
    scale = np.linalg.norm(rotation.matrix, 2)
    np.testing.assert_allclose(
        rotation.matrix @ rotation.matrix.T, scale**2 * np.eye(2), atol=1e-10
    )
    best = explained(wanted[:, :2], rotation(given))
    for angle in np.linspace(0, 6, 25):
        turned = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        fit = given @ np.array(turned) * scale
        assert explained(wanted[:, :2], fit, shift=True) <= best + 1e-12


def test_models_without_attention_over_items_are_refused():
    groups = rich_groups()
    schema = rich_schema(groups)
    with pytest.raises(ExfamError, match="`model` must have an item part with attention .* none"):
        item_embeddings(small_model(schema, items=False), groups)
    factors = build_latent_factor_items(
        N_ITEMS, LatentFactorSettings(), generator=torch.Generator().manual_seed(0)
    )
    with pytest.raises(ExfamError, match="got LatentFactorItems. Fit an EFA with base"):
        item_embeddings(TwoPartModel(direction="bidirectional", item_part=factors), groups)


@pytest.mark.parametrize("seed", range(3))
def test_the_value_half_fails_for_two_dimensions_and_the_check_says_so(seed):
    check = check_values(*value_counterexample(np.random.default_rng(seed).normal(size=40)))
    assert check.measured["means apart"] == 0, "the same distribution"
    assert check.applies, "all that the theorem assumes is so"
    assert not check.holds and "K' = C K*" in check.failed_conclusions[0]


def test_the_value_half_holds_where_the_proof_looks_and_for_one_dimension():
    """At as many contexts as dimensions any two embeddings are linear in each other."""
    mean = np.random.default_rng(0).normal(size=40)
    line = [ValueEmbeddings(mean[:, None] / c, np.array([c]), mean) for c in (2.0, -0.1)]
    for pair in (value_counterexample(np.array([0.5, 2.0])), line):
        check = check_values(*pair)
        assert check.applies and check.holds


def test_the_value_half_says_which_assumption_fails():
    first, second = value_counterexample(np.linspace(-1, 1, 30))
    other = replace(first, vector=-first.vector, mean=-first.mean)
    assert "same conditionals: means at most" in check_values(first, other).failed_assumptions[0]
    bent = replace(first, mean=np.exp(first.mean))
    failed = check_values(bent, bent).failed_assumptions
    assert [text[:12] for text in failed] == ["assumption 1"] * 2
    flat = replace(second, context=second.context * [1.0, 0.0])
    failed = check_values(flat, flat).failed_assumptions
    assert failed[0] == "assumption 4: N of the first fit must have rank 2, got 1"


def gaussian_model(**choices):
    groups = rich_groups()
    families = {"other": Gaussian()}
    schema = Schema.of(groups, families=families)
    choices = {"head_hidden_dim": 0, "items": False, **choices}
    return small_model(schema, **choices), groups


def test_means_of_a_linear_head_are_products_of_its_embeddings():
    model, groups = gaussian_model()
    fit = value_embeddings(model, groups)
    batch = groups.pad(np.arange(len(groups)))
    with torch.inference_mode():
        eta = model.eval().value_eta(batch)["other"]
        wanted = model.families["other"].mean(eta)[batch.target].double().numpy()
    rows = batch.element[batch.target].numpy()
    np.testing.assert_allclose(fit.context @ fit.vector, wanted[np.argsort(rows)], atol=1e-5)
    assert fit.vector.shape == (9,) and fit.vector[-1] == 1
    # What is left beside the hidden state is a constant of each item.
    rest = fit.context[:, -1]
    for item in np.unique(groups.item):
        assert np.ptp(rest[groups.item == item]) < 1e-5
    check = check_values(fit, fit)
    assert check.holds and not any("assumption 1" in text for text in check.failed_assumptions)


def test_heads_that_are_not_linear_are_refused():
    groups = rich_groups()
    for model in (
        gaussian_model(head_hidden_dim=6)[0],
        gaussian_model(group_offset=True)[0],
        small_model(rich_schema(groups), head_hidden_dim=0),
        small_model(rich_schema(groups), values=False),
    ):
        with pytest.raises(ExfamError, match="`model` must have attention, one Gaussian value and"):
            value_embeddings(model, groups)
