"""Draws: continuations of causal models, fill-in of bidirectional ones."""

import numpy as np
import pytest

from estimator_cases import COLUMNS, fitted_on, make, ratings
from exfam import ExfamError, Groups
from exfam.families import Bernoulli, Poisson

FRAME = ratings(least=2)
GROUPS = Groups.from_frame(FRAME, **COLUMNS)


def fitted(kind, direction, **more):
    return fitted_on(FRAME, kind, noise=0.3, direction=direction, **more)


def columns_of(groups):
    return groups.compact().item.tolist(), groups.compact().values["stars"].tolist()


@pytest.mark.parametrize("kind", ["efa", "latent-factor", "marginal"])
class TestContinuations:
    def test_lengths_and_what_was_given(self, kind):
        drawn = fitted(kind, "causal", support="none").sample(GROUPS, steps=3, seed=1)
        assert (drawn.lengths == GROUPS.lengths + 3).all()
        for g in range(len(GROUPS)):
            given, more = GROUPS[g].compact(), drawn[g].compact()
            n = len(given.item)
            np.testing.assert_array_equal(more.item[:n], given.item)
            np.testing.assert_array_equal(more.values["stars"][:n], given.values["stars"])
            assert (more.item[n:] >= 0).all() and np.isfinite(more.values["stars"][n:]).all()
        assert drawn.observed.all() and drawn.role is None

    def test_seeds(self, kind):
        estimator = fitted(kind, "causal", support="none")
        draws = [columns_of(estimator.sample(FRAME, steps=2, seed=seed)) for seed in (0, 0, 1)]
        assert draws[0] == draws[1] != draws[2]

    def test_hard_support_never_repeats(self, kind):
        estimator = fitted(kind, "causal", support="hard")
        drawn = estimator.sample(GROUPS[GROUPS.lengths <= 3], steps=3, seed=0)
        assert len(drawn) > 3 and not drawn.repeats_items()
        assert np.isfinite(estimator.log_prob(drawn)).all()

    def test_draws_do_not_depend_on_batches(self, kind, monkeypatch):
        estimator = fitted(kind, "causal", support="none")
        whole = columns_of(estimator.sample(GROUPS, steps=2, seed=3))
        from exfam.estimator import evaluate

        cut = evaluate.evaluation_batches
        monkeypatch.setattr(evaluate, "evaluation_batches", lambda g, m: cut(g, m, max_numbers=1))
        small = columns_of(estimator.sample(GROUPS, steps=2, seed=3))
        assert small[0] == whole[0]
        np.testing.assert_allclose(small[1], whole[1], rtol=1e-4)


