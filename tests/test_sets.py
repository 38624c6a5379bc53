"""Groups without an order are sets: no score depends on the order of their rows."""

import numpy as np
import pandas as pd
import pytest

import exfam
from estimator_cases import COLUMNS, KINDS, WITH_ITEMS, class_of, make, random_weights, ratings
from exfam import EFA, DataError, ExfamError, Groups
from exfam.efa import blanks
from exfam.efa import recommend as recommendations
from exfam.estimator.schema import Schema
from exfam.groups import TARGET

FRAME = ratings(least=2)
# Columns beside the usual ones under which data stay sets.
SETS = {
    "plain": {},
    "attributes": {"attributes": ["genre", "gap"], "known": ["gap"], "group_attributes": ["age"]},
    "positions": {"position": "day"},
}
CASES = [(kind, name) for kind in KINDS for name in SETS if kind == "efa" or name == "plain"]


def shuffled(frame, *, seed=1):
    return frame.sample(frac=1, random_state=seed)


def fit(kind, name="plain", **parameters):
    return random_weights(make(kind, **SETS[name], **parameters).fit(FRAME), scale=0.3)


@pytest.mark.parametrize(("kind", "name"), CASES)
class TestShuffledRows:
    @pytest.fixture(scope="class")
    @classmethod
    def estimators(cls):
        return {case: fit(*case) for case in CASES}

    @pytest.fixture
    def estimator(self, kind, name, estimators):
        return estimators[kind, name]

    def test_scores_stay(self, estimator, kind, name):
        other = shuffled(FRAME)
        assert other.index.tolist() != FRAME.index.tolist()
        assert estimator.score(other) == pytest.approx(estimator.score(FRAME), abs=1e-6)
        for part, nats in estimator.log_prob_parts(FRAME).items():
            moved = pd.Series(estimator.log_prob_parts(other)[part], index=other.index)
            np.testing.assert_allclose(moved.loc[FRAME.index], nats, atol=2e-6, rtol=1e-6)

    def test_predictions_stay(self, estimator, kind, name):
        other = shuffled(FRAME)
        given = [estimator.predict, estimator.predict_variance]
        given += [estimator.predict_proba] if kind in WITH_ITEMS else []
        for call in given:
            moved = call(other)[np.argsort(other.index)]
            np.testing.assert_allclose(moved, call(FRAME)[np.argsort(FRAME.index)], atol=2e-5)

    def test_recommendations_and_vectors_stay(self, estimator, kind, name):
        other = shuffled(FRAME)
        if kind in WITH_ITEMS:
            one, two = estimator.recommend(FRAME, k=3), estimator.recommend(other, k=3)
            rows = [two.groups.tolist().index(group) for group in one.groups]
            np.testing.assert_allclose(two.probabilities[rows], one.probabilities, atol=1e-5)
        if kind in ("efa", "latent-factor"):
            users, others = (list(dict.fromkeys(frame["user"])) for frame in (FRAME, other))
            vectors = estimator.transform(other)[[others.index(user) for user in users]]
            np.testing.assert_allclose(vectors, estimator.transform(FRAME), atol=1e-5)

    def test_a_sorted_file_is_a_set_as_well(self, estimator, kind, name):
        # What stands in order in a file, such as receipts by department, has no order in training.
        assert not estimator.ordered_
        ordered = FRAME.sort_values(["user", "movie"])
        assert estimator.score(ordered) == pytest.approx(estimator.score(FRAME), abs=1e-6)


def test_explanations_are_the_same_weights_by_name():
    estimator = fit("efa")
    for one, two in zip(
        sorted(estimator.explain(FRAME), key=lambda each: each.group),
        sorted(estimator.explain(shuffled(FRAME)), key=lambda each: each.group),
        strict=True,
    ):
        columns = [two.columns.index(column) for column in one.columns]
        centers = [two.centers.index(center) for center in one.centers]
        for part, weights in one.weights.items():
            moved = two.weights[part][:, :, centers][..., columns]
            np.testing.assert_allclose(moved, weights, atol=1e-5)


class TestEncoding:
    def test_sets_have_none(self):
        assert make("efa").fit(FRAME).encoding_ == "none"

    @pytest.mark.parametrize(
        "parameters",
        [{"order": "day"}, {"order": "rows"}, {"position": "day"}, {"direction": "causal"}],
        ids=str,
    )
    def test_an_order_or_positions_have_one(self, parameters):
        assert make("efa", **parameters).fit(FRAME).encoding_ == "relative"

    def test_one_that_is_named_is_kept(self):
        assert make("efa", order="day", encoding="none").fit(FRAME).encoding_ == "none"
        assert make("efa", order="day", encoding="rotary").fit(FRAME).encoding_ == "rotary"

    def test_positions_of_sets_are_refused_with_the_remedy(self):
        match = "`encoding` must be 'auto' or 'none' without `order` or `position`.*order='rows'"
        with pytest.raises(ExfamError, match=match):
            make("efa", encoding="relative").fit(FRAME)
        with pytest.raises(ExfamError, match=match):
            make("efa", encoding="learned").fit(Groups.from_frame(FRAME, **COLUMNS))

    @pytest.mark.parametrize("parameters", [{}, {"order": "day"}], ids=str)
    def test_saved_models_have_the_one_of_the_fit(self, parameters, tmp_path):
        estimator = make("efa", **parameters).fit(FRAME)
        estimator.save(tmp_path / "model")
        loaded = exfam.load(tmp_path / "model")
        assert loaded.encoding == "auto" and loaded.encoding_ == estimator.encoding_
        assert loaded.ordered_ == estimator.ordered_ == bool(parameters)
        np.testing.assert_array_equal(loaded.log_prob(FRAME), estimator.log_prob(FRAME))


