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
        groups = exfam.read(file, **COLUMNS)
        from_memory = (
            make(kind, dropout=0.2).fit(groups) if kind == "efa" else make(kind).fit(groups)
        )
        mapped = make(kind, dropout=0.2) if kind == "efa" else make(kind)
        assert same_bits(mapped.fit(str(folder)), from_memory)
        assert mapped.score(folder) == from_memory.score(groups)
        assert mapped.schema_ == from_memory.schema_

    def test_with_every_kind_of_column(self, file, tmp_path):
        prepare(file, tmp_path / "more", **MORE)
        parameters = {**MORE, "known": ["gap"], "direction": "causal"}
        mapped = make("efa", **parameters).fit(tmp_path / "more")
        assert same_bits(mapped, make("efa", **parameters).fit(exfam.read(file, **MORE)))
        assert same_bits(mapped, make("efa", **parameters).fit(file))

    def test_a_file_gives_the_bits_that_its_groups_give(self, file):
        from_file = make("efa").fit(str(file))
        assert same_bits(from_file, make("efa").fit(exfam.read(file, **COLUMNS)))
        assert from_file.vocabulary_["item"].tolist() == sorted(set(FRAME["movie"]))

    def test_validation_may_be_another_folder(self, file, folder, tmp_path):
        half = exfam.read(file, **COLUMNS)[:6]
        prepare(half, tmp_path / "half")
        mapped = make("efa").fit(folder, validation=tmp_path / "half")
        assert same_bits(mapped, make("efa").fit(exfam.read(file, **COLUMNS), validation=half))

    def test_a_checkpoint_from_memory_is_one_of_the_mapped_fit(self, file, folder, tmp_path):
        first = make("efa").fit(exfam.read(file, **COLUMNS), checkpoint=tmp_path)
        resumed = make("efa").fit(folder, checkpoint=tmp_path)
        assert same_bits(first, resumed)
        assert resumed.history_.rows == first.history_.rows  # CPU seconds too: it is the same fit


class TestAnswers:
    def test_of_a_file_have_one_entry_a_row(self, file):
        estimator = fitted_on(FRAME, "efa", noise=0.3)
        assert estimator.log_prob(file).shape == (len(FRAME),)
        np.testing.assert_allclose(estimator.log_prob(file), estimator.log_prob(FRAME), rtol=1e-5)
        np.testing.assert_allclose(estimator.predict(file), estimator.predict(FRAME), rtol=1e-5)
        assert estimator.score(file) == pytest.approx(estimator.score(FRAME))

    @pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
    def test_of_rows_that_are_left_out_are_missing(self, tmp_path):
        estimator = fitted_on(FRAME, "efa", noise=0.3).set_params(unknown="ignore")
        unseen = FRAME.assign(movie=FRAME["movie"].replace("b", "new"))
        unseen.to_csv(tmp_path / "unseen.csv", index=False)
        nats = estimator.log_prob(tmp_path / "unseen.csv")
        np.testing.assert_array_equal(np.isnan(nats), (unseen["movie"] == "new").to_numpy())
        np.testing.assert_allclose(nats, estimator.log_prob(unseen), rtol=1e-5)

    def test_duplicate_rows_keep_their_places(self, tmp_path):
        estimator = fitted_on(FRAME, "efa", noise=0.3, support="none")
        twice = FRAME.iloc[[0, *range(len(FRAME))]]
        twice.to_csv(tmp_path / "twice.csv", index=False)
        nats = estimator.log_prob(tmp_path / "twice.csv")
        assert nats.shape == (len(FRAME) + 1,)
        np.testing.assert_allclose(nats, estimator.log_prob(twice), rtol=1e-5)

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_a_prepared_folder_have_one_entry_an_element(self, kind, file, folder):
        estimator = fitted_on(FRAME, kind)
        groups = open_prepared(folder)
        rows = groups.source_row[groups.elements()]
        whole = estimator.log_prob(FRAME)
        np.testing.assert_allclose(estimator.log_prob(folder), whole[rows], rtol=1e-4, atol=1e-5)
        assert np.isfinite(estimator.predict(folder)).all()
        if kind != "shrunk-offset":
            assert len(estimator.recommend(folder, k=2).items) == len(groups)

    def test_codes_of_another_vocabulary_are_recoded(self, file, tmp_path):
        estimator = fitted_on(FRAME, "efa", noise=0.3)
        some = FRAME[FRAME["movie"] > "b"]
        again = prepare(some, tmp_path / "some", **COLUMNS)
        assert again.n_items < 6
        rows = again.source_row[again.elements()]
        np.testing.assert_allclose(
            estimator.log_prob(tmp_path / "some"), estimator.log_prob(some)[rows], rtol=1e-5
        )


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
            ({"group": "movie"}, "`group` must be as .* was prepared with, 'user', got 'movie'"),
            ({"item": None}, "`item` must be as .*, 'movie', got none"),
            ({"value": ["stars", "day"]}, "`value` must be as .*, 'stars', got 'stars', 'day'"),
            ({"attributes": ["gap"]}, "`attributes` must be as .*, none, got 'gap'. Pass the same"),
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
        assert same_bits(make("efa").fit(tmp_path / "groups"), make("efa").fit(file))

    def test_a_file_needs_them(self, file):
        with pytest.raises(DataError, match="`group` must name the column of groups to read a fr"):
            make("efa", group=None).fit(file)

    def test_a_path_of_nothing(self, tmp_path):
        with pytest.raises(DataError, match="nothing.csv"):
            make("efa").fit(tmp_path / "nothing.csv")

    def test_a_damaged_folder(self, folder, tmp_path):
        prepare(Groups(start=[0], stop=[2], item=[0, 1]), tmp_path / "cut")
        with (tmp_path / "cut" / "item.npy").open("rb+") as file:
            file.truncate(130)
        with pytest.raises(DataError, match="item.npy must have 136 bytes, got 130"):
            make("efa", group=None).fit(tmp_path / "cut")


N_ROWS, LENGTH = 400_000, 100


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Mapped groups with every kind of column; no item twice in a group."""
    draw, start = np.random.default_rng(0), np.arange(0, N_ROWS, LENGTH)
    item = (np.arange(N_ROWS) * 7 + np.repeat(draw.integers(0, 200, len(start)), LENGTH)) % 200
    groups = Groups(
        start=start,
        stop=start + LENGTH,
        item=item,
        values={"stars": draw.normal(size=N_ROWS)},
        attributes={"genre": item % 7, "gap": draw.normal(size=N_ROWS)},
        position=np.cumsum(draw.random(N_ROWS)),
        observed=draw.random(N_ROWS) < 0.9,
        role=draw.integers(0, 2, N_ROWS),
        source_row=np.arange(N_ROWS),
    )
    folder = tmp_path_factory.mktemp("large") / "prepared"
    prepare(groups, folder)
    return folder


@pytest.mark.parametrize("validated", [False, True])
def test_planning_a_fit_takes_less_memory_than_a_column(large, monkeypatch, validated):
    monkeypatch.setattr(arrange, "ELEMENTS_PER_CHUNK", 1 << 12)
    monkeypatch.setattr(columns, "MAX_SAMPLE", 1 << 12)
    estimator = make("efa", group=None)
    more = {"validation": large if validated else None, "sample_weight": None, "checkpoint": None}
    tracemalloc.start()
    plan = plan_fit(estimator, large, **more)
    log_frequencies(plan.train, 200)
    groups_digest(plan.train)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.support == "hard" and plan.schema.values[0].spread == pytest.approx(1, rel=0.01)
    assert peak < 8 * N_ROWS / 4
