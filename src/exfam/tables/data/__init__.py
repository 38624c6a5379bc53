"""Tables of rows and columns: kinds of columns, cells as tokens and numbers."""

from exfam.tables.data.cells import (
    UNKNOWN,
    Cells,
    decode,
    decode_all,
    encode_all,
    encode_given,
    encode_table,
    encode_values,
    put_values,
)
from exfam.tables.data.frames import RawColumn, RawTable, as_frame_like, has_names, read_table
from exfam.tables.data.learn import NUMERIC, learn_schema
from exfam.tables.data.schema import COLUMN_KINDS, LABEL_KINDS, Column, TableSchema, label_array

__all__ = [
    "COLUMN_KINDS",
    "LABEL_KINDS",
    "NUMERIC",
    "UNKNOWN",
    "Cells",
    "Column",
    "RawColumn",
    "RawTable",
    "TableSchema",
    "as_frame_like",
    "decode",
    "decode_all",
    "encode_all",
    "encode_given",
    "encode_table",
    "encode_values",
    "has_names",
    "label_array",
    "learn_schema",
    "put_values",
    "read_table",
]
