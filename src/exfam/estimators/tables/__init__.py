"""Estimators of tables: columns of any kind, each cell given the others of its row."""

from exfam.estimators.tables.classifier import MaskedTableClassifier
from exfam.estimators.tables.regressor import MaskedTableRegressor
from exfam.estimators.tables.table import MaskedTable

__all__ = ["MaskedTable", "MaskedTableClassifier", "MaskedTableRegressor"]
