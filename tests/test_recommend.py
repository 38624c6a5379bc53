"""What comes next: blanks, probabilities over the whole catalog, complements and substitutes."""

import numpy as np
import pandas as pd
import pytest
import torch

from estimator_cases import CASES, WITH_ITEMS, fitted_on, make, random_weights, ratings
from exfam import ExfamError, Groups, UnknownItemError
from exfam.efa import recommend as recommendations
from exfam.efa.blanks import append_blank
from exfam.efa.recommend import item_lifts
from exfam.estimator import evaluate
from exfam.estimator.schema import Schema
from exfam.families import Gaussian
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods import two_part

FRAME = ratings(least=2)
WITHOUT_VALUES = {"group": "user", "item": "movie"}


def schema_of(groups, *, attributes=(), known=()):
    families = {name: Gaussian() for name in groups.values}
    return Schema.of(groups, families=families, attributes=attributes, known=known)


@pytest.mark.parametrize(("kind", "direction"), [case for case in CASES if case[0] in WITH_ITEMS])
class TestRecommend:
    @pytest.mark.parametrize("support", ["none", "hard"])
    def test_is_brute_force_over_the_catalog(self, kind, direction, support):
        estimator = fitted_on(FRAME, kind, noise=0.5, direction=direction, support=support)
        groups = Groups.from_frame(FRAME, **WITHOUT_VALUES, value="stars")
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

    def test_asks_for_fewer_and_for_more(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction, support="none")
        whole = estimator.recommend(FRAME, k=100)
        assert whole.items.shape == (12, 6)
        few = estimator.recommend(FRAME, k=2)
        np.testing.assert_array_equal(few.items, whole.items[:, :2])
        np.testing.assert_array_equal(few.probabilities, whole.probabilities[:, :2])
        assert estimator.recommend(FRAME).items.shape == (12, 6)

    @pytest.mark.parametrize("k", [0, -1, True])
    def test_k_that_makes_no_sense(self, kind, direction, k):
        estimator = fitted_on(FRAME, kind, direction=direction)
        with pytest.raises(ExfamError, match="`k` must be an integer >= 1, got"):
            estimator.recommend(FRAME, k=k)
        with pytest.raises(ExfamError, match="`k` must be an integer >= 1, got"):
            estimator.complements("a", k=k)

    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_group_without_elements(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction, unknown="ignore")
        unseen = FRAME.assign(movie=FRAME["movie"].where(FRAME["user"] != "u2", "new"))
        recommended = estimator.recommend(unseen, k=6)
        row = recommended.groups.tolist().index("u2")
        assert recommended.probabilities[row].sum() == pytest.approx(1, abs=1e-6)
        assert (recommended.probabilities[row] > 0).all()
        other = estimator.recommend(unseen[unseen["user"].isin(["u2", "u5"])], k=6)
        row_there = other.groups.tolist().index("u2")
        np.testing.assert_allclose(
            other.probabilities[row_there], recommended.probabilities[row], rtol=1e-5
        )

    def test_a_group_that_repeats_needs_soft_support(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction)
        assert estimator.support_ == "hard"
        again = FRAME.assign(user="one", movie="a")
        with pytest.raises(ExfamError, match="`item` must not repeat in a group .* got 'a' again"):
            estimator.recommend(again)


def appended(group, code):
    """The group with one more element of that item, its value not observed."""
    n = group.n_elements
    observed = np.append(np.ones(n, dtype=bool), False)
    return Groups(
        start=[0],
        stop=[n + 1],
        item=np.append(group.item, code),
        values={name: np.append(column, 0.0) for name, column in group.values.items()},
        observed=observed,
        vocabulary=group.vocabulary,
    )


def test_table_of_recommendations():
    estimator = make("marginal").fit(FRAME)
    recommended = estimator.recommend(FRAME, k=6)
    table = recommended.to_dict()
    assert list(table) == ["group", "rank", "item", "probability"]
    assert (table["probability"] > 0).all()
    assert (
        len(table["group"])
        == (recommended.probabilities > 0).sum()
        < recommended.probabilities.size
    )
    for user, rows in FRAME.groupby("user"):
        named = set(table["item"][table["group"] == user])
        assert named == set("abcdef") - set(rows["movie"])
    first = table["rank"] == 1
    np.testing.assert_array_equal(table["item"][first], recommended.items[:, 0])


