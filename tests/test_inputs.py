"""From what users pass to what a fitted model understands: unseen labels, views, bad input."""

import numpy as np
import pytest
import torch

from estimator_cases import CASES, COLUMNS, TRAINED, WITH_ITEMS, fitted_on, make, ratings
from exfam import DataError, ExfamError, ExfamWarning, Groups, UnknownItemError
from exfam.columns.parts import FrameColumns
from exfam.efa.inputs import check_no_repeats
from exfam.efa.plan import choose_parts, choose_support
from exfam.estimator.plain import from_plain, to_plain
from exfam.families import Poisson

# What the warning says has a test of its own.
COUNTED = pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
FRAME = ratings(least=2)
UNSEEN = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
IS_NEW = (UNSEEN["movie"] == "new").to_numpy()
FRAME_COLUMNS = FrameColumns(group="user", item="movie", value="stars")


def model(kind, direction="bidirectional", **more):
    # What to do about unseen labels is no part of a fit.
    unknown = more.pop("unknown", "unk")
    estimator = fitted_on(FRAME, kind, noise=0.3, direction=direction, **more)
    return estimator.set_params(unknown=unknown)


def both_forms(frame):
    return frame, Groups.from_frame(frame, **COLUMNS)


@COUNTED
@pytest.mark.parametrize(("kind", "direction"), CASES)
class TestUnseenItems:
    def test_error_names_item_and_row(self, kind, direction):
        estimator = model(kind, direction, unknown="error")
        row = int(np.flatnonzero(IS_NEW)[0])
        calls = [estimator.score, estimator.predict, estimator.log_prob]
        if kind in WITH_ITEMS:
            calls += [estimator.recommend, estimator.predict_proba]
        for call in calls:
            with pytest.raises(UnknownItemError, match=f"got 'new' at row {row} \\(.*unknown='ig"):
                call(UNSEEN)
            with pytest.raises(UnknownItemError, match="got 'new' at row .* rows\\).*unknown='ign"):
                call(Groups.from_frame(UNSEEN, **COLUMNS))

    def test_ignored_as_if_they_were_not_there(self, kind, direction):
        estimator = model(kind, direction, unknown="ignore")
        without = UNSEEN[~IS_NEW]
        for given in both_forms(UNSEEN):
            rows = np.arange(len(UNSEEN))
            if isinstance(given, Groups):
                rows = given.source_row[given.elements()]
            result = np.full(len(UNSEEN), np.nan)
            result[rows] = estimator.log_prob(given)
            np.testing.assert_array_equal(np.isnan(result), IS_NEW)
            np.testing.assert_allclose(result[~IS_NEW], estimator.log_prob(without), rtol=1e-5)
            assert estimator.score(given) == pytest.approx(estimator.score(without), rel=1e-6)
            assert np.isnan(estimator.predict(given)).sum() == IS_NEW.sum()
            if kind in WITH_ITEMS:
                np.testing.assert_array_equal(
                    np.isnan(estimator.predict_proba(given)).all(1)[np.argsort(rows)], IS_NEW
                )

    def test_kept_in_the_context_as_unknown(self, kind, direction):
        estimator = model(kind, direction, unknown="unk")
        for given in both_forms(UNSEEN):
            parts = estimator.log_prob_parts(given)
            assert np.isfinite(parts["stars"]).all()
            if kind in WITH_ITEMS:
                assert np.isnan(parts["item"]).sum() == IS_NEW.sum()
            assert np.isfinite(estimator.score(given))
        if kind in TRAINED:
            ignored = model(kind, direction, unknown="ignore").log_prob_parts(UNSEEN)["stars"]
            kept = estimator.log_prob_parts(UNSEEN)["stars"]
            assert not np.allclose(kept[~IS_NEW], ignored[~IS_NEW])


