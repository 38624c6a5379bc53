"""From what users pass to what a fitted model understands: unseen labels, views, bad input."""

import numpy as np
import pytest
import torch

from estimator_cases import CASES, COLUMNS, KINDS, TRAINED, WITH_ITEMS, fitted_on, make, ratings
from exfam import DataError, ExfamError, ExfamWarning, Groups, UnknownItemError
from exfam.efa.inputs import check_no_repeats
from exfam.efa.plan import choose_parts, choose_support
from exfam.estimator.plain import from_plain, to_plain
from exfam.families import Poisson

# What the warning says has a test of its own.
COUNTED = pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
FRAME = ratings(least=2)
GROUPS = Groups.from_frame(FRAME, **COLUMNS)
UNSEEN = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
IS_NEW = (UNSEEN["movie"] == "new").to_numpy()


def model(kind, direction="bidirectional", **more):
    # What to do about unseen labels is no part of a fit.
    unknown = more.pop("unknown", "unk")
    estimator = fitted_on(FRAME, kind, noise=0.3, direction=direction, **more)
    return estimator.set_params(unknown=unknown)


def both_forms(frame):
    return frame, Groups.from_frame(frame, **COLUMNS)


def calls_of(estimator, kind):
    calls = [estimator.score, estimator.log_prob, estimator.predict]
    return calls + [estimator.recommend, estimator.predict_proba] * (kind in WITH_ITEMS)


@COUNTED
@pytest.mark.parametrize(("kind", "direction"), CASES)
class TestUnseenItems:
    def test_ignored_as_if_they_were_not_there(self, kind, direction):
        estimator = model(kind, direction, unknown="ignore")
        without = UNSEEN[~IS_NEW]
        for given in both_forms(UNSEEN):
            rows = np.arange(len(UNSEEN))
            if isinstance(given, Groups):
                rows = given.source_row[given.elements()]
            nats = np.full(len(UNSEEN), np.nan)
            nats[rows] = estimator.log_prob(given)
            np.testing.assert_array_equal(np.isnan(nats), IS_NEW)
            np.testing.assert_allclose(nats[~IS_NEW], estimator.log_prob(without), rtol=1e-5)
            assert estimator.score(given) == pytest.approx(estimator.score(without), rel=1e-6)
            assert np.isnan(estimator.predict(given)).sum() == IS_NEW.sum()
            if kind in WITH_ITEMS:
                lacking = np.isnan(estimator.predict_proba(given)).all(1)
                np.testing.assert_array_equal(lacking[np.argsort(rows)], IS_NEW)

    def test_kept_in_the_context_as_unknown_and_out_of_the_mean(self, kind, direction):
        estimator = model(kind, direction, unknown="unk")
        for given in both_forms(UNSEEN):
            parts, nats = estimator.log_prob_parts(given), estimator.log_prob(given)
            assert np.isfinite(parts["stars"]).all()
            assert np.isnan(nats).sum() == (IS_NEW.sum() if kind in WITH_ITEMS else 0)
            assert estimator.score(given) == pytest.approx(np.nanmean(nats), rel=1e-6)
            scores = estimator.score_parts(given)
            assert sum(scores.values()) == pytest.approx(np.nanmean(nats), rel=1e-6)
            if kind in WITH_ITEMS:
                assert scores["items"] == pytest.approx(np.nanmean(parts["item"]), rel=1e-6)
        if kind in TRAINED:
            ignored = model(kind, direction, unknown="ignore").log_prob_parts(UNSEEN)["stars"]
            kept = estimator.log_prob_parts(UNSEEN)["stars"]
            assert not np.allclose(kept[~IS_NEW], ignored[~IS_NEW])


