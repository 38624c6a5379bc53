"""Tables of rows and columns: kinds of columns, cells as tokens and numbers."""

from exfam.data.tables.cells import Cells
from exfam.data.tables.columns import FINITE, KINDS, Column, label_array
from exfam.data.tables.encode import UNKNOWN, decode, encode
from exfam.data.tables.frames import array_names, read_table
from exfam.data.tables.learn import NUMERIC, learn_schema
from exfam.data.tables.raw import RawColumn, RawTable, check_names
from exfam.data.tables.replaced import as_frame_like
from exfam.data.tables.schema import TableSchema

__all__ = [
    "FINITE",
    "KINDS",
    "NUMERIC",
    "UNKNOWN",
    "Cells",
    "Column",
    "RawColumn",
    "RawTable",
    "TableSchema",
    "array_names",
    "as_frame_like",
    "check_names",
    "decode",
    "encode",
    "label_array",
    "learn_schema",
    "read_table",
]
