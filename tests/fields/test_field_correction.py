"""Laws of attention on a base of fields: it sees no value it predicts, and starts from nothing."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from exfam import FieldEFA, FieldGaussian, load
from exfam.checks import ExfamError
from exfam.fields.base.fit import fit_base
from exfam.fields.base.trials import WholeRows
from exfam.fields.correction.cross_fit import Examples, cross
from exfam.fields.correction.tokens import Innovations
from exfam.fields.correction.train import CLOSED, PairAttention, choose_gates, fit_corrections
from exfam.layers import lend_generator
from fields.field_cases import (
    COLUMNS,
    FRAME,
    FULL,
    N_DAYS,
    SEEN,
    a_day,
    field_frame,
    with_cell,
)
from fields.test_field_base import field_maps
from map_cases import check_reasons_of_one

QUICK = {**COLUMNS, "max_epochs": 2, "progress": False}


@pytest.fixture(scope="module")
def trained():
    return FieldEFA(**QUICK, lags=1).fit(FULL)


@pytest.fixture(scope="module")
def base():
    return FieldGaussian(**COLUMNS, lags=1).fit(FULL)


@pytest.fixture
def opened(trained):
    """The same with gates that are open and attention that is anything."""
    estimator = copy.deepcopy(trained)
    part = estimator.members_[0].value_part
    part.gates.fill_(1.0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in part.members.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return estimator


def closed(estimator):
    estimator = copy.deepcopy(estimator)
    estimator.members_[0].value_part.gates.fill_(0.0)
    return estimator


def test_closed_gates_are_the_base_bit_for_bit(opened, base):
    alone = FieldEFA(**QUICK, lags=1, attention="none").fit(FULL)
    for other in (closed(opened), alone):
        assert_array_equal(other.log_prob(FRAME), base.log_prob(FRAME))
    assert np.abs(opened.predict(FRAME) - base.predict(FRAME)).max() > 0.01


def test_attention_starts_from_nothing():
    crossing = cross(fit_base(field_maps(n_maps=20)))
    examples, rows = crossing.training(0)
    generator = torch.Generator().manual_seed(0)
    sizes = crossing.pairs.features.shape[-1], examples.tokens.context.shape[-1]
    network = PairAttention(*sizes, generator=generator)
    with lend_generator(generator, network):
        shifts = network(examples.tokens, crossing.pairs.take(rows))
    assert not shifts.any()
    members, gates, gain = fit_corrections(crossing, seeds=[0], most_epochs=0, progress=False)
    assert len(members) == 5 and gates == CLOSED and gain.nats == gain.low == 0.0


def held_out(value):
    """Values of maps held out, and the base's Student t of location 0 for all of them."""
    nothing = torch.zeros(*value.shape, 1)
    eta = torch.tensor([0.0, 0.0, 2.0]).expand(*value.shape, 3)
    return Examples(
        Innovations(nothing, nothing), eta, torch.zeros_like(value), value, value > -torch.inf
    )


def test_gates_open_where_all_blocks_gain_and_stay_closed_where_one_does():
    value = torch.randn(100, 5, generator=torch.Generator().manual_seed(0))
    shifts = torch.tensor([1.0, 0.0]).expand(100, 5, 2)
    gates, gain = choose_gates([held_out(value + 1)], [shifts])
    assert gates.location > 0 and gain.low > 0
    # Ten maps in a row gain more than all others lose, which may be chance.
    runs = (torch.arange(100) < 10)[:, None].float()
    gates, gain = choose_gates([held_out(value + 6 * runs)], [shifts])
    assert gates == CLOSED and gain.nats == 0


def test_locations_are_not_moved_where_means_become_worse():
    random = torch.Generator().manual_seed(0)
    # Four values in five are in a narrow heap, whose distance from the others no neighbor knows.
    far = (torch.rand(100, 5, generator=random) < 0.2).float()
    value = 0.05 * torch.randn(100, 5, generator=random) + 3 * far - 0.6
    to_the_heap = torch.tensor([-0.6, -1.0]).expand(100, 5, 2)
    gates, gain = choose_gates([held_out(value)], [to_the_heap])
    assert gates.location == 0
    # Not so where values are cut off: locations are no means there.
    cut = held_out(value)._replace(limit=torch.full_like(value, torch.inf))
    assert choose_gates([cut], [to_the_heap])[0].location > 0


@pytest.mark.parametrize("moved", [2, 4])
def test_examples_come_from_bases_that_saw_neither_their_block_nor_the_stopping_one(moved):
    maps = field_maps(n_maps=25, n_sites=5)
    base = fit_base(maps)
    crossing = cross(base)
    values = maps.panel.values.clone()
    values[crossing.fold == moved] += 3.0
    prior = base.kernel.of(maps.sites.columns)
    other = cross(replace(base, rows=partial(WholeRows, maps.with_values(values), prior)))
    # The first map of a block sees one of another block.
    inside = torch.arange(25) % 5 != 0
    for (j, k), ours in crossing.examples.items():
        theirs = other.examples[j, k]
        rows = inside & (crossing.fold != moved)
        same = torch.equal(ours.eta[rows], theirs.eta[rows])
        assert same == (moved in (j, k))
    # Training for a stopping block uses each row's own pair of blocks.
    examples, rows = crossing.training(moved)
    assert not (crossing.fold[rows] == moved).any() and len(rows) == 20
    for row, eta in zip(rows.tolist(), examples.eta, strict=True):
        pair = sorted((int(crossing.fold[row]), moved))
        assert torch.equal(eta, crossing.examples[tuple(pair)].eta[row])


