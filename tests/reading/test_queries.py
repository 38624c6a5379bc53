"""SQL: DuckDB's own, SQLite, and a Postgres server of the test's own."""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import exfam
from exfam.checks import DataError, ExfamError
from exfam.groups import Groups
from exfam.reading import queries
from exfam.reading.database import ReadingOptions, open_database
from reading.cases import COLUMNS, FEW, ROWS, assert_identical, read, write_parquet, write_sqlite


class TestDuckDB:
    def test_a_query_gives_the_rows_and_their_order(self, tmp_path):
        path = write_parquet(ROWS, tmp_path / "a.parquet")
        groups = read(f"select * from '{path}' where stars > 1.5 order by stars desc", order=None)
        assert groups.values["stars"].tolist() == [5, 4.5, 3, 2]
        assert groups.source_row.tolist() == [0, 1, 2, 3]
        query = f"WITH few AS (FROM '{path}') SELECT user AS u, upper(movie) AS m FROM few"
        groups = exfam.read(query, group="u", item="m", **FEW)
        assert groups.vocabulary["item"].tolist() == ["007", "ALIEN", "HEAT", "JAWS"]

    def test_all_types_that_are_labels_or_numbers(self):
        query = (
            "SELECT uuid AS g, i::HUGEINT AS h, i::DECIMAL(9, 2) AS d, i::UTINYINT AS u, "
            "('abc'[i])::ENUM('b', 'a', 'c') AS e, i::FLOAT AS f "
            "FROM (SELECT i, ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1' || i)::UUID AS uuid "
            "FROM range(1, 4) t(i))"
        )
        columns = {"item": "d", "value": ["h", "u", "f"], "attributes": "e"}
        groups = exfam.read(query, group="g", **columns, **FEW)
        assert groups.group_names[2] == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13"
        assert groups.vocabulary["item"].tolist() == [1, 2, 3]
        assert groups.vocabulary["e"].tolist() == ["a", "b", "c"]
        for name, dtype in (("h", np.float64), ("u", np.int64), ("f", np.float32)):
            assert groups.values[name].tolist() == [1, 2, 3]
            assert groups.values[name].dtype == dtype

    @pytest.mark.parametrize(
        "query, match",
        [
            ("SELECT 1 AS user; SELECT 2 AS user", "`source` must be one query, got 'SELECT 1 AS"),
            ("WITH a AS (SELECT 1) DELETE FROM b", "`source` must be one query, got 'WITH a"),
            ("SELECT (", "must be a query that can be run, got 'SELECT .*: Parser Error"),
            ("SELECT 'x'::INT AS user", "must be a query that can be run, .*: Conversion Error"),
            ("SELECT 1 AS who", "`group` must name a column of the source, got 'user' in the quer"),
            ("FROM range(9) SELECT range AS user WHERE false", "must have at least one row, got n"),
            ("FROM 'https://example.org/a.parquet'", "must be a query that can be run, .*httpfs"),
        ],
    )
    def test_what_cannot_be_run(self, query, match):
        with pytest.raises(DataError, match=match):
            exfam.read(query, group="user", **FEW)

    def test_variables_of_python_are_no_tables_and_nothing_is_downloaded(self):
        here = pa.table({"user": [1]})
        with open_database(ReadingOptions(threads=1)) as database:
            database.con.register("there", here)
            assert database.con.sql("FROM there").fetchall() == [(1,)]
            with pytest.raises(duckdb.Error, match="Table with name here does not exist"):
                database.con.sql("FROM here")
            for what in ("autoinstall", "autoload"):
                query = f"SELECT current_setting('{what}_known_extensions')"
                assert database.row(query) == (False,)

    def test_a_file_may_be_called_like_a_query(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_parquet(ROWS, tmp_path / "from here.parquet")
        assert len(read("from here.parquet")) == 3


@pytest.fixture
def shop(tmp_path):
    return f"sqlite:///{write_sqlite(ROWS, tmp_path / 'shop.db')}"


class TestSQLite:
    def test_rows_come_in_batches_and_the_order_of_a_query(self, shop, monkeypatch):
        monkeypatch.setattr(queries, "ROWS_A_BATCH", 2)
        assert_identical(read("shop", database=shop), Groups.from_frame(ROWS, **COLUMNS))
        groups = read("SELECT * FROM shop ORDER BY gap", database=shop, order=None)
        assert groups.values["stars"][0] == 1 and groups.group_names[0] == "adam"

    def test_nothing_is_written(self, shop):
        for query in ("CREATE TABLE x (a)", "WITH a AS (SELECT 1) DELETE FROM shop"):
            with pytest.raises(DataError, match="`source` must be a query that can be run"):
                read(query, database=shop)
        assert len(read("shop", database=shop)) == 3

    @pytest.mark.parametrize(
        "query, match",
        [
            ("nowhere", "must be a query that can be run, got 'nowhere': no such table: nowhere"),
            ("SELECT 1 AS user; SELECT 2 AS user", "one statement at a time"),
            ("SELECT 1 AS who", "`group` must name a column .* got 'user' in the query"),
            ("SELECT 1 AS user, 2 AS user", "one column of each name, got 'user' twice in the que"),
            ("SELECT x'00' AS user", r"`group` must hold labels .* got b'\\x00' at row 0"),
            ("SELECT CAST(x'ff' AS TEXT) AS user", "query that can be run, .*Could not decode to"),
            (
                "SELECT NULL AS user UNION ALL SELECT 7 UNION ALL SELECT 7.0 UNION ALL SELECT 'x'",
                "`group` must hold values of one plain type, got 'x' at row 3 of column 'user', "
                "where row 1 has 7. CAST the column in a query",
            ),
        ],
    )
    def test_what_cannot_be_run(self, query, match, shop):
        with pytest.raises(DataError, match=match):
            exfam.read(query, group="user", database=shop, **FEW)

    def test_types_are_those_of_the_cells(self, shop):
        query = "SELECT 'a' AS g, 1 AS n, 2.5 AS x, NULL AS y UNION ALL SELECT 'b', 2, 3, NULL"
        groups = exfam.read(query, group="g", value=["n", "x", "y"], database=shop, **FEW)
        assert [column.dtype for column in groups.values.values()] == [np.int64] + [np.float64] * 2
        assert groups.values["x"].tolist() == [2.5, 3] and np.isnan(groups.values["y"]).all()

    def test_a_database_must_be_there(self, tmp_path):
        with pytest.raises(DataError, match="`database` must name a database file, got '.*no.db'"):
            exfam.read("rows", group="user", database=f"sqlite:///{tmp_path / 'no.db'}")
        (tmp_path / "text.db").write_text("This is no database, whatever its name may say. " * 99)
        with pytest.raises(DataError, match="file is not a database"):
            exfam.read("rows", group="user", database=f"sqlite:///{tmp_path / 'text.db'}")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of a server that lives as long as this module's tests."""
    pytest.importorskip("adbc_driver_postgresql", reason="the extra sql is not installed")
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.get_exec_path())]
    programs = next((folder for folder in folders if (folder / "initdb").exists()), None)
    if programs is None:
        pytest.skip("no Postgres server is installed: there is no initdb")
    home, user = Path(tempfile.mkdtemp()), []
    if os.geteuid() == 0:
        # Postgres refuses to be root.
        if shutil.which("setpriv") is None:
            pytest.skip("Postgres does not run as root, and there is no setpriv")
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chown(home, 65534, 65534)

    def run(program, *arguments):
        command = [*user, str(programs / program), "-D", str(home / "data"), *arguments]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run("initdb", "-A", "trust", "-U", "exfam", "--no-sync", "-E", "UTF8")
        # Only a socket in its own folder: no port that others could use.
        options = f"-F -k {home} -c listen_addresses="
        run("pg_ctl", "-o", options, "-l", str(home / "log"), "-w", "start")
        yield f"postgresql:///postgres?host={home}&user=exfam"
        run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def connect(postgres):
    dbapi = importlib.import_module("adbc_driver_postgresql.dbapi")
    with dbapi.connect(postgres) as con, con.cursor() as cursor:
        cursor.adbc_ingest("shop", pa.table(ROWS), mode="create")
        cursor.execute("CREATE SEQUENCE one")
        con.commit()
    return {"database": postgres} | FEW


