"""Validation keeps what a correction adds, and switches off what adds nothing."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from efa_base.item_bases import N_ITEMS, fit, rich_groups
from exfam import EFA
from exfam.efa import gate
from exfam.efa.gate import set_gates
from exfam.efa.networks.based import BasedItems
from exfam.estimator.evaluate import item_probabilities, item_ranks, log_probs, top_items
from exfam.estimator.gain import Gain
from exfam.likelihoods import two_part
from exfam.likelihoods.two_part import SUPPORTS, TwoPartModel
from model_cases import generator, make_groups


class Correction(nn.Module):
    """Noise, and more for the item that is there: what no honest one could know."""

    direction = "bidirectional"

    def __init__(self, knowledge, noise):
        super().__init__()
        self.knowledge, self.noise = nn.Parameter(torch.tensor(knowledge)), noise

    def eta(self, batch):
        known = nn.functional.one_hot(batch.item.clamp_min(0), N_ITEMS) * self.knowledge
        generator = torch.Generator().manual_seed(0)
        return known + self.noise * torch.randn(known.shape, generator=generator)

    def numbers_an_element(self, longest):
        return N_ITEMS


def member(knowledge=0.0, noise=1.0, support="none"):
    part = BasedItems(fit("ridge", rich_groups()), Correction(knowledge, noise))
    return TwoPartModel(
        direction="bidirectional", item_part=part, support=SUPPORTS[support]()
    ).eval()


def validation(n=60):
    return make_groups(lengths=[4] * n, seed=5, n_items=N_ITEMS, values={})


@pytest.mark.parametrize("support", SUPPORTS)
def test_noise_is_switched_off(support):
    model, groups = member(support=support), validation()
    gain = set_gates([([model], groups)], seed=0)
    assert (float(model.item_part.gate), float(model.item_part.scale)) == (0.0, 1.0)
    assert (gain.nats, gain.low, gain.high, gain.gate, gain.n_groups) == (0, 0, 0, 0, 60)
    assert str(gain) == (
        "Attention added nothing that validation could see, and is switched off: predictions are "
        "those of the base."
    )


@pytest.mark.parametrize("support", SUPPORTS)
def test_what_helps_is_kept_and_weighed(support):
    weak, strong = (member(knowledge, 0.5, support) for knowledge in (0.5, 1.0))
    groups = validation()
    gains = [set_gates([([model], groups)], seed=0) for model in (weak, strong)]
    assert 0 < gains[0].low < gains[0].nats < gains[0].high < gains[1].low
    part, gain = strong.item_part, gains[1]
    kept = log_probs([strong], groups)["item"]
    scale, weight = float(part.scale), float(part.gate)

    def held(scale, weight):
        """The nats of all, less what holds the base as it is and the correction at 0."""
        part.weigh(scale, weight)
        return log_probs([strong], groups)["item"].sum() - 2 * ((scale - 1) ** 2 + weight**2)

    others = [held(scale + a, weight + b) for a, b in [(0.1, 0), (-0.1, 0), (0, 0.1), (0, -0.1)]]
    assert held(scale, weight) > max(others)
    held(1.0, 0.0)
    added = kept - log_probs([strong], groups)["item"]
    assert gain.nats == pytest.approx(added.mean(), rel=1e-4)
    # Groups are alike in size: the error of their means is that of the mean.
    of_groups = added.reshape(60, 4).mean(1)
    half = of_groups.std(ddof=1) / 60**0.5 * stats.t(59).ppf(0.975)
    assert gain.high - gain.nats == pytest.approx(half, rel=1e-3)
    without = log_probs([strong], groups)["item"].mean()
    assert gain.base_nats == pytest.approx(without, rel=1e-6) != gain.nats
    assert str(gain).startswith(
        f"Attention added {gain.nats:.3f} nats an element to its base (95 %"
    )
    assert Gain(**json.loads(json.dumps(asdict(gain)))) == gain


class HalfRight(Correction):
    """Says the item of every other element, and of the others more firmly a wrong one."""

    def eta(self, batch):
        is_right = batch.element % 2 == 0
        said = torch.where(is_right, batch.item, batch.item + 1) % N_ITEMS
        firmness = torch.where(is_right, 4.0, 30.0) * self.knowledge
        return nn.functional.one_hot(said, N_ITEMS) * firmness[..., None]


def test_a_correction_that_is_sure_and_often_wrong_is_mixed_with_the_base():
    """A sum of outputs would have to weigh it little in all elements."""
    model, groups = member(), validation()
    model.item_part.correction = HalfRight(1.0, 0.0)
    gain = set_gates([([model], groups)], seed=0)
    assert gain.low > 0.1 and 0.2 < gain.mix < 0.8 and float(model.item_part.mix) > 0.2
    mixed = log_probs([model], groups)["item"]
    model.item_part.mix.fill_(0.0)
    parts = [log_probs([one], groups)["item"] for one in (model.alone(), model)]
    by_hand = np.log(gain.mix * np.exp(parts[0]) + (1 - gain.mix) * np.exp(parts[1]))
    np.testing.assert_allclose(mixed, by_hand, rtol=1e-5)
    without = set_gates([([member()], groups)], seed=0)
    assert without.mix == 0


def test_slopes_of_a_mixture_are_those_of_its_nats():
    def random(number):
        return torch.randn(7, 5, generator=generator(number), dtype=torch.float64)

    item = torch.tensor([0, 3, 2, 4, 1, 1, 0])
    support = torch.zeros(7, 5, dtype=torch.float64).index_put(
        (torch.arange(3), torch.tensor([1, 2, 4])), torch.tensor(-torch.inf).double()
    )
    outputs = gate.ItemOutputs(random(1), random(2), support, item)
    numbers = torch.tensor([0.8, 0.6, -1.0], dtype=torch.float64, requires_grad=True)
    of_base = (outputs.base + support).log_softmax(1)
    eta = numbers[0] * outputs.base + numbers[1] * outputs.correction + support
    share = numbers[2].sigmoid()
    mixed = share * of_base.exp() + (1 - share) * eta.softmax(1)
    expected = -mixed[torch.arange(7), item].log().sum()
    alone = gate._own_nats(outputs)
    torch.testing.assert_close(alone, of_base[torch.arange(7), item])
    nats, slopes = gate._mixed_nats(outputs, alone, numbers.detach())
    assert nats == pytest.approx(expected.item())
    torch.testing.assert_close(slopes, torch.autograd.grad(expected, numbers)[0])


def outputs_with(correction_of_second):
    """The base has the own item, 0, first in all rows, with 1; the correction adds to item 1."""
    base, correction = torch.zeros(2, 400, 30)
    base[:, 0], correction[:, 1] = 1.0, correction_of_second
    return gate.ItemOutputs(base, correction, torch.zeros(400, 30), torch.zeros(400).long())


def test_a_ranking_behind_that_of_the_base_takes_in_as_little_of_it_as_helps():
    outputs, before = outputs_with(torch.linspace(0.0, 1.3, 400)), gate.Weights(1.0, 1.0)
    after = gate._ranked(outputs, before)
    assert after[:2] == before[:2] and 0.1 < after.mix < 0.5

    def behind(mix):
        pool = (outputs.base + outputs.correction).softmax(1)
        mixed = (1 - mix) * pool + mix * outputs.base.softmax(1)
        # Of the base each target gains 1; second ones gain 1 / log2(3).
        less = np.where((mixed[:, 0] > mixed[:, 1]).numpy(), 0.0, 1 - 1 / np.log2(3))
        return less.mean() > less.std(ddof=1) / 20

    assert not behind(after.mix) and behind(after.mix - 0.1)
    # A share of the base that is there already stays, and the rest is shared in the same way.
    first = gate._ranked(outputs, gate.Weights(1.0, 1.0, 0.05))
    assert first.mix > 0.05 and not behind(first.mix)
    # Beyond half of what there is no more of the base is taken in.
    assert gate._ranked(outputs_with(torch.tensor(9.0)), before).mix == 0.5


@pytest.mark.parametrize("second", [-1.0, 0.9])
def test_a_ranking_that_is_not_behind_stays(second):
    for weights in (gate.Weights(1.0, 1.0), gate.Weights(0.4, 0.3, 0.2), gate.ALONE):
        assert gate._ranked(outputs_with(torch.tensor(second)), weights) == weights


def test_members_are_weighed_by_their_ranking_too(monkeypatch):
    """Where only the base alone ranks anything well, as much of it as is allowed is mixed in."""
    model, groups = member(2.0, 0.5), validation()
    by_nats = set_gates([([model], groups)], seed=0)
    monkeypatch.setattr(gate, "_gains", lambda _, weights: np.full(9, float(weights.mix == 1)))
    ranked = set_gates([([model], groups)], seed=0)
    assert ranked.mix == float(model.item_part.mix) > by_nats.mix
    assert (by_nats.scale, by_nats.gate) == (ranked.scale, ranked.gate)
    assert by_nats.nats > ranked.nats > 0


@pytest.mark.parametrize("large", [False, True])
def test_a_mixture_gives_every_answer(large, monkeypatch):
    """Probabilities, the best items and ranks of two members and a base are those by hand."""
    if large:
        monkeypatch.setattr(two_part, "LARGE_CATALOG", 1)
    groups = rich_groups()
    model = EFA(max_epochs=1, seed=0, progress=False, ensemble=2).fit(groups)
    for part in (one.item_part for one in model.members_):
        part.weigh(0.5, 0.9, 0.3)
    alone = dict_of(item_probabilities([model.members_[0].alone()], groups))
    for part in (one.item_part for one in model.members_):
        part.mix.fill_(0.0)
    pool = dict_of(item_probabilities(model.members_, groups))
    for part in (one.item_part for one in model.members_):
        part.mix.fill_(0.3)
    mixed = dict_of(item_probabilities(model.members_, groups))
    by_hand = np.array([0.3 * alone[row] + 0.7 * pool[row] for row in mixed])
    table = np.array([mixed[row] for row in mixed])
    np.testing.assert_allclose(table, by_hand, rtol=1e-4)
    np.testing.assert_allclose(table.sum(1), 1, atol=1e-5)
    for rows, items, probability in top_items(model.members_, groups, k=2):
        for row, best, chance in zip(rows, items, probability, strict=True):
            assert best.tolist() == np.argsort(-mixed[row], kind="stable")[:2].tolist()
            np.testing.assert_allclose(chance, np.sort(mixed[row])[::-1][:2], rtol=1e-4)
    rank = item_ranks(model.members_, groups)
    own = groups.item[list(mixed)]
    higher = (table > table[np.arange(len(own)), own][:, None]).sum(1)
    np.testing.assert_array_equal(rank[list(mixed)], np.where(own < 0, np.inf, higher + 1))


def dict_of(pieces):
    return {row: one for rows, some in pieces for row, one in zip(rows, some, strict=True)}


@pytest.mark.parametrize(("n_groups", "knowledge"), [(1, 0.9), (2, 0.7), (3, 0.5)])
def test_a_gain_that_may_be_chance_is_switched_off(n_groups, knowledge):
    model, groups = member(knowledge, 0.5), validation(60)
    sees_gain = set_gates([([model], groups)], seed=0)
    gain = set_gates([([model], groups[:n_groups])], seed=0)
    assert sees_gain.low > 0 and (gain.nats, gain.low, gain.high) == (0, 0, 0)
    assert (float(model.item_part.gate), float(model.item_part.scale)) == (0.0, 1.0)
    assert gain.n_groups == n_groups and gain.gate == 0


def test_members_with_groups_of_their_own_are_weighed_by_all_of_them():
    members, groups = [member(0.7, 0.5), member(0.7, 0.5)], validation()
    parts = [([members[0]], groups[:20]), ([members[1]], groups[20:])]
    gain = set_gates(parts, seed=0)
    for part in (member.item_part for member in members):
        assert (float(part.scale), float(part.gate)) == pytest.approx((gain.scale, gain.gate))
    whole = set_gates([([members[0]], groups)], seed=0)
    assert gain.n_groups == whole.n_groups == 60 and gain.low > 0
    assert gain.base_nats == pytest.approx(whole.base_nats)
