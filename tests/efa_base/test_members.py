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
from exfam.groups import CONTEXT, Groups
from exfam.likelihoods.two_part import DIRECTIONS
from exfam.training.steps import TorchEngine

FRAME = ratings(n_users=60, n_movies=8, least=2)
GROUPS = Groups.from_frame(FRAME, group="user", item="movie", order="day")
SIZES = {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "n_layers": 1, "progress": False}
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def fit(data=GROUPS, *, validation=None, checkpoint=None, **parameters):
    chosen = {**SIZES, "max_epochs": 3, "batch_size": 16, "ensemble": 3, "support": "none"}
    model = EFA(**{**chosen, **parameters})
    return model.fit(data, validation=validation, checkpoint=checkpoint)


def plan_of(groups, *, validation=None, **parameters):
    options = {"validation": validation, "sample_weight": None, "checkpoint": None}
    return plan_fit(EFA(**parameters), groups, **options)


@pytest.mark.parametrize(
    ("share", "n", "expected"),
    [
        (0.1, 5, 5),
        (0.1, 1, 1),
        (0.3, 5, 3),
        (0.45, 5, 2),
        (0.51, 5, 1),
        (0.02, 99, 57),
        (0.99, 2, 1),
    ],
)
def test_folds_part_the_groups_and_share_nothing_held_out(share, n, expected):
    is_context = np.isin(np.arange(GROUPS.n_rows), np.r_[: GROUPS.stop[2]])
    groups = GROUPS.with_(role=np.where(is_context, CONTEXT, 0).astype(np.int8))
    plan = plan_of(groups, validation_fraction=share, seed=3)
    folds = plan.folds(n, seed=3)
    held_out = [set(fold.validation.start) for fold in folds]
    assert folds[0] is plan and len(folds) == expected
    assert len(set.union(*held_out)) == sum(map(len, held_out)) == len(plan.validation) * expected
    for fold, own in zip(folds, held_out, strict=True):
        assert len(own) == len(fold.validation) and own.isdisjoint(fold.train.start)
        assert sorted([*own, *fold.train.start]) == groups.start[3:].tolist()
        assert (np.diff(fold.train.start) > 0).all() and (np.diff(fold.validation.start) > 0).all()


def test_groups_given_for_validation_stay_alone_and_none_are_none():
    for plan in (plan_of(GROUPS, validation=GROUPS[:9]), plan_of(GROUPS, validation_fraction=0)):
        assert plan.folds(5, seed=0) == [plan]


@every_direction
@pytest.mark.parametrize("given", [False, True])
def test_members_share_nothing_held_out_and_bases_hold_all_in_the_end(
    direction, given, monkeypatch
):
    weighed = []

    def spy(held_out, *, seed):
        for members, groups in held_out:
            counted = [float(member.item_part.base.count.sum()) for member in members]
            weighed.append((len(members), set(groups.start), counted))
            assert all(member.item_part.kept is None for member in members)
        return set_gates(held_out, seed=seed)

    set_gates = corrected.set_gates
    monkeypatch.setattr(corrected, "set_gates", spy)
    train, validation = GROUPS[6:], GROUPS[:6]
    data = {"data": train, "validation": validation} if given else {}
    model = fit(**data, direction=direction)
    n_members, held_out, counted = zip(*weighed, strict=True)
    assert n_members == ((3,) if given else (1, 1, 1))
    assert len(set.union(*held_out)) == sum(map(len, held_out)) > 0
    expected = fit(
        train if given else GROUPS, direction=direction, attention="none", validation_fraction=0
    )
    counts = expected.members_[0].item_part.base.count
    assert (counts.sum() == np.array(sum(counted, []))).all() == given
    for member in model.members_:
        torch.testing.assert_close(member.item_part.base.count, counts)
    assert len({id(member.item_part.base) for member in model.members_}) == len(weighed)
    assert model.gain_.n_groups == len(set.union(*held_out))


@every_direction
def test_scores_are_those_of_the_weighed_sum(direction):
    """The model's outputs are scale x base + gate x correction, of each member."""
    model = fit(direction=direction, ensemble=2)
    batch, chance = GROUPS.pad(np.arange(len(GROUPS))), 0.0
    where = present_elements(batch)
    for member in model.members_:
        part = member.item_part
        assert part.scale == pytest.approx(model.gain_.scale)
        part.weigh(0.9, 0.4)
        with torch.no_grad():
            base = part.base.outputs(batch, where, torch.arange(part.n_items))
            eta = 0.9 * base + 0.4 * part.correction.eta(batch)[where]
            chance = chance + eta.softmax(1) / 2
    rows = batch.element[where]
    np.testing.assert_allclose(model.predict_proba(GROUPS)[rows], chance, atol=1e-6)


@every_direction
def test_without_validation_weights_are_the_usual_ones(direction):
    model = fit(direction=direction, ensemble=2, validation_fraction=0)
    weights = [(float(m.item_part.scale), float(m.item_part.gate)) for m in model.members_]
    assert model.gain_ is None and weights == [pytest.approx(USUAL_WEIGHTS)] * 2


@every_direction
def test_validation_groups_of_other_data_are_as_those_of_the_same(direction):
    train, validation = GROUPS.split([0.5, 0.5], seed=1)
    models = [
        fit(train, validation=some, direction=direction, ensemble=1)
        for some in (validation, validation.compact())
    ]
    assert same_bits(*models) and models[0].gain_ == models[1].gain_
    nats = [model.history_.to_dict()["validation_nats"] for model in models]
    np.testing.assert_allclose(*nats, rtol=1e-6)


@every_direction
def test_ctrl_c_in_the_second_member_keeps_the_first(direction, monkeypatch):
    expected, seeds = fit(direction=direction), []

    def pressed(engine, index):
        seeds.append(engine.settings.seed)
        if seeds.count(1) == 1:
            signal.raise_signal(signal.SIGINT)
        return step(engine, index)

    step = TorchEngine.step
    monkeypatch.setattr(TorchEngine, "step", pressed)
    model = fit(direction=direction)
    assert set(seeds) == {0, 1} and len(model.members_) == 2
    assert [history.stopped for history in model.histories_][1:] == ["interrupted"]
    first, same = (m.members_[0].item_part for m in (model, expected))
    for part in ("correction", "base"):
        a, b = (getattr(item_part, part).state_dict() for item_part in (first, same))
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    counts = [member.item_part.base.count.sum() for member in model.members_]
    assert counts == [GROUPS.n_elements] * 2 and np.isfinite(model.score(GROUPS))


@every_direction
@pytest.mark.parametrize("at", [3, 15])
def test_a_fit_of_several_members_that_is_cut_goes_on_to_the_same_bits(
    direction, at, tmp_path, monkeypatch
):
    calls = []

    def cut(engine, index):
        calls.append(engine.settings.seed)
        if len(calls) == at:
            raise OSError("the lights went out")
        return step(engine, index)

    step, parameters = TorchEngine.step, {"direction": direction, "ensemble": 2}
    with monkeypatch.context() as patch, pytest.raises(OSError, match="lights"):
        patch.setattr(TorchEngine, "step", cut)
        fit(checkpoint=tmp_path, **parameters)
    model, expected = fit(checkpoint=tmp_path, **parameters), fit(**parameters)
    assert calls[-1] == (at > 12) and same_bits(model, expected)
    assert model.gain_ == expected.gain_
