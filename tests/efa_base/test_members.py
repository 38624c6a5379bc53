"""Members of an ensemble hold out other groups each; all weigh the gate, then enter the bases."""

import signal

import numpy as np
import pytest
import torch

from estimator_cases import ratings, same_bits
from exfam import EFA
from exfam.efa import corrected
from exfam.efa.networks.based import USUAL_WEIGHTS, present_elements
from exfam.efa.plan import plan_fit
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.likelihoods.two_part import DIRECTIONS
from exfam.training.torch_engine import TorchEngine

FRAME = ratings(n_users=60, n_movies=8, least=2)
GROUPS = Groups.from_frame(FRAME, group="user", item="movie", order="day")
SIZES = {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "n_layers": 1, "progress": False}
# Each member takes 12 steps.
TRAINING = {"max_epochs": 3, "batch_size": 16, "ensemble": 2, "support": "none"}
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def fit(data=GROUPS, *, validation=None, checkpoint=None, **parameters):
    model = EFA(**{**SIZES, **TRAINING, **parameters})
    return model.fit(data, validation=validation, checkpoint=checkpoint)


def all_of(sets):
    """The union of sets that share nothing."""
    assert len(set.union(*sets)) == sum(map(len, sets))
    return set.union(*sets)


FOLDS = [(0.1, 5, 5), (0.1, 1, 1), (0.3, 5, 3), (0.45, 5, 2), (0.51, 5, 1), (0.02, 99, 57)]


@pytest.mark.parametrize(("share", "n", "expected"), FOLDS)
def test_folds_part_the_groups_and_share_nothing_held_out(share, n, expected):
    is_context = np.arange(GROUPS.n_rows) < GROUPS.stop[2]
    groups = GROUPS.with_(role=np.where(is_context, CONTEXT, TARGET).astype(np.int8))
    given = dict.fromkeys(("validation", "sample_weight", "checkpoint"))
    plan = plan_fit(EFA(validation_fraction=share, seed=3), groups, **given)
    folds = plan.folds(n, seed=3)
    held_out = [set(fold.validation.start) for fold in folds]
    assert folds[0] is plan and len(folds) == expected
    assert len(all_of(held_out)) == len(plan.validation) * expected
    for fold, own in zip(folds, held_out, strict=True):
        assert sorted(all_of([own, set(fold.train.start)])) == groups.start[3:].tolist()
        assert all((np.diff(part.start) > 0).all() for part in (fold.train, fold.validation))


@every_direction
@pytest.mark.parametrize("given", [False, True])
def test_members_share_nothing_held_out_and_bases_hold_all_in_the_end(
    direction, given, monkeypatch
):
    def spy(held_out, **options):
        for members, groups in held_out:
            kept = [member.item_part.kept for member in members]
            assert kept[0] is not None
            assert {members[0].alone().item_part.kept} == set(kept)
            counted = [float(member.item_part.base.count.sum()) for member in members]
            weighed.append((set(groups.start), counted))
        return set_gates(held_out, **options)

    weighed, set_gates = [], corrected.set_gates
    monkeypatch.setattr(corrected, "set_gates", spy)
    train, validation = (GROUPS[6:], GROUPS[:6]) if given else (GROUPS, None)
    model = fit(train, validation=validation, direction=direction)
    held_out, counted = zip(*weighed, strict=True)
    assert list(map(len, counted)) == ([2] if given else [1, 1])
    assert all(member.item_part.kept is None for member in model.members_)
    assert model.gain_.n_groups == len(all_of(held_out))
    assert ({float(train.n_elements)} == set(sum(counted, []))) == given
    alone = fit(train, direction=direction, attention="none")
    for member in (*model.members_, *alone.members_):
        count = member.item_part.base.count
        assert count.tolist() == np.bincount(train.item[train.elements()]).tolist()


@pytest.mark.parametrize("share", [0, 0.1])
@every_direction
def test_scores_are_those_of_the_weighed_sums(direction, share):
    """Without validation groups weights are the usual ones."""
    model = fit(direction=direction, validation_fraction=share)
    weights = (model.gain_.scale, model.gain_.gate) if share else USUAL_WEIGHTS
    batch, chance = GROUPS.pad(np.arange(len(GROUPS))), 0.0
    where = present_elements(batch)
    for member in model.members_:
        part = member.item_part
        assert (float(part.scale), float(part.gate)) == pytest.approx(weights)
        part.weigh(0.9, 0.4)
        with torch.no_grad():
            base = part.base.outputs(batch, where, torch.arange(part.n_items))
            eta = 0.9 * base + 0.4 * part.correction.eta(batch)[where]
            chance = chance + eta.softmax(1) / 2
    rows = batch.element[where]
    np.testing.assert_allclose(model.predict_proba(GROUPS)[rows], chance, atol=1e-6)


@every_direction
def test_validation_groups_of_other_data_are_as_those_of_the_same(direction):
    train, validation = GROUPS.split([0.5, 0.5], seed=1)
    some = [validation, validation.compact()]
    models = [fit(train, validation=groups, direction=direction) for groups in some]
    assert same_bits(*models) and models[0].gain_ == models[1].gain_
    nats = [model.history_.to_dict()["validation_nats"] for model in models]
    np.testing.assert_allclose(*nats, rtol=1e-6)


def act_in_step(monkeypatch, at, act):
    """Act in a step, counted over members; returns the seeds of the steps taken."""

    def counting(engine, index):
        seeds.append(engine.settings.seed)
        if len(seeds) == at:
            act()
        return step(engine, index)

    seeds, step = [], TorchEngine.step
    monkeypatch.setattr(TorchEngine, "step", counting)
    return seeds


@every_direction
def test_ctrl_c_in_the_second_member_keeps_the_first(direction, monkeypatch):
    expected = fit(direction=direction)
    seeds = act_in_step(monkeypatch, 16, lambda: signal.raise_signal(signal.SIGINT))
    model = fit(direction=direction, ensemble=3)
    assert seeds == [0] * 12 + [1] * 4 and len(model.members_) == 2
    assert model.histories_[1].interrupted and not model.history_.interrupted
    first, same = (m.members_[0].item_part.correction.state_dict() for m in (model, expected))
    torch.testing.assert_close(first, same, rtol=0, atol=0)
    counts = [member.item_part.base.count.sum() for member in model.members_]
    assert counts == [GROUPS.n_elements] * 2 and np.isfinite(model.score(GROUPS))


def lights_out():
    raise OSError("the lights went out")


@every_direction
@pytest.mark.parametrize("at", [3, 15])
def test_a_fit_that_is_cut_in_any_member_goes_on_to_the_same_bits(
    direction, at, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch, pytest.raises(OSError, match="lights"):
        act_in_step(patch, at, lights_out)
        fit(direction=direction, checkpoint=tmp_path)
    model, expected = fit(direction=direction, checkpoint=tmp_path), fit(direction=direction)
    assert same_bits(model, expected) and model.gain_ == expected.gain_
