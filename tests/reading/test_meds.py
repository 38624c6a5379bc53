"""MEDS files are frames of events."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exfam import DataError, EventEFA
from exfam.reading.meds import MEDS_COLUMNS, read_meds


def shard(path, first, n):
    start, random = datetime.datetime(2024, 1, 1), np.random.default_rng(first)
    hours = random.exponential(30, size=(n, 6)).cumsum(1).ravel()
    times = [start + datetime.timedelta(hours=float(hour)) for hour in hours]
    columns = {
        "subject_id": np.append(np.repeat(np.arange(first, first + n), 6), first),
        "time": pa.array([*times, None]),
        "code": [*(["ADMISSION", "LAB//1", "LAB//2"] * 2 * n), "GENDER//F"],
        "numeric_value": pa.array([None, 1.5, 2.0] * 2 * n + [None], pa.float32()),
    }
    pq.write_table(pa.table(columns), path)


def test_shards_of_a_folder_are_one_table_of_what_has_a_time(tmp_path):
    (tmp_path / "data" / "train").mkdir(parents=True)
    for number in range(2):
        shard(tmp_path / "data" / "train" / f"{number}.parquet", 10 * number, 3)
    table = read_meds(tmp_path)
    assert table.num_rows == 36 and table.column_names == [*MEDS_COLUMNS.values()]
    one = read_meds(tmp_path / "data" / "train" / "1.parquet")
    assert one["subject_id"].unique().to_pylist() == [10, 11, 12]
    model = EventEFA(**MEDS_COLUMNS, resolution=1 / 1440).fit(table)
    assert list(model.score_parts(table)) == ["time", "item", "numeric_value"]
    assert model.predict(table).to_frame().column("time").type == pa.timestamp("us")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="`path` must have Parquet files in it, got none"):
        read_meds(tmp_path)
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(DataError, match="`path` must be a Parquet file that is whole"):
        read_meds(tmp_path / "a.parquet")
    pq.write_table(pa.table({"subject_id": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="must have the columns of MEDS.*no 'time'"):
        read_meds(tmp_path)
