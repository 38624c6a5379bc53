"""Spark data frames: the folder that one machine would write, byte for byte, or the same error."""

import os
import shutil
import sys
from datetime import date
from decimal import Decimal
from importlib import util
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import exfam
import test_distributed
from exfam.checks import DataError, ExfamError
from exfam.columns.parts import Part
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.database import SqlColumn
from exfam.reading.text import prepare_text
from exfam.spark import count_pairs, count_words, merging, prepare
from test_distributed import ROWS, left, prepared_toys
from toy_fit import RowModel, toy_fit

COLUMNS = {
    "group": "user",
    "order": ["when", "step"],
    "item": "movie",
    "value": ["stars", "count", "seen"],
    "attributes": ["genre", "price"],
    "group_attributes": "home town",
    "position": "when",
}
# Small jobs: nothing is worth compiling well.
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
}


@pytest.fixture(scope="module")
def session():
    if util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("pyspark or Java is not installed")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]")
    for name, setting in SETTINGS.items():
        builder = builder.config(name, setting)
    with pytest.MonkeyPatch.context() as patch:
        # Executors take the first Python on the path unless they are given one that has exfam.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.getOrCreate()
        yield session
        session.stop()


pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def table(n_rows=60, *, seed=0):
    """Rows of every kind of column, some equal, in no order."""
    draw = np.random.default_rng(seed)
    user = draw.integers(0, 9, n_rows)
    columns = {
        "home town": pa.array([f"tøwn {k % 3}" for k in user]),
        "user": pa.array([f"u{k}" for k in user]),
        "movie": pa.array([Decimal(int(k)) for k in draw.integers(0, 5, n_rows)]),
        "stars": pa.array(draw.choice([1.5, 2.5, -999.0, -0.0], n_rows), pa.float32()),
        "count": pa.array([None if k == 3 else k for k in draw.integers(0, 9, n_rows)], pa.int64()),
        "seen": pa.array(draw.integers(0, 2, n_rows) > 0),
        "genre": pa.array(draw.choice(["a", "é", "Z"], n_rows)),
        "price": pa.array([Decimal(f"{k}.25") for k in draw.integers(0, 3, n_rows)]),
        "when": pa.array([date(1969, 12, 30 + k) for k in draw.integers(0, 2, n_rows)]),
        "step": pa.array([f"t{k}" for k in draw.integers(8, 12, n_rows)]),
    }
    rows = pa.table(columns)
    return pa.concat_tables([rows, rows.slice(0, 7)])


def assert_same_files(folder, other):
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in other.iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


def test_spark_writes_the_folder_that_one_machine_writes(session, tmp_path):
    rows = session.createDataFrame(table()).repartition(4).cache()
    options = {"duplicates": "drop", "missing": -999, "unknown": "ignore"}
    options["vocabulary"] = {"item": [3, 1, 4, 0], "genre": ["Z", "é", "a", "b"]}
    groups = prepare(rows, tmp_path / "spark", partitions=2, **COLUMNS, **options)
    assert groups.ignored.sum() > 0 and groups.tied.any() and len(groups) == 9
    exfam.prepare(rows.toArrow(), tmp_path / "alone", **COLUMNS, **options)
    assert_same_files(tmp_path / "spark", tmp_path / "alone")
    assert {path.name for path in tmp_path.iterdir()} == {"spark", "alone"}


