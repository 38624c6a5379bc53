"""Questions to a fitted table: distributions, log-probabilities, draws and filled cells.

All come from `column_distributions`. Distributions are of `Cells.value`: codes of labels, or
numbers in their own unit. Missing cells are no terms of a log-probability and no context.
"""
