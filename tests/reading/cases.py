"""One small set of rows in every form that can be read, and equality of Groups to the last bit."""

import gzip
import sqlite3
from dataclasses import fields

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import exfam
from exfam.groups import Groups

# As group_cases.FRAME, but text and numbers only, which every form keeps.
ROWS = {
    "user": ["zoe", "adam", "zoe", "adam", "zoe", "eve"],
    "time": [3, 1, 2, 1, 2, 7],
    "movie": ["007", "007", "heat", "alien", "jaws", "007"],
    "stars": [5.0, None, 3.0, 1.0, 4.5, 2.0],
    "genre": ["kids", "kids", "crime", "sf", "sf", "kids"],
    "gap": [0.5, 1.5, 2.5, -3.5, 4.5, 5.0],
    "age": [30, 41, 30, 41, 30, 12],
}
COLUMNS = {
    "group": "user",
    "order": "time",
    "item": "movie",
    "value": "stars",
    "attributes": ["genre", "gap"],
    "group_attributes": ["age"],
    "position": ["time", "gap"],
}
# Little threads: the machine that tests run on may be busy.
FEW = {"threads": 1}


def write_csv(rows, path, **options):
    pd.DataFrame(rows).to_csv(path, index=False, **options)
    return path


def write_json(rows, path, **options):
    pd.DataFrame(rows).to_json(path, orient="records", lines=True, **options)
    return path


def write_parquet(rows, path):
    pq.write_table(pa.table(rows), path)
    return path


def write_sqlite(rows, path, table="shop"):
    connection = sqlite3.connect(path)
    pd.DataFrame(rows).to_sql(table, connection, index=False)
    connection.close()
    return path


def halves(rows):
    """The rows in two parts, the first the smaller."""
    cut = len(next(iter(rows.values()))) // 3
    return (
        {name: column[:cut] for name, column in rows.items()},
        {name: column[cut:] for name, column in rows.items()},
    )


def write_folder(rows, folder, ending=".csv"):
    folder.mkdir()
    writer = {".csv": write_csv, ".jsonl": write_json, ".parquet": write_parquet}[ending]
    for name, part in zip(("part-1", "part-2"), halves(rows), strict=True):
        writer(part, folder / f"{name}{ending}")
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden.csv").write_text("no")
    return folder


def pack(path):
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def of_file(write, name, **options):
    """What writes rows to a file of this name and returns the arguments of read."""
    return lambda rows, to: {"source": write(rows, to / name, **options)}


def of_database(source):
    return lambda rows, to: {
        "source": source,
        "database": f"sqlite:///{write_sqlite(rows, to / 'a.db')}",
    }


# name -> what writes rows into a folder and returns the arguments of read
FORMS = {
    "csv": of_file(write_csv, "a.csv"),
    "txt with semicolons": of_file(write_csv, "a.txt", sep=";"),
    "quoted csv": of_file(write_csv, "a.csv", quoting=2),
    "csv of Windows": of_file(write_csv, "a.csv", lineterminator="\r\n", encoding="utf-8-sig"),
    "tsv": of_file(write_csv, "a.tsv", sep="\t"),
    "packed csv": lambda rows, to: {"source": pack(write_csv(rows, to / "a.csv"))},
    "parquet": lambda rows, to: {"source": str(write_parquet(rows, to / "a.parquet"))},
    "json lines": of_file(write_json, "a.jsonl"),
    "packed json lines": lambda rows, to: {"source": pack(write_json(rows, to / "a.ndjson"))},
    "folder of csv": of_file(write_folder, "a"),
    "folder of parquet": of_file(write_folder, "a", ending=".parquet"),
    "folder of json lines": of_file(write_folder, "a", ending=".jsonl"),
    "glob": lambda rows, to: {"source": f"{write_folder(rows, to / 'a')}/part-*.csv"},
    "sqlite table": of_database("shop"),
    "sqlite query": of_database("SELECT * FROM shop; -- all of it"),
    "duckdb query": lambda rows, to: {
        "source": f"  from '{write_parquet(rows, to / 'a.parquet')}' select *; -- all of it"
    },
}


def read(source, **changes):
    return exfam.read(source, **(COLUMNS | FEW | changes))


def assert_identical(left, right):
    """Equal in every field, dtypes included."""
    for field in fields(Groups):
        ours, theirs = getattr(left, field.name), getattr(right, field.name)
        if not isinstance(ours, dict):
            ours, theirs = {"": ours}, {"": theirs}
        assert list(ours) == list(theirs), field.name
        for name in ours:
            _assert_alike(ours[name], theirs[name], f"{field.name} {name}")


def _assert_alike(ours, theirs, name):
    assert (ours is None) == (theirs is None), name
    if isinstance(ours, bool):
        assert ours == theirs, name
    elif ours is not None:
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, name)