class TestMoreContinuations:
    def test_ten_steps_by_default(self):
        drawn = fitted("marginal", "causal", support="none").sample(GROUPS)
        assert (drawn.lengths == GROUPS.lengths + 10).all()

    def test_no_steps(self):
        drawn = fitted("marginal", "causal").sample(GROUPS, steps=0)
        assert columns_of(drawn) == columns_of(GROUPS)

    def test_frequencies_are_the_probabilities(self):
        estimator = fitted("efa", "causal", support="none", family=Poisson(shift=1))
        many = GROUPS[[0] * 3000]
        result = estimator.sample(many, steps=1, seed=2)
        drawn = result.item[result.stop - 1]
        expected = estimator.recommend(GROUPS[:1], k=6)
        order = np.argsort(expected.items[0])
        probability = expected.probabilities[0][order]
        share = np.bincount(drawn, minlength=6) / len(drawn)
        error = np.sqrt(probability * (1 - probability) / len(drawn))
        assert (np.abs(share - probability) < 4.5 * error).all()
        value = result.values["stars"][result.stop - 1]
        np.testing.assert_array_equal(value, value.round())
        # The value is drawn beside the drawn item.
        mean = estimator.predict(result)[result.stop - 1]
        assert value.mean() == pytest.approx(mean.mean(), rel=0.05)

    def test_values_alone(self):
        estimator = make("efa", item=None, direction="causal").fit(FRAME)
        drawn = estimator.sample(FRAME, steps=2)
        assert drawn.item is None and np.isfinite(drawn.values["stars"]).all()
        assert (drawn.lengths == GROUPS.lengths + 2).all()

    def test_items_that_the_model_does_not_predict(self):
        with pytest.raises(ExfamError, match="`parts` must include items to go on"):
            make("efa", parts="values", direction="causal").fit(FRAME).sample(FRAME)

    def test_items_alone(self):
        estimator = make("efa", value=None, direction="causal", support="none").fit(FRAME)
        drawn = estimator.sample(FRAME, steps=2)
        assert drawn.values == {} and (drawn.item >= 0).all()

    def test_roles_and_context_ranges_stay(self):
        role = np.zeros(GROUPS.n_rows, dtype=np.int8)
        role[GROUPS.start] = 1
        groups = GROUPS.with_(
            role=role,
            context_start=np.zeros((len(GROUPS), 1), np.int64),
            context_stop=np.where(np.arange(len(GROUPS)) > 0, GROUPS.stop[0], 0)[:, None],
        )
        estimator = make("efa", direction="causal", support="none").fit(groups)
        drawn = estimator.sample(groups, steps=2)
        assert (drawn.stop - drawn.start == GROUPS.lengths + 2).all()
        own = drawn.pad([1]).item[0].tolist()
        assert own[: GROUPS.stop[0]] == GROUPS.item[: GROUPS.stop[0]].tolist()
        assert (drawn.role[drawn.start] == 1).all() and drawn.role.sum() == len(GROUPS)

    def test_groups_of_nothing_start_from_nothing(self):
        groups = Groups(start=[0, 0], stop=[0, 0], item=np.zeros(0, np.int32), values={"stars": []})
        drawn = fitted("efa", "causal", support="none").sample(groups, steps=4)
        assert drawn.lengths.tolist() == [4, 4] and (drawn.item >= 0).all()

    @pytest.mark.parametrize("name", ["steps", "seed"])
    def test_odd_numbers(self, name):
        with pytest.raises(ExfamError, match=f"`{name}` must be an integer >= 0, got -1"):
            fitted("marginal", "causal").sample(FRAME, **{name: -1})


def with_holes(*, items=True, values=True):
    item, observed = GROUPS.item.copy(), np.ones(GROUPS.n_rows, dtype=bool)
    if items:
        item[::4] = -1
    if values:
        observed[1::3] = False
    return GROUPS.with_(item=item, observed=observed)


@pytest.mark.parametrize("kind", ["efa", "latent-factor", "marginal"])
class TestFillIn:
    def test_only_what_is_missing(self, kind):
        groups = with_holes()
        drawn = fitted(kind, "bidirectional", support="none").sample(groups, seed=1, sweeps=2)
        given, observed = groups.item >= 0, groups.observed
        np.testing.assert_array_equal(drawn.item[given], groups.item[given])
        assert (drawn.item >= 0).all() and drawn.observed.all()
        stars = drawn.values["stars"]
        np.testing.assert_array_equal(stars[observed], groups.values["stars"][observed])
        assert (stars[~observed] != groups.values["stars"][~observed]).all()

    def test_seeds_and_support(self, kind):
        estimator = fitted(kind, "bidirectional", support="hard")
        draws = [estimator.sample(with_holes(), seed=seed) for seed in (0, 0, 1)]
        result = [columns_of(draw) for draw in draws]
        assert result[0] == result[1] != result[2]
        assert not any(draw.repeats_items() for draw in draws)