@pytest.mark.parametrize("kind", ["efa", "latent-factor", "marginal", "shrunk-offset"])
class TestUnseenLabelsAreCounted:
    """By default unseen labels are unknown, and one warning a call counts them."""

    @pytest.mark.parametrize("unknown", ["unk", "ignore"])
    def test_one_warning_a_call(self, kind, unknown, tmp_path):
        estimator = model(kind, unknown=unknown)
        more = UNSEEN.assign(movie=UNSEEN["movie"].replace("a", "newer"))
        rows = int(more["movie"].isin(["new", "newer"]).sum())
        more.to_csv(tmp_path / "more.csv", index=False)
        calls = [estimator.score, estimator.log_prob, estimator.predict, estimator.score_parts]
        if kind in WITH_ITEMS:
            calls += [estimator.recommend, estimator.predict_proba]
        match = (
            f"^The data have {rows} rows of items never seen in training .2 labels, such as 'new"
        )
        for data in (*both_forms(more), tmp_path / "more.csv"):
            for call in calls[: 1 if isinstance(data, Groups) else None]:
                with pytest.warns(ExfamWarning, match=match) as warned:
                    call(data)
                assert len(warned) == 1
                assert ("left out." in str(warned[0].message)) == (unknown == "ignore")

    def test_validation_is_counted_as_well(self, kind):
        with pytest.warns(
            ExfamWarning, match=f"{IS_NEW.sum()} rows of items never seen in training .1 label"
        ):
            make(kind).fit(FRAME, validation=UNSEEN)

    @COUNTED
    def test_the_mean_is_over_elements_of_known_items_where_items_are_predicted(self, kind):
        estimator = model(kind)
        each = estimator.log_prob(UNSEEN)
        assert np.isnan(each).sum() == (IS_NEW.sum() if kind in WITH_ITEMS else 0)
        assert estimator.score(UNSEEN) == pytest.approx(np.nanmean(each), rel=1e-6)
        parts = estimator.score_parts(UNSEEN)
        assert sum(parts.values()) == pytest.approx(np.nanmean(each), rel=1e-6)
        if kind in WITH_ITEMS:
            items = estimator.log_prob_parts(UNSEEN)["item"]
            assert parts["items"] == pytest.approx(np.nanmean(items), rel=1e-6)