@pytest.mark.parametrize("kind", KINDS)
class TestUnseenLabelsAreCounted:
    """By default unseen labels are unknown, and one warning a call counts them."""

    @pytest.mark.parametrize("unknown", ["unk", "ignore", "error"])
    def test_one_warning_or_error_a_call(self, kind, unknown, tmp_path):
        estimator = model(kind, unknown=unknown)
        more = UNSEEN.assign(movie=UNSEEN["movie"].replace("a", "newer"))
        rows = more["movie"].isin(["new", "newer"]).to_numpy()
        more.to_csv(tmp_path / "more.csv", index=False)
        row = np.flatnonzero(rows)[0]
        error = f"got '{more['movie'].iloc[row]}' at row {row} .*unknown='ig"
        match = f"^The data have {rows.sum()} rows of items never seen in training .2 labels, such"
        for data in (*both_forms(more), tmp_path / "more.csv"):
            of_groups = isinstance(data, Groups)
            for call in calls_of(estimator, kind)[: 1 if of_groups else None]:
                if unknown == "error":
                    with pytest.raises(UnknownItemError, match="got 'new" if of_groups else error):
                        call(data)
                    continue
                with pytest.warns(ExfamWarning, match=match) as warned:
                    call(data)
                assert len(warned) == 1
                assert ("left out." in str(warned[0].message)) == (unknown == "ignore")

    def test_validation_is_counted_as_well(self, kind):
        match = f"{IS_NEW.sum()} rows of items never seen in training .1 label"
        with pytest.warns(ExfamWarning, match=match):
            make(kind).fit(FRAME, validation=UNSEEN)


class TestUnseenCategories:
    new = FRAME.assign(genre=FRAME["genre"].replace("y", "z"))
    groups = Groups.from_frame(new, **COLUMNS, attributes=["genre"])

    def test_counted_beside_items_or_refused(self):
        estimator = model("efa", attributes=["genre"])
        rows = (FRAME["genre"] == "y").sum()
        match = f"The data have {rows} rows of labels of 'genre' never seen in training .1 label"
        for given in (self.new, self.groups):
            with pytest.warns(ExfamWarning, match=match + ", such as 'z'.*are taken as unknown"):
                estimator.score(given)
        both = self.new.assign(movie=UNSEEN["movie"])
        match = "of items never .* and .* of labels of 'genre'"
        with pytest.warns(ExfamWarning, match=match) as warned:
            estimator.score(both)
        assert len(warned) == 1
        estimator.set_params(unknown="error")
        for given in (self.new, self.groups):
            with pytest.raises(DataError, match="`attributes` .* vocabulary of 'genre' .*, got 'z"):
                estimator.score(given)

    @COUNTED
    @pytest.mark.parametrize("unknown", ["ignore", "unk"])
    def test_unknown(self, unknown):
        estimator = model("efa", attributes=["genre"], unknown=unknown)
        nats = estimator.log_prob(self.new)
        assert np.isfinite(nats).all()
        rows = self.groups.source_row[self.groups.elements()]
        np.testing.assert_allclose(estimator.log_prob(self.groups), nats[rows], rtol=1e-5)

    @COUNTED
    def test_codes_without_labels(self):
        genre = np.arange(GROUPS.n_rows) % 3
        groups = GROUPS.with_(vocabulary={}, attributes={"genre": genre})
        estimator = make("efa", unknown="unk").fit(groups)
        assert estimator.vocabulary_["genre"].tolist() == [0, 1, 2]
        assert estimator.vocabulary_["item"].tolist() == list(range(6))
        more = groups.with_(attributes={"genre": genre + 1})
        assert np.isfinite(estimator.log_prob(more)).all()
        estimator.set_params(unknown="error")
        with pytest.raises(DataError, match="got 3 at row 2"):
            estimator.log_prob(more)
        with pytest.raises(UnknownItemError, match="got 9 at row"):
            estimator.score(groups.with_(item=np.where(groups.item == 2, 9, groups.item)))

    def test_columns_of_another_kind(self):
        gap = np.linspace(0, 1, GROUPS.n_rows)
        estimator = make("efa").fit(GROUPS.with_(attributes={"gap": gap}))
        for wrong, match in (
            ({"gap": np.arange(GROUPS.n_rows)}, "`gap` must be 1 number"),
            ({"gap": np.ones((GROUPS.n_rows, 2))}, "`gap` must be 1 number"),
            ({}, "`gap` must be an attribute"),
            ({"gap": np.full(GROUPS.n_rows, np.nan)}, "`gap` must be finite"),
        ):
            with pytest.raises(ExfamError, match=match):
                estimator.score(GROUPS.with_(attributes=wrong))