def test_recommendations_with_attributes_of_all_kinds():
    estimator = make(
        "efa",
        attributes=["genre", "gap"],
        known=["gap"],
        group_attributes=["age"],
        position="day",
        support="none",
    ).fit(FRAME)
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
        assert extended.observed.tolist() == [True, True, False, False, True, True, True, False]
        targets = np.array([2, 3, 7])
        assert np.flatnonzero(extended.role == TARGET).tolist() == targets.tolist()
        assert (np.delete(extended.role, targets) == CONTEXT).all()
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
        groups = Groups(
            start=[2, 4],
            stop=[4, 5],
            context_start=[[0], [1]],
            context_stop=[[2], [4]],
            item=[0, 1, 2, 3, 4],
        )
        extended = append_blank(groups, schema_of(groups))
        seen = extended.pad([0, 1])
        assert seen.item.tolist() == [[0, 1, 2, 3, -1], [1, 2, 3, 4, -1]]
        assert seen.target.sum(1).tolist() == [1, 1]
        assert seen.target[:, -1].all()
        assert not seen.observed[:, -1].any()

    def test_only_empty_groups(self):
        groups = Groups(start=[0, 0], stop=[0, 0], item=np.zeros(0, np.int32), position=[])
        extended = append_blank(groups, schema_of(self.groups.with_(position=None)))
        assert extended.item.tolist() == [-1, -1] and extended.position.tolist() == [0, 0]


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

    def test_complements(self, estimator):
        relations = estimator.complements("bread", k=3)
        assert relations.item == "bread" and relations.items[0] == "butter"
        assert relations.strength[0] > 0 and (np.diff(relations.strength) <= 0).all()
        assert "bread" not in relations.items

    def test_substitutes(self, estimator):
        relations = estimator.substitutes("tea", k=10)
        assert relations.items[0] == "coffee"
        assert "milk" not in relations.items and "tea" not in relations.items
        assert (np.abs(relations.strength) <= 1 + 1e-6).all()

    def test_all_others_at_most(self, estimator):
        assert len(estimator.complements("tea", k=100).items) == 4

    def test_streamed_sums_are_those_of_the_table(self, estimator):
        table = np.zeros((5, 5))
        for rows, lift in item_lifts(estimator.members_, estimator.schema_):
            table[rows] = lift
        labels = estimator.vocabulary_["item"].tolist()
        code = labels.index("milk")
        mutual = (table[code] + table[:, code]) / 2
        relations = estimator.complements("milk", k=4)
        by_hand = [mutual[labels.index(item)] for item in relations.items]
        np.testing.assert_allclose(relations.strength, by_hand, rtol=1e-6)
        relations = estimator.substitutes("milk", k=4)
        assert len(relations.items) > 0
        for item, strength in zip(relations.items, relations.strength, strict=True):
            other = labels.index(item)
            third = [j for j in range(5) if j not in (code, other)]
            by_hand = np.corrcoef(table[third][:, [code, other]].T)[0, 1]
            assert strength == pytest.approx(by_hand, rel=1e-5)

    def test_chunks_change_nothing(self, estimator, monkeypatch):
        before = estimator.substitutes("tea")
        monkeypatch.setattr("exfam.estimator.evaluate.MAX_NUMBERS", 1)
        after = estimator.substitutes("tea")
        np.testing.assert_allclose(after.strength, before.strength, rtol=1e-5)

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

    def test_unseen_item(self, estimator):
        for call in (estimator.complements, estimator.substitutes):
            with pytest.raises(UnknownItemError, match="`item` must be one seen in training, got"):
                call("cocoa")
            for wrong in (pd.NA, ["tea"], np.zeros(0), None, pd.DataFrame({"item": ["tea"]})):
                with pytest.raises(UnknownItemError, match="`item` must be one seen in training"):
                    call(wrong)

    def test_with_attributes_and_hard_support(self):
        estimator = make(
            "efa", attributes=["genre", "gap"], group_attributes=["age", "user"], support="hard"
        )
        relations = estimator.fit(FRAME).complements("a", k=10)
        assert len(relations.items) == 5 and np.isfinite(relations.strength).all()

    def test_a_catalog_of_one_item(self):
        frame = {"user": [1, 2], "movie": ["a", "a"], "stars": [1.0, 2.0]}
        estimator = make("marginal").fit(frame)
        assert len(estimator.complements("a").items) == len(estimator.substitutes("a").items) == 0


def test_large_catalogs_have_the_answers_of_small_ones(monkeypatch):
    estimator = fitted_on(FRAME, "efa", noise=0.5, ensemble=2, value=None)

    def result():
        of, labels = estimator.recommend(FRAME, k=3), estimator.predict(FRAME)
        numbers = [of.probabilities, estimator.predict_proba(FRAME), estimator.log_prob(FRAME)]
        strength = [estimator.complements("a").strength, estimator.substitutes("b").strength]
        return [of.items, labels], numbers + strength

    names, numbers = result()
    monkeypatch.setattr(two_part, "LARGE_CATALOG", 1)
    other_names, other_numbers = result()
    for one, other in zip(names, other_names, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(numbers, other_numbers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_more_probabilities_than_memory_can_hold(monkeypatch):
    estimator = make("marginal").fit(FRAME)
    size = 8 * len(FRAME) * 6
    monkeypatch.setattr(evaluate, "MAX_BYTES", size)
    assert estimator.predict_proba(FRAME).nbytes == size
    monkeypatch.setattr(evaluate, "MAX_BYTES", size - 1)
    with pytest.raises(
        ExfamError,
        match=rf"`X` must lead to at most .* GB .* got {len(FRAME)} rows and 6 items, .* GB. Pred",
    ):
        estimator.predict_proba(FRAME)


def test_all_members_of_an_unfinished_ensemble_count():
    one = make("efa", ensemble=2).fit(FRAME)
    both = one.recommend(FRAME, k=6)
    one.members_ = one.members_[:1]
    alone = one.recommend(FRAME, k=6)
    assert not np.array_equal(np.sort(both.probabilities), np.sort(alone.probabilities))
    assert torch.is_grad_enabled()