class TestMoreFillIn:
    def test_nothing_missing_nothing_drawn(self):
        drawn = fitted("efa", "bidirectional").sample(FRAME)
        assert columns_of(drawn) == columns_of(GROUPS)

    def test_frequencies_are_the_probabilities(self):
        estimator = fitted("efa", "bidirectional", support="none")
        holes = GROUPS[:1].compact()
        item = holes.item.copy()
        item[1] = -1
        holes = holes.with_(item=item)
        result = estimator.sample(holes[[0] * 3000], seed=0, sweeps=0)
        drawn = result.item[result.start + 1]
        probability = estimator.predict_proba(holes)[1]
        share = np.bincount(drawn, minlength=6) / len(drawn)
        error = np.sqrt(probability * (1 - probability) / len(drawn))
        assert (np.abs(share - probability) < 4.5 * error).all()

    def test_sweeps_go_by_the_others_draws(self):
        """Coins that agree nine times in ten: filled in, both ends agree about as often."""
        random = np.random.default_rng(0)
        coin = np.repeat(random.integers(0, 2, 600), 2).astype(float)
        coin[1::2] = np.where(random.random(600) < 0.9, coin[1::2], 1 - coin[1::2])
        frame = {"user": np.repeat(np.arange(600), 2), "coin": coin}
        settings = {"max_epochs": 12, "batch_size": 32, "learning_rate": 0.02}
        estimator = make("efa", item=None, value="coin", family=Bernoulli(), **settings)
        estimator.fit(frame)
        holes = Groups.from_frame(frame, group="user", value="coin")
        holes = holes.with_(observed=np.zeros(1200, dtype=bool))
        pairs = estimator.sample(holes, sweeps=30, seed=1).values["coin"].reshape(-1, 2)
        assert 0.8 < (pairs[:, 0] == pairs[:, 1]).mean() < 0.96
        assert 0.3 < pairs.mean() < 0.7

    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_unseen_items_are_not_missing_ones(self):
        """An item that the model never saw stays unknown; it is not replaced by another."""
        frame = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
        drawn = fitted("efa", "bidirectional", support="none", unknown="unk").sample(frame)
        unseen = (frame["movie"] == "new").to_numpy()[drawn.source_row]
        assert unseen.any()
        np.testing.assert_array_equal(drawn.item == -1, unseen)

    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_missing_items_beside_unseen_ones(self):
        labels = np.array([*"abcdef", "new"], dtype=object)
        item = GROUPS.item.copy()
        item[0], item[1] = -1, 6
        groups = GROUPS.with_(item=item, vocabulary={"item": labels})
        drawn = fitted("efa", "bidirectional", support="none", unknown="unk").sample(groups)
        assert drawn.item[0] >= 0 and drawn.item[1] == -1
        np.testing.assert_array_equal(drawn.item[2:], GROUPS.item[2:])

    def test_a_group_longer_than_the_catalog_repeats_in_the_end(self):
        n = 8
        groups = Groups(
            start=[0],
            stop=[n],
            item=np.full(n, -1),
            values={"stars": np.ones(n)},
            vocabulary=GROUPS.vocabulary,
        )
        drawn = fitted("efa", "bidirectional", support="hard").sample(groups, sweeps=2)
        assert set(drawn.item) == set(range(6))

    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_missing_items_beside_ignored_ones(self):
        labels = np.array([*"abcdef", "new"], dtype=object)
        item = GROUPS.item.copy()
        item[0], item[1] = -1, 6
        groups = GROUPS.with_(item=item, vocabulary={"item": labels})
        drawn = fitted("efa", "bidirectional", support="none", unknown="ignore").sample(groups)
        assert drawn.n_elements == GROUPS.n_elements - 1
        assert drawn.item[0] >= 0
        np.testing.assert_array_equal(drawn.item[1:], GROUPS.item[2:])
        assert drawn.ignored.tolist() == [1] + [0] * (len(GROUPS) - 1)

    def test_context_ranges(self):
        n = len(GROUPS)
        groups = with_holes().with_(
            context_start=np.zeros((n, 1), np.int64),
            context_stop=np.where(np.arange(n) > 0, GROUPS.stop[0], 0)[:, None],
        )
        estimator = make("efa", support="none").fit(groups)
        drawn = estimator.sample(groups)
        own = drawn.elements()
        assert (drawn.item[own] >= 0).all() and drawn.observed[own].all()

    def test_steps_are_for_causal_models(self):
        with pytest.raises(ExfamError, match="`steps` must not be given for direction="):
            fitted("marginal", "bidirectional").sample(FRAME, steps=3)
        with pytest.raises(ExfamError, match="`sweeps` must be an integer >= 0, got -1"):
            fitted("marginal", "bidirectional").sample(FRAME, sweeps=-1)
