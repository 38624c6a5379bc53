"""Questions to a fitted table: distributions, log-probabilities, draws and filled cells.

Every answer comes from one primitive, `column_distributions`: the distribution of each target
column given all other cells of the row that are present, averaged over the members of an ensemble.
Distributions are of `Cells.value`: codes of labels, or numbers in their own unit. Missing cells are
no terms of a log-probability and no context.
"""
