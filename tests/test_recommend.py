"""What comes next: probabilities over the whole catalog, complements, substitutes, draws."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from estimator_cases import CASES, COLUMNS, WITH_ITEMS, fitted_on, make, ratings
from exfam import DataError, ExfamError, Groups, UnknownItemError
from exfam.efa import related
from exfam.efa.blanks import append_blank
from exfam.efa.recommend import item_lifts
from exfam.efa.requests import requests_of
from exfam.estimator import evaluate
from exfam.estimator.schema import Schema
from exfam.families import Bernoulli, Gaussian, Poisson
from exfam.groups import CONTEXT, TARGET

FRAME = ratings(least=2)
GROUPS = Groups.from_frame(FRAME, **COLUMNS)
every_kind = pytest.mark.parametrize("kind", ["efa", "latent-factor", "marginal"])
unseen_items = pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")


def schema_of(groups, *, attributes=(), known=()):
    families = {name: Gaussian() for name in groups.values}
    return Schema.of(groups, families=families, attributes=attributes, known=known)


def appended(group, code):
    """The group with one more element of that item, its value not observed."""
    n = group.n_elements
    return Groups(
        start=[0],
        stop=[n + 1],
        item=np.append(group.item, code),
        values={name: np.append(column, 0.0) for name, column in group.values.items()},
        observed=np.arange(n + 1) < n,
        vocabulary=group.vocabulary,
    )


@pytest.mark.parametrize(("kind", "direction"), [case for case in CASES if case[0] in WITH_ITEMS])
class TestRecommend:
    @pytest.mark.parametrize("support", ["none", "hard"])
    def test_is_brute_force_over_the_catalog(self, kind, direction, support):
        estimator = fitted_on(FRAME, kind, noise=0.5, direction=direction, support=support)
        groups = GROUPS
        recommended = estimator.recommend(groups, k=6)
        for g in (0, 1, 5):
            group, n = groups[g].compact(), groups[g].n_elements
            by_label = dict(zip(recommended.items[g], recommended.probabilities[g], strict=True))
            for code, label in enumerate(groups.vocabulary["item"]):
                if support == "hard" and code in group.item:
                    assert by_label[label] == 0
                    continue
                nats = estimator.log_prob_parts(appended(group, code))["item"][n]
                assert by_label[label] == pytest.approx(np.exp(nats), rel=1e-4)
        np.testing.assert_allclose(recommended.probabilities.sum(1), 1, atol=1e-6)
        assert (np.diff(recommended.probabilities, axis=1) <= 0).all()
        np.testing.assert_array_equal(recommended.groups, groups.group_names)
        few = estimator.recommend(groups, k=2)
        np.testing.assert_array_equal(few.items, recommended.items[:, :2])

    @unseen_items
    def test_group_without_elements(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction, unknown="ignore")
        unseen = FRAME.assign(movie=FRAME["movie"].where(FRAME["user"] != "u2", "new"))
        rows = []
        for frame in (unseen, unseen[unseen["user"].isin(["u2", "u5"])]):
            recommended = estimator.recommend(frame, k=6)
            rows.append(recommended.probabilities[recommended.groups.tolist().index("u2")])
        assert rows[0].sum() == pytest.approx(1, abs=1e-6) and (rows[0] > 0).all()
        np.testing.assert_allclose(*rows, rtol=1e-5)

    def test_repeats_are_refused(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction)
        again = FRAME.assign(user="one", movie="a")
        with pytest.raises(ExfamError, match="`item` must not repeat in a group .* got 'a' again"):
            estimator.recommend(again)


def test_table_of_recommendations():
    estimator = make("marginal").fit(FRAME)
    for call, given in ((estimator.recommend, FRAME), (estimator.complements, "a")):
        with pytest.raises(ExfamError, match="`k` must be an integer >= 1, got True"):
            call(given, k=True)
    recommended = estimator.recommend(FRAME, k=6)
    table = recommended.to_dict()
    assert list(table) == ["group", "rank", "item", "probability"]
    assert len(table["group"]) == (recommended.probabilities > 0).sum()
    for user, rows in FRAME.groupby("user"):
        named = set(table["item"][table["group"] == user])
        assert named == set("abcdef") - set(rows["movie"])
    np.testing.assert_array_equal(table["item"][table["rank"] == 1], recommended.items[:, 0])


class TestBlank:
    groups = Groups(
        start=[0, 2, 2],
        stop=[2, 2, 5],
        item=[3, 1, 0, 2, 1],
        values={"stars": [1.0, 2.0, 3.0, 4.0, 5.0]},
        attributes={"genre": [1, 0, 1, 1, 0], "gap": [1.0, 2.0, 3.0, 4.0, 5.5]},
        position=[0.0, 2.0, 1.0, 2.0, 5.0],
        role=[1, 0, 0, 0, 1],
    )

    def test_one_more_element_a_group(self):
        schema = schema_of(self.groups, attributes=("genre", "gap"), known=("gap",))
        extended = append_blank(self.groups, schema)
        assert extended.start.tolist() == [0, 3, 4] and extended.stop.tolist() == [3, 4, 8]
        assert extended.item.tolist() == [3, 1, -1, -1, 0, 2, 1, -1]
        targets = np.array([2, 3, 7])
        is_blank = np.isin(np.arange(8), targets)
        assert extended.observed.tolist() == (~is_blank).tolist()
        assert extended.role.tolist() == np.where(is_blank, TARGET, CONTEXT).tolist()
        assert extended.attributes["genre"][targets].tolist() == [-1, -1, -1]
        mean = self.groups.attributes["gap"].mean()
        np.testing.assert_allclose(extended.attributes["gap"][targets], [2.0, mean, 5.5])
        np.testing.assert_allclose(extended.position[targets], [4.0, 0.0, 8.0])

    def test_blanks_go_on_by_a_typical_step_and_leave_context_ranges_as_they_were(self):
        groups = Groups(start=[0, 1], stop=[1, 4], item=[0, 1, 2, 3], position=[9, 0, 5, 10])
        # A single element goes on by a typical step.
        assert append_blank(groups, schema_of(groups)).position.tolist() == [9, 14, 0, 5, 10, 15]
        ranges = {"context_start": [[0], [1]], "context_stop": [[2], [4]]}
        groups = Groups(start=[2, 4], stop=[4, 5], item=[0, 1, 2, 3, 4], **ranges)
        seen = append_blank(groups, schema_of(groups)).pad([0, 1])
        assert seen.item.tolist() == [[0, 1, 2, 3, -1], [1, 2, 3, 4, -1]]
        assert seen.target[:, -1].all() and not seen.observed[:, -1].any()


class TestRelations:
    @pytest.fixture(scope="class")
    @classmethod
    def estimator(cls):
        """Bread goes with butter; tea and coffee go with milk, never with each other."""
        random = np.random.default_rng(0)
        pairs = np.array([["bread", "butter"], ["tea", "milk"], ["coffee", "milk"]])
        baskets = pairs[random.choice(3, 300, p=[0.5, 0.25, 0.25])]
        frame = {"user": np.repeat(np.arange(300), 2), "movie": baskets.ravel()}
        model = make("latent-factor", value=None, max_epochs=60, learning_rate=0.05, batch_size=32)
        return model.fit(frame)

    def test_complements_and_substitutes(self, estimator):
        complements = estimator.complements("bread", k=3)
        assert complements.item == "bread" and complements.items[0] == "butter"
        assert complements.strength[0] > 0 and "bread" not in complements.items
        substitutes = estimator.substitutes("tea", k=10)
        assert substitutes.items[0] == "coffee" and not {"milk", "tea"} & set(substitutes.items)

    @pytest.mark.parametrize("few", [0, 5])
    def test_sums_are_those_of_the_table(self, estimator, monkeypatch, few):
        table = np.zeros((5, 5))
        for rows, lift in item_lifts(estimator.members_, estimator.schema_):
            table[rows] = lift
        labels = estimator.vocabulary_["item"].tolist()
        code = labels.index("milk")
        mutual = (table[code] + table[:, code]) / 2
        monkeypatch.setattr(evaluate, "MAX_NUMBERS", 1)
        monkeypatch.setattr(related, "FEW_ITEMS", few)
        requests_of(estimator).drop()
        result = estimator.complements("milk", k=4)
        by_hand = [mutual[labels.index(item)] for item in result.items]
        np.testing.assert_allclose(result.strength, by_hand, rtol=1e-5)
        result = estimator.substitutes("milk", k=4)
        for item, strength in zip(result.items, result.strength, strict=True):
            other = labels.index(item)
            third = [j for j in range(5) if j not in (code, other)]
            by_hand = np.corrcoef(table[third][:, [code, other]].T)[0, 1]
            assert strength == pytest.approx(by_hand, rel=1e-5)

    def test_candidates_of_a_large_catalog(self, estimator, monkeypatch):
        whole = {kind: getattr(estimator, kind)("tea") for kind in ("complements", "substitutes")}
        monkeypatch.setattr(related, "FEW_ITEMS", 1)
        for n_candidates in (5, 2):
            monkeypatch.setattr(related, "N_CANDIDATES", n_candidates)
            # Lifts that are kept, and those that are gone through.
            for (kind, expected), most in product(whole.items(), (2**26, 0)):
                monkeypatch.setattr(related, "MOST_LIFT_BYTES", most)
                requests_of(estimator).drop()
                getattr(estimator, kind)("milk")  # which keeps what both need
                result = getattr(estimator, kind)("tea")
                assert result.items[0] == expected.items[0] and "tea" not in result.items
                assert 1 <= len(result.items) <= n_candidates
                if n_candidates == 5:
                    np.testing.assert_allclose(result.strength, expected.strength, rtol=1e-5)

    def test_an_item_that_is_no_list(self, estimator):
        with pytest.raises(DataError, match="`X` must be a list of items.* got one item, 'tea'"):
            estimator.recommend("tea")

    @pytest.mark.parametrize("wrong", ["cocoa", pd.NA, ["tea"], pd.DataFrame({"item": ["tea"]})])
    def test_unseen_item(self, estimator, wrong):
        with pytest.raises(UnknownItemError, match="`item` must be one seen in training, got"):
            estimator.complements(wrong)

    def test_a_catalog_of_one_item(self):
        frame = {"user": [1, 2], "movie": ["a", "a"], "stars": [1.0, 2.0]}
        estimator = make("marginal").fit(frame)
        assert len(estimator.complements("a").items) == len(estimator.substitutes("a").items) == 0


def test_more_probabilities_than_memory_can_hold(monkeypatch):
    estimator = make("marginal").fit(FRAME)
    size = 8 * len(FRAME) * 6
    monkeypatch.setattr(evaluate, "MAX_BYTES", size)
    assert estimator.predict_proba(FRAME).nbytes == size
    monkeypatch.setattr(evaluate, "MAX_BYTES", size - 1)
    message = rf"`X` must lead to at most .* GB .* got {len(FRAME)} rows and 6 items, .* GB\. "
    with pytest.raises(ExfamError, match=message):
        estimator.predict_proba(FRAME)


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


def test_draws_do_not_depend_on_batches(monkeypatch):
    estimator = fitted("efa", "causal")
    whole = columns_of(estimator.sample(GROUPS, steps=2, seed=3))
    monkeypatch.setattr(evaluate, "MAX_NUMBERS", 1)
    small = columns_of(estimator.sample(GROUPS, steps=2, seed=3))
    assert small[0] == whole[0]
    np.testing.assert_allclose(small[1], whole[1], rtol=1e-4)


def test_ten_steps_by_default_or_none_or_from_nothing():
    estimator = fitted("marginal", "causal")
    assert (estimator.sample(GROUPS).lengths == GROUPS.lengths + 10).all()
    assert columns_of(estimator.sample(GROUPS, steps=0)) == columns_of(GROUPS)
    empty = Groups(start=[0, 0], stop=[0, 0], item=np.zeros(0, np.int32), values={"stars": []})
    drawn = fitted("efa", "causal").sample(empty, steps=4)
    assert drawn.lengths.tolist() == [4, 4] and (drawn.item >= 0).all()


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
    items = {"value": None, "direction": "causal", "support": "none"}
    drawn = make("efa", **items).fit(FRAME).sample(FRAME, steps=2)
    assert drawn.values == {} and (drawn.item >= 0).all()
    with pytest.raises(ExfamError, match="`parts` must include items to go on"):
        make("efa", parts="values", direction="causal").fit(FRAME).sample(FRAME)


def test_roles_and_context_ranges_stay():
    role = np.zeros(GROUPS.n_rows, dtype=np.int8)
    role[GROUPS.start] = 1
    # All groups but the first see it.
    ranges = {
        "context_start": np.zeros((len(GROUPS), 1), np.int64),
        "context_stop": np.where(np.arange(len(GROUPS)) > 0, GROUPS.stop[0], 0)[:, None],
    }
    groups = GROUPS.with_(role=role, **ranges)
    drawn = make("efa", direction="causal", support="none").fit(groups).sample(groups, steps=2)
    assert (drawn.stop - drawn.start == GROUPS.lengths + 2).all()
    own = drawn.pad([1]).item[0].tolist()
    assert own[: GROUPS.stop[0]] == GROUPS.item[: GROUPS.stop[0]].tolist()
    assert (drawn.role[drawn.start] == 1).all() and drawn.role.sum() == len(GROUPS)


def test_odd_numbers_are_refused():
    with pytest.raises(ExfamError, match="`steps` must be an integer >= 0, got -1"):
        fitted("marginal", "causal").sample(FRAME, steps=-1)
    with pytest.raises(ExfamError, match="`steps` must not be given for direction="):
        fitted("marginal", "bidirectional").sample(FRAME, steps=3)


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
    holes = holes.with_(item=np.where(np.arange(holes.n_rows) == 1, -1, holes.item))
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
