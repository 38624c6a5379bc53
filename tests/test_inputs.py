"""From what users pass to what a fitted model understands: unseen labels, views, bad input."""

import numpy as np
import pandas as pd
import pytest
import torch

from estimator_cases import CASES, COLUMNS, TRAINED, WITH_ITEMS, fitted_on, make, ratings
from exfam import DataError, ExfamError, Groups, SupportError, UnknownItemError
from exfam.estimators.choices import check_no_repeats, choose_parts, choose_support
from exfam.estimators.inputs import read_inputs
from exfam.estimators.parameters import from_plain, to_plain
from exfam.families import Binomial, Gamma, Poisson
from exfam.groups.frames import FrameColumns

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


@pytest.mark.parametrize(("kind", "direction"), CASES)
class TestUnseenItems:
    def test_error_names_item_and_row(self, kind, direction):
        estimator = model(kind, direction, unknown="error")
        row = int(np.flatnonzero(IS_NEW)[0])
        asks = [estimator.score, estimator.predict, estimator.log_prob]
        if kind in WITH_ITEMS:
            asks += [estimator.recommend, estimator.predict_proba]
        for ask in asks:
            with pytest.raises(UnknownItemError, match=f"got 'new' at row {row} \\(.*unknown='ig"):
                ask(UNSEEN)
            with pytest.raises(UnknownItemError, match="got 'new' at row .* rows\\).*unknown='ign"):
                ask(Groups.from_frame(UNSEEN, **COLUMNS))

    def test_ignored_as_if_they_were_not_there(self, kind, direction):
        estimator = model(kind, direction, unknown="ignore")
        without = UNSEEN[~IS_NEW]
        for asked in both_forms(UNSEEN):
            rows = np.arange(len(UNSEEN))
            if isinstance(asked, Groups):
                rows = asked.source_row[asked.elements()]
            told = np.full(len(UNSEEN), np.nan)
            told[rows] = estimator.log_prob(asked)
            np.testing.assert_array_equal(np.isnan(told), IS_NEW)
            np.testing.assert_allclose(told[~IS_NEW], estimator.log_prob(without), rtol=1e-5)
            assert estimator.score(asked) == pytest.approx(estimator.score(without), rel=1e-6)
            assert np.isnan(estimator.predict(asked)).sum() == IS_NEW.sum()
            if kind in WITH_ITEMS:
                np.testing.assert_array_equal(
                    np.isnan(estimator.predict_proba(asked)).all(1)[np.argsort(rows)], IS_NEW
                )

    def test_kept_in_the_context_as_unknown(self, kind, direction):
        estimator = model(kind, direction, unknown="unk")
        for asked in both_forms(UNSEEN):
            parts = estimator.log_prob_parts(asked)
            assert np.isfinite(parts["stars"]).all()
            if kind in WITH_ITEMS:
                assert np.isnan(parts["item"]).sum() == IS_NEW.sum()
            assert np.isfinite(estimator.score(asked))
        if kind in TRAINED:
            ignored = model(kind, direction, unknown="ignore").log_prob_parts(UNSEEN)["stars"]
            kept = estimator.log_prob_parts(UNSEEN)["stars"]
            assert not np.allclose(kept[~IS_NEW], ignored[~IS_NEW])


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

    @pytest.mark.parametrize("unknown", ["ignore", "unk"])
    def test_unknown(self, unknown):
        estimator = model("efa", attributes=["genre"], unknown=unknown)
        told = estimator.log_prob(self.new)
        assert np.isfinite(told).all()
        groups = Groups.from_frame(self.new, **self.columns)
        rows = groups.source_row[groups.elements()]
        np.testing.assert_allclose(estimator.log_prob(groups), told[rows], rtol=1e-5)

    def test_codes_without_labels(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        genre = np.arange(groups.n_rows) % 3
        estimator = make("efa", unknown="unk").fit(groups.with_(attributes={"genre": genre}))
        assert estimator.vocabulary_["genre"].tolist() == [0, 1, 2]
        more = groups.with_(attributes={"genre": genre + 1})
        assert np.isfinite(estimator.log_prob(more)).all()
        estimator.set_params(unknown="error")
        with pytest.raises(DataError, match="got 3 at 2"):
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
        whole, told = estimator.log_prob(groups), estimator.log_prob(view)
        assert told.shape == (view.n_elements,)
        np.testing.assert_allclose(told, whole[view.elements()], rtol=1e-4, atol=1e-5)
        weight = np.arange(1.0, len(told) + 1)
        by_hand = (told * weight).sum() / weight.sum()
        assert estimator.score(view, sample_weight=weight) == pytest.approx(by_hand)

    def test_views_can_be_fitted(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        one, other = make("efa").fit(groups[2:9]), make("efa").fit(groups[2:9].compact())
        np.testing.assert_array_equal(one.log_prob(groups), other.log_prob(groups))

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
        with pytest.raises(UnknownItemError, match="got 'new' at row 0 \\(1 such"):
            model("efa", unknown="error").score(groups)
        kept = model("efa", unknown="unk").log_prob(groups)
        told = model("efa", unknown="ignore").log_prob(groups)
        by_hand = groups.with_(context_start=[[1], [1]])
        np.testing.assert_allclose(told, model("efa").log_prob(by_hand), rtol=1e-5)
        assert not np.allclose(told[:2], kept[:2])
        np.testing.assert_allclose(told[2:], kept[2:], rtol=1e-5)

    def test_items_beside_a_model_without(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        estimator = make("efa").fit(groups.with_(item=None, vocabulary={}))
        other = estimator.log_prob(groups.with_(item=None, vocabulary={}))
        np.testing.assert_array_equal(estimator.log_prob(groups), other)

    def test_missing_items(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        with pytest.raises(ExfamError, match="`item` must be given, as it was in training"):
            model("efa").score(groups.with_(item=None))


class TestBlanks:
    def test_frames_have_none(self):
        labels = {"item": np.array(list("abcdef"), dtype=object)}
        read = read_inputs(UNSEEN, FRAME_COLUMNS, vocabulary=labels, unknown="unk")
        assert read.blank is None and (read.groups.item == -1).any()


MISTAKES = {
    "missing column": ({}, FRAME.drop(columns="movie"), "`item` must name a column .* 'movie'"),
    "no group": ({"group": None}, FRAME, "`group` must name the column of groups"),
    "no such group": ({"group": "client"}, FRAME, "`group` must name a column.* got 'client'"),
    "empty frame": ({}, FRAME[:0], "`frame` must have at least one row, got none"),
    "gap in group": (
        {},
        FRAME.assign(user=FRAME["user"].where(FRAME["user"] != "u3")),
        "`group` must not be missing, got nothing at row",
    ),
    "gap in item": (
        {},
        FRAME.assign(movie=FRAME["movie"].where(FRAME["movie"] != "c")),
        "`item` must not be missing, got nothing at row",
    ),
    "text in value": ({}, FRAME.assign(stars="many"), "`value` must be numeric, got 'many' at row"),
    "infinite value": ({}, FRAME.assign(stars=np.inf), "`value` must be finite, got inf at row 0"),
    "no values": (
        {"parts": "values"},
        FRAME.assign(stars=np.nan),
        "`stars` must have at least one observed value, got none",
    ),
    "not a frame": ({}, [1, 2, 3], "`frame` must be a pandas or polars frame"),
    "a gap in an attribute": (
        {"attributes": ["gap"]},
        FRAME.assign(gap=np.nan),
        "`attributes` must not be missing",
    ),
    "group attribute that varies": (
        {"group_attributes": ["gap"]},
        FRAME,
        "`group_attributes` must be constant within a group",
    ),
    "nothing to model": (
        {"item": None, "value": None},
        FRAME,
        "`item` or `value` must be given, got data with neither",
    ),
    "both parts, no item": (
        {"item": None, "parts": "both"},
        FRAME,
        "`item` must be given for parts='both'",
    ),
    "both parts, no value": (
        {"value": None, "parts": "both"},
        FRAME,
        "`value` must be given for parts='both'",
    ),
    "hard support, repeats": (
        {"support": "hard"},
        FRAME.assign(movie="a"),
        "`item` must not repeat in a group with support='hard', got 'a' again in group 'u.*' at r",
    ),
}
WRONG = {
    "family": [
        ("gausian", "`family` must be one of 'bernoulli', .* got 'gausian'"),
        (
            "binomial",
            "`family` must be an instance where it has arguments .* got 'binomial'.*Binom",
        ),
        ({"stars": "poison"}, "`family` must be one of .* got 'poison'"),
        ({"star": "poisson"}, "`family` must name a family for every value column.* for 'stars'"),
        ({"stars": "gaussian", "x": "poisson"}, "`family` must name value columns .* got 'x'"),
    ],
    "direction": [("forward", "`direction` must be one of 'causal', 'bidirectional'")],
    "encoding": [("sine", "`encoding` must be one of 'attenuated'.* got 'sine'")],
    "support": [("soft", "`support` must be one of 'auto', 'hard', 'none', 'penalty'")],
    "parts": [("all", "`parts` must be one of 'auto', 'both', 'items', 'values', got 'all'")],
    "unknown": [("drop", "`unknown` must be one of 'error', 'ignore', 'unk', got 'drop'")],
    "tie": [("tight", "`tie` must be one of 'none', 'reflection'")],
    "join": [("product", "`join` must be one of 'concatenate', 'sum'")],
    "attention": [("hard", "must be one of .*'softmax'.* got 'hard'")],
    "connection": [("dense", "`connection` must be one of .* got 'dense'")],
    "conditional": [
        ("fast", "`conditional` must be one of 'auto', .* got 'fast'"),
        ("two_stream", "`conditional` must be one that serves this network"),
    ],
    "value_embedding": [
        ("one-hot", "`value_embedding` must be one of"),
        ("table", "`value_embedding` must not be 'table' for family 'gaussian'"),
        ("raw", "`join` must be 'concatenate' with value_embedding='raw'"),
    ],
    "dispersion": [("each", "`dispersion` must be one of 'global', 'item', got 'each'")],
    "learning_rate": [(-1.0, "`learning_rate` must be a number > 0, got -1.0")],
    "weight_decay": [(-1.0, "`weight_decay` must be a number >= 0, got -1.0")],
    "batch_size": [(0, "`batch_size` must be an integer >= 1, got 0")],
    "max_epochs": [(0, "`max_epochs` must be an integer >= 1, got 0")],
    "patience": [(0, "`patience` must be an integer >= 1, got 0")],
    "warmup": [(1.5, "`warmup` must be a number in \\[0, 1\\), got 1.5")],
    "clip": [(0.0, "`clip` must be a number > 0, got 0.0")],
    "device": [("gpu", "`device` must be one that torch finds on this machine, got 'gpu'")],
    "n_heads": [(0, "`n_heads` must be an integer >= 1, got 0")],
    "head_dim": [(-4, "`head_dim` must be an integer >= 1, got -4")],
    "embed_dim": [(0, "`embed_dim` must be an integer >= 1, got 0")],
    "n_layers": [(0, "`n_layers` must be an integer >= 1, got 0")],
    "feed_forward_dim": [(-1, "`feed_forward_dim` must be an integer >= 0, got -1")],
    "head_hidden_dim": [(-1, "`head_hidden_dim` must be an integer >= 0, got -1")],
    "score_scale": [(0.0, "`score_scale` must be a number > 0, got 0.0")],
    "dropout": [(1.0, "`dropout` must be a number in \\[0, 1\\), got 1.0")],
    "ensemble": [(0, "`ensemble` must be an integer >= 1, got 0")],
    "seed": [(-1, "`seed` must be an integer >= 0, got -1")],
    "validation_fraction": [(1.0, "`validation_fraction` must be a number in \\[0, 1\\), got 1.0")],
    "known": [("gap", "`known` must be among `attributes`, got 'gap'")],
    "dim": [(0, "`dim` must be an integer >= 1, got 0")],
    "pooling": [("max", "`pooling` must be one of")],
    "smoothing": [(0.0, "`smoothing` must be a number > 0, got 0.0")],
    "k": [(-2.0, "`k` must be a number > 0, got -2.0")],
}
WRONG_CASES = [(name, value, match) for name, each in WRONG.items() for value, match in each]
NEED_DATA = ("value column", "serves this", "for family", "this machine", "among `attributes`")
WRONG_WITHOUT_DATA = [
    case for case in WRONG_CASES if not any(words in case[2] for words in NEED_DATA)
]
KINDS = ("efa", "latent-factor", "marginal", "shrunk-offset")


class TestBadInput:
    @pytest.mark.parametrize("mistake", MISTAKES)
    def test_one_clear_error(self, mistake):
        parameters, frame, match = MISTAKES[mistake]
        kinds = [k for k in ("efa", "marginal") if parameters.keys() <= make(k).get_params().keys()]
        assert kinds
        for kind in kinds:
            with pytest.raises(ExfamError, match=match):
                make(kind, **parameters).fit(frame)

    @pytest.mark.parametrize(("name", "value", "match"), WRONG_CASES)
    def test_wrong_parameters(self, name, value, match):
        kinds = [kind for kind in KINDS if name in make(kind).get_params()]
        assert kinds
        for kind in kinds:
            with pytest.raises(ExfamError, match=match):
                make(kind).set_params(**{name: value}).fit(FRAME)

    @pytest.mark.parametrize(("name", "value", "match"), WRONG_WITHOUT_DATA)
    def test_wrong_parameters_cost_no_time(self, name, value, match):
        """What no data could make right is refused before data are read."""
        kind = next(kind for kind in KINDS if name in make(kind).get_params())
        with pytest.raises(ExfamError, match=match):
            make(kind).set_params(**{name: value}).fit(None)

    def test_no_estimator_takes_a_penalty_that_it_cannot_learn(self):
        with pytest.raises(ExfamError, match="`support` must be one of 'auto', 'hard', 'none'"):
            make("marginal", support="penalty").fit(FRAME)

    def test_shrunk_offsets_need_a_family_that_its_mean_determines(self):
        with pytest.raises(ExfamError, match="mean"):
            from exfam.families import Categorical

            make("shrunk-offset", family=Categorical(5, start=1)).fit(FRAME)

    def test_value_outside_its_support(self):
        frame = FRAME.copy()
        frame.iloc[7, frame.columns.get_loc("stars")] = 9.0
        match = "`stars` must be .*, got 9 at row 7 \\(1 of .* rows\\)"
        for kind in KINDS:
            with pytest.raises(SupportError, match=match):
                make(kind, family=Binomial(5)).fit(frame)
            with pytest.raises(SupportError, match=match):
                make(kind, family=Binomial(5)).fit(FRAME).score(frame)

    def test_values_that_single_precision_cannot_hold(self):
        for family, value in ((Gamma(), 1e-60), (Poisson(), 1e60), ("gaussian", 1e60)):
            frame = FRAME.copy()
            frame.iloc[3, frame.columns.get_loc("stars")] = value
            with pytest.raises(SupportError, match="`stars` must be .* at row 3"):
                make("efa", family=family).fit(frame)

    def test_repeats_at_score_time_after_hard_support(self):
        estimator = model("efa")
        assert estimator.support_ == "hard"
        again = pd.concat([FRAME, FRAME[:1]])
        user, movie = FRAME.iloc[0][["user", "movie"]]
        match = f"got '{movie}' again in group '{user}' at rows \\[0, {len(FRAME)}\\]. Fit with sup"
        for ask in (estimator.score, estimator.predict, estimator.recommend):
            with pytest.raises(ExfamError, match=match):
                ask(again)

    def test_validation_that_repeats_makes_support_soft(self):
        again = pd.concat([FRAME, FRAME[:1]])
        assert make("efa").fit(FRAME, validation=again).support_ == "none"
        with pytest.raises(ExfamError, match="must not repeat in a group with support='hard'"):
            make("efa", support="hard").fit(FRAME, validation=again)

    @pytest.mark.parametrize(
        ("asked", "match"),
        [
            ({"quantiles": [0.5, 1.0]}, "`quantiles` must be strictly between 0 and 1, got 1.0"),
            ({"quantiles": []}, "`quantiles` must be a list of levels, got \\[\\]"),
            ({"interval": 0.0}, "`interval` must be strictly between 0 and 1, got 0.0"),
            ({"interval": 0.5, "quantiles": [0.5]}, "must not both be given"),
        ],
    )
    def test_levels(self, asked, match):
        with pytest.raises(ExfamError, match=match):
            model("marginal").predict(FRAME, **asked)

    @pytest.mark.parametrize(
        "weight",
        [[1.0, 2.0], np.full(len(FRAME), -1.0), np.full(len(FRAME), np.nan), np.ones((2, 2)), 3.0],
    )
    def test_weights(self, weight):
        match = f"`sample_weight` must be {len(FRAME)} finite numbers >= 0"
        with pytest.raises(ExfamError, match=match):
            make("marginal").fit(FRAME, sample_weight=weight)
        with pytest.raises(ExfamError, match=match):
            model("marginal").score(FRAME, sample_weight=weight)
        with pytest.raises(ExfamError, match="`sample_weight` must be numbers, got"):
            make("marginal").fit(FRAME, sample_weight=["a"] * len(FRAME))

    def test_groups_without_targets(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        hidden = groups.with_(role=np.ones(groups.n_rows, dtype=np.int8))
        with pytest.raises(ExfamError, match="`X` must hold a target element of positive weight"):
            make("marginal").fit(hidden)
        with pytest.raises(ExfamError, match="`X` must hold at least one target"):
            model("marginal").score(hidden)
        with pytest.raises(ExfamError, match="`X` must hold a target element"):
            make("marginal").fit(Groups(start=[], stop=[], item=np.zeros(0, np.int32)))

    def test_reflection_beside_wider_tokens(self):
        with pytest.raises(ExfamError, match="tie"):
            make("efa", tie="reflection", join="concatenate", item_sees_values=True).fit(FRAME)

    def test_columns_that_the_model_needs_at_predict_time(self):
        with pytest.raises(DataError, match="`value` must name a column of the frame, got 'stars'"):
            model("efa").score(FRAME.drop(columns="stars"))
        groups = Groups.from_frame(FRAME, group="user", item="movie")
        with pytest.raises(ExfamError, match="`value` column 'stars' must be in the groups"):
            model("efa").score(groups)


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
        "value",
        [1, 0.5, "a", None, True, ("a", "b"), {"stars": "poisson"}, Poisson(shift=1)],
    )
    def test_as_json_and_back(self, value):
        assert from_plain(to_plain("family", value)) == value

    def test_numpy_becomes_python(self):
        assert to_plain("attributes", np.array(["a", "b"])) == ["a", "b"]
        assert isinstance(to_plain("dim", np.int64(3)), int)

    def test_what_json_cannot_hold(self):
        with pytest.raises(
            ExfamError, match="`family` must be plain data or a family.* got Linear"
        ):
            to_plain("family", torch.nn.Linear(1, 1))

    def test_numpy_numbers_are_good_parameters(self):
        estimator = make("efa", embed_dim=8, n_heads=2)
        assert np.isfinite(
            estimator.set_params(
                embed_dim=np.int64(4), batch_size=np.int64(3), learning_rate=np.float32(0.01)
            )
            .fit(FRAME)
            .score(FRAME)
        )
