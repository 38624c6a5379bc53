"""What a base's scores are made of: contributions that add up exactly, by item and by lag."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from efa_base.item_bases import KINDS, N_ITEMS, fit, outputs, rich_groups
from estimator_cases import random_weights, ratings
from exfam import EFA, ExfamError, LatentFactor, UnknownItemError
from exfam.efa.base.histories import RECENT
from exfam.efa.base.known import KnownItems
from exfam.efa.base.neighbors import NeighborItems
from exfam.efa.base.ridge_link import LinkInputs, ridge_link
from exfam.efa.networks.based import present_elements
from exfam.likelihoods.two_part import DIRECTIONS
from exfam.report import write_report
from model_cases import make_groups

FRAME = ratings(n_users=40, n_movies=8, least=2)
# 600 movies, whose outputs are kept as factors.
LARGE_CATALOG_FRAME = pd.DataFrame(
    {"user": np.repeat(np.arange(60), 10), "movie": np.arange(600), "day": np.arange(600)}
)
ITEMS = {"group": "user", "item": "movie", "order": "day", "base": "auto", "progress": False}
SMALL = {"embed_dim": 4, "n_heads": 2, "head_dim": 2, "n_layers": 1, "max_epochs": 1}
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def batch_of(groups):
    return groups.pad(np.arange(len(groups)))


def candidates(n, *, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, N_ITEMS, n))


def linked(base, score, item, times, context):
    """The outputs of scores, by the equations of the bases."""
    if isinstance(base, NeighborItems):  # whose scores are outputs
        return score
    if isinstance(base, KnownItems):
        return score + base.lift_by_known(*context, item)
    popularity = ((base.count + 0.5) / (base.count + 0.5).sum())[item]
    if base.direction == "causal":
        chance = torch.maximum(score, 1e-6 * popularity)
        repeats = base.repeats[0] * (times > 0) + base.repeats[1] * times.log1p()
        return base.exponents[0] * popularity.log() + base.exponents[1] * chance.log() + repeats
    log_size = base.link_inputs(*context, torch.arange(1)).log_size
    inputs = LinkInputs(score[:, None], popularity.log()[:, None], log_size)
    return ridge_link(inputs, base.numbers)[:, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("repeats", [True, False])
def test_they_add_up_to_what_the_base_says(kind, ranges, repeats):
    groups = rich_groups(repeats=repeats, ranges=ranges)
    base, batch = fit(kind, groups), batch_of(groups)
    where = present_elements(batch)
    item = candidates(len(where[0]))
    without, added = base.contributions(batch, where, item)
    expected = outputs(base, batch).gather(1, item[:, None])[:, 0]
    earlier = torch.arange(batch.item.shape[1]) < where[1][:, None]
    times = ((batch.item[where[0]] == item[:, None]) & earlier).sum(1)
    score = without + added.nansum(1)
    torch.testing.assert_close(linked(base, score, item, times, (batch, where)), expected)
    assert float(added.nan_to_num().min()) < 0 < 0.01 < float(added.nan_to_num().max())
    # Contributions are those of the known items of the context.
    known, position = (batch.present & (batch.item >= 0))[where[0]], where[1][:, None]
    other = torch.arange(known.shape[1])
    seen = other < position if base.direction == "causal" else other != position
    torch.testing.assert_close(~added.isnan(), known & seen)


def test_what_raises_a_probability_raises_its_output():
    groups = rich_groups()
    base, batch = fit("neighbors", groups), batch_of(groups)
    where = present_elements(batch)
    base.weights.copy_(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    base.before.repeats.zero_()
    item = candidates(len(where[0]))
    _, added = base.contributions(batch, where, item)
    _, chance = base.before.contributions(batch, where, item)
    clear = chance.nan_to_num().abs() > 1e-6
    assert clear.any() and bool((added[clear].sign() == chance[clear].sign()).all())


@pytest.mark.parametrize("kind", ["ridge", "ridge of some"])
def test_without_an_item_the_ridge_score_is_less_by_its_contribution(kind):
    groups = rich_groups(repeats=False)
    base, batch = fit(kind, groups), batch_of(groups)
    where = present_elements(batch)
    item = candidates(len(where[0]))

    def scores(batch):
        every = torch.arange(N_ITEMS)
        return base.link_inputs(batch, where, every)[0].gather(1, item[:, None])[:, 0]

    _, added = base.contributions(batch, where, item)
    for position in range(added.shape[1]):
        known = batch.item.clone()
        known[:, position] = -1
        less = scores(batch) - scores(replace(batch, item=known))
        counts = ~added[:, position].isnan()
        torch.testing.assert_close(less[counts], added[counts, position], atol=1e-6, rtol=1e-4)


def test_without_context_a_transition_score_is_the_popularity():
    groups = make_groups(lengths=(1, 1, RECENT + 5), n_items=N_ITEMS, ordered=True, repeats=True)
    base, batch = fit("transitions", groups), batch_of(groups)
    where = present_elements(batch)
    item = candidates(len(where[0]))
    without, added = base.contributions(batch, where, item)
    popularity = ((base.count + 0.5) / (base.count + 0.5).sum())[item]
    is_first = where[1] == 0
    torch.testing.assert_close(without[is_first], popularity[is_first])
    mixed = base.mixture.sum() * popularity
    torch.testing.assert_close(without[~is_first], mixed[~is_first])
    assert added[is_first].isnan().all() and int((~added[-1].isnan()).sum()) == RECENT


def fitted(direction="bidirectional", **parameters):
    return EFA(**{**ITEMS, **SMALL, "direction": direction, **parameters}).fit(FRAME)


# Any two of three options in all their combinations.
PAIRS = [
    (direction, attention, ("none", "reflection")[(i + j) % 2])
    for i, direction in enumerate(DIRECTIONS)
    for j, attention in enumerate(("softmax", "none"))
]


@pytest.mark.parametrize(("direction", "attention", "tie"), PAIRS)
def test_base_and_correction_are_the_output(direction, attention, tie, tmp_path):
    model = random_weights(fitted(direction, attention=attention, tie=tie))
    part = model.members_[0].item_part
    part.scale.fill_(0.9)
    part.gate.fill_(0.8)
    groups = model._inputs(FRAME).groups
    explanations = model.explain(FRAME)
    for number, explanation in enumerate(explanations):
        own = explanation.contributions
        batch = groups[number : number + 1].pad(np.array([0]))
        with torch.inference_mode():
            eta = part.eta(batch).gather(-1, batch.item[..., None].long()).ravel().numpy()
        np.testing.assert_allclose(own.base + own.correction, eta, atol=1e-5)
        assert (own.correction != 0).any() == (attention != "none")
        assert own.items.tolist() == explanation.centers
        assert set(own.groups) == {explanation.group}
        assert bool(explanation.weights) == (attention != "none")
    model.save(tmp_path / "model")
    for other, why in zip(exfam.load(tmp_path / "model").explain(FRAME), explanations, strict=True):
        for name, column in why.contributions.to_dict().items():
            np.testing.assert_array_equal(other.contributions.to_dict()[name], column)


@every_direction
def test_what_is_recommended_is_explained_item_by_item(direction):
    model = fitted(direction)
    because, best = model.explain_item(FRAME), model.recommend(FRAME, k=2)
    np.testing.assert_array_equal(because.items, best.items[:, 0])
    np.testing.assert_array_equal(because.groups, best.groups)
    table = because.to_dict()
    assert list(table) == ["group", "item", "context", "lag", "contribution"]
    sums = np.bincount(because.candidate, weights=table["contribution"])
    np.testing.assert_allclose(sums, because.score, rtol=1e-5)
    for number, name in enumerate(because.groups):
        own, entries = FRAME[FRAME["user"] == name], because.candidate == number
        *context, nothing = table["context"][entries].tolist()
        assert sorted(context) == sorted(own["movie"]) and nothing == "(nothing)"
        sizes = np.abs(table["contribution"][entries][:-1])
        assert (np.diff(sizes) <= 0).all()
        by_lag = own.sort_values("day")["movie"].tolist()[::-1]
        assert context == [by_lag[lag - 1] for lag in table["lag"][entries][:-1]]
    second = model.explain_item(FRAME, best.items[:, 1])
    np.testing.assert_array_equal(second.items, best.items[:, 1])
    one = model.explain_item(FRAME, "a")
    assert set(one.items) == {"a"} and len(one.items) == len(best.groups)
    nothing = model.explain_item(model._inputs(FRAME).groups[:0], "a")
    assert len(nothing.items) == len(nothing.to_dict()["context"]) == 0


@every_direction
@pytest.mark.parametrize("ensemble", [1, 2])
@pytest.mark.parametrize("frame", [FRAME, LARGE_CATALOG_FRAME], ids=["few", "many"])
def test_probabilities_are_those_of_the_base_and_what_corrects_it(direction, ensemble, frame):
    # What is recommended of sets with positions is a mean over gaps.
    of_direction = {"direction": direction, "order": "day" if direction == "causal" else None}
    model = EFA(**{**ITEMS, **SMALL, **of_direction, "ensemble": ensemble}).fit(frame)
    model = random_weights(model)
    for member in model.members_:
        member.item_part.weigh(0.9, 0.8, 0.3)
    best = model.recommend(frame, k=3)
    because = [model.explain_item(frame, best.items[:, number]) for number in range(3)]
    for number, why in enumerate(because):
        np.testing.assert_allclose(why.probability, best.probabilities[:, number], rtol=1e-5)
        assert why.share == pytest.approx(0.3)
        mixed = (1 - why.share) * why.corrected + why.share * why.alone
        assert np.allclose(why.probability, mixed, rtol=1e-5) == (ensemble == 1)
        assert not np.allclose(why.corrected, why.alone, rtol=1e-2)
    # Outputs say how much more probable one candidate is than another, before the base is mixed in.
    one, other = because[:2]
    outputs = one.base + one.correction - other.base - other.correction
    left = other.corrected > 0  # of some groups one movie is left
    odds = np.log(one.corrected[left] / other.corrected[left])
    np.testing.assert_allclose(outputs[left], odds, atol=1e-4)


def test_an_excluded_item_is_explained_but_has_no_probability():
    model = fitted()
    assert model.support_ == "hard"
    first = FRAME.groupby("user", sort=False)["movie"].first()
    why = model.explain_item(FRAME, first.tolist())
    assert (why.probability == 0).all() and (why.corrected == 0).all() and (why.alone == 0).all()
    assert np.isfinite(why.base).all() and (why.score != 0).any()


def test_what_cannot_be_explained_is_refused():
    model = fitted(attention="none")
    for unknown in ("zzz", ["a"] * 39 + ["zzz"], {"a": 1}):
        with pytest.raises(UnknownItemError, match="`item` must be one seen in training, got"):
            model.explain_item(FRAME, unknown)
    with pytest.raises(ExfamError, match="or one for each of 40 groups, got 2"):
        model.explain_item(FRAME, ["a", "b"])
    with pytest.raises(ExfamError, match="`explain_item` needs a model with a base of items"):
        fitted(base="none").explain_item(FRAME)
    with pytest.raises(ExfamError, match="`explain_item` needs EFA, got LatentFactor"):
        LatentFactor().explain_item(FRAME)


def test_a_report_of_a_base_alone_has_reasons(tmp_path):
    model = fitted(attention="none")
    page = write_report(model, FRAME, path=tmp_path / "page.html").read_text()
    assert "The model is its base alone" in page and "because of" in page
    corrected = write_report(fitted(), FRAME, path=tmp_path / "page.html").read_text()
    assert "The model is its base alone" not in corrected and "because of" in corrected
