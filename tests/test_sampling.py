"""Draws: continuations of causal models, fill-in of bidirectional ones."""

import numpy as np
import pytest

from estimator_cases import COLUMNS, fitted_on, make, ratings
from exfam import ExfamError, Groups
from exfam.estimator import evaluate
from exfam.families import Bernoulli, Poisson

FRAME = ratings(least=2)
GROUPS = Groups.from_frame(FRAME, **COLUMNS)
unseen_items = pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
every_kind = pytest.mark.parametrize("kind", ["efa", "latent-factor", "marginal"])
# Context ranges: all groups but the first see it.
RANGES = {
    "context_start": np.zeros((len(GROUPS), 1), np.int64),
    "context_stop": np.where(np.arange(len(GROUPS)) > 0, GROUPS.stop[0], 0)[:, None],
}


def fitted(kind, direction, **more):
    return fitted_on(FRAME, kind, noise=0.3, direction=direction, **{"support": "none", **more})


def columns_of(groups):
    return groups.compact().item.tolist(), groups.compact().values["stars"].tolist()


def assert_drawn_as_often(drawn, probability):
    share = np.bincount(drawn, minlength=6) / len(drawn)
    error = np.sqrt(probability * (1 - probability) / len(drawn))
    assert (np.abs(share - probability) < 4.5 * error).all()


@every_kind
class TestContinuations:
    def test_what_was_given_stays_and_seeds_decide_the_rest(self, kind):
        estimator = fitted(kind, "causal")
        drawn, same, other = (estimator.sample(GROUPS, steps=3, seed=seed) for seed in (1, 1, 2))
        assert columns_of(drawn) == columns_of(same) != columns_of(other)
        assert (drawn.lengths == GROUPS.lengths + 3).all()
        for g in range(len(GROUPS)):
            given, more = GROUPS[g].compact(), drawn[g].compact()
            n = len(given.item)
            np.testing.assert_array_equal(more.item[:n], given.item)
            np.testing.assert_array_equal(more.values["stars"][:n], given.values["stars"])
            assert (more.item[n:] >= 0).all() and np.isfinite(more.values["stars"][n:]).all()
        assert drawn.observed.all() and drawn.role is None

    def test_hard_support_never_repeats(self, kind):
        estimator = fitted(kind, "causal", support="hard")
        drawn = estimator.sample(GROUPS[GROUPS.lengths <= 3], steps=3, seed=0)
        assert len(drawn) > 3 and not drawn.repeats_items()
        assert np.isfinite(estimator.log_prob(drawn)).all()

    def test_draws_do_not_depend_on_batches(self, kind, monkeypatch):
        estimator = fitted(kind, "causal")
        whole = columns_of(estimator.sample(GROUPS, steps=2, seed=3))
        monkeypatch.setattr(evaluate, "MAX_NUMBERS", 1)
        small = columns_of(estimator.sample(GROUPS, steps=2, seed=3))
        assert small[0] == whole[0]
        np.testing.assert_allclose(small[1], whole[1], rtol=1e-4)


def test_ten_steps_by_default_or_none():
    estimator = fitted("marginal", "causal")
    assert (estimator.sample(GROUPS).lengths == GROUPS.lengths + 10).all()
    assert columns_of(estimator.sample(GROUPS, steps=0)) == columns_of(GROUPS)


def test_frequencies_of_continuations_are_the_probabilities():
    estimator = fitted("efa", "causal", family=Poisson(shift=1))
    result = estimator.sample(GROUPS[[0] * 3000], steps=1, seed=2)
    expected = estimator.recommend(GROUPS[:1], k=6)
    last = result.stop - 1
    assert_drawn_as_often(result.item[last], expected.probabilities[0][expected.items[0].argsort()])
    value = result.values["stars"][last]
    np.testing.assert_array_equal(value, value.round())
    # The value is drawn beside the drawn item.
    assert value.mean() == pytest.approx(estimator.predict(result)[last].mean(), rel=0.05)


def test_items_or_values_alone_go_on():
    drawn = make("efa", item=None, direction="causal").fit(FRAME).sample(FRAME, steps=2)
    assert drawn.item is None and np.isfinite(drawn.values["stars"]).all()
    assert (drawn.lengths == GROUPS.lengths + 2).all()
    items = {"value": None, "direction": "causal", "support": "none"}
    drawn = make("efa", **items).fit(FRAME).sample(FRAME, steps=2)
    assert drawn.values == {} and (drawn.item >= 0).all()
    with pytest.raises(ExfamError, match="`parts` must include items to go on"):
        make("efa", parts="values", direction="causal").fit(FRAME).sample(FRAME)


def test_roles_and_context_ranges_stay():
    role = np.zeros(GROUPS.n_rows, dtype=np.int8)
    role[GROUPS.start] = 1
    groups = GROUPS.with_(role=role, **RANGES)
    drawn = make("efa", direction="causal", support="none").fit(groups).sample(groups, steps=2)
    assert (drawn.stop - drawn.start == GROUPS.lengths + 2).all()
    own = drawn.pad([1]).item[0].tolist()
    assert own[: GROUPS.stop[0]] == GROUPS.item[: GROUPS.stop[0]].tolist()
    assert (drawn.role[drawn.start] == 1).all() and drawn.role.sum() == len(GROUPS)


