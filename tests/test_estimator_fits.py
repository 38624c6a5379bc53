"""Fits: ensembles, same bits, weights, validation."""

import numpy as np
import pandas as pd
import pytest

import exfam
from estimator_cases import COLUMNS, DIRECTIONS, KINDS, TRAINED, make, ratings, same_bits
from exfam import ExfamError, Groups
from exfam.efa import corrected
from exfam.efa import held_out as module
from exfam.efa.held_out import held_out_order, hold_out_groups, some_to_validate
from exfam.efa.plan import plan_fit
from exfam.encodings import ENCODINGS
from exfam.families import Poisson

FRAME = ratings()
every_kind = pytest.mark.parametrize("kind", KINDS)
every_trained = pytest.mark.parametrize("kind", TRAINED)
# Where the model at the end is all of the best epoch: no base is fitted or weighed beside.
PLAIN = dict.fromkeys(TRAINED, {"base": "none"})


@every_trained
@pytest.mark.parametrize(("tokens", "steps"), [(10**6, 1), (1, 9), (None, 3)])
def test_batch_tokens_stand_in_place_of_batch_size(kind, tokens, steps):
    options = {"validation_fraction": 0.25, "max_epochs": 1, "batch_tokens": tokens}
    assert make(kind, **options, **PLAIN[kind]).fit(FRAME).history_.steps == steps


@every_trained
@pytest.mark.parametrize("fraction", [0.0, 0.4])
def test_members_of_an_ensemble_share_the_split_and_differ_in_all_else(kind, fraction):
    whole = make(kind, ensemble=2, seed=4, validation_fraction=fraction).fit(FRAME)
    alone = [make(kind, seed=seed, validation_fraction=fraction).fit(FRAME) for seed in (4, 5)]
    assert not same_bits(*alone)
    for number in range(2):
        member = make(kind)
        member.members_ = whole.members_[number : number + 1]
        # A base of values is fitted once, by the seed of the estimator.
        assert same_bits(alone[number], member) == (number == 0)


@every_kind
def test_row_order_has_no_say_beside_an_order_column(kind):
    ordered = FRAME.sort_values(["user", "day"], kind="stable")
    # Groups come in the order of their first rows: keep those in place, shuffle the rest.
    first = ~ordered.duplicated("user")
    rest = ordered[~first].sample(frac=1, random_state=3)
    other = pd.concat([ordered[first], rest])
    assert (other["day"].to_numpy() != ordered["day"].to_numpy()).any()
    fits = [make(kind, order="day", direction="causal").fit(f) for f in (ordered, other)]
    assert same_bits(*fits)


class TestWeights:
    @every_kind
    def test_elements_of_weight_zero_teach_nothing(self, kind):
        weight = np.where(FRAME["user"].isin(["u2", "u7"]), 0.0, 1.0)
        other = FRAME.copy()
        other.loc[weight == 0, "stars"] = 5.0
        weighted, changed, unweighted = (
            make(kind, validation_fraction=0.0).fit(frame, sample_weight=given)
            for frame, given in ((FRAME, weight), (other, weight), (other, None))
        )
        assert same_bits(weighted, changed) and not same_bits(weighted, unweighted)
        with pytest.raises(ExfamError, match="target element of positive weight to fit, got none"):
            make(kind).fit(FRAME, sample_weight=np.zeros(len(FRAME)))

    def test_whole_weights_are_repetitions_in_a_fit(self):
        twice = np.where(FRAME["user"] == "u3", 2, 1)
        copy = FRAME[FRAME["user"] == "u3"].assign(user="again")
        weighted = make("marginal").fit(FRAME, sample_weight=twice).log_prob(FRAME)
        repeated = make("marginal").fit(pd.concat([FRAME, copy])).log_prob(FRAME)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)

    @every_trained
    def test_held_out_elements_have_their_weights(self, kind):
        """A group that weighs nothing is never chosen to choose the epoch by."""
        weight = np.where(FRAME["user"].isin(["u0", "u1"]), 1.0, 0.0)
        estimator = make(kind, validation_fraction=0.5).fit(FRAME, sample_weight=weight)
        assert all(row.validation_nats is not None for row in estimator.history_.rows)
        weight = np.random.default_rng(0).random(len(FRAME))
        estimator = make(kind, validation_fraction=0.4, seed=2, **PLAIN[kind])
        estimator.fit(FRAME, sample_weight=weight)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        able = np.ones(len(groups), dtype=bool)
        _, held_out = hold_out_groups(groups, able, fraction=0.4, seed=2, items=True)
        own = weight[held_out.source_row[held_out.elements()]]
        score = estimator.score(held_out, sample_weight=own)
        assert estimator.history_.best.validation_nats == pytest.approx(-score, rel=1e-5)


