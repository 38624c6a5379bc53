"""Estimators given paths: files are as good as frames, prepared folders as Groups."""

import tracemalloc

import numpy as np
import pytest

import exfam
from estimator_cases import COLUMNS, KINDS, fitted_on, make, ratings, same_bits
from exfam import DataError, ExfamError, Groups, open_prepared, prepare
from exfam.columns.parts import FrameColumns
from exfam.efa.inputs import read_group_inputs
from exfam.efa.plan import log_frequencies, plan_fit
from exfam.estimator import schema as columns
from exfam.groups import arrange
from exfam.training.batching import groups_digest

FRAME = ratings(least=2)
MORE = {**COLUMNS, "attributes": ["genre", "gap"], "group_attributes": ["age"], "order": "day"}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "ratings.csv"
    FRAME.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def folder(file):
    prepare(file, file.parent / "prepared", **COLUMNS)
    return file.parent / "prepared"


class TestFit:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_prepared_folder_gives_the_bits_that_memory_gives(self, kind, file, folder):
        groups, more = exfam.read(file, **COLUMNS), {"dropout": 0.2} if kind == "efa" else {}
        from_memory = make(kind, **more).fit(groups)
        mapped = make(kind, **more).fit(str(folder))
        assert same_bits(mapped, from_memory)
        assert mapped.score(folder) == from_memory.score(groups)
        assert mapped.schema_ == from_memory.schema_

    def test_with_every_kind_of_column(self, file, tmp_path):
        prepare(file, tmp_path / "more", **MORE)
        parameters = {**MORE, "known": ["gap"], "direction": "causal"}
        mapped = make("efa", **parameters).fit(tmp_path / "more")
        assert same_bits(mapped, make("efa", **parameters).fit(exfam.read(file, **MORE)))
        assert same_bits(mapped, make("efa", **parameters).fit(str(file)))
        assert mapped.vocabulary_["item"].tolist() == sorted(set(FRAME["movie"]))

    def test_with_validation_and_with_a_checkpoint_from_memory(self, file, folder, tmp_path):
        groups = exfam.read(file, **COLUMNS)
        prepare(groups[:6], tmp_path / "half")
        mapped = make("efa").fit(folder, validation=tmp_path / "half")
        assert same_bits(mapped, make("efa").fit(groups, validation=groups[:6]))
        first = make("efa").fit(groups, checkpoint=tmp_path / "kept")
        resumed = make("efa").fit(folder, checkpoint=tmp_path / "kept")
        assert same_bits(first, resumed)
        assert resumed.history_.rows == first.history_.rows  # CPU seconds too: it is the same fit


class TestAnswers:
    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_of_a_file_have_one_entry_a_row(self, tmp_path):
        estimator = fitted_on(FRAME, "efa", noise=0.3, support="none").set_params(unknown="ignore")
        twice = FRAME.iloc[[0, *range(len(FRAME))]]
        unseen = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
        for frame in (FRAME, twice, unseen):
            frame.to_csv(tmp_path / "rows.csv", index=False)
            nats = estimator.log_prob(tmp_path / "rows.csv")
            np.testing.assert_allclose(nats, estimator.log_prob(frame), rtol=1e-5)
            np.testing.assert_array_equal(np.isnan(nats), (frame["movie"] == "new").to_numpy())
            score = estimator.score(tmp_path / "rows.csv")
            assert score == pytest.approx(estimator.score(frame))

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_a_prepared_folder_have_one_entry_an_element(self, kind, folder, tmp_path):
        estimator = fitted_on(FRAME, kind)
        some = FRAME[FRAME["movie"] > "b"]  # whose codes are others
        prepare(some, tmp_path / "some", **COLUMNS)
        for path, frame in ((folder, FRAME), (tmp_path / "some", some)):
            groups, nats = open_prepared(path), estimator.log_prob(frame)
            expected = nats[groups.source_row[groups.elements()]]
            np.testing.assert_allclose(estimator.log_prob(path), expected, rtol=1e-4, atol=1e-5)
            assert np.isfinite(estimator.predict(path)).all()
            assert len(estimator.recommend(path, k=2).items) == len(groups)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_score_in_pieces_is_the_score(monkeypatch, weighted):
    estimator = fitted_on(FRAME, "efa", noise=0.3)
    weight = np.random.default_rng(0).random(len(FRAME)) if weighted else None
    whole = estimator.score_parts(FRAME, sample_weight=weight)
    monkeypatch.setattr(arrange, "ELEMENTS_PER_CHUNK", 7)
    pieces = estimator.score_parts(FRAME, sample_weight=weight)
    assert pieces == pytest.approx(whole, rel=1e-6)
    assert len(list(read_group_inputs(FRAME, FrameColumns(**COLUMNS)).pieces(None))) > 3
    with pytest.raises(ExfamError, match="must hold at least one target of positive weight"):
        estimator.score(FRAME, sample_weight=np.zeros(len(FRAME)))


class TestNames:
    @pytest.mark.parametrize(
        ("parameters", "match"),
        [
            ({"item": None}, "`item` must be as .* was prepared with, 'movie', got none"),
            ({"value": ["stars", "day"]}, "`value` must be as .*, 'stars', got 'stars', 'day'"),
            ({"order": "day"}, "`order` must be as .* or none at all to take the folder as it is"),
        ],
    )
    def test_others_than_the_folder_was_prepared_with(self, folder, parameters, match):
        with pytest.raises(DataError, match=match):
            make("efa", **parameters).fit(folder)

    def test_none_take_the_folder_as_it_is(self, folder, file, tmp_path):
        named = make("efa").fit(folder)
        assert same_bits(make("efa", group=None, item=None, value=None).fit(folder), named)
        prepare(exfam.read(file, **COLUMNS), tmp_path / "groups")  # of groups, which have no names
        assert same_bits(make("efa").fit(tmp_path / "groups"), named)

    def test_what_cannot_be_read_is_named(self, file, tmp_path):
        with pytest.raises(DataError, match="`group` must name the column of groups to read a fr"):
            make("efa", group=None).fit(file)
        with pytest.raises(DataError, match="nothing.csv"):
            make("efa").fit(tmp_path / "nothing.csv")


def test_planning_a_fit_takes_less_memory_than_a_column(tmp_path, monkeypatch):
    n_rows, length = 400_000, 100
    draw, start = np.random.default_rng(0), np.arange(0, n_rows, length)
    item = (np.arange(n_rows) * 7 + np.repeat(draw.integers(0, 200, len(start)), length)) % 200
    groups = Groups(
        start=start,
        stop=start + length,
        item=item,
        values={"stars": draw.normal(size=n_rows)},
        attributes={"genre": item % 7, "gap": draw.normal(size=n_rows)},
        position=np.cumsum(draw.random(n_rows)),
        observed=draw.random(n_rows) < 0.9,
        role=draw.integers(0, 2, n_rows),
        source_row=np.arange(n_rows),
    )
    prepare(groups, tmp_path / "large")
    monkeypatch.setattr(arrange, "ELEMENTS_PER_CHUNK", 1 << 12)
    monkeypatch.setattr(columns, "MAX_SAMPLE", 1 << 12)
    given = {"validation": tmp_path / "large", "sample_weight": None, "checkpoint": None}
    tracemalloc.start()
    plan = plan_fit(make("efa", group=None), tmp_path / "large", **given)
    log_frequencies(plan.train, 200)
    groups_digest(plan.train)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.support == "hard" and plan.schema.values[0].spread == pytest.approx(1, rel=0.01)
    assert peak < 8 * n_rows / 4
