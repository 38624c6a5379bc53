"""Fits: ensembles, same bits, weights, validation."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import exfam
from estimator_cases import COLUMNS, DIRECTIONS, KINDS, TRAINED, make, ratings, same_bits
from exfam import ExfamError, Groups
from exfam.efa import baselines
from exfam.efa.networks.shrunk_offsets import ShrunkOffsetValues
from exfam.efa.plan import hold_out_groups
from exfam.encodings import ENCODINGS
from exfam.families import Poisson

FRAME = ratings()
every_kind = pytest.mark.parametrize("kind", KINDS)
every_trained = pytest.mark.parametrize("kind", TRAINED)


@every_trained
@pytest.mark.parametrize(("tokens", "steps"), [(10**6, 1), (1, 9), (None, 3)])
def test_batch_tokens_stand_in_place_of_batch_size(kind, tokens, steps):
    options = {"validation_fraction": 0.25, "max_epochs": 1, "batch_tokens": tokens}
    assert make(kind, **options).fit(FRAME).history_.steps == steps


def only(estimator, number):
    member = make(estimator.kind)
    member.members_ = estimator.members_[number : number + 1]
    return member


class TestEnsembles:
    @pytest.fixture(scope="class")
    @classmethod
    def ensemble(cls):
        return make("efa", ensemble=3, seed=4, direction="causal").fit(FRAME)

    def test_log_prob_is_the_log_of_the_mean_probability(self, ensemble):
        assert len(ensemble.members_) == len(ensemble.histories_) == 3
        parts = []
        for member in ensemble.members_:
            alone = make("efa", direction="causal").fit(FRAME)
            alone.members_ = [member]
            parts.append(alone.log_prob_parts(FRAME))
        result, total = ensemble.log_prob_parts(FRAME), 0.0
        for name in ("item", "stars"):
            nats = np.stack([part[name] for part in parts])
            assert nats.std(0).max() > 0
            expected = np.log(np.exp(nats).mean(0))
            np.testing.assert_allclose(result[name], expected, rtol=1e-5)
            total = total + expected
        assert ensemble.score(FRAME) == pytest.approx(total.mean(), rel=1e-5)

    @every_trained
    def test_members_share_the_split_and_differ_in_all_else(self, kind):
        for fraction in (0.0, 0.4):
            whole = make(kind, ensemble=2, seed=4, validation_fraction=fraction).fit(FRAME)
            for number, seed in enumerate((4, 5)):
                alone = make(kind, seed=seed, validation_fraction=fraction).fit(FRAME)
                shares_split = not fraction or seed == 4
                assert same_bits(alone, only(whole, number)) == shares_split


class TestSameBits:
    @every_trained
    @pytest.mark.parametrize("direction", DIRECTIONS)
    def test_same_seed_same_bits_other_seed_other(self, kind, direction):
        fits = [make(kind, direction=direction, seed=seed).fit(FRAME) for seed in (7, 7, 8)]
        assert same_bits(fits[0], fits[1]) and not same_bits(fits[0], fits[2])
        np.testing.assert_array_equal(fits[0].log_prob(FRAME), fits[1].log_prob(FRAME))

    @every_kind
    def test_global_state_is_left_alone_and_has_no_say(self, kind):
        extra = {"dropout": 0.3} if kind == "efa" else {}
        fits = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            # Python's own generator is drawn from by the checks of types that run in tests.
            states = [torch.get_rng_state(), np.random.get_state()[1].copy()]
            threads = torch.get_num_threads()
            fits.append(make(kind, **extra).fit(FRAME))
            fits[-1].predict(FRAME)
            assert torch.equal(states[0], torch.get_rng_state())
            np.testing.assert_array_equal(states[1], np.random.get_state()[1])
            assert threads == torch.get_num_threads()
        assert same_bits(*fits)

    @every_kind
    def test_row_order_has_no_say_beside_an_order_column(self, kind):
        ordered = FRAME.sort_values(["user", "day"], kind="stable")
        # Groups come in the order of their first rows: keep those in place, shuffle the rest.
        first = ~ordered.duplicated("user")
        rest = ordered[~first].sample(frac=1, random_state=3)
        other = pd.concat([ordered[first], rest])
        assert (other["day"].to_numpy() != ordered["day"].to_numpy()).any()
        fits = [make(kind, order="day", direction="causal").fit(f) for f in (ordered, other)]
        assert same_bits(*fits)

    @pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas, dict])
    def test_kind_of_frame_has_no_say(self, convert):
        other = make("efa").fit(convert(FRAME))
        assert same_bits(other, make("efa").fit(FRAME))
        np.testing.assert_array_equal(other.log_prob(convert(FRAME)), other.log_prob(FRAME))


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

    @pytest.mark.parametrize("kind", ["marginal", "shrunk-offset"])
    def test_whole_weights_are_repetitions_in_a_fit(self, kind):
        twice = np.where(FRAME["user"] == "u3", 2, 1)
        copy = FRAME[FRAME["user"] == "u3"].assign(user="again")
        weighted = make(kind).fit(FRAME, sample_weight=twice).log_prob(FRAME)
        repeated = make(kind).fit(pd.concat([FRAME, copy])).log_prob(FRAME)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)

    @every_trained
    def test_held_out_elements_have_their_weights(self, kind):
        """A group that weighs nothing is never chosen to choose the epoch by."""
        weight = np.where(FRAME["user"].isin(["u0", "u1"]), 1.0, 0.0)
        estimator = make(kind, validation_fraction=0.5).fit(FRAME, sample_weight=weight)
        assert all(row.validation_nats is not None for row in estimator.history_.rows)
        weight = np.random.default_rng(0).random(len(FRAME))
        estimator = make(kind, validation_fraction=0.4, seed=2).fit(FRAME, sample_weight=weight)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        able = np.ones(len(groups), dtype=bool)
        _, held_out = hold_out_groups(groups, able, fraction=0.4, seed=2)
        own = weight[held_out.source_row[held_out.elements()]]
        score = estimator.score(held_out, sample_weight=own)
        assert estimator.history_.best.validation_nats == pytest.approx(-score, rel=1e-5)


class TestValidation:
    def test_groups_are_split_and_disjoint(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        able = np.ones(len(groups), dtype=bool)
        train, held_out = hold_out_groups(groups, able, fraction=0.25, seed=0)
        names = set(train.group_names), set(held_out.group_names)
        assert not names[0] & names[1] and names[0] | names[1] == set(FRAME["user"])
        assert len(held_out) == 3
        assert make("efa", validation_fraction=0.9).fit(FRAME[:1]).history_.best is None

    @every_trained
    @pytest.mark.parametrize("as_groups", [False, True])
    def test_given_validation_is_used(self, kind, as_groups):
        held_out = ratings(seed=5, n_users=4)
        given = Groups.from_frame(held_out, **COLUMNS) if as_groups else held_out
        estimator = make(kind).fit(FRAME, validation=given)
        best = estimator.history_.best
        assert best.validation_nats == pytest.approx(-estimator.score(held_out), rel=1e-5)
        assert make(kind, validation_fraction=0.0).fit(FRAME).history_.best is None

    def test_validation_that_says_nothing_is_refused(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        context = groups.with_(role=np.ones(groups.n_rows, np.int8))
        with pytest.raises(ExfamError, match="`validation` must hold at least one element"):
            make("efa").fit(groups, validation=context)
        wrong = FRAME.assign(stars=-1.0)
        with pytest.raises(exfam.SupportError, match="`stars` must be .* got -1 at row 0"):
            make("efa", family=Poisson(shift=1)).fit(FRAME, validation=wrong)
        with pytest.raises(ExfamError, match="`validation_fraction` must be above 0 to choose `k`"):
            make("shrunk-offset", k=None).fit(FRAME)

    def test_another_order_of_rows_is_another_split(self):
        other = FRAME.iloc[np.random.default_rng(1).permutation(len(FRAME))]
        for fraction in (0.5, 0.0):
            model = make("marginal", validation_fraction=fraction)
            score = model.fit(FRAME).score(FRAME)
            same = model.fit(other).score(FRAME) == pytest.approx(score, rel=1e-6)
            assert same == (fraction == 0)


class TestShrunkOffset:
    @pytest.mark.parametrize("prior", [0.5, 1.0, 7.0])
    def test_item_means_are_drawn_to_the_global_one(self, prior):
        estimator = make("shrunk-offset", item_prior=prior).fit(FRAME)
        family = estimator.schema_.families["stars"]
        means = family.restore(estimator.members_[0].value_part.item_mean[:, 0])
        overall, by_movie = FRAME["stars"].mean(), FRAME.groupby("movie")["stars"]
        expected = (by_movie.sum() + prior * overall) / (by_movie.count() + prior)
        np.testing.assert_allclose(means, [*expected, overall], rtol=1e-5)

    def test_k_is_chosen_by_validation_with_the_prior_of_the_fit(self, monkeypatch):
        priors = []

        def fit(*data, item_prior, **more):
            priors.append(item_prior)
            return original(*data, item_prior=item_prior, **more)

        original = baselines.fit_shrunk_offset
        monkeypatch.setattr(baselines, "fit_shrunk_offset", fit)
        options = {"k": None, "item_prior": 3.0, "validation_fraction": 0.3}
        estimator = make("shrunk-offset", **options).fit(FRAME)
        assert len(priors) > 3 and set(priors) == {3.0}
        part = estimator.members_[0].value_part
        assert isinstance(part, ShrunkOffsetValues) and part.k == estimator.k_ > 0


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_efa_takes_every_encoding(encoding, direction, tmp_path):
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