class TestValidation:
    def test_groups_are_split_and_disjoint(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        able = np.ones(len(groups), dtype=bool)
        train, held_out = hold_out_groups(groups, able, fraction=0.25, seed=0, items=True)
        names = [*train.group_names, *held_out.group_names]
        assert len(held_out) == 3 and sorted(names) == sorted(set(FRAME["user"]))
        assert make("efa", validation_fraction=0.9).fit(FRAME[:1]).history_.best is None

    def test_fewer_groups_of_large_catalogs_are_held_out(self, monkeypatch):
        """Every held-out element is compared with all items after every epoch."""
        groups = Groups.from_frame(FRAME, **COLUMNS)
        able = np.ones(len(groups), dtype=bool)

        def held_out(most, *, items):
            monkeypatch.setattr(module, "MOST_HELD_OUT", most)
            train, some = hold_out_groups(groups, able, fraction=0.5, seed=0, items=items)
            assert len(train) + len(some) == len(groups)
            return len(some)

        most = groups.n_elements * groups.n_items // 4
        # Of values each element has outputs of its own alone.
        assert held_out(most, items=False) > held_out(most, items=True)
        assert held_out(most, items=True) > held_out(most // 1000, items=True) == 1

    def test_some_held_out_groups_of_large_catalogs_choose_the_epoch(self, monkeypatch):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        monkeypatch.setattr(module, "LEAST_VALIDATED", 5)

        def chosen(most):
            monkeypatch.setattr(module, "MOST_VALIDATED", most)
            return some_to_validate(groups, groups.n_items, seed=0)

        everything = groups.n_elements * groups.n_items
        assert chosen(everything) is groups
        sizes = [chosen(everything // share).n_elements for share in (2, 4, 1000)]
        assert groups.n_elements // 2 >= sizes[0] > sizes[1] > sizes[2] > 0 and sizes[2] <= 5
        names = chosen(everything // 2).group_names
        assert len(set(names)) == len(names) and set(names) < set(groups.group_names)

    def test_all_held_out_groups_weigh_the_base_of_items(self, monkeypatch):
        seen, train = [], corrected.train
        monkeypatch.setattr(module, "MOST_VALIDATED", 1)
        monkeypatch.setattr(module, "LEAST_VALIDATED", 5)
        monkeypatch.setattr(
            corrected, "train", lambda *args, **rest: seen.append(args[1]) or train(*args, **rest)
        )
        model = make("efa", parts="items", validation_fraction=0.5).fit(FRAME)
        n_held_out = model.gain_.n_groups
        assert 0 < seen[0].validation.n_elements <= 5
        assert len(seen[0].train) + n_held_out == len(set(FRAME["user"]))

    def test_groups_of_values_are_held_out_in_runs(self):
        order = held_out_order(100, 10, seed=3, in_runs=True)
        assert sorted(order.tolist()) == list(range(100))
        for first in range(0, 100, 5):
            assert (np.diff(order[first : first + 5]) == 1).all()
        assert (order != np.arange(100)).any()
        assert sorted(held_out_order(3, 2, seed=0, in_runs=True).tolist()) == [0, 1, 2]

    @pytest.mark.parametrize(("base", "in_runs"), [("auto", True), ("none", False)])
    def test_without_a_base_groups_of_values_are_held_out_at_random(self, base, in_runs):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        options = {"parts": "values", "base": base, "validation_fraction": 0.5, "seed": 1}
        nothing = dict.fromkeys(("validation", "sample_weight", "checkpoint"))
        plan = plan_fit(make("efa", **options), FRAME, **nothing)
        size, n = len(plan.validation), len(groups)
        order = held_out_order(n, size, seed=1, in_runs=in_runs)
        assert set(plan.validation.group_names) == set(groups.group_names[order[:size]])
        other = held_out_order(n, size, seed=1, in_runs=not in_runs)
        assert set(order[:size]) != set(other[:size])

    @every_trained
    @pytest.mark.parametrize("as_groups", [False, True])
    def test_given_validation_is_used(self, kind, as_groups):
        held_out = ratings(seed=5, n_users=4)
        given = Groups.from_frame(held_out, **COLUMNS) if as_groups else held_out
        estimator = make(kind, **PLAIN[kind]).fit(FRAME, validation=given)
        best = estimator.history_.best
        assert best.validation_nats == pytest.approx(-estimator.score(held_out), rel=1e-5)

    def test_validation_that_says_nothing_is_refused(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        context = groups.with_(role=np.ones(groups.n_rows, np.int8))
        with pytest.raises(ExfamError, match="`validation` must hold at least one element"):
            make("efa").fit(groups, validation=context)
        wrong = FRAME.assign(stars=-1.0)
        with pytest.raises(exfam.SupportError, match="`stars` must be .* got -1 at row 0"):
            make("efa", family=Poisson(shift=1)).fit(FRAME, validation=wrong)


@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_efa_takes_every_encoding(encoding, tmp_path):
    # All are tried in either direction where models are assembled.
    direction = DIRECTIONS[sorted(ENCODINGS).index(encoding) % 2]
    options = {"encoding": encoding, "direction": direction, "order": "day", "max_epochs": 1}
    model = make("efa", **options).fit(FRAME)
    assert np.isfinite(model.log_prob(FRAME)).all()
    model.save(tmp_path / "model")
    assert exfam.load(tmp_path / "model").score(FRAME) == model.score(FRAME)


def test_a_later_date_changes_nothing():
    # Ten seconds apart, which single precision rounds to the same time in 2024.
    seconds = 10.0 * np.arange(len(FRAME["day"]))
    options = {"encoding": "distance", "order": "time", "position": "time", "max_epochs": 1}
    frames = [dict(FRAME) | {"time": day + seconds / 86_400} for day in (0.0, 19_783.0)]
    early, late = (make("efa", **options).fit(frame).score(frame) for frame in frames)
    assert early == pytest.approx(late, abs=1e-6)
