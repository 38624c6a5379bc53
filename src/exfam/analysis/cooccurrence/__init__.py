"""Counts of words that occur together: pointwise mutual information and its spectrum."""
