"""What comes next: blanks, probabilities over the whole catalog, complements and substitutes."""

import numpy as np
import pandas as pd
import pytest

from estimator_cases import CASES, WITH_ITEMS, fitted_on, make, random_weights, ratings
from exfam import ExfamError, Groups, UnknownItemError
from exfam.efa import recommend as recommendations
from exfam.efa.blanks import append_blank
from exfam.efa.recommend import item_lifts
from exfam.estimator import evaluate
from exfam.estimator.schema import Schema
from exfam.families import Gaussian
from exfam.groups import CONTEXT, TARGET

FRAME = ratings(least=2)
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
        groups = Groups.from_frame(FRAME, group="user", item="movie", value="stars")
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
        few, many = estimator.recommend(groups, k=2), estimator.recommend(groups)
        np.testing.assert_array_equal(few.items, recommended.items[:, :2])
        np.testing.assert_array_equal(few.probabilities, recommended.probabilities[:, :2])
        assert many.items.shape == (12, 6)

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

    def test_what_makes_no_sense_is_refused(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction)
        for k in (0, -1, True):
            for call in (
                lambda k=k: estimator.recommend(FRAME, k=k),
                lambda k=k: estimator.complements("a", k=k),
            ):
                with pytest.raises(ExfamError, match="`k` must be an integer >= 1, got"):
                    call()
        assert estimator.support_ == "hard"
        again = FRAME.assign(user="one", movie="a")
        with pytest.raises(ExfamError, match="`item` must not repeat in a group .* got 'a' again"):
            estimator.recommend(again)


def test_table_of_recommendations():
    recommended = make("marginal").fit(FRAME).recommend(FRAME, k=6)
    table = recommended.to_dict()
    assert list(table) == ["group", "rank", "item", "probability"]
    assert (table["probability"] > 0).all()
    n_possible = (recommended.probabilities > 0).sum()
    assert len(table["group"]) == n_possible < recommended.probabilities.size
    for user, rows in FRAME.groupby("user"):
        named = set(table["item"][table["group"] == user])
        assert named == set("abcdef") - set(rows["movie"])
    np.testing.assert_array_equal(table["item"][table["rank"] == 1], recommended.items[:, 0])


def test_recommendations_with_attributes_of_all_kinds():
    columns = {"attributes": ["genre", "gap"], "known": ["gap"], "group_attributes": ["age"]}
    estimator = make("efa", **columns, position="day", support="none").fit(FRAME)
    random_weights(estimator)
    recommended = estimator.recommend(FRAME, k=6)
    np.testing.assert_allclose(recommended.probabilities.sum(1), 1, atol=1e-6)
    older = estimator.recommend(FRAME.assign(age=FRAME["age"] + 3), k=6)
    assert (older.probabilities != recommended.probabilities).any(axis=1).all()


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

    def test_single_elements_go_on_by_a_typical_step(self):
        groups = Groups(start=[0, 1], stop=[1, 4], item=[0, 1, 2, 3], position=[9, 0, 5, 10])
        extended = append_blank(groups, schema_of(groups))
        assert extended.position.tolist() == [9, 14, 0, 5, 10, 15]
        plane = groups.with_(position=np.array([[9.0, 9.0], [0, 0], [3, 4], [6, 8]]))
        extended = append_blank(plane, schema_of(plane))
        assert extended.position[1].tolist() == [9, 9] and extended.position[-1].tolist() == [9, 12]

    def test_blanks_leave_context_ranges_where_they_were(self):
        ranges = {"context_start": [[0], [1]], "context_stop": [[2], [4]]}
        groups = Groups(start=[2, 4], stop=[4, 5], item=[0, 1, 2, 3, 4], **ranges)
        seen = append_blank(groups, schema_of(groups)).pad([0, 1])
        assert seen.item.tolist() == [[0, 1, 2, 3, -1], [1, 2, 3, 4, -1]]
        assert seen.target.sum(1).tolist() == [1, 1] and seen.target[:, -1].all()
        assert not seen.observed[:, -1].any()


class TestRelations:
    @pytest.fixture(scope="class")
    @classmethod
    def estimator(cls):
        """Bread goes with butter; tea and coffee go with milk, never with each other."""
        random = np.random.default_rng(0)
        rows = []
        for basket in range(300):
            hot = ["tea", "coffee"][random.integers(2)]
            pair = ["bread", "butter"] if random.random() < 0.5 else [hot, "milk"]
            rows += [(basket, item) for item in random.permutation(pair)]
        frame = {"user": [r[0] for r in rows], "movie": [r[1] for r in rows]}
        model = make("latent-factor", value=None, max_epochs=60, learning_rate=0.05, batch_size=32)
        return model.fit(frame)

    def test_complements_and_substitutes(self, estimator):
        complements = estimator.complements("bread", k=3)
        assert complements.item == "bread" and complements.items[0] == "butter"
        assert complements.strength[0] > 0 and (np.diff(complements.strength) <= 0).all()
        assert "bread" not in complements.items
        assert len(estimator.complements("tea", k=100).items) == 4
        substitutes = estimator.substitutes("tea", k=10)
        assert substitutes.items[0] == "coffee" and not {"milk", "tea"} & set(substitutes.items)
        assert (np.abs(substitutes.strength) <= 1 + 1e-6).all()

    def test_streamed_sums_are_those_of_the_table(self, estimator, monkeypatch):
        table = np.zeros((5, 5))
        for rows, lift in item_lifts(estimator.members_, estimator.schema_):
            table[rows] = lift
        labels = estimator.vocabulary_["item"].tolist()
        code = labels.index("milk")
        mutual = (table[code] + table[:, code]) / 2
        monkeypatch.setattr(evaluate, "MAX_NUMBERS", 1)
        result = estimator.complements("milk", k=4)
        by_hand = [mutual[labels.index(item)] for item in result.items]
        np.testing.assert_allclose(result.strength, by_hand, rtol=1e-5)
        result = estimator.substitutes("milk", k=4)
        assert len(result.items) > 0
        for item, strength in zip(result.items, result.strength, strict=True):
            other = labels.index(item)
            third = [j for j in range(5) if j not in (code, other)]
            by_hand = np.corrcoef(table[third][:, [code, other]].T)[0, 1]
            assert strength == pytest.approx(by_hand, rel=1e-5)

    @pytest.mark.parametrize("n_candidates", [5, 2])
    def test_candidates_of_a_large_catalog(self, estimator, monkeypatch, n_candidates):
        whole = {kind: getattr(estimator, kind)("tea") for kind in ("complements", "substitutes")}
        monkeypatch.setattr(recommendations, "MANY_ITEMS", 1)
        monkeypatch.setattr(recommendations, "N_CANDIDATES", n_candidates)
        for kind, all_of_them in whole.items():
            result = getattr(estimator, kind)("tea")
            assert result.items[0] == all_of_them.items[0] and "tea" not in result.items
            assert 1 <= len(result.items) <= n_candidates
            strength = dict(zip(all_of_them.items, all_of_them.strength, strict=True))
            if kind == "complements" or n_candidates == 5:
                expected = [strength[item] for item in result.items]
                np.testing.assert_allclose(result.strength, expected, rtol=1e-5)

    @pytest.mark.parametrize(
        "wrong", ["cocoa", pd.NA, ["tea"], np.zeros(0), None, pd.DataFrame({"item": ["tea"]})]
    )
    def test_unseen_item(self, estimator, wrong):
        for call in (estimator.complements, estimator.substitutes):
            with pytest.raises(UnknownItemError, match="`item` must be one seen in training, got"):
                call(wrong)

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
