"""Likelihoods: which terms are summed, over items and values."""