@pytest.mark.parametrize("kind", KINDS)
class TestCausal:
    def test_sets_are_refused_with_the_remedy(self, kind):
        match = "`order` must be given for direction='causal', got none.*order='rows'"
        with pytest.raises(ExfamError, match=match):
            make(kind, direction="causal", order=None).fit(FRAME)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        with pytest.raises(ExfamError, match=match):
            class_of(kind)(direction="causal").fit(groups)

    def test_data_to_predict_must_have_an_order_too(self, kind):
        ordered = Groups.from_frame(FRAME, **COLUMNS, order="day")
        estimator = make(kind, direction="causal", order=None, group=None).fit(ordered)
        assert np.isfinite(estimator.score(ordered))
        sets = Groups.from_frame(FRAME, **COLUMNS)
        with pytest.raises(ExfamError, match="`order` must be given for direction='causal'"):
            estimator.score(sets)
        assert np.isfinite(estimator.score(sets.with_(ordered=True)))
        with pytest.raises(ExfamError, match="`order` must be given for direction='causal'"):
            make(kind, direction="causal", group=None, order=None).fit(ordered, validation=sets)

    def test_the_order_of_rows_is_one_where_that_is_said(self, kind):
        ordered = FRAME.sort_values("day")
        by_column = make(kind, direction="causal", order="day").fit(ordered)
        by_rows = make(kind, direction="causal", order="rows").fit(ordered)
        np.testing.assert_array_equal(by_rows.log_prob(ordered), by_column.log_prob(ordered))
        groups = Groups.from_frame(ordered, **COLUMNS)
        np.testing.assert_allclose(by_rows.score(groups), by_column.score(ordered), rtol=1e-12)


class TestOrderOfRows:
    """order="rows" in frames, files, Groups and prepared folders."""

    @pytest.fixture
    def frame(self):
        return FRAME.sort_values("day")

    def test_frames_and_files(self, frame, tmp_path):
        frame.to_csv(tmp_path / "a.csv", index=False)
        frame.to_parquet(tmp_path / "a.parquet", index=False)
        frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
        whole = Groups.from_frame(frame, **COLUMNS, order="rows")
        assert whole.ordered and not Groups.from_frame(frame, **COLUMNS).ordered
        for name in ("a.csv", "a.parquet", "a.jsonl"):
            groups = exfam.read(tmp_path / name, **COLUMNS, order="rows")
            assert groups.ordered and groups.item.tolist() == whole.item.tolist()
            assert not exfam.read(tmp_path / name, **COLUMNS).ordered
            assert exfam.read(tmp_path / name, **COLUMNS, order="day").ordered

    def test_a_column_of_that_name_is_refused(self, frame, tmp_path):
        frame = frame.assign(rows=-frame["day"])
        frame.to_csv(tmp_path / "a.csv", index=False)
        frame.to_parquet(tmp_path / "a.parquet", index=False)
        frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
        match = r"`order` must not be 'rows' where a column has that name.*order=\['rows'\]"
        with pytest.raises(DataError, match=match):
            Groups.from_frame(frame, **COLUMNS, order="rows")
        for name in ("a.csv", "a.parquet", "a.jsonl"):
            with pytest.raises(DataError, match=match):
                exfam.read(tmp_path / name, **COLUMNS, order="rows")
        last_first = Groups.from_frame(frame, **COLUMNS, order=["rows"])
        by_day = Groups.from_frame(frame, **COLUMNS, order="day")
        assert last_first[0].compact().item.tolist() == by_day[0].compact().item.tolist()[::-1]
        groups = exfam.read(tmp_path / "a.csv", **COLUMNS, order=["rows"])
        assert groups.item.tolist() == last_first.item.tolist()

    def test_prepared_folders(self, frame, tmp_path):
        for name, order in {"sets": None, "rows": "rows", "day": "day"}.items():
            made = exfam.prepare(frame, tmp_path / name, **COLUMNS, order=order)
            assert made.ordered == (order is not None)
        causal = {"direction": "causal", "progress": False, "max_epochs": 1}
        with pytest.raises(ExfamError, match="`order` must be given for direction='causal'"):
            EFA(**causal).fit(tmp_path / "sets")
        fits = [
            EFA(**causal, order="rows").fit(tmp_path / "sets"),
            make("efa", direction="causal", max_epochs=1).fit(tmp_path / "day"),
            EFA(**causal).fit(tmp_path / "rows"),
            EFA(**causal).fit(tmp_path / "day"),
        ]
        scores = [each.score(tmp_path / "day") for each in (fits[0], *fits[2:])]
        assert len(set(scores)) == 1

    def test_groups_keep_it(self, tmp_path):
        ordered = Groups.from_frame(FRAME, **COLUMNS, order="day")
        sets = Groups.from_frame(FRAME, **COLUMNS)
        for groups in (ordered, sets):
            kept = [
                groups[:3],
                groups.compact(),
                groups.with_(source_row=None),
                Groups.from_arrow(groups.to_arrow()),
                Groups.concatenate([groups, groups]),
                *groups.split([0.5, 0.5], seed=0),
                exfam.prepare(groups, tmp_path / str(groups.ordered)),
            ]
            assert {each.ordered for each in kept} == {groups.ordered}
        assert not Groups.concatenate([ordered, sets]).ordered
        with pytest.raises(DataError, match="`ordered` must be True or False, got 'day'"):
            sets.with_(ordered="day")