def test_no_value_moves_its_own_distribution(opened):
    day = a_day()
    plain = opened.predict_dist(day)
    for row in range(len(day)):
        other = opened.predict_dist(with_cell(day, row, 30.0))
        eta, moved = plain.mixture.eta[0], other.mixture.eta[0]
        assert_array_equal(moved[row], eta[row])
        others = np.arange(len(day)) != row
        assert (moved[others] != eta[others]).any(1).all()


def test_what_is_not_shown_carries_nothing(opened):
    shown, hidden = a_day(missing=[2]), a_day(missing=[2]).drop(index=2)
    keep = np.arange(len(shown)) != 2
    assert_allclose(opened.predict(shown)[keep], opened.predict(hidden), rtol=1e-6)


def test_rows_in_any_order_are_the_same_maps(opened):
    mixed = FRAME.sample(frac=1, random_state=1)
    wanted = pd.Series(opened.predict(FRAME), index=FRAME.index)
    assert_allclose(opened.predict(mixed), wanted[mixed.index], rtol=1e-6)


def test_later_maps_are_not_seen(opened):
    early = FRAME[FRAME.day <= FRAME.day.min() + pd.Timedelta(days=3)]
    wanted = opened.predict(FRAME)[FRAME.index.get_indexer(early.index)]
    assert_allclose(opened.predict(early), wanted, rtol=1e-6)


def test_new_sites_are_predicted_by_the_base(opened):
    at = [[1.3, 0.2], [9.0, 9.0]]
    assert_array_equal(opened.predict(FRAME, at=at), closed(opened).predict(FRAME, at=at))


@pytest.mark.parametrize(("a", "b"), [(1e-8, -30.0), (1e10, 1e4)])
def test_another_unit_is_the_same_field(trained, a, b):
    moved = FULL.assign(v=a * (FULL.v + b))
    other = FieldEFA(**QUICK, lags=1).fit(moved)
    X = FRAME.assign(v=a * (FRAME.v + b))
    assert_allclose(other.log_prob(X)[SEEN] + np.log(a), trained.log_prob(FRAME)[SEEN], atol=1e-4)
    assert_allclose(other.predict(X) / a - b, trained.predict(FRAME), rtol=1e-4)


def test_a_saved_model_predicts_the_same_bits_and_keeps_its_gain(opened, tmp_path):
    opened.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.log_prob(FRAME), opened.log_prob(FRAME))
    assert loaded.gain_ == opened.gain_ and str(opened.gain_) in repr(loaded)


def test_a_base_alone_says_nothing_of_attention(tmp_path):
    alone = FieldEFA(**QUICK, attention="none").fit(FULL)
    assert alone.gain_ is None and repr(alone).count("\n") == 0
    alone.save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").log_prob(FRAME), alone.log_prob(FRAME))


@pytest.mark.parametrize("n_days", [1, 2, 9])
def test_few_maps_have_the_base_alone(n_days):
    few = field_frame(n_days=n_days, missing=0.0)
    estimator = FieldEFA(**QUICK, lags=1).fit(few)
    assert estimator.gain_ is None
    base = FieldGaussian(**COLUMNS, lags=1).fit(few)
    assert_array_equal(estimator.log_prob(FRAME), base.log_prob(FRAME))


@pytest.mark.parametrize("frame", [FULL[FULL.site == "s1"], field_frame(missing=0.7)], ids=len)
def test_one_site_and_many_gaps_are_fitted(frame):
    assert np.isfinite(FieldEFA(**QUICK, lags=2).fit(frame).score(FRAME))


def test_without_a_base_there_must_be_attention():
    for more in ({"base": "none"}, {"family": "poisson"}):
        with pytest.raises(ExfamError, match="`attention` must be 'softmax' where there is no b"):
            FieldEFA(**QUICK, attention="none", **more).fit(FULL.assign(v=FULL.v.round().abs()))


def test_all_maps_are_learned_from_with_a_base():
    # A network holds the last ones out.
    assert FieldEFA(**QUICK).fit_choices() == ("student-t", 0.0)
    assert FieldEFA(**QUICK, base="none").fit_choices() == ("gaussian", 0.15)
    assert FieldEFA(**QUICK, family="gaussian").fit_choices() == ("gaussian", 0.15)


@pytest.mark.parametrize("attention", ["softmax", "none"])
def test_means_are_exactly_the_sum_of_what_explains_them(attention, opened, base):
    estimator = base if attention == "none" else opened
    new = pd.DataFrame({"day": [FRAME.day.max()], "site": "new", "x": 0.5, "y": 0.2, "v": 11.0})
    frame = pd.concat([FRAME, new], ignore_index=True)
    explained, mean = estimator.explain(frame), estimator.predict(frame)
    last = frame[frame.day == FRAME.day.max()].reset_index(drop=True)
    check_reasons_of_one(estimator, last)
    assert len(explained) == N_DAYS
    for of_map in explained:
        whole = of_map.normal + of_map.contributions.sum(1) + of_map.shift
        rows = [
            frame.index[(frame.day == pd.Timestamp(of_map.time)) & (frame.site == site)][0]
            for site in ["new" if site is None else site for site in of_map.site[of_map.own]]
        ]
        assert_allclose(whole, mean[rows], rtol=1e-5)
        assert np.diagonal(of_map.contributions[:, of_map.own]).any() == 0
        for weights in of_map.attention:
            known = np.array([site is not None for site in of_map.site[of_map.own]])
            assert_allclose(weights.sum(-1)[:, known], 1, atol=1e-5)
            assert np.diagonal(weights[:, :, of_map.own], axis1=1, axis2=2).max() == 0
    assert len(explained[0].attention) == (attention == "softmax")
