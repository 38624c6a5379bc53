"""Groups without an order are sets, and elements of equal `order` share a position."""

import warnings

import numpy as np
import pandas as pd
import pytest

import exfam
from estimator_cases import COLUMNS, KINDS, WITH_ITEMS, class_of, make, random_weights, ratings
from exfam import EFA, DataError, ExfamError, ExfamWarning, Groups
from exfam.efa import recommend as recommendations
from exfam.efa.blanks import insert_blank
from exfam.estimator.schema import Schema
from exfam.groups import TARGET
from reading.cases import FORMS

FRAME = ratings(least=2)
SHUFFLED = FRAME.sample(frac=1, random_state=1)
ORDERED = FRAME.sort_values("day")
NO_ORDER = "`order` must be given for direction='causal', got none.*order='rows'"
# Columns beside the usual ones under which data stay sets.
SETS = {
    "plain": {},
    "attributes": {"attributes": ["genre", "gap"], "known": ["gap"], "group_attributes": ["age"]},
    "positions": {"position": "day"},
}
CASES = [(kind, name) for kind in KINDS for name in SETS if kind == "efa" or name == "plain"]


def fit(kind, name="plain", **parameters):
    return random_weights(make(kind, **SETS[name], **parameters).fit(FRAME), scale=0.3)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_no_answer_depends_on_the_order_of_rows(kind, name):
    estimator = fit(kind, name)
    assert SHUFFLED.index.tolist() != FRAME.index.tolist() and not estimator.ordered_
    # What stands in order in a file, such as receipts by department, has no order in training.
    for other in (SHUFFLED, FRAME.sort_values(["user", "movie"])):
        assert estimator.score(other) == pytest.approx(estimator.score(FRAME), abs=1e-6)
    parts = estimator.log_prob_parts(SHUFFLED)
    for part, nats in estimator.log_prob_parts(FRAME).items():
        moved = pd.Series(parts[part], index=SHUFFLED.index)
        np.testing.assert_allclose(moved.loc[FRAME.index], nats, atol=2e-6, rtol=1e-6)
    for call in [estimator.predict] + [estimator.predict_proba] * (kind in WITH_ITEMS):
        moved = call(SHUFFLED)[np.argsort(SHUFFLED.index)]
        np.testing.assert_allclose(moved, call(FRAME)[np.argsort(FRAME.index)], atol=2e-5)
    if kind in WITH_ITEMS:
        result, moved = (estimator.recommend(frame, k=3) for frame in (FRAME, SHUFFLED))
        rows = [moved.groups.tolist().index(group) for group in result.groups]
        np.testing.assert_allclose(moved.probabilities[rows], result.probabilities, atol=1e-5)
    if kind in ("efa", "latent-factor"):
        users, others = (list(dict.fromkeys(frame["user"])) for frame in (FRAME, SHUFFLED))
        vectors = estimator.transform(SHUFFLED)[[others.index(user) for user in users]]
        np.testing.assert_allclose(vectors, estimator.transform(FRAME), atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "encoding"),
    [
        ({}, "none"),
        ({"order": "day"}, "relative"),
        ({"position": "day"}, "relative"),
        ({"direction": "causal"}, "relative"),
        ({"order": "day", "encoding": "none"}, "none"),
        ({"order": "day", "encoding": "rotary"}, "rotary"),
    ],
    ids=str,
)
def test_the_encoding_is_chosen_by_order_and_positions_and_saved(parameters, encoding, tmp_path):
    estimator = make("efa", **parameters).fit(FRAME)
    assert estimator.encoding_ == encoding
    estimator.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert (loaded.encoding, loaded.encoding_) == (estimator.encoding, encoding)
    assert loaded.ordered_ == estimator.ordered_ == bool(set(parameters) & {"order", "direction"})


def test_positions_of_sets_are_refused_with_the_remedy():
    match = "`encoding` must be 'auto' or 'none' without `order` or `position`.*order='rows'"
    for encoding, data in (("relative", FRAME), ("learned", Groups.from_frame(FRAME, **COLUMNS))):
        with pytest.raises(ExfamError, match=match):
            make("efa", encoding=encoding).fit(data)
    with pytest.raises(ExfamError, match="`order` must be given for attention by position"):
        fit("efa").position_attention(FRAME, length=2)


@pytest.mark.parametrize("kind", KINDS)
class TestCausal:
    def test_sets_are_refused_with_the_remedy(self, kind):
        sets = Groups.from_frame(FRAME, **COLUMNS)
        ordered = Groups.from_frame(FRAME, **COLUMNS, order="day")
        with pytest.raises(ExfamError, match=NO_ORDER):
            make(kind, direction="causal", order=None).fit(FRAME)
        with pytest.raises(ExfamError, match=NO_ORDER):
            class_of(kind)(direction="causal").fit(sets)
        with pytest.raises(ExfamError, match=NO_ORDER):
            make(kind, direction="causal", group=None, order=None).fit(ordered, validation=sets)
        estimator = make(kind, direction="causal", order=None, group=None).fit(ordered)
        with pytest.raises(ExfamError, match=NO_ORDER):
            estimator.score(sets)
        for given in (ordered, sets.with_(ordered=True)):
            assert np.isfinite(estimator.score(given))


