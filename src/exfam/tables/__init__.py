"""Estimators of tables: columns of any kind, each cell given the others of its row."""

from exfam.tables.answers.conditions import Between, OneOf
from exfam.tables.supervised import MaskedTableClassifier, MaskedTableRegressor
from exfam.tables.table import MaskedTable

__all__ = ["Between", "MaskedTable", "MaskedTableClassifier", "MaskedTableRegressor", "OneOf"]
