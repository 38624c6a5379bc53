"""Estimators of tables: columns of any kind, each cell given the others of its row."""

from exfam.tables.supervised import MaskedTableClassifier, MaskedTableRegressor
from exfam.tables.table import MaskedTable

__all__ = ["MaskedTable", "MaskedTableClassifier", "MaskedTableRegressor"]