class TestOrderOfRows:
    """order="rows" in frames, files, Groups and prepared folders."""

    @pytest.mark.parametrize("form", ["csv", "parquet", "json lines"])
    def test_frames_and_files(self, form, tmp_path):
        given = FORMS[form](ORDERED.to_dict("list"), tmp_path)
        whole = Groups.from_frame(ORDERED, **COLUMNS, order="rows")
        groups = exfam.read(**given, **COLUMNS, order="rows")
        assert groups.ordered and groups.item.tolist() == whole.item.tolist()
        assert not exfam.read(**given, **COLUMNS).ordered and whole.ordered
        assert exfam.read(**given, **COLUMNS, order="day").ordered

    def test_a_column_of_that_name_is_refused_unless_it_is_named_in_a_list(self, tmp_path):
        named = ORDERED.assign(rows=-ORDERED["day"])
        named.to_csv(tmp_path / "a.csv", index=False)
        match = r"`order` must not be 'rows' where a column has that name.*order=\['rows'\]"
        for call, data in ((Groups.from_frame, named), (exfam.read, tmp_path / "a.csv")):
            with pytest.raises(DataError, match=match):
                call(data, **COLUMNS, order="rows")
        last_first = exfam.read(tmp_path / "a.csv", **COLUMNS, order=["rows"])[0].compact()
        by_day = Groups.from_frame(named, **COLUMNS, order="day")[0].compact()
        assert last_first.item.tolist() == by_day.item.tolist()[::-1]

    def test_prepared_folders(self, tmp_path):
        for name, order in {"sets": None, "rows": "rows", "day": "day"}.items():
            prepared = exfam.prepare(ORDERED, tmp_path / name, **COLUMNS, order=order)
            assert prepared.ordered == (order is not None)
        causal = {"direction": "causal", "progress": False, "max_epochs": 1}
        with pytest.raises(ExfamError, match=NO_ORDER):
            EFA(**causal).fit(tmp_path / "sets")
        given = (("sets", {"order": "rows"}), ("rows", {}), ("day", {}))
        fits = [EFA(**causal, **order).fit(tmp_path / name) for name, order in given]
        assert len({fit.score(tmp_path / "day") for fit in fits}) == 1

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
            assert {other.ordered for other in kept} == {groups.ordered}
        assert not Groups.concatenate([ordered, sets]).ordered
        with pytest.raises(DataError, match="`ordered` must be True or False, got 'day'"):
            sets.with_(ordered="day")


class TestRecommendationsInGaps:
    """A bidirectional model with positions: the further item may stand in any gap."""

    def test_are_means_over_all_gaps_or_fewer(self, monkeypatch):
        estimator = make("efa", order="day", value=None, support="none", base="none").fit(FRAME)
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
            result = zip(recommended.items[g], recommended.probabilities[g], strict=True)
            assert dict(result) == pytest.approx(expected, rel=1e-4)
        monkeypatch.setattr(recommendations, "N_GAPS", 2)
        fewer = estimator.recommend(groups, k=6).probabilities
        np.testing.assert_allclose(fewer.sum(1), 1, atol=1e-6)

    def test_positions_of_blanks(self):
        groups = Groups(
            start=[0, 3, 3, 4],
            stop=[3, 3, 4, 6],
            item=np.arange(6),
            position=[0.0, 2.0, 6.0, 1.0, 5.0, 4.0],
        )
        schema = Schema.of(groups, families={})

        def blank_positions(groups, at):
            at = np.minimum(at, groups.stop - groups.start)
            extended = insert_blank(groups, schema, at=at)
            return extended.position[extended.role == TARGET]

        by_gap = np.array([blank_positions(groups, at) for at in range(4)])
        assert by_gap[:, 0].tolist() == [-2.0, 1.0, 4.0, 10.0]
        assert by_gap[:, 1].tolist() == [0.0] * 4
        # Sets are sorted by their positions: 4 before 5.
        assert by_gap[:, 3].tolist() == [3.0, 4.5, 6.0, 6.0]


def grown(groups, item, at, code):
    """A group with one more item, before element `at`."""
    return Groups(
        start=[0],
        stop=[len(item) + 1],
        item=np.insert(item, at, code),
        vocabulary=groups.vocabulary,
        ordered=True,
    )


