"""Tables of rows and columns: kinds of columns, cells as tokens and numbers."""

from exfam.tables.data.cells import Cells
from exfam.tables.data.columns import COLUMN_KINDS, LABEL_KINDS, Column, label_array
from exfam.tables.data.encode import (
    UNKNOWN,
    decode,
    decode_all,
    encode_all,
    encode_given,
    encode_table,
    encode_values,
)
from exfam.tables.data.frames import array_names, read_table
from exfam.tables.data.learn import NUMERIC, learn_schema
from exfam.tables.data.raw import RawColumn, RawTable
from exfam.tables.data.replaced import as_frame_like
from exfam.tables.data.schema import TableSchema

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
    "array_names",
    "as_frame_like",
    "decode",
    "decode_all",
    "encode_all",
    "encode_given",
    "encode_table",
    "encode_values",
    "label_array",
    "learn_schema",
    "read_table",
]