class TestRecommendationsInGaps:
    """A bidirectional model with positions: the further item may stand in any gap."""

    def test_are_means_over_all_gaps(self):
        estimator = make("efa", order="day", value=None, support="none").fit(FRAME)
        random_weights(estimator)
        groups = Groups.from_frame(FRAME, group="user", item="movie", order="day")
        recommended = estimator.recommend(groups, k=6)
        for g in (0, 3, 7):
            item = groups[g].compact().item
            by_gap = [
                np.exp([estimator.log_prob(grown(groups, item, at, code))[at] for code in range(6)])
                for at in range(len(item) + 1)
            ]
            assert np.ptp(by_gap, axis=0).max() > 1e-3
            expected = dict(zip(groups.vocabulary["item"], np.mean(by_gap, axis=0), strict=True))
            for label, probability in zip(
                recommended.items[g], recommended.probabilities[g], strict=True
            ):
                assert probability == pytest.approx(expected[label], rel=1e-4)

    def test_chunks_and_fewer_gaps(self, monkeypatch):
        estimator = make("efa", order="day", support="none").fit(FRAME)
        random_weights(estimator)
        whole = estimator.recommend(FRAME, k=6)
        monkeypatch.setattr(recommendations, "MAX_NUMBERS", 1)
        chunked = estimator.recommend(FRAME, k=6)
        np.testing.assert_allclose(chunked.probabilities, whole.probabilities, rtol=1e-5)
        monkeypatch.setattr(recommendations, "N_GAPS", 2)
        fewer = estimator.recommend(FRAME, k=6)
        np.testing.assert_allclose(fewer.probabilities.sum(1), 1, atol=1e-6)
        assert not np.allclose(fewer.probabilities, whole.probabilities, rtol=1e-3)

    def test_positions_of_blanks(self):
        groups = Groups(
            start=[0, 3, 3, 4],
            stop=[3, 3, 4, 6],
            item=np.arange(6),
            position=[0.0, 2.0, 6.0, 1.0, 5.0, 4.0],
        )
        schema = Schema.of(groups, families={})
        extended = {
            at: blanks.insert_blank(groups, schema, at=np.minimum(at, groups.stop - groups.start))
            for at in range(4)
        }
        first = [each.position[each.role == TARGET][0] for each in extended.values()]
        assert first == [-2.0, 1.0, 4.0, 10.0]
        # Sets are sorted by their positions: 4 before 5.
        last = [each.position[each.role == TARGET][3] for each in extended.values()]
        assert last == [3.0, 4.5, 6.0, 6.0]
        assert [each.position[each.role == TARGET][1] for each in extended.values()] == [0.0] * 4
        whole = groups.with_(position=groups.position.astype(int))
        made = blanks.insert_blank(whole, Schema.of(whole, families={}), at=np.zeros(4, dtype=int))
        assert (made.position[made.role == TARGET] >= 0).all()
        plane = groups.with_(position=np.stack([groups.position, groups.position], axis=1))
        made = blanks.insert_blank(plane, schema, at=np.array([1, 0, 1, 2]))
        assert made.position[made.role == TARGET].tolist() == [[1, 1], [0, 0], [1, 1], [3, 3]]


def grown(groups, item, at, code):
    """A group with one more item, before element `at`."""
    return Groups(
        start=[0],
        stop=[len(item) + 1],
        item=np.insert(item, at, code),
        vocabulary=groups.vocabulary,
        ordered=True,
    )


def test_attention_by_position_is_for_groups_in_order():
    with pytest.raises(ExfamError, match="`order` must be given for attention by position"):
        fit("efa").position_attention(FRAME, length=2)
    made = make("efa", order="day").fit(FRAME)
    assert made.position_attention(FRAME, length=2, part="items").weights.shape[-1] == 2