def same_error(frame, folder, **options):
    """What Spark and one machine both say of these rows; nothing is left behind."""
    messages = []
    for write, rows in ((prepare, frame), (exfam.prepare, frame.toArrow())):
        with pytest.raises(DataError, match="must") as caught:
            write(rows, folder / "prepared", **options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and not list(folder.iterdir())
    return messages[0]


def test_spark_refuses_what_one_machine_refuses(session, tmp_path):
    rows = session.createDataFrame(table(20)).coalesce(1).cache()
    columns = {"group": "user", "item": "movie", "attributes": "genre"}
    assert "got row 20 equal to row 0 in 'user', 'mov" in same_error(rows, tmp_path, **columns)
    gap = {"group": "user", "order": "step", "item": "count"}
    assert "`item` must not be missing, got nothing at" in same_error(rows, tmp_path, **gap)
    with pytest.raises(DataError, match="`item` must name a column of the dataframe, got 'x'. It"):
        prepare(rows, tmp_path / "prepared", group="user", item="x")
    years = session.sql("SELECT 'a' AS user, INTERVAL '1' YEAR AS length")
    with pytest.raises(DataError, match="`value` must be of a type that Arrow has, got interval y"):
        prepare(years, tmp_path / "prepared", group="user", value="length")
    with pytest.raises(DataError, match="have all of its rows, got one that is streamed. Write t"):
        prepare(session.readStream.format("rate").load(), tmp_path / "prepared", group="value")
    assert not list(tmp_path.iterdir())


def test_only_frames_of_spark_are_taken(tmp_path, monkeypatch):
    if util.find_spec("pyspark") is not None:
        with pytest.raises(DataError, match="data frame of Spark, got dict. exfam.prepare takes"):
            prepare({"user": [1]}, tmp_path / "prepared", group="user")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(ExfamError, match=r"pyspark must be installed.*\[spark\]"):
        prepare({"user": [1]}, tmp_path / "prepared", group="user")


@given(
    n_parts=st.integers(1, 4),
    size=st.integers(1, 5),
    cut=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
)
def test_parts_become_one_sorted_stream(tmp_path_factory, n_parts, size, cut, seed):
    draw, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("parts")
    rows = pa.table({name: draw.integers(0, 5, 40) for name in ("group", "o0", "e0")})
    rows = rows.append_column("row", pa.array(np.arange(40)))
    group = rows["group"].to_numpy()
    first = np.array([np.flatnonzero(group == own)[0] for own in group])
    rows = rows.append_column("first", pa.array(first)).append_column("twin", pa.array([-1] * 40))
    ordered = rows.sort_by([(name, "ascending") for name in ("first", "o0", "row")])
    part = draw.integers(0, n_parts, 5)[ordered["group"].to_numpy()]
    for number in range(n_parts):
        own = ordered.filter(pa.array(part == number))
        # A partition may be written into several files.
        for k, piece in enumerate((own.slice(0, cut), own.slice(cut))):
            pq.write_table(piece, folder / f"part-{number:05d}-x-c{k:03d}.parquet")
    columns = {Part(name, name): SqlColumn("", pa.int64()) for name in ("group", "order", "value")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "ROWS_AT_ONCE", size)
        patch.setattr(merging, "FEWEST_ROWS", size)
        pieces = list(merging.merge_prepared(folder, columns, n_rows=40))
    merged = {
        "row": np.concatenate([piece.source_row for piece in pieces]),
        "e0": np.concatenate([piece.columns[Part("value", "value")] for piece in pieces]),
        "group": np.concatenate([piece.group for piece in pieces]),
        "run": np.concatenate([piece.run for piece in pieces]),
    }
    for name in ("row", "e0"):
        np.testing.assert_array_equal(merged[name], ordered[name].to_numpy())
    keys = np.stack([ordered["first"].to_numpy(), ordered["o0"].to_numpy()])
    changes = np.diff(keys, axis=1) != 0
    np.testing.assert_array_equal(merged["group"], np.append(0, np.cumsum(changes[0])))
    np.testing.assert_array_equal(merged["run"], np.append(0, np.cumsum(changes.any(axis=0))))
    with pytest.raises(DataError, match="shares with all of Spark's executors, got 40 of 41 rows"):
        list(merging.merge_prepared(folder, columns, n_rows=41))


TEXTS = ["a b a c", "ünï a b", "", "b\u2003a\nrare b", "c c a b d", "d b a Ünï b a"]


@pytest.mark.parametrize("weights", ["flat", "harmonic"])
def test_words_and_pairs_are_counted_as_on_one_machine(session, weights, monkeypatch):
    texts = session.createDataFrame(pa.table({"text": TEXTS * 20})).repartition(3)
    found = count_words(texts, column="text", min_count=21, lower=True)
    text = prepare_text(TEXTS * 20, min_count=1, lower=True)
    known = prepare_text(TEXTS * 20, min_count=21, lower=True).vocabulary
    assert found.words == known.words and found.n_tokens == known.n_tokens
    np.testing.assert_array_equal(found.counts, known.counts)
    options = {"window": 3, "weights": weights}
    pairs = count_pairs(texts, known, column="text", lower=True, **options)
    expected = count_cooccurrences(text.tokens, len(known), **options)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(pairs, name), getattr(expected, name), strict=True)


# Spark leaves what it reads the ranks' output from to be closed with it.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_ranks_that_spark_starts_end_as_one_process(session, tmp_path, monkeypatch):
    from pyspark.ml.torch.distributor import TorchDistributor

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    data = prepared_toys(tmp_path)
    distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
    distributor.run(test_distributed.__file__, str(tmp_path), "rows")
    model, _ = toy_fit(RowModel(**ROWS), **data)
    for rank in range(2):
        tensors, *_ = left(tmp_path, "rows", rank)
        assert_close(tensors, dict(model.state_dict()), rtol=1e-5, atol=1e-5)


def test_texts_that_cannot_be_counted_are_refused(session):
    texts = session.createDataFrame(pa.table({"text": ["a b", "c"], "n": [1, 2]})).coalesce(1)
    with pytest.raises(DataError, match="two words or more that are read 2 times, got 0 among 3"):
        count_words(texts, column="text", min_count=2)
    with pytest.raises(DataError, match="must hold texts, or lists of words, got bigint in colum"):
        count_words(texts, column="n", min_count=1)
    gap = session.createDataFrame(pa.table({"text": ["a b", None]})).coalesce(1)
    with pytest.raises(DataError, match="must"):
        count_words(gap, column="text", min_count=1)