# Two ratings a day.
TIED = FRAME.assign(day=FRAME["day"] // 2)
SHUFFLED_TIES = TIED.loc[SHUFFLED.index]
BY_DAY = COLUMNS | {"order": "day"}


def fit_to_ties(**parameters):
    return random_weights(make("efa", order="day", **parameters).fit(TIED), scale=0.3)


def positions(groups):
    return [groups.pad([g]).position[0].tolist() for g in range(len(groups))]


def run_groups():
    return Groups(
        start=[0, 4, 6],
        stop=[4, 6, 7],
        item=[0, 1, 2, 3, 0, 1, 2],
        ordered=True,
        tied=[False, True, False, False, False, True, False],
    )


class TestShuffledRows:
    @pytest.mark.parametrize("encoding", ["auto", "rotary", "learned"])
    def test_scores_stay(self, encoding):
        estimator = fit_to_ties(encoding=encoding)
        assert estimator.encoding_ == ("relative" if encoding == "auto" else encoding)
        assert estimator.score(SHUFFLED_TIES) == pytest.approx(estimator.score(TIED), abs=1e-6)

    def test_scores_of_files_are_those_of_frames(self, tmp_path):
        estimator = fit_to_ties(base="none")
        SHUFFLED_TIES.to_csv(tmp_path / "ratings.csv", index=False)
        exfam.prepare(tmp_path / "ratings.csv", tmp_path / "prepared", **BY_DAY)
        for source in ("ratings.csv", "prepared"):
            score = estimator.score(tmp_path / source)
            assert score == pytest.approx(estimator.score(TIED), abs=1e-6)
        backwards = TIED.assign(day=-TIED["day"])
        assert abs(estimator.score(backwards) - estimator.score(TIED)) > 1e-3

    def test_groups_of_one_day_each_are_sets(self):
        frame = TIED.assign(day=TIED["user"].str.len())
        assert make("efa", order="day").fit(frame).encoding_ == "none"


def test_tied_elements_share_a_position():
    groups = run_groups()
    assert positions(groups) == [[0, 0, 1, 2], [0, 0], [0]]
    # A view counts from its first element; positions that are given are kept.
    assert positions(groups.with_(start=[1, 5, 6])) == [[0, 1, 2], [0], [0]]
    given = groups.with_(position=np.arange(7))
    assert positions(given) == [[0, 1, 2, 3], [4, 5], [6]]
    # Context ranges are tied to none of the group.
    ranges = {"context_start": [[0, 0]], "context_stop": [[2, 1]]}
    view = groups[:1].with_(start=[3], stop=[4], **ranges)
    assert positions(view) == positions(view.compact()) == [[0, 0, 1, 2]]


def test_rows_in_order_have_no_ties():
    frame = TIED.sort_values(["user", "day"])
    assert Groups.from_frame(frame, **COLUMNS, order="rows").tied is None
    estimator = make("efa", order="rows").fit(frame)
    groups = Groups.from_frame(frame, **BY_DAY)
    assert groups.tied is not None
    assert estimator.score(groups) == pytest.approx(estimator.score(frame), abs=1e-9)


class TestTiesOfGroups:
    def test_days_are_positions(self):
        groups = Groups.from_frame(TIED, **BY_DAY)
        last = {
            name: max(days)
            for name, days in zip(groups.group_names, positions(groups), strict=True)
        }
        days = TIED.groupby("user")["day"].nunique() - 1
        assert last == days.to_dict()

    def test_several_columns_are_tied_together_alone(self):
        frame = {"user": ["a"] * 3, "day": [1, 1, 1], "hour": [2, 3, 3], "movie": [0, 1, 2]}
        groups = Groups.from_frame(frame, group="user", item="movie", order=["day", "hour"])
        assert groups.tied.tolist() == [False, False, True]

    def test_ties_are_kept_in_arrow_and_side_by_side(self):
        groups = run_groups()
        assert Groups.from_arrow(groups.to_arrow()).tied.tolist() == groups.tied.tolist()
        both = Groups.concatenate([groups.with_(tied=None), groups])
        assert positions(both) == [[0, 1, 2, 3], [0, 1], [0], *positions(groups)]

    def test_elements_left_out_untie_no_others(self):
        frame = TIED[TIED["movie"] != TIED["movie"].iloc[0]]
        estimator = make("efa", order="day", unknown="ignore").fit(frame)
        with pytest.warns(ExfamWarning, match="unknown"):
            score = estimator.score(Groups.from_frame(TIED, **BY_DAY))
        assert score == pytest.approx(estimator.score(frame), abs=1e-6)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ([0, 0, 0], [[0, 0, 0, 1, 2], [0, 0, 0], [0, 1]]),
        ([1, 1, 1], [[0, 0, 0, 1, 2], [0, 0, 0], [0, 1]]),
        ([4, 2, 1], [[0, 0, 1, 2, 3], [0, 0, 0], [0, 1]]),
    ],
)
def test_a_blank_goes_on_as_the_elements_beside_it(at, expected):
    groups = run_groups()
    schema = Schema.of(groups, families={})
    assert positions(insert_blank(groups, schema, at=np.array(at))) == expected


def test_ties_of_causal_models_are_counted_in_a_warning_with_the_remedy():
    n = int(TIED.duplicated(["user", "day"], keep=False).sum())
    match = f"^{n} of {len(TIED)} rows are tied in `order`.*finer order, or pass order='rows'"
    estimator = make("efa", order="day", direction="causal")
    for call in (estimator.fit, estimator.score):
        with pytest.warns(ExfamWarning, match=match) as warned:
            call(TIED)
        assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("efa", order="rows", direction="causal").fit(TIED).score(TIED)
        finer = TIED.assign(day=np.arange(len(TIED)))
        make("efa", order="day", direction="causal").fit(finer).score(finer)