class TestGroups:
    def test_rows_follow_the_view_and_items_their_labels(self):
        estimator, view = model("efa"), GROUPS[[4, 1, 7]]
        whole, nats = estimator.log_prob(GROUPS), estimator.log_prob(view)
        np.testing.assert_allclose(nats, whole[view.elements()], rtol=1e-4, atol=1e-5)
        weight = np.arange(1.0, len(nats) + 1)
        by_hand = (nats * weight).sum() / weight.sum()
        assert estimator.score(view, sample_weight=weight) == pytest.approx(by_hand)
        labels = GROUPS.vocabulary["item"]
        recoded = GROUPS.with_(item=5 - GROUPS.item, vocabulary={"item": labels[::-1]})
        np.testing.assert_array_equal(estimator.log_prob(recoded), whole)

    @COUNTED
    def test_unseen_items_in_context_ranges(self):
        groups = Groups(
            start=[2, 4],
            stop=[4, 6],
            context_start=[[0], [1]],
            context_stop=[[2], [3]],
            item=[6, 1, 2, 3, 4, 5],
            values={"stars": np.arange(6.0)},
            vocabulary={"item": np.array([*"abcdef", "new"], dtype=object)},
        )
        with pytest.raises(UnknownItemError, match="got 'new' at row 0 \\(1 of 6"):
            model("efa", unknown="error").score(groups)
        kept = model("efa", unknown="unk").log_prob(groups)
        nats = model("efa", unknown="ignore").log_prob(groups)
        by_hand = groups.with_(context_start=[[1], [1]])
        np.testing.assert_allclose(nats, model("efa").log_prob(by_hand), rtol=1e-5)
        assert not np.allclose(nats[:2], kept[:2])
        np.testing.assert_allclose(nats[2:], kept[2:], rtol=1e-5)

    def test_items_beside_a_model_without_and_none_beside_a_model_with(self):
        estimator = make("efa").fit(GROUPS.with_(item=None, vocabulary={}))
        other = estimator.log_prob(GROUPS.with_(item=None, vocabulary={}))
        np.testing.assert_array_equal(estimator.log_prob(GROUPS), other)
        with pytest.raises(ExfamError, match="`item` must be given, as it was in training"):
            model("efa").score(GROUPS.with_(item=None))


def test_parts_and_support_follow_the_data():
    assert choose_parts("auto", GROUPS) == (True, True)
    assert choose_parts("items", GROUPS) == (True, False)
    assert choose_parts("values", GROUPS) == (False, True)
    with pytest.raises(ExfamError, match="`parts` must be one of"):
        choose_parts("none", GROUPS)
    assert choose_support("auto", [GROUPS]) == "hard"
    assert choose_support("auto", [GROUPS, GROUPS.with_(item=0 * GROUPS.item)]) == "none"
    assert choose_support("penalty", [GROUPS]) == "penalty"
    check_no_repeats(GROUPS.with_(item=None))
    with pytest.raises(ExfamError, match="got 1 again in group 0 at rows \\[0, 1\\]"):
        check_no_repeats(Groups(start=[0], stop=[2], item=[1, 1]))


def test_parameters_as_json_and_back():
    for value in (1, 0.5, "a", None, True, ("a", "b"), {"stars": "poisson"}, Poisson(shift=1)):
        assert from_plain(to_plain("family", value)) == value
    assert to_plain("attributes", np.array(["a", "b"])) == ["a", "b"]
    assert isinstance(to_plain("dim", np.int64(3)), int)
    with pytest.raises(ExfamError, match="`family` must be plain data or a family.* got Linea"):
        to_plain("family", torch.nn.Linear(1, 1))
