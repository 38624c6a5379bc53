"""Spark as what answers queries, and a data frame as a table of it. pyspark is imported late."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError, ExfamError
from exfam.columns.parts import Origin, Part, check_named
from exfam.columns.rules import is_moment, plain_type
from exfam.reading.database import SqlColumn, Table

# Rows of a partition are numbered from its own number times this.
_ROWS_A_PARTITION = 1 << 33
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def check_frame(dataframe: Any) -> None:
    """Raise unless this is a data frame of Spark's whose rows are all there.

    ExfamError where pyspark is missing, DataError for anything else.
    """
    try:
        frames = import_module("pyspark.sql")
    except ImportError as error:
        raise ExfamError(
            "pyspark must be installed to read data frames of Spark, which needs Java 17 or newer. "
            'Run: pip install "exfam[spark]".'
        ) from error
    if not isinstance(dataframe, frames.DataFrame):
        raise DataError(
            f"`dataframe` must be a data frame of Spark, got {type(dataframe).__name__}. "
            "exfam.prepare takes files and frames of other kinds."
        )
    if dataframe.isStreaming:
        raise DataError(
            "`dataframe` must have all of its rows, got one that is streamed. Write the stream to "
            "files first, and read these."
        )


class Spark:
    """A session of its own, whose names and settings are not those of the user's session."""

    def __init__(self, session: Any, partitions: int | None) -> None:
        self.session = session.newSession()
        n_partitions = partitions or session.conf.get("spark.sql.shuffle.partitions")
        self.session.conf.set("spark.sql.shuffle.partitions", n_partitions)
        # A window over more columns must not bring rows of one group to other partitions.
        self.session.conf.set("spark.sql.requireAllClusterKeysForDistribution", "false")
        self.session.sql(
            "CREATE TEMPORARY FUNCTION isinf(x DOUBLE) RETURNS BOOLEAN "
            "RETURN abs(x) = double('infinity')"
        )

    def row(self, query: str) -> tuple[Any, ...]:
        """The first row of a query."""
        return tuple(self.session.sql(query).head())

    def table(self, query: str) -> pa.Table:
        """All rows of a query."""
        rows = self.session.sql(query).toArrow()
        kinds = [pa.field(field.name, plain_type(field.type)) for field in rows.schema]
        return rows.cast(pa.schema(kinds))

    def register(self, name: str, table: pa.Table) -> None:
        """Make a table known by a name, in all executors."""
        self.session.createDataFrame(table).createOrReplaceTempView(name)

    def write_sorted(
        self, query: str, listed: Sequence[str], folder: Path, *, by: str, sort: Sequence[str]
    ) -> None:
        """Write expressions over a query as Parquet, rows of equal `by` in one part, sorted."""
        n_partitions = int(self.session.conf.get("spark.sql.shuffle.partitions"))
        rows = self.session.sql(query).repartition(n_partitions, by).selectExpr(*listed)
        rows.sortWithinPartitions(*sort).write.parquet(folder.as_uri())


def staged_frame(spark: Spark, dataframe: Any, parts: Sequence[Part], folder: Path) -> Table:
    """The columns that `parts` name, written into `folder` once, rows numbered as they come.

    A data frame is a recipe: computed again, its rows may come in another order, or be others.
    """
    names = list(dataframe.columns)
    check_named(parts, names, what="dataframe")
    numbered = dataframe.toDF(*(f"c{k}" for k in range(len(names))))
    listed, columns = {}, {}
    for part in parts:
        x = f"c{names.index(part.name)}"
        kind = _kind(numbered, x, part)
        listed[x] = f"{_stored(x, kind)} AS {x}"
        columns[part] = SqlColumn(x, kind)
    rows = numbered.selectExpr(*listed.values(), "monotonically_increasing_id() AS id")
    rows.write.parquet(folder.as_uri())
    spark.session.read.parquet(folder.as_uri()).createOrReplaceTempView("staged")
    counts = spark.table(
        f"SELECT id DIV {_ROWS_A_PARTITION} AS part, count(*) AS n FROM staged GROUP BY ALL"
    ).sort_by("part")
    n_before, before = 0, []
    for count in counts["n"].to_pylist():
        before.append(n_before)
        n_before += count
    spark.register("offsets", pa.table({"part": counts["part"], "before": pa.array(before)}))
    relation = (
        f"(SELECT s.*, o.before + s.id % {_ROWS_A_PARTITION} AS row FROM staged AS s "
        f"JOIN offsets AS o ON s.id DIV {_ROWS_A_PARTITION} = o.part)"
    )
    return Table(relation, columns, Origin())


def _kind(dataframe: Any, name: str, part: Part) -> pa.DataType:
    """The type of a column, as Arrow has it."""
    try:
        return plain_type(dataframe.select(name).limit(0).toArrow().schema.field(0).type)
    except Exception as error:
        got = dataframe.schema[name].dataType.simpleString()
        raise DataError(
            f"`{part.argument}` must be of a type that Arrow has, got {got} in column "
            f"{part.name!r}. Convert the column first."
        ) from error


def _stored(x: str, kind: pa.DataType) -> str:
    """The column as it is written: times as the whole numbers that Arrow has for them."""
    if types.is_null(kind):
        return f"CAST({x} AS DOUBLE)"
    if types.is_date(kind):
        return f"unix_date({x})"
    if is_moment(kind) and kind.tz is not None:
        return f"unix_micros({x})"
    if is_moment(kind):
        return f"timestampdiff(MICROSECOND, {_EPOCH}, {x})"
    if types.is_duration(kind):
        return f"timestampdiff(MICROSECOND, {_EPOCH}, {_EPOCH} + {x})"
    return x