class TestPostgres:
    @pytest.mark.parametrize("source", ["shop", "public.shop", "SELECT * FROM shop -- all\n;"])
    def test_tables_and_queries_are_read(self, source, connect):
        assert_identical(read(source, **connect), Groups.from_frame(ROWS, **COLUMNS))

    def test_types_that_are_labels_or_numbers(self, connect):
        query = """
            SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS g, 7.25::numeric AS n,
                12345678901::numeric(20) AS id, 'x'::varchar(9) AS v, 3::smallint AS s,
                2.5::real AS r, true AS b, timestamptz '2024-01-03 12:00+00' AS t
            UNION ALL SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', 'NaN', 5, 'y', 4, 1, false,
                timestamptz '2024-01-02 00:00+00'
        """
        columns = {"item": "id", "value": ["n", "s", "r"], "attributes": ["v", "b"]}
        groups = exfam.read(query, group="g", position="t", **columns, **connect)
        assert groups.group_names[0] == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
        assert groups.vocabulary["item"].tolist() == [5, 12345678901]
        np.testing.assert_array_equal(groups.values["n"], [7.25, np.nan])
        assert groups.has_value("n", slice(None)).tolist() == [True, False]
        assert groups.values["s"].tolist() == [3, 4] and groups.values["r"].tolist() == [2.5, 1]
        assert groups.vocabulary["v"].tolist() == ["x", "y"]
        assert groups.vocabulary["b"].tolist() == [False, True]
        assert groups.position[0] - groups.position[1] == 1.5

    @pytest.mark.parametrize(
        ("query", "match"),
        [
            ("nowhere", "query that can be run, got 'nowhere': .*relation"),
            ("SELECT 1 AS user", "`group` must name a column .* got 'g' in the query"),
            ("SELECT ARRAY[1] AS g", r"`group` must hold labels .* got \[1\] at row 0"),
            ("SELECT '1.2.3.4'::inet AS g", "`group` must hold labels .* at row 0"),
            ("SELECT 1 / (g - 1) AS g FROM generate_series(1, 2) AS g", "division by zero"),
            ("SELECT nextval('one') AS g", "cannot execute nextval.* in a read-only transaction"),
        ],
    )
    def test_what_cannot_be_run(self, query, match, connect):
        with pytest.raises(DataError, match=match):
            exfam.read(query, group="g", **connect)

    def test_a_server_must_be_there(self, postgres):
        absent = postgres.replace("/postgres?", "/nowhere?")
        with pytest.raises(DataError, match='database "nowhere" does not exist') as error:
            exfam.read("shop", group="user", database=absent)
        assert "host=" not in str(error.value)

    def test_the_driver_must_be_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
        match = r"`database` must have its driver installed, got none .* pip install 'exfam\[sql\]'"
        with pytest.raises(ExfamError, match=match):
            exfam.read("shop", group="user", database="postgresql:///shop", **FEW)