class TestUnseenCategories:
    new = FRAME.assign(genre=FRAME["genre"].replace("y", "z"))
    columns = {**COLUMNS, "attributes": ["genre"]}

    def test_error(self):
        estimator = model("efa", attributes=["genre"], unknown="error")
        with pytest.raises(DataError, match="vocabulary of 'genre' .*, got 'z' at row"):
            estimator.score(self.new)
        groups = Groups.from_frame(self.new, **self.columns)
        with pytest.raises(DataError, match="`attributes` must be in the vocabulary of 'genre' .*"):
            estimator.score(groups)

    def test_counted_beside_items(self):
        estimator = model("efa", attributes=["genre"])
        rows = (FRAME["genre"] == "y").sum()
        match = f"The data have {rows} rows of labels of 'genre' never seen in training .1 label"
        for given in (self.new, Groups.from_frame(self.new, **self.columns)):
            with pytest.warns(ExfamWarning, match=match + ", such as 'z'.*are taken as unknown"):
                estimator.score(given)
        both = self.new.assign(movie=UNSEEN["movie"])
        with pytest.warns(
            ExfamWarning, match="of items never .* and .* of labels of 'genre'"
        ) as warned:
            estimator.score(both)
        assert len(warned) == 1

    @COUNTED
    @pytest.mark.parametrize("unknown", ["ignore", "unk"])
    def test_unknown(self, unknown):
        estimator = model("efa", attributes=["genre"], unknown=unknown)
        nats = estimator.log_prob(self.new)
        assert np.isfinite(nats).all()
        groups = Groups.from_frame(self.new, **self.columns)
        rows = groups.source_row[groups.elements()]
        np.testing.assert_allclose(estimator.log_prob(groups), nats[rows], rtol=1e-5)

    @COUNTED
    def test_codes_without_labels(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        genre = np.arange(groups.n_rows) % 3
        estimator = make("efa", unknown="unk").fit(groups.with_(attributes={"genre": genre}))
        assert estimator.vocabulary_["genre"].tolist() == [0, 1, 2]
        more = groups.with_(attributes={"genre": genre + 1})
        assert np.isfinite(estimator.log_prob(more)).all()
        estimator.set_params(unknown="error")
        with pytest.raises(DataError, match="got 3 at row 2"):
            estimator.log_prob(more)

    def test_columns_of_another_kind(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        gap = np.linspace(0, 1, groups.n_rows)
        estimator = make("efa").fit(groups.with_(attributes={"gap": gap}))
        for wrong in (np.arange(groups.n_rows), np.ones((groups.n_rows, 2))):
            with pytest.raises(ExfamError, match="`gap` must be 1 number"):
                estimator.score(groups.with_(attributes={"gap": wrong}))
        with pytest.raises(ExfamError, match="`gap` must be an attribute"):
            estimator.score(groups)
        with pytest.raises(ExfamError, match="`gap` must be finite"):
            estimator.score(groups.with_(attributes={"gap": np.full(groups.n_rows, np.nan)}))


class TestGroups:
    def test_rows_follow_the_view(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        estimator = model("efa")
        view = groups[[4, 1, 7]]
        whole, nats = estimator.log_prob(groups), estimator.log_prob(view)
        assert nats.shape == (view.n_elements,)
        np.testing.assert_allclose(nats, whole[view.elements()], rtol=1e-4, atol=1e-5)
        weight = np.arange(1.0, len(nats) + 1)
        by_hand = (nats * weight).sum() / weight.sum()
        assert estimator.score(view, sample_weight=weight) == pytest.approx(by_hand)

    def test_other_codes_for_the_same_labels(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        labels = groups.vocabulary["item"]
        shuffled = groups.with_(item=5 - groups.item, vocabulary={"item": labels[::-1]})
        estimator = model("efa")
        np.testing.assert_array_equal(estimator.log_prob(shuffled), estimator.log_prob(groups))

    def test_codes_without_labels(self):
        groups = Groups.from_frame(FRAME, **COLUMNS).with_(vocabulary={})
        estimator = make("efa", unknown="error").fit(groups)
        assert estimator.vocabulary_["item"].tolist() == list(range(6))
        with pytest.raises(UnknownItemError, match="got 9 at row"):
            estimator.score(groups.with_(item=np.where(groups.item == 2, 9, groups.item)))

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

    def test_items_beside_a_model_without(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        estimator = make("efa").fit(groups.with_(item=None, vocabulary={}))
        other = estimator.log_prob(groups.with_(item=None, vocabulary={}))
        np.testing.assert_array_equal(estimator.log_prob(groups), other)

    def test_missing_items(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        with pytest.raises(ExfamError, match="`item` must be given, as it was in training"):
            model("efa").score(groups.with_(item=None))


class TestChoices:
    def test_parts_follow_the_data(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        assert choose_parts("auto", groups) == (True, True)
        assert choose_parts("items", groups) == (True, False)
        assert choose_parts("values", groups) == (False, True)
        with pytest.raises(ExfamError, match="`parts` must be one of"):
            choose_parts("none", groups)

    def test_support_follows_repeats(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        assert choose_support("auto", [groups]) == "hard"
        assert choose_support("auto", [groups, groups.with_(item=0 * groups.item)]) == "none"
        assert choose_support("penalty", [groups]) == "penalty"
        check_no_repeats(groups.with_(item=None))

    def test_unnamed_repeats(self):
        with pytest.raises(ExfamError, match="got 1 again in group 0 at rows \\[0, 1\\]"):
            check_no_repeats(Groups(start=[0], stop=[2], item=[1, 1]))


class TestParameters:
    @pytest.mark.parametrize(
        "value", [1, 0.5, "a", None, True, ("a", "b"), {"stars": "poisson"}, Poisson(shift=1)]
    )
    def test_as_json_and_back(self, value):
        assert from_plain(to_plain("family", value)) == value

    def test_numpy_becomes_python(self):
        assert to_plain("attributes", np.array(["a", "b"])) == ["a", "b"]
        assert isinstance(to_plain("dim", np.int64(3)), int)

    def test_what_json_cannot_hold(self):
        with pytest.raises(ExfamError, match="`family` must be plain data or a family.* got Linea"):
            to_plain("family", torch.nn.Linear(1, 1))
