"""What is read in one pass is what is read in several; words of packed columns sort as these do."""

import subprocess
import sys
import warnings

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exfam
from exfam.checks import DataError
from exfam.reading import delimited
from exfam.reading.packing import PackedField, packed
from reading.cases import FEW, assert_identical, write_parquet

WORDS = ("1", "2", "-3", "007", "1.5", "2.0", "", "NA", "nan", "-nan", "x", "oat milk", "true")
CELLS = (*WORDS, "1,5", "1_0", "1e5", " 7", "inf", "12 345", "2024-01-02", '"NA"')
COLUMNS = {"group": "g", "item": "i", "order": "o", "value": "v", "attributes": "a"}


@st.composite
def files(draw):
    """Columns of cells that are mostly alike."""
    n = draw(st.integers(1, 5))
    columns = []
    for _ in COLUMNS:
        pool = st.sampled_from(draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=2)))
        columns.append(draw(st.lists(pool, min_size=n, max_size=n)))
    rows = [";".join(cells) for cells in zip(*columns, strict=True)]
    return "\n".join([";".join(COLUMNS.values()), *rows]) + "\n"


def outcome(path, **options):
    """The groups that are read, or the error; and what is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            read = exfam.read(path, **COLUMNS, duplicates="keep", **options, **FEW)
        except DataError as error:
            read = str(error)
    return read, [str(warning.message) for warning in caught]


GIVEN = (None, {"item": [1, 2, 7]}, {"item": ["1", "x", "NA"]}, {"a": ["x", "1.5"]}, {"a": [1, 2]})


@given(text=files(), known=st.sampled_from(GIVEN), first=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_one_pass_reads_what_several_read(text, known, first, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "a.csv"
    path.write_text(text)
    options = {"vocabulary": known, "unknown": "unk"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "FIRST_ROWS", 0)
        expected, warned = outcome(path, **options)
        patch.setattr(delimited, "FIRST_ROWS", first)
        read, likewise = outcome(path, **options)
    assert likewise == warned
    if isinstance(expected, str):
        assert read == expected
    else:
        assert_identical(read, expected)


PLAIN = {"g": ["a", "b"], "i": ["7", "8"], "o": ["3", "4"], "v": ["1.5", ""], "a": ["x", "y"]}


@pytest.mark.parametrize("last, n_passes", [("9", 1), ("nine", 3)])
def test_cells_are_looked_at_once_where_they_are_as_the_first(
    last, n_passes, tmp_path, monkeypatch
):
    passes = []

    def counted(own):
        def called(*args, most=None, **options):
            passes.extend([] if most else [own])
            return own(*args, **options | ({"most": most} if most else {}))

        return called

    for name in ("read_cells", "staged"):
        monkeypatch.setattr(delimited, name, counted(getattr(delimited, name)))
    monkeypatch.setattr(delimited, "FIRST_ROWS", 2)
    rows = [*zip(*PLAIN.values(), strict=True), ("c", last, "5", "2.5", "z")]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(";".join(row) for row in [COLUMNS.values(), *rows]))
    outcome(path)
    assert len(passes) == n_passes


def test_whole_numbers_are_read_without_pandas(tmp_path):
    path = write_parquet({"g": [2, 1], "i": [7, 8], "v": [1.5, 2.5]}, tmp_path / "a.parquet")
    script = (
        "import exfam, sys\n"
        f"exfam.read({str(path)!r}, group='g', item='i', value='v')\n"
        "sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


whole = st.integers(-(2**63), 2**63 - 1)


@given(
    table=st.lists(st.tuples(whole, st.integers(-5, 5), st.integers(0, 2**40), whole), min_size=1),
)
@settings(max_examples=20, deadline=None)
def test_words_hold_their_fields_and_sort_as_these_do(table):
    columns = [np.array(column) for column in zip(*table, strict=True)]
    fields = [
        PackedField(f"f{k}", f"f{k}", int(column.min()), int(column.max()))
        for k, column in enumerate(columns)
    ]
    words = packed(fields)
    assert 1 <= len(words) <= len(fields)
    assert [field for word in words for field in word.fields] == fields
    listed = ", ".join(f"{word.sql} AS {word.name}" for word in words)
    values = ", ".join(map(str, table))
    with duckdb.connect() as con:
        query = f"SELECT {listed} FROM (VALUES {values}) AS t(f0, f1, f2, f3) ORDER BY ALL"
        rows = con.sql(query).to_arrow_table()
    held = {}
    for word in words:
        held |= word.unpacked(rows[word.name].combine_chunks())
    unpacked = [np.asarray(held[field.name]).tolist() for field in fields]
    assert [*zip(*unpacked, strict=True)] == sorted(table)
