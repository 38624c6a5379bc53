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


# name -> what writes rows into a folder and returns the arguments of read
FORMS = {
    "csv": lambda rows, to: {"source": write_csv(rows, to / "a.csv")},
    "txt with semicolons": lambda rows, to: {"source": write_csv(rows, to / "a.txt", sep=";")},
    "quoted csv": lambda rows, to: {"source": write_csv(rows, to / "a.csv", quoting=2)},
    "csv of Windows": lambda rows, to: {
        "source": write_csv(rows, to / "a.csv", lineterminator="\r\n", encoding="utf-8-sig")
    },
    "tsv": lambda rows, to: {"source": write_csv(rows, to / "a.tsv", sep="\t")},
    "packed csv": lambda rows, to: {"source": pack(write_csv(rows, to / "a.csv"))},
    "parquet": lambda rows, to: {"source": str(write_parquet(rows, to / "a.parquet"))},
    "json lines": lambda rows, to: {"source": write_json(rows, to / "a.jsonl")},
    "packed json lines": lambda rows, to: {"source": pack(write_json(rows, to / "a.ndjson"))},
    "folder of csv": lambda rows, to: {"source": write_folder(rows, to / "a")},
    "folder of parquet": lambda rows, to: {"source": write_folder(rows, to / "a", ".parquet")},
    "folder of json lines": lambda rows, to: {"source": write_folder(rows, to / "a", ".jsonl")},
    "glob": lambda rows, to: {"source": f"{write_folder(rows, to / 'a')}/part-*.csv"},
    "sqlite table": lambda rows, to: {
        "source": "shop",
        "database": f"sqlite:///{write_sqlite(rows, to / 'a.db')}",
    },
    "sqlite query": lambda rows, to: {
        "source": "SELECT * FROM shop; -- all of it",
        "database": f"sqlite:///{write_sqlite(rows, to / 'a.db')}",
    },
    "duckdb query": lambda rows, to: {
        "source": f"  from '{write_parquet(rows, to / 'a.parquet')}' select *; -- all of it"
    },
}


def read(source, **changes):
    return exfam.read(source, **(COLUMNS | FEW | changes))


def assert_identical(one, other):
    """Equal in every field, dtypes included."""
    for field in fields(Groups):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, bool):
            assert ours == theirs, field.name
        elif isinstance(ours, dict):
            assert list(ours) == list(theirs), field.name
            for name in ours:
                _assert_alike(ours[name], theirs[name], f"{field.name} {name}")
        else:
            _assert_alike(ours, theirs, field.name)


def _assert_alike(ours, theirs, name):
    assert (ours is None) == (theirs is None), name
    if ours is not None:
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, name)
