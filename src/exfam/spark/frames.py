"""A data frame of Spark's as a prepared folder: executors sort, this process merges."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import check_choice, check_whole
from exfam.columns.dialect import Dialect
from exfam.columns.parts import FrameColumns, Names, Part
from exfam.columns.suspects import warn_of_stand_ins, warn_of_twins
from exfam.groups import Groups
from exfam.reading.assemble import Allocate, CodedTable, assemble
from exfam.reading.checked import (
    Checked,
    LabelCodes,
    check_table,
    coded_labels,
    with_sorted_text,
    without_marks,
)
from exfam.reading.database import ReadingFacts, ReadingOptions, Table
from exfam.reading.folders import new_folder
from exfam.reading.prepared import Manifest, open_prepared
from exfam.reading.reader import check_column_names
from exfam.reading.shards import ShardWriter
from exfam.spark.engine import Spark, check_frame, staged_frame
from exfam.spark.merging import merge_prepared

# What executors write, beside the files of a prepared folder while it is made.
STAGED, PARTS = "staged", "parts"


def prepare_with_spark(
    dataframe: Any,
    folder: str | os.PathLike[str],
    *,
    group: str,
    order: Names = None,
    item: str | None = None,
    value: Names = None,
    attributes: Names = (),
    group_attributes: Names = (),
    position: Names = None,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    duplicates: str = "error",
    date_format: str | None = None,
    missing: Any = None,
    partitions: int | None = None,
    overwrite: bool = False,
) -> Groups:
    """Write the rows of a Spark data frame into a prepared folder, and open it.

    Executors number the rows, count labels, bring each group into one partition, sort it and write
    it as Parquet; this process merges what they wrote, piece by piece. The folder is that of
    `exfam.prepare(dataframe.toArrow(), folder, …)`, byte for byte; arguments and errors are too.
    This process holds an entry for each group and each label.

    `folder`: on a disk that this process shares with all executors
    `partitions`: by which groups are sorted; None for as many as `spark.sql.shuffle.partitions`
        (default None)

    Raises DataError as `exfam.prepare` does, ExfamError where pyspark is missing.
    """
    check_frame(dataframe)
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    if partitions is not None:
        check_whole("partitions", partitions)
    columns = FrameColumns(group, order, item, value, attributes, group_attributes, position)
    options = ReadingOptions(duplicates, dialect=Dialect(date_format=date_format, missing=missing))
    check_column_names(columns)
    columns.check_rows(dataframe.columns, " in the source")
    reading = _Reading(columns, dict(vocabulary or {}), unknown, options)
    spark = Spark(dataframe.sparkSession, partitions)
    with new_folder(folder, overwrite=overwrite) as new:
        table = staged_frame(spark, dataframe, columns.parts, new / STAGED)
        writer = ShardWriter(new)
        groups, facts = _assembled(spark, table, reading, new / PARTS, writer.allocate)
        for name in (STAGED, PARTS):
            shutil.rmtree(new / name)
        shards = writer.write(groups)
        Manifest(shards, columns, asdict(facts), groups.ordered).write(new)
    return open_prepared(folder)


@dataclass(frozen=True)
class _Reading:
    """The parts of columns, the vocabularies that are given, and how to read."""

    columns: FrameColumns
    known: Mapping[str, Any]
    unknown: str
    options: ReadingOptions


def _assembled(
    spark: Spark, table: Table, reading: _Reading, folder: Path, allocate: Allocate
) -> tuple[Groups, ReadingFacts]:
    """As `read_with_facts` reads, but for who sorts: executors write parts into `folder`."""
    dialect, known = reading.options.dialect, reading.known
    table = with_sorted_text(spark, without_marks(table, dialect), dialect=dialect)
    checked = check_table(spark, table, known)
    encodings = {}
    for k, part in enumerate(part for part in reading.columns.parts if part in checked.labels):
        encodings[part] = _code_labels(
            spark, checked, part, known, unknown=reading.unknown, table=f"labels{k}"
        )
    duplicates = reading.options.duplicates
    _write_parts(spark, checked, encodings, folder, twins=duplicates != "keep")
    parts = checked.table.columns
    opened = CodedTable(
        spark,
        checked,
        encodings,
        lambda twins: merge_prepared(folder, parts, n_rows=checked.n_rows),
        ignores=reading.unknown == "ignore",
        ordered=reading.columns.ordered,
    )
    assembled = assemble(opened, duplicates=duplicates, allocate=allocate)
    for part, own in encodings.items():
        warn_of_twins(part.argument, part.name, own.names, own.known)
    if dialect.missing is None:
        warn_of_stand_ins(assembled[0].values)
    return assembled


def _code_labels(
    spark: Spark,
    checked: Checked,
    part: Part,
    known: Mapping[str, Any],
    *,
    unknown: str,
    table: str,
) -> LabelCodes:
    """The distinct labels of a part; but for those of groups, a table of them and their codes."""
    x, relation = checked.table.columns[part].sql, checked.table.relation
    rows = spark.table(
        f"SELECT {x} AS label, min(row) AS first, count(*) AS count FROM {relation} GROUP BY {x}"
    ).sort_by("first" if part.argument == "group" else "label")
    if part.argument != "group":
        number = pa.array(np.arange(len(rows), dtype=np.int32))
        spark.register(table, pa.table({"label": rows["label"], "number": number}))
    return coded_labels(rows, checked, part, known, unknown=unknown, table=table)


def _write_parts(
    spark: Spark,
    checked: Checked,
    labels: Mapping[Part, LabelCodes],
    folder: Path,
    *,
    twins: bool,
) -> None:
    """Have executors bring groups together and write them sorted, as `merge_prepared` reads."""
    columns = checked.table.columns
    coded = {part: own.table for part, own in labels.items() if part.argument != "group"}
    joins = [f"JOIN {own} ON s.{columns[part].sql} = {own}.label" for part, own in coded.items()]
    picked, keys, every = [], ["first"], ["k"]
    n_elements = 0
    for part, column in columns.items():
        if part.argument == "group":
            picked.append(f"s.{column.sql} AS k")
        elif part.argument == "order":
            keys.append(f"o{len(keys) - 1}")
            picked.append(f"s.{column.sql} AS {keys[-1]}")
            every.append(keys[-1])
        else:
            x = f"{coded[part]}.number" if part in coded else f"s.{column.sql}"
            every.append(f"e{n_elements}")
            picked.append(f"{x} AS {every[-1]}")
            n_elements += 1
    rows = f"SELECT {', '.join(picked)}, s.row FROM {checked.table.relation} AS s {' '.join(joins)}"
    twin = f"lag(row, 1, -1L) OVER (PARTITION BY {', '.join(every)} ORDER BY row)"
    listed = ["min(row) OVER (PARTITION BY k) AS first", *every[1:], "row"]
    listed.append(f"{twin if twins else '-1L'} AS twin")
    spark.write_sorted(rows, listed, folder, by="k", sort=[*keys, "row"])
