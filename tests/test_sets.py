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
    calls = [estimator.predict, estimator.predict_variance]
    calls += [estimator.predict_proba] if kind in WITH_ITEMS else []
    for call in calls:
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


def test_explanations_are_the_same_weights_by_name():
    estimator = fit("efa")
    moved = {explanation.group: explanation for explanation in estimator.explain(SHUFFLED)}
    for result in estimator.explain(FRAME):
        other = moved[result.group]
        columns = [other.columns.index(column) for column in result.columns]
        centers = [other.centers.index(center) for center in result.centers]
        for part, weights in result.weights.items():
            same = other.weights[part][:, :, centers][..., columns]
            np.testing.assert_allclose(same, weights, atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "encoding"),
    [
        ({}, "none"),
        ({"order": "day"}, "relative"),
        ({"order": "rows"}, "relative"),
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
    np.testing.assert_array_equal(loaded.log_prob(FRAME), estimator.log_prob(FRAME))


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

    def test_the_order_of_rows_is_one_where_that_is_said(self, kind):
        by_column = make(kind, direction="causal", order="day").fit(ORDERED)
        by_rows = make(kind, direction="causal", order="rows").fit(ORDERED)
        np.testing.assert_array_equal(by_rows.log_prob(ORDERED), by_column.log_prob(ORDERED))
        groups = Groups.from_frame(ORDERED, **COLUMNS)
        np.testing.assert_allclose(by_rows.score(groups), by_column.score(ORDERED), rtol=1e-12)


class TestOrderOfRows:
    """order="rows" in frames, files, Groups and prepared folders."""

    @pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
    def test_frames_and_files(self, ending, tmp_path):
        path = tmp_path / f"a.{ending}"

        def write(frame):
            if ending == "csv":
                frame.to_csv(path, index=False)
            elif ending == "parquet":
                frame.to_parquet(path, index=False)
            else:
                frame.to_json(path, orient="records", lines=True)

        write(ORDERED)
        whole = Groups.from_frame(ORDERED, **COLUMNS, order="rows")
        groups = exfam.read(path, **COLUMNS, order="rows")
        assert groups.ordered and groups.item.tolist() == whole.item.tolist()
        assert not exfam.read(path, **COLUMNS).ordered and whole.ordered
        assert exfam.read(path, **COLUMNS, order="day").ordered
        # A column of that name is refused unless it is named in a list.
        named = ORDERED.assign(rows=-ORDERED["day"])
        write(named)
        match = r"`order` must not be 'rows' where a column has that name.*order=\['rows'\]"
        for call, data in ((Groups.from_frame, named), (exfam.read, path)):
            with pytest.raises(DataError, match=match):
                call(data, **COLUMNS, order="rows")
        last_first = exfam.read(path, **COLUMNS, order=["rows"])[0].compact().item.tolist()
        by_day = Groups.from_frame(named, **COLUMNS, order="day")
        assert last_first == by_day[0].compact().item.tolist()[::-1]

    def test_prepared_folders(self, tmp_path):
        for name, order in {"sets": None, "rows": "rows", "day": "day"}.items():
            prepared = exfam.prepare(ORDERED, tmp_path / name, **COLUMNS, order=order)
            assert prepared.ordered == (order is not None)
        causal = {"direction": "causal", "progress": False, "max_epochs": 1}
        with pytest.raises(ExfamError, match=NO_ORDER):
            EFA(**causal).fit(tmp_path / "sets")
        make("efa", direction="causal", max_epochs=1).fit(tmp_path / "day")
        fits = [
            EFA(**causal, order="rows").fit(tmp_path / "sets"),
            EFA(**causal).fit(tmp_path / "rows"),
            EFA(**causal).fit(tmp_path / "day"),
        ]
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
            result = zip(recommended.items[g], recommended.probabilities[g], strict=True)
            assert dict(result) == pytest.approx(expected, rel=1e-4)

    def test_chunks_and_fewer_gaps(self, monkeypatch):
        estimator = random_weights(make("efa", order="day", support="none").fit(FRAME))
        whole = estimator.recommend(FRAME, k=6).probabilities
        monkeypatch.setattr(recommendations, "MAX_NUMBERS", 1)
        np.testing.assert_allclose(estimator.recommend(FRAME, k=6).probabilities, whole, rtol=1e-5)
        monkeypatch.setattr(recommendations, "N_GAPS", 2)
        fewer = estimator.recommend(FRAME, k=6).probabilities
        np.testing.assert_allclose(fewer.sum(1), 1, atol=1e-6)
        assert not np.allclose(fewer, whole, rtol=1e-3)

    def test_positions_of_blanks(self):
        groups = Groups(
            start=[0, 3, 3, 4],
            stop=[3, 3, 4, 6],
            item=np.arange(6),
            position=[0.0, 2.0, 6.0, 1.0, 5.0, 4.0],
        )

        def blank_positions(groups, at):
            schema = Schema.of(groups, families={})
            at = np.minimum(at, groups.stop - groups.start)
            extended = blanks.insert_blank(groups, schema, at=at)
            return extended.position[extended.role == TARGET]

        by_gap = np.array([blank_positions(groups, at) for at in range(4)])
        assert by_gap[:, 0].tolist() == [-2.0, 1.0, 4.0, 10.0]
        assert by_gap[:, 1].tolist() == [0.0] * 4
        # Sets are sorted by their positions: 4 before 5.
        assert by_gap[:, 3].tolist() == [3.0, 4.5, 6.0, 6.0]
        assert (blank_positions(groups.with_(position=groups.position.astype(int)), 0) >= 0).all()
        plane = groups.with_(position=np.stack([groups.position, groups.position], axis=1))
        result = blank_positions(plane, np.array([1, 0, 1, 2]))
        assert result.tolist() == [[1, 1], [0, 0], [1, 1], [3, 3]]


def grown(groups, item, at, code):
    """A group with one more item, before element `at`."""
    return Groups(
        start=[0],
        stop=[len(item) + 1],
        item=np.insert(item, at, code),
        vocabulary=groups.vocabulary,
        ordered=True,
    )