def test_groups_of_nothing_start_from_nothing():
    groups = Groups(start=[0, 0], stop=[0, 0], item=np.zeros(0, np.int32), values={"stars": []})
    drawn = fitted("efa", "causal").sample(groups, steps=4)
    assert drawn.lengths.tolist() == [4, 4] and (drawn.item >= 0).all()


@pytest.mark.parametrize(
    ("direction", "options", "message"),
    [
        ("causal", {"steps": -1}, "`steps` must be an integer >= 0, got -1"),
        ("causal", {"seed": -1}, "`seed` must be an integer >= 0, got -1"),
        ("bidirectional", {"steps": 3}, "`steps` must not be given for direction="),
        ("bidirectional", {"sweeps": -1}, "`sweeps` must be an integer >= 0, got -1"),
    ],
)
def test_odd_numbers_are_refused(direction, options, message):
    with pytest.raises(ExfamError, match=message):
        fitted("marginal", direction).sample(FRAME, **options)


def with_holes():
    item, observed = GROUPS.item.copy(), np.ones(GROUPS.n_rows, dtype=bool)
    item[::4], observed[1::3] = -1, False
    return GROUPS.with_(item=item, observed=observed)


@every_kind
class TestFillIn:
    def test_only_what_is_missing(self, kind):
        groups = with_holes()
        drawn = fitted(kind, "bidirectional").sample(groups, seed=1, sweeps=2)
        given, observed = groups.item >= 0, groups.observed
        np.testing.assert_array_equal(drawn.item[given], groups.item[given])
        assert (drawn.item >= 0).all() and drawn.observed.all()
        same = drawn.values["stars"] == groups.values["stars"]
        np.testing.assert_array_equal(same, observed)

    def test_seeds_and_support(self, kind):
        estimator = fitted(kind, "bidirectional", support="hard")
        draws = [estimator.sample(with_holes(), seed=seed) for seed in (0, 0, 1)]
        result = [columns_of(draw) for draw in draws]
        assert result[0] == result[1] != result[2]
        assert not any(draw.repeats_items() for draw in draws)


def test_frequencies_of_what_is_filled_in_are_the_probabilities():
    estimator, holes = fitted("efa", "bidirectional"), GROUPS[:1].compact()
    item = holes.item.copy()
    item[1] = -1
    holes = holes.with_(item=item)
    result = estimator.sample(holes[[0] * 3000], seed=0, sweeps=0)
    assert_drawn_as_often(result.item[result.start + 1], estimator.predict_proba(holes)[1])


def test_sweeps_go_by_the_others_draws():
    """Coins that agree nine times in ten: filled in, both ends agree about as often."""
    random = np.random.default_rng(0)
    coin = np.repeat(random.integers(0, 2, 600), 2).astype(float)
    coin[1::2] = np.where(random.random(600) < 0.9, coin[1::2], 1 - coin[1::2])
    frame = {"user": np.repeat(np.arange(600), 2), "coin": coin}
    settings = {"max_epochs": 12, "batch_size": 32, "learning_rate": 0.02}
    estimator = make("efa", item=None, value="coin", family=Bernoulli(), **settings).fit(frame)
    holes = Groups.from_frame(frame, group="user", value="coin")
    holes = holes.with_(observed=np.zeros(1200, dtype=bool))
    pairs = estimator.sample(holes, sweeps=30, seed=1).values["coin"].reshape(-1, 2)
    assert 0.8 < (pairs[:, 0] == pairs[:, 1]).mean() < 0.96
    assert 0.3 < pairs.mean() < 0.7


@unseen_items
def test_unseen_items_are_not_missing_ones():
    """An item that the model never saw stays unknown; it is not replaced by another."""
    frame = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
    drawn = fitted("efa", "bidirectional", unknown="unk").sample(frame)
    unseen = (frame["movie"] == "new").to_numpy()[drawn.source_row]
    assert unseen.any()
    np.testing.assert_array_equal(drawn.item == -1, unseen)


@unseen_items
@pytest.mark.parametrize("unknown", ["unk", "ignore"])
def test_missing_items_beside_unseen_ones(unknown):
    item = GROUPS.item.copy()
    item[0], item[1] = -1, 6
    vocabulary = {"item": np.array([*"abcdef", "new"], dtype=object)}
    drawn = fitted("efa", "bidirectional", unknown=unknown).sample(
        GROUPS.with_(item=item, vocabulary=vocabulary)
    )
    ignored = unknown == "ignore"
    assert drawn.n_elements == GROUPS.n_elements - ignored
    assert drawn.item[0] >= 0 and (ignored or drawn.item[1] == -1)
    np.testing.assert_array_equal(drawn.item[2 - ignored :], GROUPS.item[2:])
    assert not ignored or drawn.ignored.tolist() == [1] + [0] * (len(GROUPS) - 1)


def test_a_group_longer_than_the_catalog_repeats_in_the_end():
    columns = {"item": np.full(8, -1), "values": {"stars": np.ones(8)}}
    groups = Groups(start=[0], stop=[8], vocabulary=GROUPS.vocabulary, **columns)
    drawn = fitted("efa", "bidirectional", support="hard").sample(groups, sweeps=2)
    assert set(drawn.item) == set(range(6))


def test_elements_of_context_ranges_are_not_filled_in():
    groups = with_holes().with_(**RANGES)
    drawn = make("efa", support="none").fit(groups).sample(groups)
    own = drawn.elements()
    assert (drawn.item[own] >= 0).all() and drawn.observed[own].all()
