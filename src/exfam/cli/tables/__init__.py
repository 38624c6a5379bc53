"""Models of tables on the command line."""

from exfam.cli.tables.errors import errors_of_files
from exfam.cli.tables.experts import table_experts
from exfam.cli.tables.facts import describe_table, table_facts
from exfam.cli.tables.files import given_of, read_known_table, read_training_tables
from exfam.cli.tables.predictions import filled_table, table_predictions
from exfam.cli.tables.scores import cells_of, table_scores

__all__ = [
    "cells_of",
    "describe_table",
    "errors_of_files",
    "filled_table",
    "given_of",
    "read_known_table",
    "read_training_tables",
    "table_experts",
    "table_facts",
    "table_predictions",
    "table_scores",
]
